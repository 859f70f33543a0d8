//! HTTP to a Service or a pod, with a caller's token, through port-forwards of the API server.
//!
//! Its proxy would be simpler, but keeps the header `Authorization` to itself. `kubectl port-forward svc/…` picks one
//! pod and stays with it; here every request to a Service goes to the next of its ready pods. The cluster address
//! itself is tested from inside a pod, see `tests/cluster/traffic.rs`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, api::ListParams};
use reqwest::Client;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    forward::Forwards,
    specs::TOKEN,
    wait::{Look, until},
};

/// A planned change may pause the service for about this long at most.
const PATIENCE: Duration = Duration::from_mins(2);
/// A member answers within seven seconds, if only that it cannot; the rest is for port-forwards on a busy machine.
const ANSWERS: Duration = Duration::from_secs(20);

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client,
    forwards: Arc<Forwards>,
    target: Target,
    token: Option<String>,
}

/// Which pod gets a request.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Pod(String),
    /// Each ready pod of a Service in turn.
    Service(Arc<Service>),
}

/// A Service: requests go to its ready pods in turn.
#[derive(Debug)]
pub(crate) struct Service {
    name: String,
    slices: Api<EndpointSlice>,
    turn: AtomicUsize,
}

impl Target {
    /// The pods behind a Service, by its name.
    pub(crate) fn service(name: &str, slices: Api<EndpointSlice>) -> Self {
        Self::Service(Arc::new(Service {
            name: name.to_owned(),
            slices,
            turn: AtomicUsize::default(),
        }))
    }

    /// The pod for the next request.
    async fn pod(&self) -> Result<String> {
        match self {
            Self::Pod(name) => Ok(name.clone()),
            Self::Service(service) => service.pod().await,
        }
    }
}

impl Service {
    async fn pod(&self) -> Result<String> {
        let selector = format!("kubernetes.io/service-name={}", self.name);
        let selector = ListParams::default().labels(&selector);
        let slices = self.slices.list(&selector).await?;
        let mut pods: Vec<String> = slices.items.into_iter().flat_map(ready_pods).collect();
        ensure!(
            !pods.is_empty(),
            "no pod behind Service {} is ready",
            self.name
        );
        pods.sort();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % pods.len();
        Ok(pods.swap_remove(turn))
    }
}

fn ready_pods(slice: EndpointSlice) -> impl Iterator<Item = String> {
    let ready = slice.endpoints.into_iter().flatten().filter(|endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.is_some_and(|conditions| conditions.ready == Some(true))
    });
    ready.filter_map(|endpoint| endpoint.target_ref?.name)
}

/// A response, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
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
    pub(crate) fn new(forwards: Arc<Forwards>, target: Target) -> Result<Self> {
        // Plain HTTP only: no CA is needed.
        let client = Client::builder().no_proxy().tls_certs_only([]);
        Ok(Self {
            client: client.timeout(ANSWERS).build()?,
            forwards,
            target,
            token: Some(TOKEN.to_owned()),
        })
    }

    /// The same target, with another token or without one.
    #[must_use]
    pub fn by(&self, token: Option<&str>) -> Self {
        Self {
            token: token.map(str::to_owned),
            ..self.clone()
        }
    }

    /// One request, one answer.
    ///
    /// # Errors
    /// When no pod can be reached, or it does not answer.
    pub async fn once(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let pod = self.target.pod().await?;
        let address = self.forwards.to(&pod).await?;
        let method = method.parse::<http::Method>()?;
        let url = format!("http://{address}{path}");
        let mut request = self.client.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await;
        let response = response.with_context(|| format!("{pod} did not answer"))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.bytes().await;
        let bytes = bytes.with_context(|| format!("{pod} did not answer to the end"))?;
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    /// As a client does it: asked to come back later, or not answered at all, it comes back later. Every operation
    /// may be sent again.
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
            let answer = match self.once(method, path, body).await {
                Ok(answer) => answer,
                Err(error) => return Ok(Look::NotYet(format!("{error:#}"))),
            };
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
