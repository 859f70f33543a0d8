//! `If-Match`: a change at one version of the user, made once however often it is sent, wherever it is sent.

use std::sync::Arc;

use crate::common::{Answer, NEVER, Running, alone, config, members, on, owner_of};
use futures::future::join_all;
use readstates::store::{MemoryStore, Store};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

/// A change of user 1 with this `If-Match`, and what it is.
async fn change(
    member: &Running,
    (method, path, body): (Method, &str, Option<Value>),
    if_match: &str,
) -> Answer {
    let headers = [JSON, ("if-match", if_match)];
    let body = body.map(|body| body.to_string().into_bytes());
    member.send(method, path, &headers, body).await
}

/// One of each kind of change of user 1, all about channel 10.
fn changes(message: u64) -> Vec<(Method, &'static str, Option<Value>)> {
    let ack = "/v1/users/1/read-states/10/ack";
    vec![
        (Method::POST, ack, Some(json!({"message_id": message + 1}))),
        (
            Method::POST,
            ack,
            Some(json!({"message_id": message, "manual": true, "mention_count": 3})),
        ),
        (
            Method::POST,
            "/v1/users/1/read-states/10/pins/ack",
            Some(json!({"last_pin_timestamp": format!("20{message}-01-01T00:00:00Z")})),
        ),
        (
            Method::POST,
            "/v1/users/1/read-states/ack-bulk",
            Some(json!({"read_states": [{"channel_id": 10, "message_id": message + 2}]})),
        ),
        (
            Method::POST,
            "/v1/mentions",
            Some(json!({"channel_id": 10, "message_id": message + 5, "user_ids": [1]})),
        ),
        (Method::DELETE, "/v1/users/1/read-states/10", None),
        (Method::DELETE, "/v1/users/1", None),
    ]
}

async fn everything(member: &Running) -> String {
    member.get("/v1/users/1/read-states").await.text
}

#[tokio::test]
async fn a_change_is_made_at_the_version_that_it_is_for_and_at_no_other() {
    let members = members(&["chat-0", "chat-1"], Arc::new(MemoryStore::default())).await;
    let owner = owner_of(&members, 1);
    for (round, member) in [&members[owner], &members[1 - owner]]
        .into_iter()
        .enumerate()
    {
        for request in changes(20 + 10 * round as u64) {
            member.ack(1, 10, 1).await;
            let (before, version) = (everything(member).await, member.version(1).await);
            for wrong in [version - 1, version + 1, 0] {
                let refused = change(member, request.clone(), &format!("\"{wrong}\"")).await;
                let problem = refused.refused(412, "version-moved");
                assert_eq!(problem["version"], version.to_string(), "{request:?}");
                assert_eq!(refused.header("etag"), Some(&*format!("\"{version}\"")));
            }
            assert_eq!(everything(member).await, before, "{request:?}");
            let right = format!("W/\"7\", \"x\", \"{version}\"");
            let made = change(member, request.clone(), &right).await;
            assert!(made.status.is_success(), "{request:?}: {}", made.text);
            let after = member.version(1).await;
            assert!(after > version, "{request:?}");
            // The same again, as after a lost answer.
            let again = change(member, request.clone(), &right).await;
            let problem = again.refused(412, "version-moved");
            assert_eq!(problem["version"], after.to_string());
            assert_eq!(member.version(1).await, after);
        }
    }
}

#[tokio::test]
async fn a_list_in_several_lines_is_one_list_also_for_another_members_user() {
    let members = members(&["chat-0", "chat-1"], Arc::new(MemoryStore::default())).await;
    let member = &members[1 - owner_of(&members, 1)];
    member.ack(1, 10, 1).await;
    let version = format!("\"{}\"", member.version(1).await);
    let headers = [("if-match", "\"99\""), ("if-match", &*version)];
    let path = "/v1/users/1/read-states/10";
    let deleted = member.send(Method::DELETE, path, &headers, None).await.ok();
    assert_eq!(deleted["applied"], true);
}

#[tokio::test]
async fn of_many_who_come_with_one_version_one_is_served() {
    let members = members(
        &["chat-0", "chat-1", "chat-2"],
        Arc::new(MemoryStore::default()),
    )
    .await;
    members[0].ack(1, 10, 1000).await;
    let version = format!("\"{}\"", members[0].version(1).await);
    let asks = (0..90_u64).map(|turn| {
        let body = json!({"message_id": 1 + turn, "manual": true});
        let request = (Method::POST, "/v1/users/1/read-states/10/ack", Some(body));
        change(&members[turn as usize % 3], request, &version)
    });
    let answers = join_all(asks).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers
        .iter()
        .partition(|answer| answer.status == StatusCode::OK);
    assert_eq!((made.len(), refused.len()), (1, 89));
    let now = members[0].version(1).await;
    for answer in refused {
        let problem = answer.refused(412, "version-moved");
        assert_eq!(problem["version"], now.to_string());
    }
    assert_eq!(made[0].ok()["version"], now.to_string());
}

#[tokio::test]
async fn it_holds_for_a_user_who_has_to_be_loaded_and_for_one_never_seen() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let first = on(Arc::clone(&store), config(NEVER)).await;
    first.ack(1, 10, 1).await;
    let version = format!("\"{}\"", first.version(1).await);
    first.stop().await;

    let member = on(store, config(NEVER)).await;
    let asks = (0..50_u64).map(|turn| {
        let body = json!({"message_id": 100 + turn, "manual": true});
        let request = (Method::POST, "/v1/users/1/read-states/10/ack", Some(body));
        change(&member, request, &version)
    });
    let made = join_all(asks).await;
    let made = made.iter().filter(|answer| answer.status == StatusCode::OK);
    assert_eq!(
        made.count(),
        1,
        "the version of the process before is the user's"
    );
    let new = (Method::DELETE, "/v1/users/2", None);
    assert_eq!(change(&member, new.clone(), "\"0\"").await.status, 204);
    change(&member, new, "\"1\"")
        .await
        .refused(412, "version-moved");
}

#[tokio::test]
async fn what_was_done_since_survives_a_repetition() {
    let member = alone().await;
    let manual = (
        Method::POST,
        "/v1/users/1/read-states/10/ack",
        Some(json!({"message_id": 300, "manual": true})),
    );
    let mention = (
        Method::POST,
        "/v1/mentions",
        Some(json!({"channel_id": 10, "message_id": 500, "user_ids": [1]})),
    );
    member.ack(1, 10, 400).await;
    let version = format!("\"{}\"", member.version(1).await);
    assert_eq!(change(&member, manual.clone(), &version).await.status, 200);
    let mentioned = format!("\"{}\"", member.version(1).await);
    let counted = change(&member, mention.clone(), &mentioned).await.ok();
    assert_eq!(counted, json!({"applied": 1, "ignored": 0, "failed": []}));
    member.ack(1, 10, 900).await;
    change(&member, manual, &version)
        .await
        .refused(412, "version-moved");
    assert_eq!(member.state(1, 10).await, Some((900, 0)));
    // And what is deleted stays so.
    member.delete("/v1/users/1/read-states/10").await.ok();
    change(&member, mention, &mentioned)
        .await
        .refused(412, "version-moved");
    assert_eq!(member.state(1, 10).await, None);
}

#[tokio::test]
async fn a_star_asks_for_a_read_state_and_a_weak_tag_is_that_of_no_user() {
    let member = alone().await;
    let deletion = (Method::DELETE, "/v1/users/1/read-states/10", None);
    let erasure = (Method::DELETE, "/v1/users/1", None);
    change(&member, deletion.clone(), "*")
        .await
        .refused(412, "version-moved");
    change(&member, erasure.clone(), "*")
        .await
        .refused(412, "version-moved");
    member.ack(1, 11, 1).await;
    change(&member, deletion.clone(), "*")
        .await
        .refused(412, "version-moved");
    member.ack(1, 10, 1).await;
    let weak = format!("W/\"{}\"", member.version(1).await);
    change(&member, deletion.clone(), &weak)
        .await
        .refused(412, "version-moved");
    assert_eq!(change(&member, deletion, "*").await.status, 200);
    assert_eq!(change(&member, erasure, "*").await.status, 204);
}

#[tokio::test]
async fn a_header_that_cannot_be_understood_changes_nothing() {
    let member = alone().await;
    member.ack(1, 10, 1).await;
    let before = everything(&member).await;
    for value in ["57", "\"57", "*, \"57\"", ""] {
        for request in changes(20) {
            change(&member, request, value)
                .await
                .refused(400, "bad-value");
        }
    }
    let two = json!({"channel_id": 10, "message_id": 5, "user_ids": [1, 2]});
    let two = change(&member, (Method::POST, "/v1/mentions", Some(two)), "\"1\"").await;
    assert_eq!(two.refused(400, "bad-value")["pointer"], "/user_ids");
    let headers = [
        ("content-type", "application/vnd.readstates.batch"),
        ("if-match", "\"1\""),
    ];
    let batch = member
        .send(Method::POST, "/v1/batch", &headers, Some(Vec::new()))
        .await;
    batch.refused(400, "bad-value");
    assert_eq!(everything(&member).await, before);
}
