//! Messages to other members when slots move: one message, one answer.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use http::{StatusCode, header};
use readstates_api::headers;
use readstates_identity::Identity;

use super::Destination;
use crate::{
    members_tls::{self, ClientError},
    store::chain,
};

/// Where members take messages about slots.
pub const PATH: &str = "/internal/v1/handoff";

/// The longest message: the largest block there can be, and what goes with it.
pub const MOST_BYTES: usize = 20 << 20;

/// The longest that a message may take; most take milliseconds.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A member did not answer, or refused.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{member} did not take a message: {reason}")]
pub struct PeerError {
    member: String,
    reason: String,
}

impl PeerError {
    /// What a member said or did not say.
    pub fn new(member: &str, reason: impl Into<String>) -> Self {
        Self {
            member: member.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Carries messages to other members. After an error it is not known whether the message arrived.
pub trait Peers: fmt::Debug + Send + Sync + 'static {
    /// Sends a message to exactly this process, and returns its answer.
    fn send(
        &self,
        to: &Destination,
        message: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, PeerError>>;

    /// The same with a message that answers to clients wait for: nothing else is on its way.
    fn send_for_answers(
        &self,
        to: &Destination,
        message: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        self.send(to, message)
    }
}

/// Carries messages over HTTP.
#[derive(Debug)]
pub struct HttpPeers {
    client: reqwest::Client,
    /// With connections of its own: a connection is read by the runtime on which it was made.
    for_answers: reqwest::Client,
}

impl HttpPeers {
    /// A client for the other members, with what this one proves to them.
    ///
    /// # Errors
    /// When it cannot be set up.
    pub fn new(identity: Option<&Identity>) -> Result<Arc<Self>, ClientError> {
        let client = || {
            members_tls::client(identity)?
                // A member with an identity hands slots only to members that prove theirs.
                .https_only(identity.is_some())
                .build()
                .map_err(ClientError::from)
        };
        Ok(Arc::new(Self {
            client: client()?,
            for_answers: client()?,
        }))
    }
}

impl Peers for HttpPeers {
    fn send(
        &self,
        to: &Destination,
        message: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        send(&self.client, to, message)
    }

    fn send_for_answers(
        &self,
        to: &Destination,
        message: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        send(&self.for_answers, to, message)
    }
}

fn send(
    client: &reqwest::Client,
    to: &Destination,
    message: Bytes,
) -> BoxFuture<'static, Result<Bytes, PeerError>> {
    let request = client
        .post(format!("{}{PATH}", to.url))
        .header(headers::INCARNATION, to.member.incarnation().to_string())
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .timeout(TIMEOUT)
        .body(message);
    let name = to.name().to_owned();
    async move {
        let failed = |error: &reqwest::Error| PeerError::new(&name, chain(error));
        let answer = request.send().await.map_err(|error| failed(&error))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| failed(&error))?;
        if status != StatusCode::OK {
            let text = String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
            return Err(PeerError::new(&name, format!("{status}: {text}")));
        }
        Ok(body)
    }
    .boxed()
}
