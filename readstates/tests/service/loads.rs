//! Users who are not cached: who waits for them, in which order, and how many may.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::common::{
    engine::{CAPACITY, World, ack, manual, mention, start},
    faulty::{FaultyStore, Mood},
};
use futures::future::join_all;
use readstates::{
    block::{BlockRef, Operation, Outcome},
    cache::Touch,
    engine::NotDone,
    load::LoadError,
    store::Store,
};
use readstates_ring::Stamp;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const TOO_MANY: NotDone = NotDone::NotLoaded(LoadError::TooManyLoads);
const AWAY: NotDone = NotDone::NotLoaded(LoadError::StoreAway);

/// The limits that this file knows of; see `load`.
const ONLINE_AT_ONCE: usize = 128;
const MENTIONS_AT_ONCE: usize = 32;
const ONLINE_WAITING: usize = 4096;
const MOST_PER_USER: usize = 4096;

fn world() -> (Arc<FaultyStore>, World) {
    let store = FaultyStore::new();
    let world = start(store.clone(), CAPACITY);
    (store, world)
}

#[tokio::test(start_paused = true)]
async fn operations_of_a_cold_user_are_applied_in_the_order_in_which_they_came() {
    let (store, world) = world();
    store.slow(SECOND, Duration::ZERO);
    let version = |block: BlockRef<'_>, outcomes: &[Outcome]| (block.version(), outcomes[0]);
    // Every tenth only looks. `join_all` asks each in order, once; the block comes a second later.
    let asked = join_all((1..=200_u64).map(|step| {
        let world = &world;
        async move {
            if step % 10 == 0 {
                (step, world.last(1, 10).await.unwrap())
            } else {
                // Up and down, so that no order but this one leaves the same behind.
                let message = if step % 2 == 0 { step } else { 1000 - step };
                let change = [manual(10, message)];
                let changed = world.engine.change(1, &change, Touch::Online, version);
                let (version, outcome) = changed.await.unwrap();
                assert_eq!(outcome, Outcome::Applied);
                (step, version)
            }
        }
    }))
    .await;
    assert_eq!(store.loads.load(Ordering::SeqCst), 1);
    let versions: Vec<u64> = asked
        .iter()
        .filter(|(step, _)| step % 10 != 0)
        .map(|&(_, version)| version)
        .collect();
    assert!(versions.windows(2).all(|pair| pair[1] == pair[0] + 1));
    for (step, seen) in asked.into_iter().filter(|(step, _)| step % 10 == 0) {
        // The one before it was odd.
        assert_eq!(seen, 1000 - (step - 1), "what a read saw at its place");
    }
    assert_eq!(world.last(1, 10).await, Ok(1000 - 199));
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_mentions_of_one_cold_user_is_one_load() {
    let (store, world) = world();
    store.slow(SECOND, Duration::ZERO);
    let single = join_all((1..=1000).map(|message| world.mention(1, message)));
    let together: Vec<_> = (1001..=2000).map(|message| (1, mention(message))).collect();
    let together = world.engine.change_many(&together, Touch::Mention);
    let (single, together) = tokio::join!(single, together);
    assert!(
        single
            .into_iter()
            .chain(together)
            .all(|outcome| outcome == Ok(Outcome::Applied))
    );
    assert_eq!(store.loads.load(Ordering::SeqCst), 1);
    let count = |block: BlockRef<'_>| block.state(10).unwrap().mention_count;
    assert_eq!(world.engine.read(1, count).await, Ok(2000));
}

#[tokio::test(start_paused = true)]
async fn a_mention_of_a_hundred_thousand_cold_users_is_bounded_and_starves_no_client() {
    let (store, world) = world();
    store.slow(Duration::from_millis(10), Duration::from_millis(2));
    let mentions: Vec<_> = (1..=100_000).map(|user| (user, mention(5))).collect();
    let mut most_waiting = (0.0_f64, 0.0_f64);
    let mut slowest = Duration::ZERO;
    let clients = async {
        for user in 200_000..200_400 {
            let asked = Instant::now();
            assert_eq!(world.last(user, 10).await, Ok(0));
            slowest = slowest.max(asked.elapsed());
            // A user in the midst of the mention does not wait behind it either.
            let asked = Instant::now();
            world.last(99_999 - (user - 200_000), 10).await.unwrap();
            slowest = slowest.max(asked.elapsed());
            most_waiting.0 = most_waiting
                .0
                .max(world.metric("readstates_loading_operations"));
            most_waiting.1 = most_waiting.1.max(world.metric("readstates_loading_bytes"));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mention = async {
        let asked = Instant::now();
        let outcomes = world.engine.change_many(&mentions, Touch::Mention).await;
        (outcomes, asked.elapsed())
    };
    let ((outcomes, took), ()) = tokio::join!(mention, clients);
    // 32 at once of 10 ms each: 100,000 would take longer than a caller waits.
    assert!(took < Duration::from_secs(16), "{took:?}");
    let [applied, refused, late] = [Ok(Outcome::Applied), Err(TOO_MANY), Err(AWAY)].map(|wanted| {
        outcomes
            .iter()
            .filter(|&&outcome| outcome == wanted)
            .count()
    });
    assert_eq!(applied + refused + late, 100_000);
    assert!(
        applied > 40_000 && late <= 512,
        "{applied} applied, {late} late"
    );
    assert!(store.loads_at_once.most() <= ONLINE_AT_ONCE + MENTIONS_AT_ONCE);
    assert!(
        most_waiting.0 <= 520.0 && most_waiting.1 < 200_000.0,
        "{most_waiting:?}"
    );
    assert!(
        slowest <= Duration::from_millis(30),
        "a client waited {slowest:?}"
    );
    // Sent again, the rest is applied, and nothing counts twice.
    let mut left: Vec<_> = mentions;
    for _ in 0..3 {
        let outcomes = world.engine.change_many(&left, Touch::Mention).await;
        left = left
            .into_iter()
            .zip(outcomes)
            .filter(|(_, outcome)| outcome.is_err())
            .map(|(mention, _)| mention)
            .collect();
    }
    assert_eq!(left, []);
    let count = |block: BlockRef<'_>| block.state(10).unwrap().mention_count;
    for user in (1..=100_000).step_by(997) {
        assert_eq!(world.engine.read(user, count).await, Ok(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_takes_over_the_load_that_a_mention_waits_for() {
    let (store, world) = world();
    store.slow(SECOND, Duration::ZERO);
    let mentions: Vec<_> = (1..=500).map(|user| (user, mention(5))).collect();
    let engine = Arc::clone(&world.engine);
    let storm = tokio::spawn(async move { engine.change_many(&mentions, Touch::Mention).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let asked = Instant::now();
    let count = |block: BlockRef<'_>| block.state(10).map(|state| state.mention_count);
    assert_eq!(
        world.engine.read(500, count).await,
        Ok(Some(1)),
        "the mention came first"
    );
    assert!(asked.elapsed() <= SECOND, "500 by 32 would be 15 s");
    // In 15 s, 32 a second, and the one the client took along.
    let outcomes = storm.await.unwrap();
    let applied = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!((449..=481).contains(&applied), "{applied}");
}

#[tokio::test(start_paused = true)]
async fn what_is_over_a_limit_is_refused_at_once_and_the_other_class_is_not() {
    let (store, world) = world();
    store.slow(SECOND / 2, Duration::ZERO);
    let world = Arc::new(world);
    let room = (ONLINE_AT_ONCE + ONLINE_WAITING) as u64;
    let waiting: Vec<_> = (1..=room)
        .map(|user| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.last(user, 1).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let asked = Instant::now();
    assert_eq!(world.last(room + 1, 1).await, Err(TOO_MANY));
    assert_eq!(asked.elapsed(), Duration::ZERO);
    assert_eq!(world.metric("readstates_loading_users"), room as f64);
    assert_eq!(world.mention(room + 2, 1).await, Ok(Outcome::Applied));
    // Three seconds are six rounds of 128; the others have waited long enough by then.
    let served = join_all(waiting)
        .await
        .into_iter()
        .filter(|seen| *seen.as_ref().unwrap() == Ok(0));
    assert!(served.count() >= ONLINE_AT_ONCE * 5);
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(world.metric("readstates_loading_users"), 0.0);
    assert_eq!(world.metric("readstates_loading_operations"), 0.0);
    assert_eq!(world.metric("readstates_loading_bytes"), 0.0);
    assert_eq!(world.last(room + 1, 1).await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_one_user_is_bounded() {
    let (store, world) = world();
    store.slow(SECOND, Duration::ZERO);
    let more = MOST_PER_USER as u64 + 100;
    let outcomes = join_all((1..=more).map(|message| world.manual(1, 10, message))).await;
    let (first, rest) = outcomes.split_at(MOST_PER_USER);
    assert!(first.iter().all(|outcome| *outcome == Ok(Outcome::Applied)));
    assert!(rest.iter().all(|outcome| *outcome == Err(TOO_MANY)));
    assert_eq!(world.last(1, 10).await, Ok(MOST_PER_USER as u64));
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_for_waiting_too_long_is_never_applied_later() {
    let (store, world) = world();
    store.slow(10 * SECOND, Duration::ZERO);
    let asked = Instant::now();
    assert_eq!(world.manual(1, 10, 5).await, Err(AWAY));
    assert_eq!(asked.elapsed(), 3 * SECOND);
    let operations = [(1, manual(10, 6)), (2, manual(10, 7))];
    let together = world.engine.change_many(&operations, Touch::Online).await;
    assert_eq!(together, [Err(AWAY), Err(AWAY)]);
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(
        (world.last(1, 10).await, world.last(2, 10).await),
        (Ok(0), Ok(0))
    );
    assert_eq!(store.loads.load(Ordering::SeqCst), 2, "the loads went on");
}

#[tokio::test(start_paused = true)]
async fn many_operations_get_one_outcome_each_and_keep_the_order_of_each_user() {
    let (store, world) = world();
    for user in 1..=50 {
        world.manual(user, 10, 1).await.unwrap();
    }
    let unreadable = vec![99, 1, 2, 3];
    store
        .save(777, unreadable.clone(), Stamp::from_database(5))
        .await
        .unwrap();
    // Users up to 50 are cached, those up to 100 are not; each goes up and down, in turns.
    let mut operations: Vec<(u64, Operation)> = Vec::new();
    for step in 1..=20_u64 {
        let message = if step % 2 == 0 { step } else { 1000 - step };
        operations.extend((1..=100).map(|user| (user, manual(10, message))));
    }
    operations.push((777, manual(10, 1)));
    // Known already: ignored.
    operations.extend((1..=100).map(|user| (user, ack(10, 20))));
    let outcomes = world.engine.change_many(&operations, Touch::Online).await;
    assert_eq!(outcomes.len(), operations.len());
    let (changes, rest) = outcomes.split_at(2000);
    assert!(
        changes
            .iter()
            .all(|outcome| *outcome == Ok(Outcome::Applied))
    );
    assert_eq!(rest[0], Err(NotDone::NotLoaded(LoadError::Unreadable)));
    assert!(
        rest[1..]
            .iter()
            .all(|outcome| *outcome == Ok(Outcome::Ignored))
    );
    for user in 1..=100 {
        assert_eq!(world.last(user, 10).await, Ok(20), "user {user}");
    }
    let nothing: [(u64, Operation); 0] = [];
    assert_eq!(world.engine.change_many(&nothing, Touch::Online).await, []);
    world.stop().await;
    assert_eq!(store.load(777).await.unwrap().unwrap().bytes, unreadable);
}

#[tokio::test(start_paused = true)]
async fn many_operations_are_refused_one_by_one_while_the_database_is_away() {
    let (store, world) = world();
    for user in 1..=10 {
        world.manual(user, 10, 1).await.unwrap();
    }
    store.set(Mood::Silent);
    let operations: Vec<_> = (1..=2000).map(|user| (user, manual(10, 2))).collect();
    let outcomes = world.engine.change_many(&operations, Touch::Online).await;
    assert!(
        outcomes[..10]
            .iter()
            .all(|outcome| *outcome == Ok(Outcome::Applied))
    );
    assert!(outcomes[10..].iter().all(|outcome| *outcome == Err(AWAY)));
    assert!(store.loads.load(Ordering::SeqCst) <= 10 + 2 * ONLINE_AT_ONCE);
}
