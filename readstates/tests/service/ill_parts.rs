//! A database of which a part hangs: whose users lie elsewhere does not notice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::engine::{CAPACITY, INTERVAL, World, ack, start};
use futures::future::{BoxFuture, FutureExt, join_all};
use readstates::{
    cache::Touch,
    engine::NotDone,
    load::LoadError,
    store::{MemoryStore, PARTS, Part, Store, StoreError, Stored},
};
use readstates_api::admin::StoreKind;
use readstates_ring::{Stamp, slot::mix64};
use tokio::time::{Instant, sleep, timeout};

const USERS: u64 = 20_000;
const SHARDS: usize = 6;
const HEALTHY: Duration = Duration::from_millis(2);
const SAVE_TIMEOUT: Duration = Duration::from_secs(5);
const LOAD_TIMEOUT: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

/// Which users hang.
#[derive(Debug, Clone, Copy)]
enum Ill {
    /// Those of so many of 100 parts, about: replica sets.
    Parts(u64),
    /// So many of 100 in every part: whatever the parts are, they do not tell.
    Anywhere(u64),
}

#[derive(Debug)]
struct PartlyIll {
    inner: MemoryStore,
    ill: Ill,
    hangs: AtomicBool,
    saves: AtomicUsize,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
    /// Healthy users that were written.
    written: AtomicU64,
}

impl PartlyIll {
    fn new(ill: Ill) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::default(),
            ill,
            hangs: AtomicBool::new(true),
            saves: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            written: AtomicU64::new(0),
        })
    }

    fn is_ill(&self, user: u64) -> bool {
        match self.ill {
            Ill::Parts(percent) => {
                (self.part(user).index() as u64) < (PARTS as u64 * percent).div_ceil(100)
            }
            Ill::Anywhere(percent) => mix64(user ^ 0xabcd) % 100 < percent,
        }
    }

    async fn answer(&self, user: u64, limit: Duration) -> Result<(), StoreError> {
        if self.is_ill(user) && self.hangs.load(Ordering::SeqCst) {
            sleep(limit).await;
            return Err(StoreError::new(
                "ask the replicas",
                "the time limit is over",
            ));
        }
        sleep(HEALTHY).await;
        Ok(())
    }
}

impl Store for PartlyIll {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async move {
            self.answer(user, LOAD_TIMEOUT).await?;
            self.inner.load(user).await
        }
        .boxed()
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.saves.fetch_add(1, Ordering::SeqCst);
            let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_under_way.fetch_max(under_way, Ordering::SeqCst);
            let answer = self.answer(user, SAVE_TIMEOUT).await;
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            answer?;
            if !self.is_ill(user) {
                self.written.fetch_add(1, Ordering::SeqCst);
            }
            self.inner.save(user, bytes, stamp).await
        }
        .boxed()
    }

    fn shards(&self) -> usize {
        SHARDS
    }

    fn part(&self, user: u64) -> Part {
        Part::new(mix64(user))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

/// All users cached and dirty at once.
async fn dirty(store: &Arc<PartlyIll>) -> World {
    let world = start(store.clone(), CAPACITY);
    for user in 1..=USERS {
        world.engine.cache().insert(user, None);
    }
    let operations: Vec<_> = (1..=USERS).map(|user| (user, ack(1, 1))).collect();
    for outcome in world.engine.change_many(&operations, Touch::Online).await {
        outcome.unwrap();
    }
    world
}

/// How long it takes until every healthy user is written.
async fn healthy_written(store: &Arc<PartlyIll>) -> (World, Duration) {
    let begun = Instant::now();
    let world = dirty(store).await;
    let healthy = (1..=USERS).filter(|&user| !store.is_ill(user)).count() as u64;
    while store.written.load(Ordering::SeqCst) < healthy {
        assert!(begun.elapsed() < INTERVAL * 10, "it ends");
        sleep(TICK).await;
    }
    (world, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn users_of_healthy_parts_are_written_as_fast_as_if_all_were_healthy() {
    let (world, all_healthy) = healthy_written(&PartlyIll::new(Ill::Parts(0))).await;
    world.stop().await;
    for ill in [
        Ill::Parts(10),
        Ill::Parts(30),
        Ill::Anywhere(10),
        Ill::Anywhere(30),
    ] {
        let store = PartlyIll::new(ill);
        let (world, took) = healthy_written(&store).await;
        println!("{ill:?}: {took:?}, where all healthy took {all_healthy:?}");
        assert!(
            took <= all_healthy.mul_f64(1.2),
            "{ill:?}: {took:?}, where all healthy took {all_healthy:?}"
        );
        let most = store.most_under_way.load(Ordering::SeqCst);
        assert!(most <= SHARDS * 1024, "{most} writes under way");

        // Changes of healthy users go on being written while retries of the others fail.
        sleep(INTERVAL).await;
        let changed = Instant::now();
        let healthy: Vec<_> = (1..=USERS).filter(|&user| !store.is_ill(user)).collect();
        let operations: Vec<_> = healthy.iter().map(|&user| (user, ack(1, 2))).collect();
        for outcome in world.engine.change_many(&operations, Touch::Online).await {
            outcome.unwrap();
        }
        let before = store.written.load(Ordering::SeqCst);
        while store.written.load(Ordering::SeqCst) < before + healthy.len() as u64 {
            sleep(TICK).await;
        }
        let took = changed.elapsed();
        assert!(took <= all_healthy.mul_f64(1.2), "{ill:?}, later: {took:?}");

        store.hangs.store(false, Ordering::SeqCst);
        timeout(INTERVAL * 2, world.stop()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_hangs_is_asked_by_a_probe_at_a_time() {
    let store = PartlyIll::new(Ill::Parts(10));
    let (world, _) = healthy_written(&store).await;
    assert_eq!(world.metric("readstates_flushes_away"), 0.0);
    assert_eq!(world.metric("readstates_store_parts_away"), 7.0);
    sleep(INTERVAL).await;
    let before = store.saves.load(Ordering::SeqCst);
    sleep(INTERVAL * 2).await;
    let probes = store.saves.load(Ordering::SeqCst) - before;
    // Seven parts, and from 7.5 to 10 seconds from one probe to the next.
    assert!((7..=70).contains(&probes), "{probes} in a minute");
    store.hangs.store(false, Ordering::SeqCst);
    let back = Instant::now();
    while world.engine.cache().dirty_users() > 0 {
        assert!(back.elapsed() < INTERVAL * 2, "still dirty");
        sleep(TICK).await;
    }
    assert_eq!(world.metric("readstates_store_parts_away"), 0.0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_part_that_hangs_takes_only_its_own_loads_with_it() {
    let store = PartlyIll::new(Ill::Parts(30));
    let world = Arc::new(start(store.clone(), CAPACITY));
    let (mut slowest, mut away) = (Duration::ZERO, 0);
    for round in 0..40_u64 {
        let users = round * 500 + 1..=round * 500 + 500;
        let asked = users.map(|user| {
            let (world, store) = (Arc::clone(&world), Arc::clone(&store));
            async move {
                let asked = Instant::now();
                (
                    store.is_ill(user),
                    world.last(user, 1).await,
                    asked.elapsed(),
                )
            }
        });
        for (ill, answer, took) in join_all(asked).await {
            match (ill, answer) {
                (false, Ok(0)) => slowest = slowest.max(took),
                (true, Err(NotDone::NotLoaded(LoadError::StoreAway))) => away += 1,
                other => panic!("{other:?}"),
            }
        }
        sleep(TICK).await;
    }
    println!("the slowest healthy load took {slowest:?}; {away} were refused");
    assert!(slowest < LOAD_TIMEOUT / 2, "{slowest:?}");
    assert_eq!(world.metric("readstates_loads_away"), 0.0);
    store.hangs.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(10)).await;
    for user in 1..=USERS {
        if store.is_ill(user) {
            // Each part admits all its users again once one of them was answered.
            while world.last(user, 1).await.is_err() {
                sleep(TICK).await;
            }
        }
    }
}
