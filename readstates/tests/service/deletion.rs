//! The deletion of a user: 204 says that the database has it.

use std::{sync::Arc, time::Duration};

use crate::common::{
    NEVER, Running, alone, config,
    faulty::{FaultyStore, Mood},
    members, on, owner_of,
};
use futures::future::join_all;
use readstates::store::{MemoryStore, Store};
use reqwest::Method;

/// What another process finds that begins with the same store.
async fn states_after_a_crash(member: Running, store: Arc<dyn Store>) -> usize {
    member.server.crash().await;
    let next = on(store, config(NEVER)).await;
    let all = next.get("/v1/users/1/read-states").await.ok();
    all["read_states"].as_array().unwrap().len()
}

/// A member with a user whose state is in the database.
async fn with_a_user(store: &Arc<FaultyStore>) -> Running {
    let member = on(store.clone(), config(NEVER)).await;
    member.ack(1, 10, 1).await;
    member
        .post("/admin/v1/flush", serde_json::json!({}))
        .await
        .ok();
    member
}

#[tokio::test]
async fn after_204_a_crash_brings_nobody_back() {
    let store = FaultyStore::new();
    let member = with_a_user(&store).await;
    // Long enough that an answer which did not wait would be there before the write is.
    store.slow(Duration::from_millis(5), Duration::from_millis(300));
    let deleted = member.delete("/v1/users/1").await;
    assert_eq!(deleted.status, 204);
    assert!(deleted.header("etag").is_some() && deleted.text.is_empty());
    assert_eq!(states_after_a_crash(member, store).await, 0);
}

#[tokio::test]
async fn while_the_database_does_not_take_it_it_is_202_and_204_when_asked_again() {
    for mood in [Mood::Away, Mood::Silent] {
        let store = FaultyStore::new();
        let member = with_a_user(&store).await;
        store.set(mood);
        let deleted = member.delete("/v1/users/1").await;
        assert_eq!(deleted.status, 202, "{mood:?}");
        let version = deleted.body()["version"].as_str().unwrap().to_owned();
        assert_eq!(deleted.header("etag"), Some(&*format!("\"{version}\"")));
        assert_eq!(member.state(1, 10).await, None, "it is gone for readers");
        store.set(Mood::Healthy);
        let asked_again = async { while member.delete("/v1/users/1").await.status != 204 {} };
        tokio::time::timeout(crate::common::PATIENCE, asked_again)
            .await
            .unwrap();
        assert_eq!(states_after_a_crash(member, store).await, 0);
    }
}

#[tokio::test]
async fn whoever_waits_for_less_is_answered_before() {
    let store = FaultyStore::new();
    let member = with_a_user(&store).await;
    store.set(Mood::Silent);
    let waits = [("x-readstates-timeout", "1000")];
    let deleted = member
        .send(Method::DELETE, "/v1/users/1", &waits, None)
        .await;
    assert_eq!(deleted.status, 202, "{}", deleted.text);
}

#[tokio::test]
async fn those_who_wait_for_the_database_keep_no_slot_from_moving() {
    let store = FaultyStore::new();
    let members = members(&["chat-0", "chat-1"], store.clone()).await;
    let (owner, other) = (owner_of(&members, 1), 1 - owner_of(&members, 1));
    members[owner].ack(1, 10, 1).await;
    store.slow(Duration::ZERO, Duration::from_secs(3600));
    let deletion = members[other].delete("/v1/users/1");
    let drained = async {
        members[owner]
            .until("changed", |status| status["dirty_users"] == 1)
            .await;
        let incarnation = members[owner]
            .server
            .ownership()
            .me()
            .incarnation()
            .to_string();
        let drain = serde_json::json!({"incarnation": incarnation});
        members[owner].post("/admin/v1/drain", drain).await;
        members[other]
            .until("the owner", |status| status["ownership"]["owned"] == 1024)
            .await;
    };
    let (deleted, ()) = tokio::join!(deletion, drained);
    // The new owner has it, and the database does not.
    assert_eq!(deleted.status, 202, "{}", deleted.text);
    assert_eq!(members[other].state(1, 10).await, None);
}

#[tokio::test]
async fn many_deletions_at_once_are_all_answered() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(NEVER)).await;
    for user in 1..=300 {
        member.ack(user, 10, 1).await;
    }
    store.set(Mood::Silent);
    let paths: Vec<_> = (1..=300).map(|user| format!("/v1/users/{user}")).collect();
    let answers = join_all(paths.iter().map(|path| member.delete(path))).await;
    assert!(answers.iter().all(|answer| answer.status == 202));
}

#[tokio::test]
async fn a_user_never_seen_is_deleted_at_once() {
    let member = alone().await;
    assert_eq!(member.delete("/v1/users/7").await.status, 204);
    let members = members(&["chat-0", "chat-1"], Arc::new(MemoryStore::default())).await;
    for member in &members {
        assert_eq!(member.delete("/v1/users/7").await.status, 204);
    }
}
