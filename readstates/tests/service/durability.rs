//! What survives: restarts, stops, a database on a bad day; and what memory holds.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::common::{
    NEVER, SOON, client, config,
    faulty::{FaultyStore, Mood},
    on,
};
use futures::future::join_all;
use readstates::{
    block::VERSION_GAP,
    config::{ServeConfig, StoreConfig},
    server::open_store,
    store::{EmbeddedStore, MemoryStore, Store},
};
use readstates_ring::Stamp;
use serde_json::json;
use tokio::sync::Semaphore;

#[tokio::test]
async fn a_stop_writes_everything_and_a_start_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = ServeConfig {
        store: StoreConfig::Embedded(folder.path().join("data")),
        ..config(NEVER)
    };
    let member = on(open_store(&config).unwrap(), config.clone()).await;
    for user in 1..=200 {
        member.ack(user, 10, user).await;
    }
    let version = member.version(7).await;
    assert_eq!(member.status().await["dirty_users"], 200);
    assert_eq!(member.stop().await.unwritten_users, 0);

    let store = reopened(&config).await;
    let member = on(store, config).await;
    for user in 1..=200 {
        assert_eq!(member.state(user, 10).await, Some((user, 0)));
    }
    assert_eq!(member.version(7).await, version, "reading changes nothing");
    member.ack(7, 10, 1000).await;
    assert!(member.version(7).await >= version + VERSION_GAP);
    let since = member
        .get(&format!("/v1/users/7/read-states?since={version}"))
        .await
        .ok();
    assert_eq!(
        since["partial"], true,
        "a version that was written is still known: {since}"
    );
}

/// The writer of the store before ends a moment after its server.
async fn reopened(config: &ServeConfig) -> Arc<dyn Store> {
    let StoreConfig::Embedded(folder) = &config.store else {
        unreachable!()
    };
    for _ in 0..200 {
        match EmbeddedStore::open(folder, 0) {
            Ok(store) => return Arc::new(store),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("{folder:?} stays locked");
}

#[tokio::test]
async fn changes_are_written_behind_without_being_asked() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(SOON)).await;
    for message in 1..=50 {
        member.ack(1, 10, message).await;
    }
    let status = member
        .until("clean", |status| status["dirty_users"] == 0)
        .await;
    assert_eq!(status["oldest_dirty_seconds"], serde_json::Value::Null);
    assert!(store.load(1).await.unwrap().is_some());
    let saves = store.saves.load(Ordering::SeqCst);
    assert!(saves < 50, "{saves} writes for 50 changes");
}

#[tokio::test]
async fn a_flush_that_is_asked_for_writes_what_is_dirty_at_the_call() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(NEVER)).await;
    for user in 1..=300 {
        member.ack(user, 10, 1).await;
    }
    let flushed = member.post("/admin/v1/flush", json!({})).await.ok();
    assert_eq!(flushed, json!({"flushed_users": 300, "failed_users": 0}));
    assert_eq!(member.status().await["dirty_users"], 0);
    store.set(Mood::Away);
    member.ack(1, 10, 2).await;
    let flushed = member.post("/admin/v1/flush", json!({})).await.ok();
    assert_eq!(flushed, json!({"flushed_users": 0, "failed_users": 1}));
}

#[tokio::test]
async fn while_the_database_is_away_cached_users_are_served_and_cold_ones_refused() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(SOON)).await;
    member.ack(1, 10, 1).await;
    member
        .until("clean", |status| status["dirty_users"] == 0)
        .await;
    store.set(Mood::Away);
    member.ack(1, 10, 2).await;
    assert_eq!(member.state(1, 10).await, Some((2, 0)));
    member
        .get("/v1/users/2/read-states")
        .await
        .refused(503, "database-away");
    let ack = json!({"message_id": 1});
    member
        .post("/v1/users/2/read-states/1/ack", ack)
        .await
        .refused(503, "database-away");
    let mention = json!({"channel_id": 10, "message_id": 9, "user_ids": [1, 2]});
    let answer = member.post("/v1/mentions", mention).await.ok();
    let failed = json!([{"user_id": "2", "type": "/problems/database-away"}]);
    assert_eq!(
        (&answer["applied"], &answer["failed"]),
        (&json!(1), &failed)
    );
    member
        .until("aged", |status| {
            status["oldest_dirty_seconds"].as_f64() > Some(0.1)
        })
        .await;
    assert_eq!(
        member.get("/readyz").await.status,
        200,
        "it can still serve"
    );

    store.set(Mood::Healthy);
    member
        .until("clean", |status| status["dirty_users"] == 0)
        .await;
    assert_eq!(member.state(2, 10).await, None);
    let again = on(store, config(SOON)).await;
    assert_eq!(again.state(1, 10).await, Some((2, 1)));
}

#[tokio::test]
async fn a_member_is_not_ready_before_the_database_has_answered_once() {
    let store = FaultyStore::new();
    store.set(Mood::Away);
    let member = on(store.clone(), config(SOON)).await;
    let answer = member.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text.contains("the database is away"),
        "{}",
        answer.text
    );
    assert_eq!(member.get("/livez").await.status, 200);
    assert_eq!(member.status().await["store"]["healthy"], false);
    store.set(Mood::Healthy);
    member
        .until("healthy", |status| status["store"]["healthy"] == true)
        .await;
    assert_eq!(member.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_written_again_and_nothing_is_lost() {
    let store = FaultyStore::new();
    store.set(Mood::WritesWithoutAnswer);
    let member = on(store.clone(), config(SOON)).await;
    member.ack(1, 10, 1).await;
    member
        .until("tried", |_| store.saves.load(Ordering::SeqCst) > 1)
        .await;
    member.ack(1, 10, 2).await;
    assert_eq!(member.status().await["dirty_users"], 1);
    store.set(Mood::Healthy);
    member
        .until("clean", |status| status["dirty_users"] == 0)
        .await;
    let again = on(store, config(SOON)).await;
    assert_eq!(again.state(1, 10).await, Some((2, 0)));
}

#[tokio::test]
async fn a_stop_that_cannot_write_gives_up_in_time_and_says_how_many() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(NEVER)).await;
    for user in 1..=3 {
        member.ack(user, 10, 1).await;
    }
    store.set(Mood::Away);
    let stopped = member.server.stop(Duration::from_millis(300)).await;
    assert_eq!(stopped.unwritten_users, 3);
}

#[tokio::test]
async fn a_stop_waits_for_a_database_that_returns() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(NEVER)).await;
    member.ack(1, 10, 1).await;
    store.set(Mood::Away);
    let returns = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        store.set(Mood::Healthy);
    };
    let (stopped, ()) = tokio::join!(member.stop(), returns);
    assert_eq!(stopped.unwritten_users, 0);
}

#[tokio::test]
async fn changes_that_are_made_during_a_stop_are_written_or_refused_never_lost() {
    let store = Arc::new(MemoryStore::default());
    let member = on(store.clone(), config(SOON)).await;
    let url = member.url("");
    // Users whose first message was acknowledged.
    let begun = Arc::new(Semaphore::new(0));
    // Asks until it is refused, and returns the last message that was acknowledged.
    let asking = (1..=20_u64).map(|user| {
        let path = format!("{url}/v1/users/{user}/read-states/10/ack");
        let begun = Arc::clone(&begun);
        tokio::spawn(async move {
            let client = client();
            let mut last = 0;
            for message in 1..1_000_000_u64 {
                let request = client.post(&path).json(&json!({"message_id": message}));
                match request.send().await {
                    Ok(answer) if answer.status() == 200 => last = message,
                    Ok(_) | Err(_) => break,
                }
                if message == 1 {
                    begun.add_permits(1);
                }
            }
            (user, last)
        })
    });
    let asking: Vec<_> = asking.collect();
    drop(begun.acquire_many(20).await.unwrap());
    assert_eq!(member.stop().await.unwritten_users, 0);
    let acknowledged = join_all(asking).await;
    let again = on(store, config(SOON)).await;
    for user in acknowledged {
        let (user, last) = user.unwrap();
        let (found, _) = again.state(user, 10).await.unwrap();
        assert!(
            last > 0 && found >= last,
            "user {user}: {last} acknowledged, {found} found"
        );
    }
}

#[tokio::test]
async fn a_user_is_loaded_once_however_many_ask() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(NEVER)).await;
    let answers = join_all((0..100).map(|_| member.get("/v1/users/1/read-states"))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(store.loads.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_small_cache_serves_more_users_than_it_holds() {
    let store = FaultyStore::new();
    let small = ServeConfig {
        capacity_states: 50,
        ..config(SOON)
    };
    let member = on(store, small).await;
    for user in 1..=500 {
        member.ack(user, 10, user).await;
    }
    for user in 1..=500 {
        assert_eq!(member.state(user, 10).await, Some((user, 0)), "user {user}");
    }
    member
        .until("clean", |status| status["dirty_users"] == 0)
        .await;
    member.get("/v1/users/1000/read-states").await.ok();
    let states = member.status().await["states"].as_u64().unwrap();
    assert!(states <= 50, "{states} states in a cache of 50");
    let metrics = member.get("/metrics").await.text;
    assert!(
        !metrics.contains("readstates_evictions_total 0"),
        "{metrics}"
    );
}

#[tokio::test]
async fn the_capacity_changes_while_running() {
    let store = FaultyStore::new();
    let member = on(store, config(SOON)).await;
    for user in 1..=100 {
        member.ack(user, 10, user).await;
    }
    member
        .until("clean", |status| status["dirty_users"] == 0)
        .await;
    let put = reqwest::Method::PUT;
    let answer = member
        .json(put.clone(), "/admin/v1/capacity", json!({"states": 10}))
        .await;
    assert_eq!(answer.ok(), json!({"states": 10}));
    let status = member.status().await;
    assert_eq!(
        (&status["capacity_states"], &status["states"]),
        (&json!(10), &json!(10))
    );
    let none = member
        .json(put.clone(), "/admin/v1/capacity", json!({"states": 0}))
        .await;
    assert_eq!(none.refused(400, "bad-value")["pointer"], "/states");
    let typo = member
        .json(put, "/admin/v1/capacity", json!({"state": 10}))
        .await;
    typo.refused(400, "malformed-body");
}

#[tokio::test]
async fn a_stored_block_that_cannot_be_read_is_reported_and_left_alone() {
    let store = FaultyStore::new();
    let future = vec![99, 1, 2, 3];
    store
        .save(1, future.clone(), Stamp::from_database(5))
        .await
        .unwrap();
    let member = on(store.clone(), config(SOON)).await;
    member
        .get("/v1/users/1/read-states")
        .await
        .refused(500, "unreadable-block");
    let ack = json!({"message_id": 1});
    member
        .post("/v1/users/1/read-states/1/ack", ack)
        .await
        .refused(500, "unreadable-block");
    tokio::time::sleep(SOON * 3).await;
    assert_eq!(store.load(1).await.unwrap().unwrap().bytes, future);
}

#[tokio::test]
async fn versions_are_not_handed_out_twice_after_a_crash() {
    let store = FaultyStore::new();
    let first = on(store.clone(), config(NEVER)).await;
    first.ack(1, 10, 1).await;
    first.post("/admin/v1/flush", json!({})).await.ok();
    first.ack(1, 10, 2).await;
    first.ack(1, 20, 1).await;
    let handed_out = first.version(1).await;
    // The process dies here: nothing more is written. Two more owners follow, the first of which
    // dies unwritten as well. No process starts within VERSION_GAP microseconds of another.
    let apart = Duration::from_micros(2 * VERSION_GAP);
    tokio::time::sleep(apart).await;
    let second = on(store.clone(), config(NEVER)).await;
    assert_eq!(
        second.state(1, 10).await,
        Some((1, 0)),
        "what was not written is lost"
    );
    second.ack(1, 10, 2).await;
    let from_second = second.version(1).await;
    assert!(from_second > handed_out);
    tokio::time::sleep(apart).await;
    let third = on(store, config(NEVER)).await;
    third.ack(1, 10, 3).await;
    assert!(third.version(1).await > from_second);
    let path = format!("/v1/users/1/read-states?since={handed_out}");
    let lost = third.get(&path).await.ok();
    assert_eq!(
        lost["partial"], false,
        "its client has seen what is lost: {lost}"
    );
}
