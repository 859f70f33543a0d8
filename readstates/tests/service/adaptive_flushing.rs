//! Writing before the interval is over, where the store has time for it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::common::{
    engine::{CAPACITY, INTERVAL, World, ack, start_with},
    faulty::{FaultyStore, Mood},
};
use readstates::cache::{FlushMode, Flushing, Touch};
use tokio::time::{Instant, sleep};

const TICK: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

fn adaptive(store: &Arc<FaultyStore>) -> World {
    let flushing = Flushing {
        interval: INTERVAL,
        mode: FlushMode::Adaptive,
    };
    start_with(store.clone(), CAPACITY, flushing)
}

async fn change(world: &World, users: u64, message: u64) {
    let operations: Vec<_> = (1..=users).map(|user| (user, ack(1, message))).collect();
    for outcome in world.engine.change_many(&operations, Touch::Online).await {
        outcome.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_change_is_written_about_a_second_after_it() {
    let store = FaultyStore::new();
    let world = adaptive(&store);
    world.one(1, ack(1, 1), Touch::Online).await.unwrap();
    let changed = Instant::now();
    while world.engine.cache().dirty_users() > 0 {
        sleep(TICK / 10).await;
    }
    let waited = changed.elapsed();
    assert!(
        waited >= SECOND * 9 / 10 && waited <= SECOND * 13 / 10,
        "{waited:?}"
    );
    assert_eq!(world.metric("readstates_flushes_early_total"), 1.0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_user_changes_within_a_second_is_one_write() {
    let store = FaultyStore::new();
    let world = adaptive(&store);
    let start = Instant::now();
    let mut message = 0;
    while start.elapsed() < SECOND * 60 {
        message += 1;
        world.one(1, ack(1, message), Touch::Online).await.unwrap();
        sleep(TICK).await;
    }
    let saves = store.saves.load(Ordering::SeqCst);
    assert!((45..=66).contains(&saves), "{saves} writes in a minute");
    world.stop().await;
}

/// A store that is slow for all users gets a quarter of its permits for early writes: users are written less often
/// than every second, and still within the interval.
#[tokio::test(start_paused = true)]
async fn a_busy_store_is_written_less_often_and_nobody_waits_longer_than_the_interval() {
    const USERS: u64 = 2000;
    let store = FaultyStore::new();
    store.slow(Duration::ZERO, Duration::from_millis(50));
    let world = adaptive(&store);
    let start = Instant::now();
    let (mut message, mut oldest) = (0, Duration::ZERO);
    while start.elapsed() < INTERVAL * 4 {
        message += 1;
        change(&world, USERS, message).await;
        sleep(SECOND / 2).await;
        let since = world.engine.totals().oldest_dirty.unwrap();
        oldest = oldest.max(Instant::now().into_std() - since);
    }
    let saves = store.saves.load(Ordering::SeqCst) as u64;
    let each = saves as f64 / USERS as f64;
    println!(
        "{each:.1} writes of each user in two minutes, of {message} changes; the oldest {oldest:?}"
    );
    assert!(each < message as f64 / 8.0, "{each} writes of each user");
    assert!(oldest <= INTERVAL * 12 / 10, "{oldest:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_away_is_written_when_it_is_back() {
    let store = FaultyStore::new();
    let world = adaptive(&store);
    change(&world, 1000, 1).await;
    world.engine.flush_all().await;
    store.set(Mood::Away);
    change(&world, 1000, 2).await;
    sleep(INTERVAL * 2).await;
    assert_eq!(world.engine.cache().dirty_users(), 1000);
    store.set(Mood::Healthy);
    let back = Instant::now();
    while world.engine.cache().dirty_users() > 0 {
        assert!(back.elapsed() < INTERVAL, "still dirty");
        sleep(TICK).await;
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_interval_shorter_than_a_second_is_the_time_until_a_write() {
    let store = FaultyStore::new();
    let flushing = Flushing {
        interval: TICK,
        mode: FlushMode::Adaptive,
    };
    let world = start_with(store.clone(), CAPACITY, flushing);
    world.one(1, ack(1, 1), Touch::Online).await.unwrap();
    sleep(TICK * 2).await;
    assert_eq!(world.engine.cache().dirty_users(), 0);
    world.stop().await;
}
