//! What a cache pod says of itself.

use readstates_api::admin::{IdentityStatus, MemberStatus, OwnershipStatus};
use readstates_ring::Incarnation;

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
