//! When what is dirty is written, and how much at once; and ten minutes without a database.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::{
    engine::{CAPACITY, INTERVAL, World, ack, start},
    faulty::{FaultyStore, Mood},
};
use futures::future::{BoxFuture, FutureExt};
use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates::{
    block::{BlockRef, EMPTY, Outcome, apply_all},
    cache::{Refused, Touch},
    codec::Decoded,
    engine::NotDone,
    load::LoadError,
    store::{Store, StoreError, Stored},
};
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;
use tokio::time::{Instant, sleep};

const TICK: Duration = Duration::from_millis(100);

async fn warm(world: &World, users: u64) {
    let operations: Vec<_> = (1..=users).map(|user| (user, ack(1, 1))).collect();
    for outcome in world.engine.change_many(&operations, Touch::Online).await {
        outcome.unwrap();
    }
}

/// A store that takes long to write, and counts the bytes that it is writing.
#[derive(Debug, Default)]
struct SlowStore {
    under_way: AtomicUsize,
    most: AtomicUsize,
    saves: AtomicUsize,
}

impl Store for SlowStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn load(&self, _: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async { Ok(None) }.boxed()
    }

    fn save(&self, _: u64, bytes: Vec<u8>, _: Stamp) -> BoxFuture<'_, Result<(), StoreError>> {
        let work = async move {
            let size = bytes.len();
            let under_way = self.under_way.fetch_add(size, Ordering::SeqCst) + size;
            self.most.fetch_max(under_way, Ordering::SeqCst);
            sleep(Duration::from_secs(2)).await;
            self.under_way.fetch_sub(size, Ordering::SeqCst);
            self.saves.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        work.boxed()
    }

    fn shards(&self) -> usize {
        16
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_large_users_are_bounded_in_bytes_too() {
    const USERS: u64 = 60;
    let store = Arc::new(SlowStore::default());
    let world = start(store.clone(), 20 * CAPACITY);
    let acks: Vec<_> = (1..=99_000).map(|channel| ack(channel, 1)).collect();
    let mut block = EMPTY.to_vec();
    apply_all(&mut block, &acks, 1, |_| ()).unwrap();
    for user in 1..=USERS {
        let block = BlockRef::trusted(&block);
        let loaded = (Decoded { block, writer: 1 }, Stamp::from_database(1));
        world.engine.cache().insert(user, Some(loaded));
        world.one(user, ack(1, 2), Touch::Online).await.unwrap();
    }
    let flushed = world.engine.flush_all().await;
    assert_eq!((flushed.written, flushed.failed), (USERS, 0));
    let most = store.most.load(Ordering::SeqCst);
    println!("{most} bytes under way at most");
    assert!(
        most <= (64 << 20) + block.len() + 1024,
        "{most} bytes were under way"
    );
    assert!(most > 10 * block.len(), "several at once");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hot_user_is_written_once_per_interval() {
    let store = FaultyStore::new();
    let world = start(store.clone(), CAPACITY);
    let start = Instant::now();
    let mut message = 0;
    while start.elapsed() < INTERVAL * 20 {
        message += 1;
        world.one(1, ack(10, message), Touch::Online).await.unwrap();
        sleep(TICK).await;
    }
    let saves = store.saves.load(Ordering::SeqCst);
    assert!((18..=22).contains(&saves), "{saves} writes in 20 intervals");
    sleep(INTERVAL * 2).await;
    let saves = store.saves.load(Ordering::SeqCst);
    sleep(INTERVAL * 10).await;
    assert_eq!(saves, store.saves.load(Ordering::SeqCst), "nothing changed");
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_write_is_written_an_interval_after_it() {
    let store = FaultyStore::new();
    let world = start(store.clone(), CAPACITY);
    store.slow(Duration::ZERO, Duration::from_secs(4));
    world.one(1, ack(10, 1), Touch::Online).await.unwrap();
    while store.saves.load(Ordering::SeqCst) == 0 {
        sleep(TICK).await;
    }
    world.one(1, ack(10, 2), Touch::Online).await.unwrap();
    let changed = Instant::now();
    while store.saves.load(Ordering::SeqCst) == 1 {
        sleep(TICK).await;
    }
    let waited = changed.elapsed();
    assert!(
        waited >= INTERVAL * 8 / 10 && waited <= INTERVAL * 12 / 10,
        "{waited:?}"
    );
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.engine.cache().dirty_users(), 0);
}

#[tokio::test(start_paused = true)]
async fn users_who_changed_together_are_written_apart() {
    let store = FaultyStore::new();
    let world = start(store.clone(), CAPACITY);
    warm(&world, 1000).await;
    let (mut first, mut last) = (None, Duration::ZERO);
    let start = Instant::now();
    while world.engine.cache().dirty_users() > 0 {
        sleep(TICK).await;
        if store.saves.load(Ordering::SeqCst) > 0 {
            first.get_or_insert(start.elapsed());
        }
        last = start.elapsed();
    }
    let first = first.unwrap();
    assert!(first >= INTERVAL * 8 / 10, "the first after {first:?}");
    assert!(last <= INTERVAL * 12 / 10, "the last after {last:?}");
    assert!(
        last - first >= INTERVAL / 10,
        "spread over {:?}",
        last - first
    );
}

#[tokio::test(start_paused = true)]
async fn writes_at_once_follow_the_database_and_twice_as_many_may_when_somebody_waits() {
    let store = FaultyStore::new();
    let world = start(store.clone(), CAPACITY);
    store.slow(Duration::ZERO, Duration::from_millis(20));
    warm(&world, 20_000).await;
    sleep(INTERVAL * 2).await;
    assert_eq!(world.engine.cache().dirty_users(), 0);
    let calm = store.saves_at_once.most();
    assert!((32..=128).contains(&calm), "{calm} at once");
    let limit = world.metric("readstates_flush_limit");
    assert!((32.0..=128.0).contains(&limit), "{limit}");

    let operations: Vec<_> = (1..=20_000).map(|user| (user, ack(1, 2))).collect();
    world.engine.change_many(&operations, Touch::Online).await;
    let flushed = world.engine.flush_all().await;
    assert_eq!((flushed.written, flushed.failed), (20_000, 0));
    let urgent = store.saves_at_once.most();
    assert!(
        urgent > calm && urgent <= 256,
        "{urgent} at once after {calm}"
    );
}

/// Users of one member come due far faster than writes at once times looks a second.
#[tokio::test(start_paused = true)]
async fn what_waits_for_room_is_written_as_soon_as_there_is_some() {
    let store = FaultyStore::new();
    let world = start(store.clone(), CAPACITY);
    store.slow(Duration::ZERO, Duration::from_millis(2));
    warm(&world, 100_000).await;
    let changed = Instant::now();
    while world.engine.cache().dirty_users() > 0 {
        sleep(TICK).await;
    }
    let last = changed.elapsed();
    assert!(last <= INTERVAL * 12 / 10 + TICK, "the last after {last:?}");
}

/// After a look that finds few dirty users, the flusher sleeps until the next tick: a caller that waits wakes it.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_write_does_not_wait_for_a_tick() {
    let world = start(FaultyStore::new(), CAPACITY);
    for message in 1..=20 {
        world.one(1, ack(10, message), Touch::Online).await.unwrap();
        // At every part of a tick.
        sleep(Duration::from_millis(5 * message)).await;
        let asked = Instant::now();
        let flushed = world.engine.flush_all().await;
        assert_eq!((flushed.written, flushed.failed), (1, 0));
        let waited = asked.elapsed();
        assert!(waited <= TICK / 4, "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_asked_for_flush_ends_although_the_database_is_away_and_tries_when_asked_again() {
    let store = FaultyStore::new();
    let world = start(store.clone(), CAPACITY);
    warm(&world, 5000).await;
    store.set(Mood::Silent);
    let asked = Instant::now();
    let flushed = world.engine.flush_all().await;
    assert_eq!((flushed.written, flushed.failed), (0, 5000));
    assert!(
        asked.elapsed() < Duration::from_secs(12),
        "{:?}",
        asked.elapsed()
    );
    let tried = store.saves.load(Ordering::SeqCst);
    assert!(tried < 300, "{tried} of 5000 were tried");
    store.set(Mood::Healthy);
    let flushed = world.engine.flush_all().await;
    assert_eq!((flushed.written, flushed.failed), (5000, 0));
}

/// What clients were told, to be found in the store in the end.
#[derive(Default)]
struct Told {
    /// (user, channel) → last message acknowledged with a 200.
    last: HashMap<(u64, u64), u64>,
    full: usize,
    away: usize,
    hits_refused: usize,
}

/// One tenth of a second of clients: known users who acknowledge and read, strangers who connect.
async fn tick(world: &World, dice: &mut StdRng, told: &mut Told, step: u64) {
    const USERS: u64 = 3000;
    for _ in 0..20 {
        let (user, channel) = (dice.random_range(1..=USERS), dice.random_range(1..=6));
        match world.one(user, ack(channel, step + 1), Touch::Online).await {
            Ok(Outcome::Applied) => {
                told.last.insert((user, channel), step + 1);
            }
            Ok(Outcome::Ignored) => {}
            Err(NotDone::Refused(Refused::TooManyUnwritten)) => told.full += 1,
            Err(other) => panic!("a cached user's change: {other}"),
        }
        let user = dice.random_range(1..=USERS);
        if world.last(user, 1).await.is_err() {
            told.hits_refused += 1;
        }
    }
    for _ in 0..3 {
        let stranger = dice.random_range(1 << 40..1 << 50);
        match world.last(stranger, 1).await {
            Ok(last) => assert_eq!(last, 0),
            Err(NotDone::NotLoaded(LoadError::StoreAway)) => told.away += 1,
            Err(other) => panic!("a stranger: {other}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_without_a_database_lose_nothing_and_end_with_everything_written() {
    let store = FaultyStore::new();
    // Half of it may be dirty: 5000 states, of 18,000 that these users can have.
    let world = start(store.clone(), 10_000);
    let (mut dice, mut told) = (StdRng::seed_from_u64(7), Told::default());
    warm(&world, 3000).await;
    for user in 1..=3000 {
        told.last.insert((user, 1), 1);
    }
    world.engine.flush_all().await;

    store.set(Mood::Silent);
    let (away_since, calls) = (Instant::now(), store.calls());
    let (mut step, mut oldest) = (1, 0.0_f64);
    while away_since.elapsed() < Duration::from_secs(600) {
        step += 1;
        tick(&world, &mut dice, &mut told, step).await;
        let totals = world.engine.totals();
        assert!(totals.dirty_states <= 5000, "{} dirty", totals.dirty_states);
        let age = totals.oldest_dirty.map_or(Duration::ZERO, |since| {
            Instant::now().into_std().saturating_duration_since(since)
        });
        oldest = oldest.max(age.as_secs_f64());
        sleep(TICK).await;
    }
    assert!(
        told.full > 1000,
        "the bound was reached: {} refused",
        told.full
    );
    assert!(told.away > 3000, "{} strangers refused", told.away);
    assert_eq!(told.hits_refused, 0, "cached users are read from memory");
    assert!(oldest > 550.0, "the oldest change was {oldest} s old");
    assert_eq!(world.metric("readstates_loads_away"), 1.0);
    assert_eq!(world.metric("readstates_flushes_away"), 1.0);
    // A probe of loads takes 2 s, one of writes 5 s, and both wait up to 5 s between two.
    let storm = store.calls() - calls;
    assert!(storm < 700, "{storm} calls to a dead database");

    store.set(Mood::Healthy);
    let back = Instant::now();
    while world.engine.cache().dirty_users() > 0 {
        assert!(back.elapsed() < INTERVAL * 2, "still dirty");
        sleep(TICK).await;
    }
    // The next probe lets strangers in again: one that began in the silence ends after 2 s, then 5 s pass.
    while world.last(1 << 60, 1).await != Ok(0) {
        assert!(back.elapsed() < INTERVAL * 2, "strangers are kept out");
        sleep(TICK).await;
    }
    // Changes that were refused may come again.
    step += 1;
    tick(&world, &mut dice, &mut told, step).await;
    world.stop().await;

    let again = start(store, CAPACITY);
    let everything = |block: BlockRef<'_>| -> Vec<(u64, u64)> {
        let states = block.states();
        states
            .map(|state| (state.channel, state.last_message))
            .collect()
    };
    let mut found = HashMap::new();
    for user in 1..=3000 {
        let states = again.engine.read(user, everything).await.unwrap();
        found.extend(
            states
                .into_iter()
                .map(|(channel, last)| ((user, channel), last)),
        );
    }
    assert_eq!(found, told.last, "what was acknowledged, and nothing else");
}

#[tokio::test(start_paused = true)]
async fn a_slow_database_delays_nobody_who_is_cached() {
    let store = FaultyStore::new();
    let world = Arc::new(start(store.clone(), CAPACITY));
    warm(&world, 1000).await;
    store.slow(Duration::from_millis(1900), Duration::from_millis(4900));
    let start = Instant::now();
    while start.elapsed() < INTERVAL * 4 {
        let asked = Instant::now();
        for user in 1..=100 {
            let message = 2 + start.elapsed().as_millis() as u64;
            world
                .one(user, ack(1, message), Touch::Online)
                .await
                .unwrap();
        }
        assert_eq!(asked.elapsed(), Duration::ZERO);
        sleep(TICK).await;
    }
    let asked = Instant::now();
    assert_eq!(world.last(1 << 50, 1).await, Ok(0));
    assert!(asked.elapsed() < Duration::from_secs(2));
}
