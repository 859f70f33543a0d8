//! The journal on a disk that fails, fills up and loses power; and what a start makes of it.

mod damage;
mod disk;

use std::{
    fs,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use disk::{Disk, OnDisk};
use tokio::time::Instant as Deadline;

use super::{Counts, Durability, Journal, JournalConfig, JournalError, folder::Folder};
use crate::{
    block::{Import, Operation, Visit},
    cache::{Cache, Flushing, Process, Touch},
    clock, codec,
    store::{MemoryStore, Store},
};

const PROCESS: Process = Process {
    incarnation: 7,
    started_micros: 1_700_000_000_000_000,
};
const CAPACITY: u64 = 10_000;
const NEVER: Duration = Duration::from_secs(3600);

/// A cache with a journal on such a disk.
struct JournalWorld {
    disk: Arc<Disk>,
    journal: Arc<Journal>,
    cache: Cache,
}

fn world() -> JournalWorld {
    let disk = Arc::new(Disk::default());
    let medium = Box::new(OnDisk(Arc::clone(&disk)));
    let journal = Journal::begin(medium, 1, PROCESS.incarnation, Counts::default()).unwrap();
    let cache = Cache::with_journal(
        PROCESS,
        CAPACITY,
        Flushing::from(NEVER),
        Some(Arc::clone(&journal)),
    );
    JournalWorld {
        disk,
        journal,
        cache,
    }
}

async fn until(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn ack(message: u64) -> Operation {
    Operation::Ack {
        channel: 10,
        message,
        visit: Visit::default(),
    }
}

impl JournalWorld {
    /// Applies one; `false` when it is refused.
    fn change(&self, user: u64, operation: Operation) -> bool {
        if self.cache.read(user, |_| ()).is_none() {
            self.cache.insert(user, None);
        }
        let done = self
            .cache
            .change(user, &[operation], Touch::Online, clock::now(), |_, _| ());
        done.unwrap().is_ok()
    }

    async fn reached(&self, user: u64, within: Duration) -> bool {
        let ticket = self.journal.ticket(Cache::stripe_of(user));
        self.journal.reached(ticket, Deadline::now() + within).await
    }

    async fn acknowledged(&self, user: u64, operation: Operation) {
        assert!(self.change(user, operation));
        assert!(self.reached(user, Duration::from_secs(60)).await);
    }

    /// Waits until the thread works on a frame.
    async fn is_written(&self) {
        until(|| self.journal.writing.lock().is_some()).await;
    }

    fn block(&self, user: u64) -> Vec<u8> {
        self.cache
            .read(user, |block| codec::encode(block, PROCESS.incarnation))
            .unwrap()
    }
}

fn config(folder: &std::path::Path) -> JournalConfig {
    JournalConfig {
        folder: folder.to_owned(),
        durability: Durability::Interval,
        accept_damage: false,
    }
}

async fn recovered(folder: &std::path::Path, store: &MemoryStore) -> Result<(), JournalError> {
    let none = Journal::open(&config(folder), store, 8).await?;
    assert!(none.is_none());
    Ok(())
}

fn every_kind(round: u64) -> Vec<Operation> {
    let visit = Visit {
        flags: Some(3),
        last_viewed: Some(4000),
    };
    vec![
        ack(round),
        Operation::Mention {
            channel: 11,
            message: 10 * round,
            count: 2,
        },
        Operation::Manual {
            channel: 12,
            message: 1000 - round,
            mention_count: 5,
            visit,
        },
        Operation::AckPins {
            channel: 13,
            millis: round,
        },
        Operation::Delete { channel: 12 },
        Operation::Import {
            channel: 14,
            import: Import {
                message: 10 * round,
                mention_count: 3,
                counted_through: 10 * round + 5,
                flags: Some(1),
                last_viewed: 4000,
                last_pin_millis: round,
            },
        },
        if round.is_multiple_of(7) {
            Operation::DeleteUser
        } else {
            ack(round)
        },
    ]
}

#[tokio::test]
async fn what_was_acknowledged_is_in_the_store_after_a_cut_of_power_to_the_byte() {
    let world = world();
    for round in 1..=20 {
        for user in 1..=5 {
            for operation in every_kind(round) {
                world.acknowledged(user, operation).await;
            }
        }
    }
    for torn in [0, 1, 40, 500] {
        let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
        world.disk.cut(folder.path(), torn);
        recovered(folder.path(), &store).await.unwrap();
        for user in 1..=5 {
            let stored = store.load(user).await.unwrap().unwrap();
            assert_eq!(stored.bytes, world.block(user), "user {user}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    world.journal.end(false);
}

#[tokio::test]
async fn what_the_store_has_is_not_made_again() {
    let world = world();
    let store = MemoryStore::default();
    for message in 1..=3 {
        world.acknowledged(1, ack(message)).await;
    }
    let writes = world.cache.begin_flushes(clock::now() + 2 * NEVER, 10);
    let write = &writes[0];
    store
        .save(1, write.bytes.clone(), write.stamp)
        .await
        .unwrap();
    world.cache.written(write, clock::now());
    world
        .acknowledged(
            1,
            Operation::Mention {
                channel: 10,
                message: 9,
                count: 1,
            },
        )
        .await;
    let folder = tempfile::tempdir().unwrap();
    world.disk.cut(folder.path(), 0);
    // Also when the start before this one ended half way: with the files, and with everything written.
    for _ in 0..2 {
        world.disk.cut(folder.path(), 0);
        recovered(folder.path(), &store).await.unwrap();
        let stored = store.load(1).await.unwrap().unwrap();
        assert_eq!(stored.bytes, world.block(1));
        assert_eq!(stored.stamp, write.stamp.successor());
    }
    world.journal.end(false);
}

#[tokio::test]
async fn many_changes_share_a_sync() {
    let world = world();
    world.disk.hangs.store(true, Ordering::SeqCst);
    assert!(world.change(1, ack(1)));
    assert!(!world.reached(1, Duration::from_millis(20)).await);
    world.is_written().await;
    for user in 2..=200 {
        assert!(world.change(user, ack(1)));
    }
    let before = world.disk.syncs.load(Ordering::SeqCst);
    world.disk.hangs.store(false, Ordering::SeqCst);
    for user in 1..=200 {
        assert!(world.reached(user, Duration::from_secs(60)).await);
    }
    // The head of the file is there already; one frame was under way, the other has all the rest.
    assert_eq!(world.disk.syncs.load(Ordering::SeqCst) - before, 2);
    world.journal.end(false);
}

#[tokio::test]
async fn a_full_disk_refuses_changes_and_room_again_heals_by_itself() {
    let world = world();
    world.acknowledged(1, ack(1)).await;
    world.disk.full.store(true, Ordering::SeqCst);
    assert!(world.change(1, ack(2)), "nobody knows yet");
    assert!(!world.reached(1, Duration::from_millis(300)).await);
    until(|| world.journal.trouble().is_some()).await;
    assert!(!world.change(2, ack(1)), "now it is known");
    world.disk.full.store(false, Ordering::SeqCst);
    assert!(world.reached(1, Duration::from_secs(60)).await);
    world.acknowledged(2, ack(1)).await;
    let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    world.disk.cut(folder.path(), 0);
    recovered(folder.path(), &store).await.unwrap();
    for user in 1..=2 {
        let stored = store.load(user).await.unwrap().unwrap();
        assert_eq!(stored.bytes, world.block(user));
    }
    world.journal.end(false);
}

#[tokio::test]
async fn a_disk_that_hangs_refuses_changes_and_is_said_to_until_it_goes_on() {
    let world = world();
    world.acknowledged(1, ack(1)).await;
    world.disk.hangs.store(true, Ordering::SeqCst);
    assert!(world.change(1, ack(2)));
    assert!(!world.reached(1, Duration::from_millis(50)).await);
    world.is_written().await;
    world.journal.look(Instant::now());
    assert!(world.journal.takes_changes() && world.journal.trouble().is_none());
    world.journal.look(Instant::now() + super::PATIENCE);
    assert!(!world.change(1, ack(3)));
    let trouble = world.journal.trouble().unwrap();
    assert!(trouble.contains("in 5s"), "{trouble}");
    world.disk.hangs.store(false, Ordering::SeqCst);
    assert!(world.reached(1, Duration::from_secs(60)).await);
    assert!(world.journal.takes_changes() && world.journal.trouble().is_none());
    world.acknowledged(1, ack(3)).await;
    world.journal.end(false);
}

/// A look that finds the disk hanging, in the moment in which it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_not_refused_for_good_by_a_look_that_comes_too_late() {
    let world = world();
    let journal = Arc::clone(&world.journal);
    let over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let looking = std::thread::spawn({
        let over = Arc::clone(&over);
        move || {
            while !over.load(Ordering::SeqCst) {
                journal.look(Instant::now() + super::PATIENCE);
            }
        }
    });
    for message in 1..=5000 {
        until(|| world.change(1, ack(message))).await;
        assert!(world.reached(1, Duration::from_secs(60)).await);
    }
    over.store(true, Ordering::SeqCst);
    looking.join().unwrap();
    world.journal.end(false);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_disk_that_hangs() {
    let world = world();
    world.disk.hangs.store(true, Ordering::SeqCst);
    assert!(world.change(1, ack(1)));
    world.is_written().await;
    world.journal.end(false);
    let stopped = tokio::time::timeout(Duration::from_secs(60), world.journal.ended());
    assert!(stopped.await.is_ok());
    world.disk.hangs.store(false, Ordering::SeqCst);
}

/// What is behind a change that was given up does not continue what the store has.
#[tokio::test]
async fn a_stop_on_a_disk_that_fails_once_writes_nothing_behind_what_it_gives_up() {
    let world = world();
    world.acknowledged(1, ack(1)).await;
    let acknowledged = world.block(1);
    world.disk.hangs.store(true, Ordering::SeqCst);
    assert!(world.change(1, ack(2)));
    assert!(!world.reached(1, Duration::from_millis(20)).await);
    world.is_written().await;
    assert!(world.change(1, ack(3)), "it waits for the next round");
    world.disk.failing_syncs.store(1, Ordering::SeqCst);
    world.journal.end(false);
    world.disk.hangs.store(false, Ordering::SeqCst);
    world.journal.ended().await;
    let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    world.disk.cut(folder.path(), 0);
    recovered(folder.path(), &store).await.unwrap();
    let stored = store.load(1).await.unwrap().unwrap();
    assert_eq!(stored.bytes, acknowledged);
}

/// The file of the store may be closed for a while: that alone would let another process in.
#[tokio::test]
async fn one_process_at_a_time_has_the_journal() {
    let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    let ours = JournalConfig {
        durability: Durability::Journal,
        ..config(folder.path())
    };
    let journal = Journal::open(&ours, &store, 7).await.unwrap().unwrap();
    for theirs in [&ours, &config(folder.path())] {
        let refused = Journal::open(theirs, &store, 8).await.unwrap_err();
        let refused = crate::store::chain(&refused);
        assert!(refused.contains("another process uses it"), "{refused}");
    }
    journal.end(true);
    journal.ended().await;
    recovered(folder.path(), &store).await.unwrap();
}

#[tokio::test]
async fn the_last_room_of_a_disk_is_the_store_s() {
    let world = world();
    world.disk.free.store(1 << 20, Ordering::SeqCst);
    assert!(world.change(1, ack(1)));
    assert!(!world.reached(1, Duration::from_millis(100)).await);
    until(|| !world.journal.takes_changes()).await;
    world.disk.free.store(1 << 30, Ordering::SeqCst);
    assert!(world.reached(1, Duration::from_secs(60)).await);
    assert!(world.journal.takes_changes());
    world.journal.end(false);
}

/// After a failed sync the disk may have dropped what it had taken, and say nothing at the next one.
#[tokio::test]
async fn after_a_failed_sync_everything_that_was_not_acknowledged_is_in_a_new_file() {
    let world = world();
    world.acknowledged(1, ack(1)).await;
    world.disk.failing_syncs.store(1, Ordering::SeqCst);
    world.acknowledged(1, ack(2)).await;
    world.acknowledged(1, ack(3)).await;
    let files = world.disk.files.lock().clone();
    assert_eq!(files.len(), 2);
    let (first, dropped) = &files[&1];
    assert!(!dropped.is_empty(), "what the failed sync was of");
    // Whatever the disk has made of that.
    for torn in [0, 10, dropped.len()] {
        let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
        world.disk.cut(folder.path(), 0);
        let name = Folder::open(folder.path()).unwrap().file(1);
        fs::write(&name, [&first[..], &dropped[..torn]].concat()).unwrap();
        recovered(folder.path(), &store).await.unwrap();
        let stored = store.load(1).await.unwrap().unwrap();
        assert_eq!(stored.bytes, world.block(1));
    }
    world.journal.end(false);
}

/// A file that could not be begun stands between others, and no other says that it is there.
#[tokio::test]
async fn a_file_that_could_not_be_begun_is_no_gap_once_those_around_it_are_gone() {
    let (world, store) = (world(), MemoryStore::default());
    world.acknowledged(1, ack(1)).await;
    // The sync of a frame, and that of the head of the next file; then that of another frame.
    for (message, failing) in [(2, 2), (3, 1)] {
        world.disk.failing_syncs.store(failing, Ordering::SeqCst);
        world.acknowledged(1, ack(message)).await;
    }
    for write in world.cache.begin_flushes(clock::now() + 2 * NEVER, 10) {
        let bytes = write.bytes.clone();
        store.save(1, bytes, write.stamp).await.unwrap();
        world.cache.written(&write, clock::now());
    }
    world.journal.written_until(clock::now());
    until(|| world.disk.files.lock().len() == 1).await;
    world.acknowledged(1, ack(4)).await;
    let folder = tempfile::tempdir().unwrap();
    world.disk.cut(folder.path(), 0);
    recovered(folder.path(), &store).await.unwrap();
    let stored = store.load(1).await.unwrap().unwrap();
    assert_eq!(stored.bytes, world.block(1));
    world.journal.end(false);
}

#[tokio::test]
async fn files_go_once_the_store_has_everything_in_them() {
    let world = world();
    // Some MiB: more than two files.
    let mut message = 0;
    while world.disk.files.lock().len() < 3 {
        let many: Vec<Operation> = (message..message + 1000).map(|it| ack(it + 1)).collect();
        message += 1000;
        for user in 1..=40 {
            world.cache.insert(user, None);
            let now = clock::now();
            let done = world
                .cache
                .change(user, &many, Touch::Online, now, |_, _| ());
            done.unwrap().unwrap();
            assert!(world.reached(user, Duration::from_secs(60)).await);
        }
    }
    let oldest = world.cache.oldest_dirty().unwrap();
    world.journal.written_until(oldest);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(world.disk.files.lock().len() >= 3, "they are needed");
    for write in world.cache.begin_flushes(clock::now() + 2 * NEVER, 100) {
        world.cache.written(&write, clock::now());
    }
    assert_eq!(world.cache.oldest_dirty(), None);
    world.journal.written_until(clock::now());
    until(|| world.disk.files.lock().len() == 1).await;
    world.journal.end(true);
    world.journal.ended().await;
    assert!(
        world.disk.files.lock().is_empty(),
        "a stop in order leaves nothing"
    );
}

/// The look at what is dirty takes a while: what changes behind it is not seen, and what changes before it is.
#[tokio::test]
async fn nothing_younger_than_a_look_counts_as_written() {
    let world = world();
    let looked = clock::now();
    let later = looked + Duration::from_secs(5);
    world.cache.insert(1, None);
    let changed = world
        .cache
        .change(1, &[ack(1)], Touch::Online, later, |_, _| ());
    changed.unwrap().unwrap();
    assert_eq!(world.cache.oldest_dirty(), Some(later));
    assert_eq!(world.cache.written_until(looked), looked);
    let even_later = later + Duration::from_secs(5);
    assert_eq!(world.cache.written_until(even_later), later);
    world.journal.end(false);
}

/// On a block that another process wrote, the first answer jumps the version, also when it changes nothing.
#[tokio::test]
async fn an_answer_that_changed_nothing_on_another_s_block_survives_too() {
    let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    let first = world();
    first.acknowledged(1, ack(5)).await;
    first.disk.cut(folder.path(), 0);
    recovered(folder.path(), &store).await.unwrap();
    first.journal.end(false);

    let second = world_of(&store).await;
    let before = second.cache.read(1, |block| block.version()).unwrap();
    second.acknowledged(1, ack(4)).await;
    let after = second.cache.read(1, |block| block.version()).unwrap();
    assert!(after > before, "it is this process's now");
    second.acknowledged(1, ack(6)).await;
    second.disk.cut(folder.path(), 0);
    recovered(folder.path(), &store).await.unwrap();
    let stored = store.load(1).await.unwrap().unwrap();
    let block = codec::decode(&stored.bytes).unwrap().block;
    let held = second.cache.read(1, |block| block.version()).unwrap();
    assert_eq!(block.version(), held);
    second.journal.end(false);
}

/// Another process, with user 1 loaded.
async fn world_of(store: &MemoryStore) -> JournalWorld {
    let disk = Arc::new(Disk::default());
    let medium = Box::new(OnDisk(Arc::clone(&disk)));
    let journal = Journal::begin(medium, 1, 9, Counts::default()).unwrap();
    let process = Process {
        incarnation: 9,
        started_micros: PROCESS.started_micros + 60_000_000,
    };
    let journal_of = Some(Arc::clone(&journal));
    let cache = Cache::with_journal(process, CAPACITY, Flushing::from(NEVER), journal_of);
    let stored = store.load(1).await.unwrap().unwrap();
    let decoded = codec::decode(&stored.bytes).unwrap();
    cache.insert(1, Some((decoded, stored.stamp)));
    JournalWorld {
        disk,
        journal,
        cache,
    }
}

/// A change that comes while the buffers are being taken waits for a round that comes, whichever takes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_waits_is_released_however_changes_and_rounds_meet() {
    let world = Arc::new(world());
    let callers = (1..=8_u64).map(|user| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            for message in 1..=2000 {
                world.acknowledged(user, ack(message)).await;
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    assert_eq!(world.journal.pending.load(Ordering::SeqCst), 0);
    let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    world.disk.cut(folder.path(), 0);
    recovered(folder.path(), &store).await.unwrap();
    for user in 1..=8 {
        let stored = store.load(user).await.unwrap().unwrap();
        assert_eq!(stored.bytes, world.block(user));
    }
    world.journal.end(false);
}
