//! HTTP to a Service or a pod, through the API server's proxy.
//!
//! Why the proxy: it resolves the Service to its ready endpoints at every request and so meets every
//! cache pod in turn, without a local process to look after (`kubectl port-forward svc/…` picks one pod and
//! stays with it). The cluster address itself is tested from inside a pod, see `tests/traffic.rs`.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use http::{HeaderMap, Request, StatusCode};
use kube::{Client, client::Body};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::wait::{Look, until};

/// A planned change may pause the service for about this long at most.
const PATIENCE: Duration = Duration::from_mins(2);

/// Where requests go.
#[derive(Clone)]
pub struct Http {
    client: Client,
    base: String,
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Http").field(&self.base).finish()
    }
}

/// A response, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as JSON; a string when it is none.
    pub body: Value,
}

/// What the API answers about one channel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadState {
    /// Decimal.
    pub channel_id: String,
    /// Decimal; `None` when nothing was read yet.
    pub last_message_id: Option<String>,
    /// Mentions since then.
    pub mention_count: u32,
    /// Opaque to the service.
    pub flags: u32,
    /// Days since 2015.
    pub last_viewed: u16,
    /// RFC 3339.
    pub last_pin_timestamp: Option<String>,
    /// The user's version at the last change.
    pub version: String,
}

#[derive(Deserialize)]
struct UserBody {
    read_states: Vec<ReadState>,
}

impl Http {
    pub(crate) fn new(client: Client, base: String) -> Self {
        Self { client, base }
    }

    /// One request, one answer.
    ///
    /// # Errors
    /// When the API server cannot be reached.
    pub async fn once(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let uri = format!("{}{path}", self.base);
        let mut request = Request::builder().method(method).uri(&uri);
        let body = match body {
            None => Body::from(Vec::new()),
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(serde_json::to_vec(body)?)
            }
        };
        let response = self
            .client
            .send(request.body(body)?)
            .await
            .with_context(|| format!("failed to send {method} {uri}"))?;
        let (parts, body) = response.into_parts();
        let bytes = body
            .collect_bytes()
            .await
            .with_context(|| format!("failed to read {uri}"))?;
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    /// As a client does it: asked to come back later, it comes back later. Every operation may be sent again.
    ///
    /// # Errors
    /// Any other status than 2xx, or unavailable for too long.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let what = format!("{method} {path}");
        let answer = until(&what, PATIENCE, async || {
            let answer = self.once(method, path, body).await?;
            Ok(match answer.status.as_u16() {
                429 | 502..=504 => Look::NotYet(format!("{}: {}", answer.status, answer.body)),
                _ => Look::Done(answer),
            })
        })
        .await?;
        if !answer.status.is_success() {
            bail!("{what}: {}: {}", answer.status, answer.body);
        }
        let text = answer.body.to_string();
        serde_json::from_value(answer.body).with_context(|| format!("{what} answered {text}"))
    }

    /// Acknowledges; gives the read state after it.
    ///
    /// # Errors
    /// As [`Http::send`].
    pub async fn ack(&self, user: u64, channel: u64, message: u64) -> Result<ReadState> {
        let path = format!("/v1/users/{user}/read-states/{channel}/ack");
        let body: Value = self
            .send(
                "POST",
                &path,
                Some(&json!({ "message_id": message.to_string() })),
            )
            .await?;
        Ok(serde_json::from_value(body["read_state"].clone())?)
    }

    /// Counts a mention for each of `users`; gives how many it was new to.
    ///
    /// # Errors
    /// As [`Http::send`], and when it failed for some.
    pub async fn mention(&self, channel: u64, message: u64, users: &[u64]) -> Result<u64> {
        let users: Vec<String> = users.iter().map(ToString::to_string).collect();
        let body = json!({
            "channel_id": channel.to_string(),
            "message_id": message.to_string(),
            "user_ids": users,
        });
        let answer: Value = self.send("POST", "/v1/mentions", Some(&body)).await?;
        ensure!(answer["failed"] == json!([]), "mentions failed: {answer}");
        answer["applied"]
            .as_u64()
            .with_context(|| format!("no number applied: {answer}"))
    }

    /// Every read state of a user.
    ///
    /// # Errors
    /// As [`Http::send`].
    pub async fn read(&self, user: u64) -> Result<Vec<ReadState>> {
        let body: UserBody = self
            .send("GET", &format!("/v1/users/{user}/read-states"), None)
            .await?;
        Ok(body.read_states)
    }
}
