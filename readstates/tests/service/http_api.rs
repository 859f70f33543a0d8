//! The HTTP contract of one member: what requests mean and what is answered.

use crate::common::{alone, config, on};
use readstates::store::MemoryStore;
use readstates_api::{
    AckAnswer, FailedUser, MentionsAnswer, ProblemType, ReadStates, RingDocument,
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

#[tokio::test]
async fn a_user_never_seen_is_empty_at_version_0() {
    let member = alone().await;
    let answer = member.get("/v1/users/1/read-states").await;
    let expected = json!({"user_id": "1", "version": "0", "partial": false, "read_states": []});
    assert_eq!(answer.ok(), expected);
    assert_eq!(answer.header("etag"), Some("\"0\""));
    assert_eq!(answer.header("x-readstates-ring"), Some("1"));
    member
        .get("/v1/users/1/read-states/5")
        .await
        .refused(404, "no-read-state");
}

#[tokio::test]
async fn an_ack_moves_forward_only_and_may_be_sent_again() {
    let member = alone().await;
    let first: AckAnswer = serde_json::from_value(member.ack(1, 10, 100).await).unwrap();
    assert!(first.applied);
    assert_eq!(first.read_state.version, first.version);
    for message in [100, 99] {
        let again: AckAnswer = serde_json::from_value(member.ack(1, 10, message).await).unwrap();
        assert_eq!(
            again,
            AckAnswer {
                applied: false,
                ..first.clone()
            }
        );
    }
    let next: AckAnswer = serde_json::from_value(member.ack(1, 10, 101).await).unwrap();
    assert!(next.applied && next.version.0 == first.version.0 + 1);
}

#[tokio::test]
async fn mentions_count_once_and_an_ack_amidst_them_leaves_the_rest() {
    let member = alone().await;
    let mention = |message: u64, users: Value| {
        let body =
            json!({"channel_id": "10", "message_id": message.to_string(), "user_ids": users});
        member.post("/v1/mentions", body)
    };
    let counted =
        |applied: u32, ignored: u32| json!({"applied": applied, "ignored": ignored, "failed": []});
    assert_eq!(mention(100, json!(["1", 2, "1"])).await.ok(), counted(2, 0));
    assert_eq!(
        mention(100, json!(["1", "2", "3"])).await.ok(),
        counted(1, 2)
    );
    assert_eq!(mention(102, json!(["1"])).await.ok(), counted(1, 0));
    assert_eq!(mention(101, json!(["1"])).await.ok(), counted(1, 0));
    assert_eq!(member.state(1, 10).await, Some((0, 3)));
    member.ack(1, 10, 101).await;
    assert_eq!(member.state(1, 10).await, Some((101, 1)));
    assert_eq!(mention(101, json!(["1"])).await.ok(), counted(0, 1));
    let body =
        json!({"channel_id": 10, "message_id": 200, "user_ids": [1], "count": 4294967295_u32});
    member.post("/v1/mentions", body).await.ok();
    assert_eq!(
        member.state(1, 10).await,
        Some((101, u64::from(u32::MAX))),
        "it saturates"
    );
    let summary = member.get("/v1/users/1/summary").await.ok();
    assert_eq!(summary["mention_count"], u32::MAX);
    assert_eq!(summary["channels_with_mentions"], 1);
}

#[tokio::test]
async fn a_manual_ack_goes_back_and_what_was_counted_is_not_counted_again() {
    let member = alone().await;
    let mention = json!({"channel_id": "10", "message_id": "100", "user_ids": ["1"]});
    member.post("/v1/mentions", mention.clone()).await.ok();
    member.ack(1, 10, 100).await;
    let manual = json!({"message_id": "50", "manual": true, "mention_count": 1});
    let path = "/v1/users/1/read-states/10/ack";
    assert_eq!(
        member.post(path, manual.clone()).await.ok()["applied"],
        true
    );
    assert_eq!(member.state(1, 10).await, Some((50, 1)));
    assert_eq!(member.post(path, manual).await.ok()["applied"], false);
    assert_eq!(
        member.post("/v1/mentions", mention).await.ok()["ignored"],
        1
    );
    let unread = json!({"message_id": "40", "manual": true});
    assert_eq!(
        member.post(path, unread).await.ok()["read_state"]["mention_count"],
        0
    );
}

#[tokio::test]
async fn flags_are_set_and_the_last_visit_only_grows() {
    let member = alone().await;
    let path = "/v1/users/1/read-states/10/ack";
    let visit = |message: u64, flags: u32, day: u16| json!({"message_id": message, "flags": flags, "last_viewed": day});
    member.post(path, visit(1, 5, 4112)).await.ok();
    let state = &member.post(path, visit(2, 1, 4000)).await.ok()["read_state"];
    assert_eq!(
        (&state["flags"], &state["last_viewed"]),
        (&json!(1), &json!(4112))
    );
    let ignored = member.post(path, visit(2, 7, 5000)).await.ok();
    assert_eq!(ignored["applied"], false);
    assert_eq!(
        ignored["read_state"]["flags"], 1,
        "an ack that is ignored changes nothing"
    );
}

#[tokio::test]
async fn pins_move_forward_and_an_ack_keeps_them() {
    let member = alone().await;
    let path = "/v1/users/1/read-states/10/pins/ack";
    let pin = |time: &str| json!({"last_pin_timestamp": time});
    let answer = member
        .post(path, pin("2026-02-03T04:05:06.789Z"))
        .await
        .ok();
    let expected = json!({
        "channel_id": "10", "last_message_id": null, "mention_count": 0, "flags": 0,
        "last_viewed": 0, "last_pin_timestamp": "2026-02-03T04:05:06.789Z",
        "version": answer["version"],
    });
    assert_eq!(answer["read_state"], expected);
    assert_eq!(
        member
            .post(path, pin("2026-02-03T05:05:06.789+01:00"))
            .await
            .ok()["applied"],
        false
    );
    assert_eq!(
        member.post(path, pin("2025-01-01T00:00:00Z")).await.ok()["applied"],
        false
    );
    let state = &member.ack(1, 10, 5).await["read_state"];
    assert_eq!(state["last_pin_timestamp"], "2026-02-03T04:05:06.789Z");
}

#[tokio::test]
async fn a_bulk_is_answered_in_order() {
    let member = alone().await;
    member.ack(1, 20, 100).await;
    let items: Vec<Value> = [(30, 1), (20, 99), (20, 101), (30, 1)]
        .map(|(channel, message)| json!({"channel_id": channel, "message_id": message.to_string()}))
        .into();
    let body = json!({"read_states": items});
    let answer = member
        .post("/v1/users/1/read-states/ack-bulk", body)
        .await
        .ok();
    let applied: Vec<bool> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["applied"].as_bool().unwrap())
        .collect();
    assert_eq!(applied, [true, false, true, false]);
    assert_eq!(answer["results"][0]["channel_id"], "30");
    assert_eq!(answer["version"], member.version(1).await.to_string());
}

#[tokio::test]
async fn since_tells_changes_and_deletions_and_gives_everything_when_it_cannot() {
    let member = alone().await;
    member.ack(1, 10, 1).await;
    let then = member.version(1).await;
    member.ack(1, 20, 1).await;
    member.ack(1, 30, 1).await;
    let deleted = member.delete("/v1/users/1/read-states/20").await.ok();
    assert_eq!(deleted["applied"], true);
    assert_eq!(
        member.delete("/v1/users/1/read-states/20").await.ok()["applied"],
        false
    );
    let since = async |version: u64| -> ReadStates {
        let path = format!("/v1/users/1/read-states?since={version}");
        serde_json::from_value(member.get(&path).await.ok()).unwrap()
    };
    let changes = since(then).await;
    let channels = |states: &ReadStates| -> Vec<u64> {
        states
            .read_states
            .iter()
            .map(|state| state.channel_id.get())
            .collect()
    };
    assert!(changes.partial);
    assert_eq!(channels(&changes), [30]);
    assert_eq!(
        changes
            .deleted
            .as_ref()
            .unwrap()
            .iter()
            .map(|id| id.get())
            .collect::<Vec<_>>(),
        [20]
    );
    let nothing = since(changes.version.0).await;
    assert!(nothing.partial && nothing.read_states.is_empty());
    let ahead = since(changes.version.0 + 1).await;
    assert!(!ahead.partial && ahead.deleted.is_none());
    assert_eq!(channels(&ahead), [10, 30]);
}

#[tokio::test]
async fn an_unchanged_user_is_not_sent_again() {
    let member = alone().await;
    member.ack(1, 10, 1).await;
    let path = "/v1/users/1/read-states";
    let etag = member.get(path).await.header("etag").unwrap().to_owned();
    let weak = format!("\"x\", W/{etag}");
    for tag in [etag.as_str(), weak.as_str(), "*"] {
        let answer = member
            .send(Method::GET, path, &[("if-none-match", tag)], None)
            .await;
        assert_eq!(answer.status, StatusCode::NOT_MODIFIED, "{tag}");
        assert_eq!(
            (answer.text.as_str(), answer.header("etag")),
            ("", Some(etag.as_str()))
        );
    }
    member.ack(1, 10, 2).await;
    let answer = member
        .send(Method::GET, path, &[("if-none-match", &etag)], None)
        .await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn a_deleted_user_is_gone_and_its_version_does_not_go_back() {
    let member = alone().await;
    member.ack(1, 10, 1).await;
    let before = member.version(1).await;
    assert_eq!(
        member.delete("/v1/users/1").await.status,
        StatusCode::NO_CONTENT
    );
    let states = member.get("/v1/users/1/read-states").await.ok();
    assert_eq!(states["read_states"], json!([]));
    assert!(member.version(1).await > before);
    assert_eq!(
        member.delete("/v1/users/1").await.status,
        StatusCode::NO_CONTENT
    );
    let after = member.version(1).await;
    member.ack(1, 10, 1).await;
    assert_eq!(member.version(1).await, after + 1);
}

#[tokio::test]
async fn probes_metrics_ring_and_api_description_are_served() {
    let member = on(
        std::sync::Arc::new(MemoryStore::default()),
        readstates::config::ServeConfig {
            zone: Some("z1".into()),
            ..config(crate::common::NEVER)
        },
    )
    .await;
    assert_eq!(member.get("/livez").await.status, StatusCode::OK);
    assert_eq!(member.get("/readyz").await.status, StatusCode::OK);
    member.ack(1, 10, 1).await;
    let metrics = member.get("/metrics").await.text;
    for line in [
        "readstates_operations_applied_total 1",
        "readstates_dirty_users 1",
        "readstates_store_healthy 1",
        "readstates_requests_total{route=\"/v1/users/{user}/read-states/{channel}/ack\",method=\"POST\",status=\"200\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    let answer = member.get("/v1/ring").await;
    let ring: RingDocument = serde_json::from_value(answer.ok()).unwrap();
    assert_eq!(
        (ring.number, ring.slots, ring.owners.len()),
        (1, 1024, 1024)
    );
    assert_eq!(ring.members[0].zone.as_deref(), Some("z1"));
    assert_eq!(ring.members[0].incarnation.as_ref().unwrap().len(), 16);
    let etag = answer.header("etag").unwrap();
    let same = member
        .send(Method::GET, "/v1/ring", &[("if-none-match", etag)], None)
        .await;
    assert_eq!(same.status, StatusCode::NOT_MODIFIED);
    let api = member.get("/openapi.json").await.ok();
    assert!(api["paths"]["/v1/users/{user}/read-states/{channel}/ack"]["post"].is_object());
}

#[tokio::test]
async fn a_mention_of_a_hundred_thousand_users_reaches_all_of_them() {
    let member = alone().await;
    let all = Vec::from_iter((1..=100_000).map(|user: u64| user.to_string()));
    // On a machine that is busy not every user is loaded in time; the caller is told so, and sends those again.
    let mention = async |mut users: Vec<String>| {
        let (mut applied, mut ignored) = (0, 0);
        while !users.is_empty() {
            let body = json!({"channel_id": 10, "message_id": 100, "user_ids": users});
            let answer = member.post("/v1/mentions", body).await.ok();
            let answer: MentionsAnswer = serde_json::from_value(answer).unwrap();
            applied += answer.applied;
            ignored += answer.ignored;
            let away = |failed: &FailedUser| failed.problem == ProblemType::DatabaseAway;
            assert!(answer.failed.iter().all(away), "{:?}", answer.failed);
            users = Vec::from_iter(
                answer
                    .failed
                    .iter()
                    .map(|failed| failed.user_id.to_string()),
            );
        }
        (applied, ignored)
    };
    assert_eq!(mention(all.clone()).await, (100_000, 0));
    assert_eq!(mention(all).await, (0, 100_000));
    assert_eq!(member.state(77_777, 10).await, Some((0, 1)));
}
