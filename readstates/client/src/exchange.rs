//! One request to one member, and its answer.
//!
//! What matters when there is no answer: whether the request can have reached the member. A connection
//! that was never made means that nothing was done; anything after that leaves the outcome open.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use readstates_api::{Version, headers as ours};
use serde::Serialize;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};

use crate::{
    config::{Config, ConfigError},
    error::Outcome,
    token::Token,
};

/// How long a member that refused a frame of version 2 is sent none: it may be replaced by one that knows it.
const FRAMES_AGAIN: Duration = Duration::from_secs(30);

/// Binary rows; JSON from a member of an earlier release.
const ROWS_OR_JSON: &str = "application/vnd.readstates.rows, application/json;q=0.5";

/// Where requests go: a member, or what stands behind a seed.
#[derive(Debug)]
pub(crate) struct Destination {
    /// `http://host:port`, as seen from here.
    pub(crate) url: String,
    turns: Semaphore,
    /// When it refused a frame of version 2, which an earlier release does not know.
    refused_frames: Mutex<Option<Instant>>,
}

impl Destination {
    pub(crate) fn new(url: String, config: &Config) -> Arc<Self> {
        Arc::new(Self {
            url,
            turns: Semaphore::new(config.max_in_flight_per_member),
            refused_frames: Mutex::new(None),
        })
    }

    /// It does not know frames of version 2.
    pub(crate) fn refuses_frames(&self) {
        *self.refused_frames() = Some(Instant::now());
    }

    /// Whether it may know frames of version 2.
    pub(crate) fn may_take_frames(&self) -> bool {
        self.refused_frames()
            .is_none_or(|refused| refused.elapsed() >= FRAMES_AGAIN)
    }

    fn refused_frames(&self) -> MutexGuard<'_, Option<Instant>> {
        self.refused_frames
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request, the same for every attempt.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// What it is for, after "failed to".
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Option<(&'static str, Bytes)>,
    /// The version that the caller has: an answer is wanted only when there is another.
    pub(crate) known: Option<Version>,
    /// The version at which it is to be applied, and at no other.
    pub(crate) only_at: Option<Version>,
    /// Whether it may be sent again when its outcome is unknown.
    pub(crate) repeats: bool,
    /// Whether its answer may be in binary: only of what asks for read states.
    pub(crate) takes_rows: bool,
}

impl Request {
    /// A request without a body.
    pub(crate) fn plain(operation: &'static str, method: Method, path: String) -> Self {
        Self {
            operation,
            method,
            path,
            body: None,
            known: None,
            only_at: None,
            repeats: true,
            takes_rows: false,
        }
    }

    /// A request for read states.
    pub(crate) fn states(operation: &'static str, path: String) -> Self {
        Self {
            takes_rows: true,
            ..Self::plain(operation, Method::GET, path)
        }
    }

    /// The same request, to be applied at this version alone: then it is applied at most once, however often it is
    /// sent.
    pub(crate) fn only_at(self, version: Version) -> Self {
        Self {
            only_at: Some(version),
            repeats: true,
            ..self
        }
    }

    /// The same request, which may do more when it is applied twice.
    pub(crate) fn once(self) -> Self {
        Self {
            repeats: false,
            ..self
        }
    }

    /// A request with a body of JSON.
    pub(crate) fn json(
        operation: &'static str,
        method: Method,
        path: String,
        body: &impl Serialize,
    ) -> Self {
        // The bodies of the API are numbers, strings and lists: nothing that JSON cannot say.
        let json = serde_json::to_vec(body).unwrap_or_default();
        Self {
            body: Some(("application/json", json.into())),
            ..Self::plain(operation, method, path)
        }
    }
}

/// What came back, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Nothing came back.
#[derive(Debug)]
pub(crate) enum Silence {
    /// The client's own bound: the request was not sent.
    Busy,
    /// The request may have reached a member, or not: see `outcome`.
    Lost {
        outcome: Outcome,
        source: reqwest::Error,
    },
}

/// Sends requests.
#[derive(Debug)]
pub(crate) struct Exchanges {
    http: reqwest::Client,
    token: Option<Token>,
    turns: Semaphore,
    attempt_timeout: Duration,
}

impl Exchanges {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let builder = reqwest::Client::builder()
            .connect_timeout(config.connect_timeout)
            .pool_max_idle_per_host(config.max_in_flight_per_member)
            .pool_idle_timeout(crate::config::POOL_IDLE)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        let builder = match &config.tls {
            Some(tls) => builder.tls_backend_preconfigured(tls.client_config()?),
            // No CA is trusted, and the system's CAs, which may be missing, are not looked for.
            None if config.is_plain() => builder.tls_certs_only([]),
            None => builder,
        };
        let http = builder.build()?;
        Ok(Self {
            http,
            token: config.token.clone(),
            turns: Semaphore::new(config.max_in_flight),
            attempt_timeout: config.attempt_timeout,
        })
    }

    /// One attempt: waits for its turn, sends, reads the whole answer.
    ///
    /// `direct`: the destination is to answer 421 when it is not the owner, and not to forward.
    pub(crate) async fn send(
        &self,
        to: &Destination,
        request: &Request,
        direct: bool,
        deadline: Instant,
    ) -> Result<Answer, Silence> {
        let _turns = self.turn(to, deadline).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        let waits = left.min(self.attempt_timeout);
        let mut building = self
            .request(
                request.method.clone(),
                format!("{}{}", to.url, request.path),
            )
            .timeout(waits)
            .header(ours::TIMEOUT, millis(waits));
        if direct {
            building = building.header(ours::DIRECT, "1");
        }
        if request.takes_rows {
            building = building.header(header::ACCEPT, ROWS_OR_JSON);
        }
        if let Some(known) = request.known {
            building = building.header(header::IF_NONE_MATCH, etag(known));
        }
        if let Some(version) = request.only_at {
            building = building.header(header::IF_MATCH, etag(version));
        }
        if let Some((content_type, body)) = &request.body {
            building = building
                .header(header::CONTENT_TYPE, *content_type)
                .body(body.clone());
        }
        answer_of(building).await
    }

    /// A permit of the client and one of the destination. The client's own comes last: a call that waits for
    /// a slow member must not keep other calls from asking other members.
    async fn turn<'a>(
        &'a self,
        to: &'a Destination,
        deadline: Instant,
    ) -> Result<(SemaphorePermit<'a>, SemaphorePermit<'a>), Silence> {
        let both = async {
            let there = to.turns.acquire().await;
            let here = self.turns.acquire().await;
            // Neither is ever closed.
            Some((there.ok()?, here.ok()?))
        };
        match timeout_at(deadline, both).await {
            Ok(Some(permits)) => Ok(permits),
            Ok(None) | Err(_) => Err(Silence::Busy),
        }
    }

    /// The ring; with `after`, once it has a greater number than that. Takes no permits: it is one request
    /// at a time.
    pub(crate) async fn ring(
        &self,
        from: &Destination,
        after: Option<u64>,
        timeout: Duration,
    ) -> Result<Answer, Silence> {
        let query = after.map_or_else(String::new, |after| format!("?after={after}"));
        let url = format!("{}/v1/ring{query}", from.url);
        answer_of(self.request(Method::GET, url).timeout(timeout)).await
    }

    fn request(&self, method: Method, url: String) -> reqwest::RequestBuilder {
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.header(header::AUTHORIZATION, token.header()),
            None => request,
        }
    }
}

fn etag(version: Version) -> String {
    format!("\"{version}\"")
}

/// The version that an answer has as its entity tag.
pub(crate) fn version(headers: &HeaderMap) -> Option<Version> {
    let etag = headers.get(header::ETAG)?.to_str().ok()?;
    let version = etag.strip_prefix('"')?.strip_suffix('"')?;
    version.parse().ok().map(Version)
}

/// As the header says it, which knows neither 0 nor more than it allows.
fn millis(waits: Duration) -> HeaderValue {
    let waits = waits.min(ours::MAX_TIMEOUT).as_millis();
    HeaderValue::from(u64::try_from(waits).unwrap_or(u64::MAX).max(1))
}

async fn answer_of(request: reqwest::RequestBuilder) -> Result<Answer, Silence> {
    let lost = |source: reqwest::Error| Silence::Lost {
        outcome: if source.is_connect() || source.is_builder() {
            Outcome::NothingDone
        } else {
            Outcome::Unknown
        },
        source,
    };
    let response = request.send().await.map_err(lost)?;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = response.bytes().await.map_err(lost)?;
    Ok(Answer {
        status,
        headers,
        body,
    })
}

/// The number of the ring that the answering member works by.
pub(crate) fn ring_number(headers: &HeaderMap) -> Option<u64> {
    headers.get(ours::RING)?.to_str().ok()?.parse().ok()
}
