//! Who a member is, how it behaves, and how long things take.

use std::time::Duration;

use super::LeaseClock;
use crate::clock::UnixClock;

/// How long things take and are waited for. Members of one ring must agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Between two renewals of the lease.
    pub renew_every: Duration,
    /// How long after a renewal was sent its holder may acknowledge.
    pub held: Duration,
    /// How long a process must be silent until it is taken for dead; more than `held`.
    pub dead_after: Duration,
    /// Between two looks at who is there.
    pub look_every: Duration,
    /// How long a request waits for a slot on the move.
    pub queue_patience: Duration,
    /// How old the epoch of a slot may become until its owner mints another.
    pub epoch_lasts: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            renew_every: Duration::from_secs(3),
            held: Duration::from_secs(10),
            dead_after: Duration::from_secs(13),
            look_every: Duration::from_secs(2),
            queue_patience: Duration::from_secs(2),
            epoch_lasts: Duration::from_secs(24 * 3600),
        }
    }
}

/// Who this member is, and how it behaves.
#[derive(Debug, Clone)]
pub struct OwnershipConfig {
    pub name: String,
    /// The process: drawn at start.
    pub incarnation: u64,
    /// Where clients reach it.
    pub url: String,
    /// Where the other members reach it, if there can be any.
    pub members: Option<String>,
    /// Its zone, where known.
    pub zone: Option<String>,
    /// Whether there can be other members.
    pub shared: bool,
    /// Whether its slots have backups, and it is one of others.
    pub backing: Backing,
    /// Bytes that it holds at most of what others acknowledge, if it is a backup.
    pub most_held: usize,
    /// How long things take.
    pub timing: Timing,
    /// The clock of the lease.
    pub lease_clock: LeaseClock,
    /// The clock that epochs are minted from.
    pub unix_clock: UnixClock,
    /// Requests under way to one other member, and from one, at once.
    pub max_per_member: usize,
}

/// Whether the slots of a member have backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// They have none.
    Off,
    /// They have one each where there is a member for it. Without one, changes are acknowledged all the same.
    Available,
    /// Changes of a slot without a backup are refused.
    Required,
}

impl OwnershipConfig {
    pub(crate) fn replicates(&self) -> bool {
        self.backing != Backing::Off
    }
}
