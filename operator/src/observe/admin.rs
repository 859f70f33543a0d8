//! Asks cache pods how they are, on their admin port. In: pods with addresses. Out: an answer or why
//! there is none; never an error, since a pod that does not answer must not stop a reconcile.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use futures::future::join_all;
use readstates_api::admin::MemberStatus;

use super::{PodSeen, Seen};
use crate::build::ports;

/// Longest wait for one answer. All pods are asked at once, so it bounds the whole round.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What a cache pod says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the member table it works with.
    pub ring_number: i64,
    /// Read states in memory.
    pub states: i64,
    /// Users whose changes are not in the store yet.
    pub dirty: i64,
    /// Why it cannot reach the store, if it cannot.
    pub store_problem: Option<String>,
}

impl From<MemberStatus> for Member {
    fn from(status: MemberStatus) -> Self {
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let problem = status
            .store
            .reason
            .unwrap_or_else(|| "it does not answer".to_owned());
        Self {
            ring_number: count(status.ring_number),
            states: count(status.states),
            dirty: count(status.dirty_users),
            store_problem: (!status.store.healthy).then_some(problem),
        }
    }
}

/// Asks cache pods.
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
        Ok(Self {
            http: reqwest::Client::builder()
                .no_proxy()
                .timeout(TIMEOUT)
                .build()?,
        })
    }

    /// Asks every ready pod, all at once.
    pub(super) async fn ask_all(&self, pods: &[PodSeen]) -> BTreeMap<String, Seen<Member>> {
        let ready = pods.iter().filter(|p| p.ready && !p.terminating);
        let asked = ready.map(async |pod| (pod.name.clone(), self.ask(pod).await));
        join_all(asked).await.into_iter().collect()
    }

    async fn ask(&self, pod: &PodSeen) -> Seen<Member> {
        let address = pod.ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
        let Some(ip) = address else {
            return Seen::Unknown("it has no address yet".to_owned());
        };
        match self.get(SocketAddr::new(ip, ports::ADMIN)).await {
            Ok(status) => Seen::Known(status.into()),
            Err(error) => Seen::Unknown(error.without_url().to_string()),
        }
    }

    async fn get(&self, address: SocketAddr) -> reqwest::Result<MemberStatus> {
        let url = format!("http://{address}/admin/v1/status");
        self.http
            .get(url)
            .send()
            .await?
            .error_for_status()?
            .json()
            .await
    }
}
