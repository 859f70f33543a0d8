//! Moves from end to end, in one process, on stores that are killed, away, and written meanwhile.

mod members;
mod property;
mod refusals;
mod shaky;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use readstates_ring::Stamp;
use shaky::{Shaky, Steps};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{
    MigrateError,
    checkpoint::{CheckpointFile, Reached},
    compare::Tally,
    end::End,
    moving::{Move, Wish},
};
use crate::{
    block::{BlockRef, EMPTY, Operation, Visit, apply},
    codec,
    store::{EmbeddedStore, MemoryStore, MovingStore, Scan, Store, Stored},
};

const WRITTEN: i64 = 1_780_000_000_000_000;
const USERS: u64 = 3000;
const NO_LIMIT: usize = usize::MAX;

type Rows = BTreeMap<u64, Stored>;

/// What a member would have written: the later the message, the higher the stamp.
fn row(message: u64) -> Stored {
    let mut block = EMPTY.to_vec();
    let operation = Operation::Ack {
        channel: 10,
        message,
        visit: Visit::default(),
    };
    apply(&mut block, &operation, WRITTEN as u64).unwrap();
    Stored {
        bytes: codec::encode(BlockRef::trusted(&block), 77),
        stamp: Stamp::from_database(WRITTEN + message as i64),
    }
}

/// Writes at once, whatever the store would do.
fn put(store: &dyn Store, user: u64, message: u64) {
    let Stored { bytes, stamp } = row(message);
    store
        .save(user, bytes, stamp)
        .now_or_never()
        .unwrap()
        .unwrap();
}

fn fill(store: &dyn Store) {
    for user in 1..=USERS {
        put(store, user, user);
    }
}

async fn rows(scan: &dyn Scan) -> Rows {
    let mut rows = Rows::new();
    let mut pages = stream::iter(0..scan.ranges()).flat_map(|range| scan.scan(range));
    while let Some(page) = pages.try_next().await.unwrap() {
        rows.extend(page.into_iter().map(|row| (row.user, row.stored)));
    }
    rows
}

/// Two stores and a checkpoint.
struct MigrateWorld {
    folder: TempDir,
    wish: Wish,
}

impl MigrateWorld {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let wish = Wish {
            checkpoint: folder.path().join("move.json"),
            merge: false,
            rate: None,
            back_off_at: 2.0,
            parallel: 3,
            patience: Duration::from_secs(60),
            save_every: Duration::ZERO,
            look_after: Duration::from_millis(1),
        };
        Self { folder, wish }
    }

    fn merging(mut self) -> Self {
        self.wish.merge = true;
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn begin<S, T>(&self, source: &Arc<S>, target: &Arc<T>) -> Result<Move, MigrateError>
    where
        S: Store + Scan,
        T: Store + Scan,
    {
        self.begin_with(source, target, true).await
    }

    async fn begin_with<S, T>(
        &self,
        source: &Arc<S>,
        target: &Arc<T>,
        records: bool,
    ) -> Result<Move, MigrateError>
    where
        S: Store + Scan,
        T: Store + Scan,
    {
        let source = End::new("source".into(), "a".into(), Arc::clone(source));
        let target = End::new("target".into(), "b".into(), Arc::clone(target));
        Move::begin(source, target, self.wish.clone(), records).await
    }

    /// Copies until nothing is lacking; what the last pass saw.
    async fn copy<S, T>(&self, source: &Arc<S>, target: &Arc<T>) -> Result<Tally, MigrateError>
    where
        S: Store + Scan,
        T: Store + Scan,
    {
        let mut moving = self.begin(source, target).await?;
        moving.copy(0, 10).await?;
        Ok(moving.done.last().unwrap().tally.clone())
    }

    async fn verify<S, T>(&self, source: &Arc<S>, target: &Arc<T>) -> Result<Tally, MigrateError>
    where
        S: Store + Scan,
        T: Store + Scan,
    {
        let mut moving = self.begin(source, target).await?;
        moving.verify(false).await?;
        Ok(moving.done.last().unwrap().tally.clone())
    }
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::default())
}

fn problems(refused: MigrateError) -> (u64, String) {
    assert_eq!(refused.exit_status(), 4, "{refused}");
    let text = refused.to_string();
    match refused {
        MigrateError::Differs { problems, .. } => (problems, text),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn everything_is_copied_under_its_own_stamp_and_a_second_pass_writes_nothing() {
    let (world, steps) = (MigrateWorld::new(), Steps::left(NO_LIMIT));
    let (source, target) = (memory(), Shaky::on(&steps));
    fill(&*source);
    let last = world.copy(&source, &target).await.unwrap();
    assert_eq!((last.users, last.lacked()), (USERS, 0));
    assert_eq!(last.highest_stamp, Some(WRITTEN + USERS as i64));
    assert_eq!(rows(&target.inner).await, rows(&*source).await);
    assert_eq!(steps.writes.load(Ordering::SeqCst), USERS as usize);
    let verified = world.verify(&source, &target).await.unwrap();
    assert_eq!((verified.users, verified.lacked()), (USERS, 0));
    // A user that was deleted is a row like others: an empty block above what it deletes.
    let erased = Stored {
        bytes: codec::encode(BlockRef::trusted(&EMPTY), 77),
        stamp: Stamp::from_database(WRITTEN + 90_000),
    };
    source
        .save(7, erased.bytes.clone(), erased.stamp)
        .await
        .unwrap();
    world.copy(&source, &target).await.unwrap();
    assert_eq!(target.inner.load(7).await.unwrap(), Some(erased));
    assert_eq!(steps.writes.load(Ordering::SeqCst), USERS as usize + 1);
}

/// What the checkpoint has as copied is among the rows of the target.
async fn recorded_is_done(world: &MigrateWorld, memory: &MemoryStore, target: &Rows) {
    if let Some(recorded) = CheckpointFile::peek(&world.wish.checkpoint).unwrap()
        && let Some(pass) = recorded.copying
    {
        for (range, reached) in pass.ranges.into_iter().enumerate() {
            let mut pages = memory.scan(range);
            while let Some(page) = pages.try_next().await.unwrap() {
                let is_done = |user| match reached {
                    Reached::Begin => false,
                    Reached::After(last) => user <= last,
                    Reached::End => true,
                };
                let done = page.iter().filter(|row| is_done(row.user));
                assert!({ done }.all(|row| target.contains_key(&row.user)));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_killed_at_any_step_goes_on_where_it_was() {
    let whole = {
        let (world, steps) = (MigrateWorld::new(), Steps::left(NO_LIMIT));
        let (source, target) = (Shaky::on(&steps), Shaky::on(&steps));
        fill(&source.inner);
        world.copy(&source, &target).await.unwrap();
        steps.pages.load(Ordering::SeqCst) + steps.writes.load(Ordering::SeqCst)
    };
    let early = [0, 1, 2, 3, 255, 256, 257, 300, 1000, 2000];
    for killed_after in early.into_iter().chain([whole - 2, whole - 1]) {
        let world = MigrateWorld::new();
        let steps = Steps::left(killed_after);
        let (source, target) = (Shaky::on(&steps), Shaky::on(&steps));
        fill(&source.inner);
        let killed = timeout(Duration::from_secs(9), world.copy(&source, &target));
        assert!(killed.await.is_err(), "it has come to its end");
        let expected = rows(&source.inner).await;
        let before = rows(&target.inner).await;
        assert!(
            before
                .iter()
                .all(|(user, stored)| expected.get(user) == Some(stored))
        );

        recorded_is_done(&world, &source.inner, &before).await;

        // While it is away a user changes of whom it has copied the row already.
        let changed = before.keys().next().copied().unwrap_or(1);
        put(&source.inner, changed, 50_000);
        let steps = Steps::left(NO_LIMIT);
        let (alive_source, alive_target) = (Shaky::on(&steps), Shaky::on(&steps));
        for (user, Stored { bytes, stamp }) in rows(&source.inner).await {
            alive_source.inner.save(user, bytes, stamp).await.unwrap();
        }
        for (user, Stored { bytes, stamp }) in before.clone() {
            alive_target.inner.save(user, bytes, stamp).await.unwrap();
        }
        let last = world.copy(&alive_source, &alive_target).await.unwrap();
        assert_eq!((last.users, last.lacked()), (USERS, 0), "a whole pass");
        assert_eq!(
            rows(&alive_target.inner).await,
            rows(&alive_source.inner).await
        );
        let written = steps.writes.load(Ordering::SeqCst);
        let lacking = USERS as usize - before.len();
        // Those under way when it was killed are there, and are not written again.
        assert!(
            (lacking..=lacking + 1).contains(&written),
            "{written} of {lacking}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_verification_that_is_resumed_reads_the_rest_and_one_that_is_not_reads_all() {
    let (world, alive) = (MigrateWorld::new(), Steps::left(NO_LIMIT));
    let (source, target) = (memory(), memory());
    fill(&*source);
    world.copy(&source, &target).await.unwrap();
    let pages = async |resume: bool, steps: &Arc<Steps>| {
        let target = Shaky::on(steps);
        for (user, Stored { bytes, stamp }) in rows(&*source).await {
            target.inner.save(user, bytes, stamp).await.unwrap();
        }
        let mut moving = world.begin(&source, &target).await.unwrap();
        let verified = timeout(Duration::from_secs(9), moving.verify(resume)).await;
        (verified.is_ok(), steps.pages.load(Ordering::SeqCst))
    };
    let (ended, all) = pages(false, &alive).await;
    assert!(ended && all >= 12, "{all} pages");
    assert_eq!(pages(false, &Steps::left(8)).await, (false, 8));
    let (ended, rest) = pages(true, &Steps::left(NO_LIMIT)).await;
    assert!(ended, "the rest");
    // A memory store finds its place by reading from the begin of a range: those that are over are not read at all.
    assert!(rest < all, "{rest} of {all}");
    let (_, again) = pages(true, &Steps::left(NO_LIMIT)).await;
    assert_eq!(again, all, "nothing is left to be resumed");
}

#[tokio::test]
async fn what_members_write_during_the_passes_is_copied_until_few_differ() {
    let world = MigrateWorld::new();
    let (source, target) = (Shaky::on(&Steps::left(NO_LIMIT)), memory());
    fill(&source.inner);
    // Two users change with each page, and one is new, until the members are stopped.
    let mut left = 40;
    source.after_each_page(move |store| {
        if left > 0 {
            left -= 1;
            put(store, 1 + left % 13, 100_000 - left);
            put(store, 2 + left * 70, 100_000 - left);
            put(store, USERS + left, 100_000);
        }
    });
    world.copy(&source, &target).await.unwrap();
    assert_eq!(rows(&*target).await, rows(&source.inner).await);
    assert!(target.load(USERS + 39).await.unwrap().is_some());
    world.verify(&source, &target).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn members_that_change_too_much_are_told_apart_from_failures() {
    let world = MigrateWorld::new();
    let (source, target) = (Shaky::on(&Steps::left(NO_LIMIT)), memory());
    fill(&source.inner);
    let mut message = 100_000;
    source.after_each_page(move |store| {
        message += 1;
        (1..=40).for_each(|user| put(store, user, message));
    });
    let mut moving = world.begin(&source, &target).await.unwrap();
    let behind = moving.copy(5, 3).await.unwrap_err();
    assert_eq!(behind.exit_status(), 5, "{behind}");
    assert_eq!(moving.done.len(), 3);
}

/// Members that write both stores: nothing they do looks like somebody else's rows, and in the end nothing is lacking.
#[tokio::test(start_paused = true)]
async fn members_may_write_both_stores_from_before_the_first_pass_on() {
    let world = MigrateWorld::new();
    let (source, target) = (Shaky::on(&Steps::left(NO_LIMIT)), memory());
    fill(&source.inner);
    let members = MovingStore::new(Arc::clone(&source) as Arc<dyn Store>, target.clone());
    for user in 1..200 {
        put(&members, user, 100_000 + user);
    }
    let (mut round, both) = (0, Arc::clone(&target));
    let pages = Arc::new(AtomicUsize::new(60));
    let left = Arc::clone(&pages);
    source.after_each_page(move |store| {
        if left.load(Ordering::SeqCst) == 0 {
            return;
        }
        left.fetch_sub(1, Ordering::SeqCst);
        round += 1;
        for user in (round..USERS + 50).step_by(97) {
            put(store, user, 200_000 + round);
            put(&*both, user, 200_000 + round);
        }
    });
    world.copy(&source, &target).await.unwrap();
    pages.store(NO_LIMIT, Ordering::SeqCst);
    world.verify(&source, &target).await.unwrap();
    assert_eq!(rows(&*target).await, rows(&source.inner).await);
}

#[tokio::test(start_paused = true)]
async fn stores_that_are_away_for_a_while_are_waited_for_and_for_long_given_up() {
    let world = MigrateWorld::new();
    let steps = Steps::left(NO_LIMIT);
    let (source, target) = (Shaky::on(&steps), Shaky::on(&steps));
    fill(&source.inner);
    let mut moving = world.begin(&source, &target).await.unwrap();
    source.failing.store(9, Ordering::SeqCst);
    target.failing.store(9, Ordering::SeqCst);
    moving.copy(0, 2).await.unwrap();
    assert_eq!(rows(&target.inner).await, rows(&source.inner).await);

    put(&source.inner, 1, 90_000);
    source.failing.store(NO_LIMIT, Ordering::SeqCst);
    let given_up = moving.copy(0, 1).await.unwrap_err();
    assert_eq!(given_up.exit_status(), 1, "{given_up}");
    assert!(given_up.to_string().contains("Run it again"), "{given_up}");
    drop(moving);
    source.failing.store(0, Ordering::SeqCst);
    world.copy(&source, &target).await.unwrap();
    assert_eq!(rows(&target.inner).await, rows(&source.inner).await);
}

#[tokio::test]
async fn stores_of_different_kinds_are_compared_in_both_directions() {
    let world = MigrateWorld::new();
    let embedded = Arc::new(EmbeddedStore::open(&world.path("store"), 0).unwrap());
    let source = memory();
    fill(&*source);
    world.copy(&source, &embedded).await.unwrap();
    world.verify(&source, &embedded).await.unwrap();
    assert_eq!(rows(&*embedded).await, rows(&*source).await);
    let Stored { bytes, stamp } = row(1);
    embedded.save(USERS + 9, bytes, stamp).await.unwrap();
    let (differ, text) = problems(world.verify(&source, &embedded).await.unwrap_err());
    assert_eq!(differ, 1);
    assert!(
        text.contains("user 3009: only the target has a row"),
        "{text}"
    );

    // And back: from where the members were to where they had been.
    let back = MigrateWorld::new().merging();
    back.copy(&embedded, &source).await.unwrap();
    assert_eq!(source.load(USERS + 9).await.unwrap(), Some(row(1)));
    back.verify(&embedded, &source).await.unwrap();
}
