//! Talks to cache pods on their admin port: asks how they are, and passes wishes on. In: an address
//! and what is to be said. Out: the answer, or why there is none.
//!
//! Every wish names the process it is for, and a member looks at it again by the ring: said twice, or
//! late, or by two operators, it does no harm.

use std::time::Duration;

use readstates_api::admin::{
    Capacity, DrainRequest, FlushAnswer, MemberStatus, MovesAnswer, MovesRequest, OwnershipStatus,
};
use readstates_identity::Role;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    answers::{self, Unread},
    connections::{Peer, PodClients},
    names::ports,
};

/// Longest wait for one answer. All pods are asked at once, so it bounds the whole round.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait for a flush of everything that one member holds.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the longest answer: a status that names each of 1024 slots has 8 KiB.
const LONGEST: usize = 64 << 10;

/// Why a member did not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The operator's identity cannot be proven to it.
    #[error("failed to prove what the operator is: {0}")]
    Unproven(String),
    /// It could not be reached.
    #[error("failed to reach it")]
    Http(#[source] reqwest::Error),
    /// It answered, and not as it should.
    #[error("failed to understand it")]
    Unread(#[source] Unread),
    /// It answered something else.
    #[error("it answered {status}: {words}")]
    Refused {
        status: u16,
        /// The beginning of what it said.
        words: String,
    },
}

/// Talks to the cache pods of one cluster.
#[derive(Clone, Copy, Debug)]
pub struct AdminClient<'a> {
    clients: &'a PodClients,
}

impl<'a> AdminClient<'a> {
    /// By these clients.
    #[must_use]
    pub fn new(clients: &'a PodClients) -> Self {
        Self { clients }
    }

    /// How a member is.
    ///
    /// # Errors
    /// When it does not say.
    pub async fn status(&self, peer: Peer) -> Result<MemberStatus, AdminError> {
        let (http, url) = self.url(peer, "status")?;
        answer(http.get(url).timeout(TIMEOUT).send().await).await
    }

    /// Asks the process `incarnation` to hand on all that it owns and to take nothing any more.
    ///
    /// # Errors
    /// When it does not say that it will.
    pub async fn drain(
        &self,
        peer: Peer,
        incarnation: &str,
    ) -> Result<OwnershipStatus, AdminError> {
        let body = DrainRequest {
            incarnation: incarnation.to_owned(),
        };
        self.post(peer, "drain", &body).await
    }

    /// Asks an owner to move slots.
    ///
    /// # Errors
    /// When it does not say which it will.
    pub async fn moves(&self, peer: Peer, body: &MovesRequest) -> Result<MovesAnswer, AdminError> {
        self.post(peer, "moves", body).await
    }

    /// Sets the number of states that it keeps from now on.
    ///
    /// # Errors
    /// When it does not say that it will.
    pub async fn capacity(&self, peer: Peer, states: u64) -> Result<Capacity, AdminError> {
        let (http, url) = self.url(peer, "capacity")?;
        let sent = http.put(url).timeout(TIMEOUT).json(&Capacity { states });
        answer(sent.send().await).await
    }

    /// Has everything written that is dirty now.
    ///
    /// # Errors
    /// When it does not say how that went.
    pub async fn flush(&self, peer: Peer) -> Result<FlushAnswer, AdminError> {
        let (http, url) = self.url(peer, "flush")?;
        answer(http.post(url).timeout(FLUSH_TIMEOUT).send().await).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        peer: Peer,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, AdminError> {
        let (http, url) = self.url(peer, path)?;
        answer(http.post(url).timeout(TIMEOUT).json(body).send().await).await
    }

    fn url(&self, peer: Peer, path: &str) -> Result<(reqwest::Client, String), AdminError> {
        let found = self.clients.to(Role::Member, peer, ports::ADMIN);
        let (http, base) = found.map_err(AdminError::Unproven)?;
        Ok((http, format!("{base}/admin/v1/{path}")))
    }
}

async fn answer<T: DeserializeOwned>(
    sent: reqwest::Result<reqwest::Response>,
) -> Result<T, AdminError> {
    let response = sent.map_err(|error| AdminError::Http(error.without_url()))?;
    let status = response.status();
    if status.is_success() {
        let read = answers::json(response, LONGEST).await;
        return read.map_err(AdminError::Unread);
    }
    Err(AdminError::Refused {
        status: status.as_u16(),
        words: answers::words(response).await,
    })
}
