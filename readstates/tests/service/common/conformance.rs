//! What every store must do, and what an engine on it can rely on.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use readstates::{
    block::{BlockRef, Operation},
    cache::Touch,
    engine::NotDone,
    load::LoadError,
    store::{Store, StoreError, Stored, chain},
};
use readstates_ring::{Epoch, Stamp};
use tokio::time::{Instant, sleep};

use super::engine::{CAPACITY, ack, start};

/// Just below what one write of Cassandra or ScyllaDB may carry: 16 MiB with its frame and its key.
const LARGE: usize = (16 << 20) - (64 << 10);

/// A user id of its own for each check, so that a database can be used again.
pub struct Users(u64);

impl Users {
    fn new() -> Self {
        Self(rand::random_range(1..u64::MAX / 2))
    }

    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

pub fn stamp(timestamp: i64) -> Stamp {
    Stamp::from_database(timestamp)
}

pub fn stored(bytes: &[u8], timestamp: i64) -> Option<Stored> {
    Some(Stored {
        bytes: bytes.to_vec(),
        stamp: stamp(timestamp),
    })
}

pub async fn conforms(store: Arc<dyn Store>) {
    let users = &mut Users::new();
    let all = store.as_ref();
    all.check().await.expect("the store answers");
    assert!(all.shards() >= 1);
    the_last_write_by_stamp_is_read(all, users).await;
    an_earlier_owner_never_wins(all, users).await;
    any_order_of_arrival_ends_the_same(all, users).await;
    an_empty_block_is_a_block_and_stays_above_what_it_deleted(all, users).await;
    all_user_ids_and_stamps_are_kept_exactly(all, users).await;
    a_block_of_nearly_16_mib_is_kept(all, users).await;
    many_writes_at_once_are_all_kept(all, users).await;
    an_engine_finds_what_another_left(&store, users).await;
    a_format_from_the_future_is_refused_and_never_overwritten(&store, users).await;
}

/// How long a store may be too busy: a database beside other work does not answer all in time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until the store answers, as those do who use it.
async fn answered<T>(ask: impl AsyncFn() -> Result<T, StoreError>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) if Instant::now() >= deadline => panic!("no answer: {}", chain(&error)),
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn save(store: &dyn Store, user: u64, bytes: &[u8], timestamp: i64) {
    answered(async || store.save(user, bytes.to_vec(), stamp(timestamp)).await).await;
}

async fn load(store: &dyn Store, user: u64) -> Option<Stored> {
    answered(async || store.load(user).await).await
}

async fn the_last_write_by_stamp_is_read(store: &dyn Store, users: &mut Users) {
    let user = users.next();
    assert_eq!(load(store, user).await, None, "never written");
    save(store, user, b"first", 100).await;
    assert_eq!(load(store, user).await, stored(b"first", 100));
    save(store, user, b"second", 101).await;
    assert_eq!(load(store, user).await, stored(b"second", 101));
    save(store, user, b"zz late", 99).await;
    assert_eq!(
        load(store, user).await,
        stored(b"second", 101),
        "a stale write is no error and no change"
    );
    save(store, user, b"second", 101).await;
    assert_eq!(
        load(store, user).await,
        stored(b"second", 101),
        "a repeated write changes nothing"
    );
}

/// The stamps of the service: (epoch << 24) | seq, above those of any earlier owner.
async fn an_earlier_owner_never_wins(store: &dyn Store, users: &mut Users) {
    let earlier = Epoch::mint(None, 5 << 24);
    let user = users.next();
    let stale = Stamp::new(earlier, 900);
    let fresh = Stamp::new(Epoch::mint(Some(earlier), 0), 0);
    save(store, user, b"fresh", fresh.as_database()).await;
    save(store, user, b"stale", stale.as_database()).await;
    let expected = stored(b"fresh", fresh.as_database());
    assert_eq!(load(store, user).await, expected);
}

/// Stamps out of order and equal, with bytes of which some begin alike, all at once: what stays is the
/// highest stamp, and of its writes the greatest bytes.
async fn any_order_of_arrival_ends_the_same(store: &dyn Store, users: &mut Users) {
    let mut dice = StdRng::seed_from_u64(16);
    let mut writes = Vec::new();
    let mut expected: HashMap<u64, (i64, Vec<u8>)> = HashMap::new();
    for _ in 0..40 {
        let user = users.next();
        for _ in 0..12 {
            let bytes = b"\x00\x7f\x80\xff"[..dice.random_range(1..=4)].to_vec();
            let bytes: Vec<u8> = if dice.random() {
                bytes
            } else {
                bytes.into_iter().rev().collect()
            };
            let write = (dice.random_range(1..=4), bytes);
            let best = expected.entry(user).or_insert_with(|| write.clone());
            *best = best.clone().max(write.clone());
            writes.push((user, write));
        }
    }
    writes.shuffle(&mut dice);
    let saves = writes
        .iter()
        .map(|(user, (timestamp, bytes))| save(store, *user, bytes, *timestamp));
    join_all(saves).await;
    for (user, (timestamp, bytes)) in expected {
        assert_eq!(load(store, user).await, stored(&bytes, timestamp));
    }
}

async fn an_empty_block_is_a_block_and_stays_above_what_it_deleted(
    store: &dyn Store,
    users: &mut Users,
) {
    let user = users.next();
    save(store, user, b"everything", 5).await;
    save(store, user, b"", 6).await;
    assert_eq!(load(store, user).await, stored(b"", 6));
    save(store, user, b"everything", 5).await;
    assert_eq!(load(store, user).await, stored(b"", 6), "a late write");
    save(store, user, b"new", 7).await;
    assert_eq!(load(store, user).await, stored(b"new", 7));
}

async fn all_user_ids_and_stamps_are_kept_exactly(store: &dyn Store, users: &mut Users) {
    for user in [1, u64::MAX - users.next() % 1000, u64::MAX] {
        let now = jiff::Timestamp::now().as_microsecond();
        let bytes = user.to_be_bytes();
        save(store, user, &bytes, now).await;
        assert_eq!(load(store, user).await, stored(&bytes, now), "user {user}");
    }
}

async fn a_block_of_nearly_16_mib_is_kept(store: &dyn Store, users: &mut Users) {
    let user = users.next();
    let mut large = vec![0; LARGE];
    // Nothing that a compressing store could make small.
    StdRng::seed_from_u64(24).fill(large.as_mut_slice());
    save(store, user, &large, 1).await;
    // Not `assert_eq`, which would print it.
    assert!(
        load(store, user).await == stored(&large, 1),
        "a large block"
    );
    save(store, user, b"small", 2).await;
    assert_eq!(load(store, user).await, stored(b"small", 2));
}

async fn many_writes_at_once_are_all_kept(store: &dyn Store, users: &mut Users) {
    let many: Vec<u64> = (0..2000).map(|_| users.next()).collect();
    for part in many.chunks(256) {
        let saves = part.iter();
        join_all(saves.map(async |&user| save(store, user, &user.to_le_bytes(), 7).await)).await;
    }
    for part in many.chunks(256) {
        let loads = join_all(part.iter().map(|&user| load(store, user)));
        for (&user, found) in part.iter().zip(loads.await) {
            assert_eq!(found, stored(&user.to_le_bytes(), 7));
        }
    }
}

async fn an_engine_finds_what_another_left(store: &Arc<dyn Store>, users: &mut Users) {
    let (kept, deleted) = (users.next(), users.next());
    let first = start(Arc::clone(store), CAPACITY);
    for user in [kept, deleted] {
        let changes: Vec<_> = (1..=50).map(|channel| ack(channel, channel * 10)).collect();
        let none = |_: BlockRef<'_>, _: &[_]| ();
        let change = first.engine.change(user, &changes, Touch::Online, none);
        change.await.unwrap();
    }
    let gone = first.one(deleted, Operation::DeleteUser, Touch::Online);
    gone.await.unwrap();
    let version = first.engine.read(deleted, |block| block.version());
    let version = version.await.unwrap();
    first.stop().await;
    // Longer than a process can run ahead of the next one: see `block::take_over`.
    sleep(Duration::from_millis(100)).await;

    let second = start(Arc::clone(store), CAPACITY);
    for channel in 1..=50 {
        assert_eq!(second.last(kept, channel).await, Ok(channel * 10));
    }
    let after = second
        .engine
        .read(deleted, |block| (block.version(), block.len()));
    assert_eq!(
        after.await,
        Ok((version, 0)),
        "empty, and its version stays"
    );
    second.stop().await;
}

async fn a_format_from_the_future_is_refused_and_never_overwritten(
    store: &Arc<dyn Store>,
    users: &mut Users,
) {
    let user = users.next();
    let future = [99, 1, 2, 3];
    save(store.as_ref(), user, &future, 5).await;
    let world = start(Arc::clone(store), CAPACITY);
    let unreadable = NotDone::NotLoaded(LoadError::Unreadable);
    assert_eq!(world.last(user, 1).await, Err(unreadable));
    assert_eq!(world.manual(user, 1, 1).await, Err(unreadable));
    assert_eq!(world.mention(user, 1).await, Err(unreadable));
    world.stop().await;
    assert_eq!(load(store.as_ref(), user).await, stored(&future, 5));
}
