//! Reports of cache pods. In: pods. Out: an answer of each whose process runs, or why there is none; never an
//! error, since a pod that does not answer must not stop a reconcile.

use std::{collections::BTreeMap, net::IpAddr};

use futures::future::join_all;
use readstates_api::admin::{IdentityStatus, MemberStatus, OwnershipStatus};
use readstates_ring::Incarnation;

use super::{PodSeen, Seen};
use crate::{
    admin::AdminClient,
    connections::{Peer, PodClients},
};

/// What a cache pod says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The process that answered.
    pub incarnation: Incarnation,
    /// Number of the ring it works by.
    pub ring_number: i64,
    /// Read states in memory.
    pub states: i64,
    /// Users whose changes are not in the store yet.
    pub dirty: i64,
    /// Read states that it keeps at most.
    pub capacity: i64,
    /// Why it cannot reach the store, if it cannot.
    pub store_problem: Option<String>,
    /// Where it stands with the slots.
    pub ownership: OwnershipStatus,
    /// Which certificates it shows and trusts, where it says so.
    pub identity: Option<IdentityStatus>,
}

impl Member {
    /// Whether slots come, go, or stand sealed here.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        let OwnershipStatus {
            sealed,
            receiving,
            streaming,
            ..
        } = &self.ownership;
        *sealed > 0 || *receiving > 0 || !streaming.is_empty()
    }

    /// Whether it may be given slots: it holds a lease and is not about to leave.
    #[must_use]
    pub fn takes_slots(&self) -> bool {
        self.ownership.lease_valid && !self.ownership.draining && !self.ownership.gone
    }
}

impl TryFrom<MemberStatus> for Member {
    type Error = String;

    fn try_from(status: MemberStatus) -> Result<Self, String> {
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let problem = status
            .store
            .reason
            .unwrap_or_else(|| "it does not answer".to_owned());
        let incarnation: Result<Incarnation, _> = status.incarnation.parse();
        Ok(Self {
            incarnation: incarnation.map_err(|error| error.to_string())?,
            ring_number: count(status.ring_number),
            states: count(status.states),
            dirty: count(status.dirty_users),
            capacity: count(status.capacity_states),
            store_problem: (!status.store.healthy).then_some(problem),
            ownership: status.ownership,
            identity: status.identity,
        })
    }
}

/// Asks every pod whose process runs, ready or not, all at once.
pub(super) async fn ask_all(
    clients: &PodClients,
    pods: &[PodSeen],
) -> BTreeMap<String, Seen<Member>> {
    let admin = &AdminClient::new(clients);
    let running = pods.iter().filter(|p| p.running);
    let asked = running.map(async |pod| (pod.name.clone(), ask(admin, pod).await));
    join_all(asked).await.into_iter().collect()
}

async fn ask(admin: &AdminClient<'_>, pod: &PodSeen) -> Seen<Member> {
    let address = pod.ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
    let Some(ip) = address else {
        return Seen::Unknown("it has no address yet".to_owned());
    };
    let peer = Peer {
        ip,
        mutual_tls: pod.mutual_tls,
    };
    match admin.status(peer).await {
        Ok(status) if status.member != pod.name => {
            Seen::Unknown(format!("{} answered at its address", status.member))
        }
        Ok(status) => Member::try_from(status).map_or_else(Seen::Unknown, Seen::Known),
        Err(error) => Seen::Unknown(words(&error)),
    }
}

/// The attempt and its causes, in one line.
pub(super) fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
