//! The HTTP contract of one member: what is refused, how, and that it changes nothing.

use crate::common::alone;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn what_is_malformed_is_refused_with_its_place_and_changes_nothing() {
    let member = alone().await;
    let ack = "/v1/users/1/read-states/10/ack";
    let pins = "/v1/users/1/read-states/10/pins/ack";
    let bulk = "/v1/users/1/read-states/ack-bulk";
    let mentions = "/v1/mentions";
    let many = |count: usize| vec![json!({"channel_id": "1", "message_id": "1"}); count];
    let table: Vec<(&str, Value, u16, &str, Option<&str>)> = vec![
        (ack, json!({}), 400, "malformed-body", None),
        (ack, json!([]), 400, "malformed-body", None),
        (
            ack,
            json!({"message_id": "0"}),
            400,
            "malformed-body",
            Some("/message_id"),
        ),
        (
            ack,
            json!({"message_id": 0}),
            400,
            "malformed-body",
            Some("/message_id"),
        ),
        (
            ack,
            json!({"message_id": -1}),
            400,
            "malformed-body",
            Some("/message_id"),
        ),
        (
            ack,
            json!({"message_id": 1.5}),
            400,
            "malformed-body",
            Some("/message_id"),
        ),
        (
            ack,
            json!({"message_id": null}),
            400,
            "malformed-body",
            Some("/message_id"),
        ),
        (
            ack,
            json!({"message_id": "18446744073709551616"}),
            400,
            "malformed-body",
            Some("/message_id"),
        ),
        (
            ack,
            json!({"message_id": "1", "manaul": true}),
            400,
            "malformed-body",
            Some("/manaul"),
        ),
        (
            ack,
            json!({"message_id": "1", "mention_count": 1}),
            400,
            "bad-value",
            Some("/mention_count"),
        ),
        (
            ack,
            json!({"message_id": "1", "flags": -1}),
            400,
            "malformed-body",
            Some("/flags"),
        ),
        (
            ack,
            json!({"message_id": "1", "last_viewed": 65536}),
            400,
            "malformed-body",
            Some("/last_viewed"),
        ),
        (
            pins,
            json!({"last_pin_timestamp": "yesterday"}),
            400,
            "malformed-body",
            Some("/last_pin_timestamp"),
        ),
        (
            pins,
            json!({"last_pin_timestamp": "1969-12-31T23:59:59Z"}),
            400,
            "bad-value",
            Some("/last_pin_timestamp"),
        ),
        (
            bulk,
            json!({"read_states": []}),
            400,
            "bad-value",
            Some("/read_states"),
        ),
        (
            bulk,
            json!({"read_states": many(1001)}),
            413,
            "too-many-items",
            Some("/read_states"),
        ),
        (
            bulk,
            json!({"read_states": [{"channel_id": "1"}]}),
            400,
            "malformed-body",
            Some("/read_states/0"),
        ),
        (
            bulk,
            json!({"read_states": [{"channel_id": "1", "message_id": "x"}]}),
            400,
            "malformed-body",
            Some("/read_states/0/message_id"),
        ),
        (
            mentions,
            json!({"channel_id": 1, "message_id": 1, "user_ids": []}),
            400,
            "bad-value",
            Some("/user_ids"),
        ),
        (
            mentions,
            json!({"channel_id": 1, "message_id": 1, "user_ids": [1, 0]}),
            400,
            "malformed-body",
            Some("/user_ids/1"),
        ),
        (
            mentions,
            json!({"channel_id": 1, "message_id": 1, "user_ids": [1], "count": 0}),
            400,
            "bad-value",
            Some("/count"),
        ),
        (
            mentions,
            json!({"channel_id": 1, "message_id": 1, "user_ids": vec![1; 100_001]}),
            413,
            "too-many-items",
            Some("/user_ids"),
        ),
        (
            "/v1/users/0/read-states/10/ack",
            json!({"message_id": 1}),
            400,
            "bad-value",
            None,
        ),
        (
            "/v1/users/x/read-states/10/ack",
            json!({"message_id": 1}),
            400,
            "bad-value",
            None,
        ),
        (
            "/v1/users/1/read-states/0/ack",
            json!({"message_id": 1}),
            400,
            "bad-value",
            None,
        ),
        (
            "/v1/users/1/read-states/+1/ack",
            json!({"message_id": 1}),
            400,
            "bad-value",
            None,
        ),
        ("/v1/nothing", json!({}), 404, "no-route", None),
        (
            "/v1/users/1/read-states",
            json!({}),
            405,
            "method-not-allowed",
            None,
        ),
    ];
    for (path, body, status, name, pointer) in table {
        let shown: String = body.to_string().chars().take(100).collect();
        println!("{path} {shown}");
        let problem = member.post(path, body).await.refused(status, name);
        let at = problem.get("pointer").and_then(Value::as_str);
        assert_eq!(at, pointer, "{path} {shown}: {problem}");
    }
    assert_eq!(member.version(1).await, 0);
}

#[tokio::test]
async fn bodies_that_are_no_json_or_too_large_are_refused() {
    let member = alone().await;
    let path = "/v1/users/1/read-states/10/ack";
    let json = [("content-type", "application/json; charset=utf-8")];
    let send = |headers, body: &[u8]| member.send(Method::POST, path, headers, Some(body.to_vec()));
    send(&json, b"{\"message_id\":")
        .await
        .refused(400, "malformed-body");
    send(&json, b"{\"message_id\": 1} x")
        .await
        .refused(400, "malformed-body");
    send(&json, b"{\"message_id\": 1, \"message_id\": 2}")
        .await
        .refused(400, "malformed-body");
    send(&json, b"\xff\xfe")
        .await
        .refused(400, "malformed-body");
    send(&[], b"{\"message_id\": 1}")
        .await
        .refused(415, "unsupported-media-type");
    let plain = [("content-type", "text/plain")];
    send(&plain, b"{\"message_id\": 1}")
        .await
        .refused(415, "unsupported-media-type");
    let large = vec![b' '; (4 << 20) + 1];
    send(&json, &large).await.refused(413, "body-too-large");
    let nested = "[".repeat(100_000);
    send(&json, nested.as_bytes())
        .await
        .refused(400, "malformed-body");
}

#[tokio::test]
async fn a_query_that_is_not_understood_is_refused() {
    let member = alone().await;
    for query in [
        "since=x",
        "since=",
        "since=-1",
        "since=18446744073709551616",
        "sinse=1",
    ] {
        let path = format!("/v1/users/1/read-states?{query}");
        member.get(&path).await.refused(400, "bad-value");
    }
}

#[tokio::test]
async fn a_path_with_other_methods_names_them() {
    let member = alone().await;
    let answer = member
        .send(Method::PATCH, "/v1/users/1/read-states/10", &[], None)
        .await;
    answer.refused(405, "method-not-allowed");
    assert_eq!(answer.header("allow"), Some("GET,HEAD,DELETE"));
    let answer = member
        .send(Method::GET, "/admin/v1/capacity", &[], None)
        .await;
    answer.refused(405, "method-not-allowed");
    member
        .get("/admin/v1/nothing")
        .await
        .refused(404, "no-route");
}
