//! Talks to cache pods on their admin port: asks how they are, and passes wishes on. In: an address
//! and what is to be said. Out: the answer, or why there is none.
//!
//! Every wish names the process it is for, and a member looks at it again by the ring: said twice, or
//! late, or by two operators, it does no harm.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use readstates_api::admin::{
    DrainRequest, FlushAnswer, MemberStatus, MovesAnswer, MovesRequest, OwnershipStatus,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::build::ports;

/// Longest wait for one answer. All pods are asked at once, so it bounds the whole round.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait for a flush of everything that one member holds.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a member did not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// It could not be reached, or not understood.
    #[error("failed to reach it")]
    Http(#[source] reqwest::Error),
    /// It answered something else.
    #[error("it answered {status}: {words}")]
    Refused {
        /// The status.
        status: u16,
        /// The beginning of what it said.
        words: String,
    },
}

/// Talks to cache pods.
#[derive(Clone, Debug)]
pub struct AdminClient {
    http: reqwest::Client,
}

impl AdminClient {
    /// A client. Pods are reached directly: proxies from the environment are for elsewhere.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new() -> reqwest::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT);
        Ok(Self {
            http: http.build()?,
        })
    }

    /// How the member at `ip` is.
    ///
    /// # Errors
    /// When it does not say.
    pub async fn status(&self, ip: IpAddr) -> Result<MemberStatus, AdminError> {
        let url = url(ip, "status");
        answer(self.http.get(url).send().await).await
    }

    /// Asks the process `incarnation` to hand on all that it owns and to take nothing any more.
    ///
    /// # Errors
    /// When it does not say that it will.
    pub async fn drain(
        &self,
        ip: IpAddr,
        incarnation: &str,
    ) -> Result<OwnershipStatus, AdminError> {
        let body = DrainRequest {
            incarnation: incarnation.to_owned(),
        };
        self.post(ip, "drain", &body).await
    }

    /// Asks an owner to move slots.
    ///
    /// # Errors
    /// When it does not say which it will.
    pub async fn moves(&self, ip: IpAddr, body: &MovesRequest) -> Result<MovesAnswer, AdminError> {
        self.post(ip, "moves", body).await
    }

    /// Has everything written that is dirty now.
    ///
    /// # Errors
    /// When it does not say how that went.
    pub async fn flush(&self, ip: IpAddr) -> Result<FlushAnswer, AdminError> {
        let request = self.http.post(url(ip, "flush")).timeout(FLUSH_TIMEOUT);
        answer(request.send().await).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        ip: IpAddr,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, AdminError> {
        answer(self.http.post(url(ip, path)).json(body).send().await).await
    }
}

fn url(ip: IpAddr, path: &str) -> String {
    let address = SocketAddr::new(ip, ports::ADMIN);
    format!("http://{address}/admin/v1/{path}")
}

async fn answer<T: DeserializeOwned>(
    sent: reqwest::Result<reqwest::Response>,
) -> Result<T, AdminError> {
    /// Enough for a problem's detail.
    const LONGEST: usize = 400;
    let http = |error: reqwest::Error| AdminError::Http(error.without_url());
    let response = sent.map_err(http)?;
    let status = response.status();
    if status.is_success() {
        return response.json().await.map_err(http);
    }
    let words = response.text().await.unwrap_or_default();
    Err(AdminError::Refused {
        status: status.as_u16(),
        words: words.chars().take(LONGEST).collect(),
    })
}
