//! Requests about a user, as clients make them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::common::{Answer, Running};

/// A request about a user.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    method: Method,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<String>,
}

impl Asked {
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) async fn send(self, member: &Running) -> Answer {
        let headers = self.headers.iter().map(|(name, value)| (*name, &**value));
        let headers: Vec<_> = headers.collect();
        let body = self.body.map(String::into_bytes);
        member.send(self.method, &self.path, &headers, body).await
    }
}

pub(super) fn asked(method: Method, path: String, body: Option<Value>) -> Asked {
    let request = Asked {
        method,
        path,
        headers: Vec::new(),
        body: body.as_ref().map(Value::to_string),
    };
    match body {
        Some(_) => request.with("content-type", "application/json"),
        None => request,
    }
}

pub(super) fn ack(user: u64, body: Value) -> Asked {
    let path = format!("/v1/users/{user}/read-states/10/ack");
    asked(Method::POST, path, Some(body))
}

pub(super) fn read(user: u64) -> Asked {
    asked(
        Method::GET,
        format!("/v1/users/{user}/read-states/10"),
        None,
    )
}

pub(super) fn mention(user: u64) -> Asked {
    let body = json!({"channel_id": 10, "message_id": 9, "user_ids": [user]});
    asked(Method::POST, "/v1/mentions".into(), Some(body))
}

/// One of each that has a place in a frame, and some that have not, one after the other.
pub(super) fn of_every_kind(user: u64) -> Vec<Asked> {
    let path = format!("/v1/users/{user}/read-states");
    let of = |method: Method, rest: &str| asked(method, format!("{path}{rest}"), None);
    let acked = |body: Value| ack(user, body);
    let pins = json!({"last_pin_timestamp": "2026-01-01T00:00:00Z"});
    let long = format!("{{\"message_id\": 51{}}}", " ".repeat(5000));
    vec![
        of(Method::GET, "/10"),
        acked(json!({"message_id": 5})),
        acked(json!({"message_id": 5})),
        acked(
            json!({"message_id": 4, "manual": true, "mention_count": 3, "flags": 7, "last_viewed": 4000}),
        ),
        acked(json!({"message_id": 4, "mention_count": 3})),
        acked(json!({"message_id": "x"})),
        acked(json!({"message_id": 6})).with("if-match", "\"1\""),
        acked(json!({"message_id": 6})).with("if-match", "\"0\", \"2\""),
        acked(json!({"message_id": 6})).with("if-match", "none"),
        of(Method::POST, "/20/ack").with("content-type", "text/plain"),
        of(Method::GET, "/10").with("accept-encoding", "zstd"),
        of(Method::HEAD, "/10"),
        asked(Method::POST, format!("{path}/10/pins/ack"), Some(pins)),
        mention(user),
        mention(user),
        mention(user).with("if-match", "\"1\""),
        of(Method::DELETE, "/30").with("if-match", "*"),
        asked(Method::GET, format!("/v1/users/{user}/summary"), None),
        of(Method::DELETE, "/10"),
        Asked {
            body: Some(long),
            ..acked(json!({}))
        },
        of(Method::GET, ""),
        asked(Method::DELETE, format!("/v1/users/{user}"), None),
        of(Method::GET, "/10"),
    ]
}
