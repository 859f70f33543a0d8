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
    /// Number of the ring that the member uses.
    pub ring_number: u64,
    /// Number of users in the cache.
    pub users: u64,
    /// Number of read states in the cache; a user without states counts as one.
    pub states: u64,
    /// Number of users whose last change is not yet in the database.
    pub dirty_users: u64,
    /// Age of the oldest change that is not in the database; `null` when there is none.
    #[schema(required)]
    pub oldest_dirty_seconds: Option<f64>,
    /// Maximum number of states in the cache.
    pub capacity_states: u64,
    /// The store under the cache.
    pub store: StoreStatus,
    /// The part of the ring that this member owns.
    pub ownership: OwnershipStatus,
    /// The certificate that the member presents to other processes of its cluster, if they use TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityStatus>,
}

/// The certificates of a process. A mark is the beginning of the certificate's SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IdentityStatus {
    /// The mark of the certificate that it presents.
    pub certificate: String,
    /// The marks of the certificate authorities that it trusts.
    pub trusted: Vec<String>,
    /// When the certificate expires.
    #[schema(format = DateTime)]
    pub expires: String,
}

/// Ownership of slots by a member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OwnershipStatus {
    /// Slots that the ring, as the member knows it, assigns to this process.
    #[schema(maximum = 65535)]
    pub owned: u16,
    /// Owned slots that are sealed: moving to another owner, or waiting for a lease.
    #[schema(maximum = 65535)]
    pub sealed: u16,
    /// Slots that other members are sending here.
    #[schema(maximum = 65535)]
    pub receiving: u16,
    /// Slots that are being sent away, by receiver.
    pub streaming: Vec<StreamStatus>,
    /// Whether the member is handing on all its slots and takes no new ones.
    pub draining: bool,
    /// Whether the process is finished: it owns nothing, has no unwritten changes, and will not acknowledge anything
    /// any more.
    pub gone: bool,
    /// Whether the member may acknowledge changes now.
    pub lease_valid: bool,
    /// Requests that are waiting here for a sealed slot.
    pub queued: u64,
    /// Slots taken, since this process started, from processes that ended without handing them on: changes that those
    /// had acknowledged but not written are lost.
    pub taken_from_the_dead: u64,
    /// Slots that are not served because the database holds blocks of a later epoch than the ring's.
    pub slots_of_regressed: Vec<u16>,
    /// Seconds by which the machine's clock is ahead of the clocks of the other members and of the ring store, negative
    /// if it is behind; absent while the clock is right. The member takes no slots while this is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_seconds: Option<i64>,
    /// How the member's slots are backed up; absent unless they are to have backups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replication: Option<ReplicationStatus>,
}

/// The backups of a member's slots, and those that it is the backup of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicationStatus {
    /// Owned slots without a backup: changes that are not written yet are lost if this member dies.
    #[schema(maximum = 65535)]
    pub unprotected: u16,
    /// For how long, in seconds, there has been such a slot without a break.
    pub unprotected_seconds: u64,
    /// Slots of other members that have this one as their backup.
    #[schema(maximum = 65535)]
    pub backing: u16,
    /// Bytes of memory that hold what others have acknowledged and not written.
    pub held_bytes: u64,
    /// Users of whom acknowledged changes were lost although there was a backup, since the process started.
    pub lost_users: u64,
    /// Whether the store of the ring does not keep backups, because its definition of the ring is of an older release.
    pub store_drops_backups: bool,
}

/// Slots that are moving to one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamStatus {
    /// The name of the receiver.
    pub to: String,
    /// Number of slots.
    #[schema(maximum = 65535)]
    pub slots: u16,
}

/// The store under a member's cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// The kind of store.
    pub kind: StoreKind,
    /// Whether the store answered the last check.
    pub healthy: bool,
    /// Why the store is not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// The memory of the process; lost when it ends.
    Memory,
    /// A database in a folder of the member's own.
    Embedded,
    /// A CQL database: Cassandra or ScyllaDB.
    Cql,
}

impl StoreKind {
    /// The kind as written in JSON and in metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Embedded => "embedded",
            Self::Cql => "cql",
        }
    }
}

/// Answer to `POST /admin/v1/flush`, sent once every user that was dirty at the time of the call has been written or
/// has failed to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlushAnswer {
    /// Number of users written.
    pub flushed_users: u64,
    /// Number of users whose write failed; they stay dirty and are retried.
    pub failed_users: u64,
}

/// Answer to `GET /progress` of `readstates migrate --progress-listen`; `null` before the first pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MigrationProgress {
    /// Which pass: `pass 2`, `dry run`, or `verification`.
    pub what: String,
    /// Whether it only compares.
    pub verifies: bool,
    /// How much of it is done, from 0 to 1, where that is known.
    pub share: Option<f64>,
    /// Users that were compared.
    pub users: u64,
    /// Users of whom the target had nothing, or an older write.
    pub lacking: u64,
    /// Users per second since this process began the pass, or went on with it.
    pub users_per_second: u64,
}

/// Body of `PUT /admin/v1/capacity`, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// Maximum number of states in the cache, at least 1.
    #[serde(deserialize_with = "whole::required")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub states: u64,
}

/// Maximum number of slots that one request may move.
pub const MAX_MOVED_SLOTS: usize = 64;

/// Body of `POST /admin/v1/moves`. The member checks each slot again, and moves those that it owns at the given epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MovesRequest {
    /// The new owner of the slots.
    pub destination: MoveDestination,
    /// 1 to 64 slots.
    #[schema(min_items = 1, max_items = 64)]
    pub slots: Vec<MovedSlot>,
}

/// The process that receives slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveDestination {
    /// Name of the member.
    pub name: String,
    /// The process: 16 hexadecimal digits.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub incarnation: String,
    /// URL where it serves other members.
    pub url: String,
    /// The zone of the member, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A slot, as it was when the move was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MovedSlot {
    /// The slot, below 1024.
    #[serde(deserialize_with = "whole::required")]
    #[schema(maximum = 1023)]
    pub slot: u16,
    /// The epoch of the slot at that time.
    #[serde(deserialize_with = "whole::required")]
    #[schema(minimum = 0, maximum = 549_755_813_887_i64)]
    pub epoch: i64,
}

/// Answer to `POST /admin/v1/moves`, with 202: the moves have begun, but have not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovesAnswer {
    /// Number of slots that are moving now.
    #[schema(maximum = 65535)]
    pub accepted: u16,
    /// Number of slots that are not: they are not owned here at that epoch, or are already moving elsewhere.
    #[schema(maximum = 65535)]
    pub ignored: u16,
}

/// Body of `POST /admin/v1/drain`, answered with 202 and an [`OwnershipStatus`], or with 409 when the
/// member is another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// The process that must hand on its slots: 16 hexadecimal digits.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    pub incarnation: String,
}
