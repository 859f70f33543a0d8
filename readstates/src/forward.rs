//! Passing a request on to the owner of its user, once.
//!
//! A forwarded request carries the name of the member that forwards it; who receives one it does not
//! own refuses it, so a request never goes in circles. What the owner answers is answered. When it
//! does not answer, the difference matters: a connection that was never made means that nothing was
//! done, silence after sending means that the outcome is unknown.

use std::time::Duration;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use readstates_api::{Problem, ProblemType, headers};
use tokio::sync::Semaphore;

use crate::membership::Member;

/// The other members are near: one that has not accepted by then is gone or overrun.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// More than an owner waits for its database.
const TIMEOUT: Duration = Duration::from_secs(6);
/// A mention of many users who are not cached is many loads.
const MENTIONS_TIMEOUT: Duration = Duration::from_secs(60);
/// Requests under way to one member; what is over it is refused at once.
const MOST_PER_PEER: usize = 512;
/// Connections kept open to one member.
const IDLE_PER_PEER: usize = 64;

/// Headers of a request that mean something to the owner.
const REQUEST_HEADERS: [HeaderName; 3] =
    [header::CONTENT_TYPE, header::IF_NONE_MATCH, header::ACCEPT];
/// Headers of the owner's answer that mean something to the client.
const RESPONSE_HEADERS: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::ETAG,
    header::RETRY_AFTER,
    header::ALLOW,
];

/// Talks to the other members.
#[derive(Debug)]
pub struct Forwarder {
    client: reqwest::Client,
    /// This member's name, as the header says it.
    me: HeaderValue,
    permits: Vec<Semaphore>,
}

/// Why there is no forwarder.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up the client for the other members")]
pub struct ForwarderError(#[from] reqwest::Error);

/// A request to pass on.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) method: Method,
    pub(crate) path_and_query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Forwarder {
    /// A forwarder for the member `me` in a table of `members`.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub fn new(me: &str, members: usize) -> Result<Self, ForwarderError> {
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_PEER)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self {
            client,
            // Member names are ASCII letters, digits and ". _ -".
            me: HeaderValue::from_str(me).unwrap_or_else(|_| HeaderValue::from_static("unnamed")),
            permits: (0..members)
                .map(|_| Semaphore::new(MOST_PER_PEER))
                .collect(),
        })
    }

    /// Passes a request on to the member at `index` of the table and returns its answer.
    pub(crate) async fn pass(
        &self,
        index: usize,
        member: &Member,
        request: Passed,
    ) -> Result<Response, Problem> {
        let mut kept = HeaderMap::new();
        for name in REQUEST_HEADERS {
            if let Some(value) = request.headers.get(&name) {
                kept.insert(name, value.clone());
            }
        }
        let request = Passed {
            headers: kept,
            ..request
        };
        let answer = self.send(index, member, request, TIMEOUT).await?;
        let mut response = answer.status().into_response();
        for name in RESPONSE_HEADERS {
            if let Some(value) = answer.headers().get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        *response.body_mut() = Body::from_stream(answer.bytes_stream());
        Ok(response)
    }

    /// Sends a part of a mention to its owner; returns status and body.
    pub(crate) async fn mention(
        &self,
        index: usize,
        member: &Member,
        body: Bytes,
    ) -> Result<(http::StatusCode, Bytes), Problem> {
        let json = HeaderValue::from_static("application/json");
        let request = Passed {
            method: Method::POST,
            path_and_query: "/v1/mentions".into(),
            headers: HeaderMap::from_iter([(header::CONTENT_TYPE, json)]),
            body,
        };
        let answer = self.send(index, member, request, MENTIONS_TIMEOUT).await?;
        let status = answer.status();
        let body = answer
            .bytes()
            .await
            .map_err(|error| silent(member, false, &error))?;
        Ok((status, body))
    }

    async fn send(
        &self,
        index: usize,
        member: &Member,
        request: Passed,
        timeout: Duration,
    ) -> Result<reqwest::Response, Problem> {
        let Some(Ok(_permit)) = self.permits.get(index).map(Semaphore::try_acquire) else {
            let detail = format!("too many requests are under way to {}", member.name);
            return Err(Problem::new(ProblemType::Overloaded, detail));
        };
        let safe = request.method.is_safe();
        self.client
            .request(
                request.method,
                format!("{}{}", member.url, request.path_and_query),
            )
            .headers(request.headers)
            .header(headers::FORWARDED, self.me.clone())
            .timeout(timeout)
            .body(request.body)
            .send()
            .await
            .map_err(|error| silent(member, safe, &error))
    }
}

/// The problem of a member that did not answer.
fn silent(member: &Member, safe: bool, error: &reqwest::Error) -> Problem {
    tracing::debug!(
        owner = member.name,
        "no answer: {}",
        crate::store::chain(error)
    );
    let name = &member.name;
    if error.is_connect() || safe {
        let detail = format!("{name} owns this user and cannot be reached now");
        Problem::new(ProblemType::OwnerUnreachable, detail)
    } else {
        let detail = format!("{name} owns this user and did not answer; sending again is safe");
        Problem::new(ProblemType::OutcomeUnknown, detail)
    }
}
