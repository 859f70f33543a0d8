//! Bodies of the admin port: what the operator reads and asks of one member.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::whole;

/// Body of `GET /admin/v1/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemberStatus {
    /// The member's name.
    pub member: String,
    /// The process behind the name: 16 hexadecimal digits, drawn at start.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub incarnation: String,
    /// The ring it works by.
    pub ring_number: u64,
    /// Users in the cache.
    pub users: u64,
    /// Read states in the cache; a user without states counts as one.
    pub states: u64,
    /// Users whose last change is not in the database yet.
    pub dirty_users: u64,
    /// Age of the oldest change that is not in the database; `null` when there is none.
    #[schema(required)]
    pub oldest_dirty_seconds: Option<f64>,
    /// How many states the cache keeps at most.
    pub capacity_states: u64,
    /// The store under the cache.
    pub store: StoreStatus,
    /// Which part of the ring is here.
    pub ownership: OwnershipStatus,
    /// What it shows other processes of its cluster, where they speak over TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityStatus>,
}

/// The certificates of a process. A mark is the beginning of the certificate's SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdentityStatus {
    /// The mark of the certificate that it shows.
    pub certificate: String,
    /// The marks of the certificate authorities that it trusts.
    pub trusted: Vec<String>,
    /// When the certificate expires.
    #[schema(format = DateTime)]
    pub expires: String,
}

/// Where a member stands with the slots of the ring.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OwnershipStatus {
    /// Slots that the ring, as the member knows it, gives to this process.
    #[schema(maximum = 65535)]
    pub owned: u16,
    /// Those of them that are sealed: on the way to another owner, or waiting for a lease.
    #[schema(maximum = 65535)]
    pub sealed: u16,
    /// Slots that another member is sending here.
    #[schema(maximum = 65535)]
    pub receiving: u16,
    /// Slots that are being sent away, by receiver.
    pub streaming: Vec<StreamStatus>,
    /// Whether the member hands everything on and takes nothing.
    pub draining: bool,
    /// Whether the process has said its last word: nothing is owned, nothing is dirty, and nothing will
    /// be acknowledged any more.
    pub gone: bool,
    /// Whether the member may acknowledge changes now.
    pub lease_valid: bool,
    /// Requests that wait here for a sealed slot.
    pub queued: u64,
    /// Slots taken since the start from processes that had not said their last word: what those had
    /// acknowledged and not written is lost.
    pub taken_from_the_dead: u64,
    /// Slots that are not served, because the database holds blocks of a later epoch than the ring's.
    pub slots_of_regressed: Vec<u16>,
    /// How many seconds the machine's clock is ahead of the other members' and of the ring store's, or behind when
    /// negative; absent while it is right. The member takes no slots while it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_seconds: Option<i64>,
}

/// Slots on their way to one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamStatus {
    /// The name of the receiver.
    pub to: String,
    /// How many.
    #[schema(maximum = 65535)]
    pub slots: u16,
}

/// The store under a member's cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// Which kind of store.
    pub kind: StoreKind,
    /// Whether it answered when last asked.
    pub healthy: bool,
    /// What it answered instead, when not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// The memory of the process; gone with it.
    Memory,
    /// A database in a folder of the member's own.
    Embedded,
    /// A CQL database: Cassandra or ScyllaDB.
    Cql,
}

impl StoreKind {
    /// The kind as it is written in JSON and in metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Embedded => "embedded",
            Self::Cql => "cql",
        }
    }
}

/// Answer to `POST /admin/v1/flush`, sent once everything that was dirty at the call has been written
/// or has failed to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlushAnswer {
    /// Users written.
    pub flushed_users: u64,
    /// Users whose write failed; they stay dirty and are tried again.
    pub failed_users: u64,
}

/// Body of `PUT /admin/v1/capacity`, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// How many states the cache keeps at most, from 1.
    #[serde(deserialize_with = "whole::required")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub states: u64,
}

/// The most slots one request may move.
pub const MAX_MOVED_SLOTS: usize = 64;

/// Body of `POST /admin/v1/moves`: a wish. The member looks at each slot again, and moves those that it
/// owns at the epoch named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MovesRequest {
    /// Who is to own them.
    pub destination: MoveDestination,
    /// 1 to 64 slots.
    #[schema(min_items = 1, max_items = 64)]
    pub slots: Vec<MovedSlot>,
}

/// The process that is to own slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveDestination {
    /// Its member's name.
    pub name: String,
    /// The process: 16 hexadecimal digits.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub incarnation: String,
    /// Where it answers members.
    pub url: String,
    /// The zone it runs in, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A slot as it stood when the move was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MovedSlot {
    /// The slot, below 1024.
    #[serde(deserialize_with = "whole::required")]
    #[schema(maximum = 1023)]
    pub slot: u16,
    /// Its epoch then.
    #[serde(deserialize_with = "whole::required")]
    #[schema(minimum = 0, maximum = 549_755_813_887_i64)]
    pub epoch: i64,
}

/// Answer to `POST /admin/v1/moves`, with 202: the moves have begun, nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovesAnswer {
    /// Slots that are on their way now.
    #[schema(maximum = 65535)]
    pub accepted: u16,
    /// Slots that are not: they are not owned here at that epoch, or on another way already.
    #[schema(maximum = 65535)]
    pub ignored: u16,
}

/// Body of `POST /admin/v1/drain`, answered with 202 and an [`OwnershipStatus`], or with 409 when the
/// member is another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// The process that is to hand on what it owns: 16 hexadecimal digits.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub incarnation: String,
}
