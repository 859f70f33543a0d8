//! The ring document of `GET /v1/ring`.

use readstates_ring::{self as ring, HASH_NAME, RingTable, SLOTS};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Ownership of the slots, for clients that choose the owner themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RingDocument {
    /// Number of the ring; increases with each change.
    pub number: u64,
    /// Number of slots.
    #[schema(minimum = 1, maximum = 65535)]
    pub slots: u16,
    /// The hash that gives a user's slot: the top ten bits of the SplitMix64 finaliser of the id.
    pub hash: String,
    /// The members, in ring order.
    pub members: Vec<RingMember>,
    /// For each slot, in order: the index of its owner in `members`; `null` while it has never been owned.
    pub owners: Vec<Option<u16>>,
}

/// One member of a ring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RingMember {
    /// Name of the member.
    pub name: String,
    /// The process behind the name, 16 hexadecimal digits; `null` if the answering member does not know it.
    #[schema(required)]
    pub incarnation: Option<String>,
    /// URL of the member.
    pub url: String,
    /// The zone of the member, if known.
    #[schema(required)]
    pub zone: Option<String>,
}

impl From<&RingTable> for RingDocument {
    fn from(table: &RingTable) -> Self {
        Self {
            number: table.number(),
            slots: SLOTS,
            hash: HASH_NAME.to_owned(),
            members: table.members().iter().map(RingMember::from).collect(),
            owners: table.owners(),
        }
    }
}

impl From<&ring::RingMember> for RingMember {
    fn from(member: &ring::RingMember) -> Self {
        Self {
            name: member.name().to_owned(),
            incarnation: Some(member.incarnation().to_string()),
            url: member.url().to_owned(),
            zone: member.zone().map(str::to_owned),
        }
    }
}
