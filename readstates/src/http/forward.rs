//! Passing a request on to the owner of its user, once.
//!
//! A forwarded request carries the name of the member that forwards it; who receives one it does not
//! own refuses it, so a request never goes in circles. What the owner answers is answered. When it
//! does not answer, the difference matters: a connection that was never made means that nothing was
//! done, silence after sending means that the outcome is unknown.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt;
use readstates_api::{Problem, ProblemType, headers};

use super::{
    Body, UNKNOWN,
    passed::{Passed, kept, too_many},
    singles::{Came, Single, Singles},
    target::Target,
};
use crate::{
    limit::Permit,
    members_tls::{self, ClientError, MembersTls},
    metrics::Metrics,
    operation::Operation,
    ownership::{Ownership, Peer},
};

/// More than an owner waits for its database.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(6);
/// A request for many users who are not cached is many loads.
pub(crate) const PART_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections kept open to one member.
const IDLE_PER_PEER: usize = 64;

/// Talks to the other members.
#[derive(Debug)]
pub struct Forwarder {
    client: reqwest::Client,
    /// This member's name, as the header says it.
    me: HeaderValue,
    /// Requests that leave together.
    singles: Arc<Singles>,
    /// What it shows them, if it does.
    tls: Option<MembersTls>,
}

impl Forwarder {
    /// A forwarder for the member `me`, with what it proves to the others.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub fn new(
        me: &str,
        tls: Option<MembersTls>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ClientError> {
        let client = members_tls::client(tls.as_ref().map(|tls| &*tls.identity))?
            .pool_max_idle_per_host(IDLE_PER_PEER)
            .build()?;
        // Member names are ASCII letters, digits and ". _ -".
        let me = HeaderValue::from_str(me).unwrap_or_else(|_| HeaderValue::from_static("unnamed"));
        Ok(Self {
            singles: Singles::new(client.clone(), me.clone(), metrics),
            client,
            tls,
            me,
        })
    }

    /// What this member shows the others, if it does.
    pub(crate) fn tls(&self) -> Option<&MembersTls> {
        self.tls.as_ref()
    }

    /// Passes a request on to a member and returns its answer, and the number of the ring that it
    /// works by.
    pub(crate) async fn pass(
        &self,
        member: &Peer,
        request: Passed<'_>,
    ) -> Result<(Response<Body>, u64), Problem> {
        let answer = self.send(member, request).await?;
        let status = answer.status();
        let (kept, ring) = kept(answer.headers());
        let mut response = Response::new(Body::Passed(answer.into()));
        *response.status_mut() = status;
        *response.headers_mut() = kept;
        Ok((response, ring))
    }

    /// Passes a request about one user on, together with others if it has a place among them; `None` when the user has
    /// another owner now.
    pub(super) async fn pass_single(
        &self,
        ownership: &Arc<Ownership>,
        member: &Arc<Peer>,
        (operation, target): (Operation, Target),
        request: Passed<'_>,
    ) -> Result<Option<(Response<Body>, u64)>, Problem> {
        let single = member
            .may_take_frames()
            .then(|| Single::of(operation, target, &request));
        let Some(single) = single.flatten() else {
            return self.pass(member, request).await.map(Some);
        };
        let owner = (member, Arc::clone(&request.at));
        let safe = request.method.is_safe();
        let came = self
            .singles
            .pass(ownership, owner, single, request.timeout)
            .await?;
        match came {
            Came::Answer(response, ring) => Ok(Some((response, ring))),
            Came::OwnerMoved => Ok(None),
            Came::Alone => self.pass(member, request).await.map(Some),
            Came::Silence { sent } => Err(unanswered(&member.name, !sent || safe)),
        }
    }

    /// The same with a part of a request for many users that is about one; returns status and body.
    pub(super) async fn part_of_one(
        &self,
        ownership: &Arc<Ownership>,
        member: &Arc<Peer>,
        about: (Operation, Target),
        request: Passed<'_>,
    ) -> Result<Option<(StatusCode, Bytes)>, Problem> {
        let headers = request.headers;
        let passed = self.pass_single(ownership, member, about, request).await?;
        let Some((response, _)) = passed else {
            return Ok(None);
        };
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| silent(member, false, headers, &error))?;
        Ok(Some((status, body.to_bytes())))
    }

    /// Sends a part of a request for many users to its owner; returns status and body.
    pub(crate) async fn part(
        &self,
        ownership: &Ownership,
        member: &Peer,
        path: &str,
        headers: &HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<(StatusCode, Bytes), Problem> {
        let request = Passed {
            at: address(ownership, member).await?,
            method: &Method::POST,
            path_and_query: path,
            headers,
            body,
            timeout,
        };
        let answer = self.send(member, request).await?;
        let status = answer.status();
        let body = answer
            .bytes()
            .await
            .map_err(|error| silent(member, false, headers, &error))?;
        Ok((status, body))
    }

    async fn send(&self, member: &Peer, request: Passed<'_>) -> Result<reqwest::Response, Problem> {
        let Some(_permit) = Permit::take(&member.to, 1) else {
            return Err(too_many(member));
        };
        let safe = request.method.is_safe();
        self.client
            .request(
                request.method.clone(),
                format!("{}{}", request.at, request.path_and_query),
            )
            .headers(request.headers.clone())
            .header(headers::FORWARDED, self.me.clone())
            .header(headers::TIMEOUT, millis(request.timeout))
            .timeout(request.timeout)
            .body(request.body)
            .send()
            .await
            .map_err(|error| silent(member, safe, request.headers, &error))
    }
}

/// Where a member takes requests that others forward.
pub(crate) async fn address(ownership: &Ownership, member: &Peer) -> Result<Arc<str>, Problem> {
    ownership.address(member).await.ok_or_else(|| {
        let detail = format!(
            "{} owns this user, and does not say where it takes what others forward",
            member.name
        );
        Problem::new(ProblemType::OwnerUnreachable, detail)
    })
}

/// As the header says it, which knows no 0.
fn millis(timeout: Duration) -> HeaderValue {
    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    HeaderValue::from(millis.max(1))
}

/// The problem of a member that did not answer.
fn silent(member: &Peer, safe: bool, sent: &HeaderMap, error: &reqwest::Error) -> Problem {
    let request_id = sent.get(headers::REQUEST_ID);
    let request_id = request_id.and_then(|id| id.to_str().ok());
    tracing::debug!(
        owner = member.name,
        request_id,
        "no answer: {}",
        crate::store::chain(error)
    );
    unanswered(&member.name, error.is_connect() || safe)
}

/// The problem of a member that did not answer, by whether that is as if nothing had been sent.
fn unanswered(name: &str, nothing_done: bool) -> Problem {
    if nothing_done {
        let detail = format!("{name} owns this user and cannot be reached now");
        Problem::new(ProblemType::OwnerUnreachable, detail)
    } else {
        let detail = format!("{name} owns this user and did not answer; {UNKNOWN}");
        Problem::new(ProblemType::OutcomeUnknown, detail)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

    use readstates_ring::{Incarnation, RingMember};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// What a member is sent that answers one request.
    async fn heard_by_the_owner(timeout: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        let incarnation = Incarnation::new(1);
        let owner = RingMember::new("chat-1", incarnation, "http://clients", None).unwrap();
        let owner = Peer::new(&owner, 1);
        let forwarder = Forwarder::new("chat-0", None, Arc::default()).unwrap();
        let request = Passed {
            at: at.into(),
            method: &Method::GET,
            path_and_query: "/v1/users/1/read-states",
            headers: &HeaderMap::new(),
            body: Bytes::new(),
            timeout,
        };
        let heard = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let length = socket.read(&mut head).await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            socket.write_all(answer).await.unwrap();
            head.truncate(length);
            String::from_utf8(head).unwrap()
        };
        let (heard, answer) = tokio::join!(heard, forwarder.pass(&owner, request));
        answer.unwrap();
        heard
    }

    #[tokio::test]
    async fn the_owner_is_told_for_how_long_it_is_waited_for() {
        let heard = heard_by_the_owner(Duration::from_millis(1234)).await;
        assert!(heard.contains("x-readstates-timeout: 1234\r\n"), "{heard}");
        assert!(
            heard.contains("x-readstates-forwarded: chat-0\r\n"),
            "{heard}"
        );
        assert_eq!(millis(Duration::from_micros(1)), "1", "0 is none");
    }
}
