//! What a step on the database waits for, and what only a person can cure: values with their messages.

use std::fmt;

use readstates_operator_api::conditions::Reason;

/// What the next step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseWait {
    /// All nodes to see all others up.
    Health {
        /// The step that waits.
        step: String,
        /// What is not as it should be.
        why: String,
    },
    /// Pods that are changed one after another.
    Rolling {
        /// The pod whose turn it is.
        pod: String,
        /// Why it is not, if it is not.
        why: Option<String>,
    },
    /// A node to become a member.
    Joining {
        pod: String,
        /// How far it is.
        progress: String,
    },
    /// A node to take the place that it had before its disk was lost.
    Replacing {
        pod: String,
        /// Host ID of the lost node.
        host_id: String,
        /// How far it is.
        progress: String,
    },
    /// A node to leave.
    Leaving {
        pod: String,
        host_id: String,
        /// How far it is.
        progress: String,
    },
    /// A node to drop what others have taken over.
    CleaningUp {
        pod: String,
        /// How far it is.
        progress: String,
    },
    /// The data of a node to be compared with that of the others.
    Repairing {
        pod: String,
        /// How far it is.
        progress: String,
    },
    /// A node to take its step of a change to another release.
    Upgrading {
        pod: String,
        /// How far it is.
        progress: String,
    },
    /// Each read state to have another number of copies.
    Replicating {
        /// The number that comes next.
        copies: i32,
        /// How far it is.
        progress: String,
    },
    /// A reason why a node may not join to pass.
    JoinRefused {
        pod: String,
        /// Everything that speaks against it.
        reasons: Vec<String>,
    },
    /// A reason why a node may not leave to pass.
    Refused {
        pod: String,
        /// Everything that speaks against it.
        reasons: Vec<String>,
    },
    /// The pods of a cluster that is stopped to be gone.
    Stopping {
        /// Those still there.
        pods: Vec<String>,
    },
    /// Volumes to grow.
    Growing {
        /// The pod of the first of them.
        pod: String,
        claim: String,
        /// The size that it comes to.
        size: String,
        /// How far it is.
        words: Option<String>,
        /// How many others grow or have yet to.
        others: usize,
    },
    /// The volume of a node that has left to be given up.
    FormerClaim {
        /// The pod that a new node would have.
        pod: String,
        claim: String,
    },
}

impl DatabaseWait {
    /// The pod that it is about, where it is about one.
    #[must_use]
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::Health { .. } | Self::Stopping { .. } | Self::Replicating { .. } => None,
            Self::Rolling { pod, .. }
            | Self::Joining { pod, .. }
            | Self::Replacing { pod, .. }
            | Self::Leaving { pod, .. }
            | Self::CleaningUp { pod, .. }
            | Self::Repairing { pod, .. }
            | Self::Upgrading { pod, .. }
            | Self::JoinRefused { pod, .. }
            | Self::Refused { pod, .. }
            | Self::Growing { pod, .. }
            | Self::FormerClaim { pod, .. } => Some(pod),
        }
    }

    /// One word for it.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Health { .. } => Reason::DatabaseUnhealthy,
            Self::Rolling { .. } => Reason::DatabaseRolling,
            Self::Joining { .. } => Reason::NodeJoining,
            Self::Replacing { .. } => Reason::NodeReplacing,
            Self::Leaving { .. } => Reason::NodeLeaving,
            Self::CleaningUp { .. } => Reason::NodeCleaningUp,
            Self::Repairing { .. } => Reason::NodeRepairing,
            Self::Upgrading { .. } => Reason::DatabaseUpgrading,
            Self::Replicating { .. } => Reason::ReplicationChanging,
            Self::JoinRefused { .. } => Reason::JoinRefused,
            Self::Refused { .. } => Reason::ScaleDownRefused,
            Self::Growing { .. } => Reason::VolumeGrowing,
            Self::FormerClaim { .. } => Reason::ClaimOfFormerNode,
            Self::Stopping { .. } => Reason::DatabaseStopping,
        }
    }
}

impl fmt::Display for DatabaseWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Health { step, why } => {
                write!(f, "{step} when all nodes see each other up: {why}")
            }
            Self::Rolling { pod, why: None } => {
                write!(f, "{pod} is restarted with what has changed")
            }
            Self::Rolling {
                pod,
                why: Some(why),
            } => write!(
                f,
                "{pod} is restarted with what has changed when all nodes are well: {why}"
            ),
            Self::Joining { pod, progress } => write!(f, "{pod} joins the database: {progress}"),
            Self::Replacing {
                pod,
                host_id,
                progress,
            } => write!(
                f,
                "the disk of {pod} came back empty; it takes the place of node {host_id}, which it was: \
                 {progress}"
            ),
            Self::Leaving {
                pod,
                host_id,
                progress,
            } => write!(f, "{pod} (node {host_id}) leaves the database: {progress}"),
            Self::CleaningUp { pod, progress } => write!(
                f,
                "{pod} drops what nodes that have joined took over: {progress}"
            ),
            Self::Repairing { pod, progress } => {
                write!(f, "{pod} is repaired: {progress}")
            }
            Self::Upgrading { pod, progress } => write!(
                f,
                "the database is changed to another release, now {pod}: {progress}"
            ),
            Self::Replicating { copies, progress } => {
                let word = if *copies == 1 { "copy" } else { "copies" };
                write!(
                    f,
                    "each read state comes to have {copies} {word}: {progress}"
                )
            }
            Self::JoinRefused { pod, reasons } => write!(
                f,
                "{pod} does not join the database, because {}",
                reasons.join("; and because ")
            ),
            Self::Refused { pod, reasons } => write!(
                f,
                "{pod} does not leave the database, because {}",
                reasons.join("; and because ")
            ),
            Self::Growing {
                pod: _,
                claim,
                size,
                words,
                others,
            } => {
                write!(f, "the volume of {claim} grows to {size}")?;
                if let Some(words) = words {
                    write!(f, ": {words}")?;
                }
                match others {
                    0 => Ok(()),
                    1 => f.write_str("; one more grows or has yet to"),
                    others => write!(f, "; {others} more grow or have yet to"),
                }
            }
            Self::Stopping { pods } if pods.is_empty() => {
                f.write_str("the database is scaled to no pods")
            }
            Self::Stopping { pods } => {
                write!(f, "the cache has stopped; {} stop", pods.join(", "))
            }
            Self::FormerClaim { pod, claim } => write!(
                f,
                "{pod} would start on the volume of a node that has left: delete the claim {claim} to make \
                 room for a new one, or lower the members again"
            ),
        }
    }
}

/// What only a person can cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseTrouble {
    /// A node could not leave, again and again.
    DecommissionFailed {
        pod: String,
        /// How often it was told to.
        attempts: i32,
        /// The database's own words.
        error: String,
    },
    /// A node could not join, or not take its old place, again and again.
    JoinFailed {
        pod: String,
        /// How often it tried.
        attempts: i32,
    },
    /// A node could not drop what others have taken over, again and again.
    CleanupFailed {
        pod: String,
        /// How often it was told to.
        attempts: i32,
        /// The database's own words.
        error: String,
    },
    /// The data of a node could not be compared with that of the others, again and again.
    RepairFailed {
        pod: String,
        /// How often it was told to.
        attempts: i32,
        /// The database's own words.
        error: String,
    },
    /// A node could not take a step of a change to another release, again and again.
    UpgradeFailed {
        pod: String,
        /// The step, in words.
        step: &'static str,
        /// How often it was told to.
        attempts: i32,
        /// The database's own words.
        error: String,
    },
    /// A node that was to leave has lost what it was to give away.
    LeaverLost {
        pod: String,
        host_id: String,
        /// What has happened to it.
        words: String,
    },
    /// A disk is not what it was, and nothing that could be done about it is safe.
    DiskLost {
        pod: String,
        /// What was found and what to do.
        words: String,
    },
    /// A rack was taken off the list, and one of its nodes is still a node of the database, or its pod is still there.
    RackMissing { pod: String, rack: String },
    /// The image that is wanted is of a release that cannot follow the one that runs.
    EngineVersion {
        /// Which they are, and what to do.
        words: String,
    },
    /// A claim may not ask for more.
    NotGrown {
        /// Its name.
        claim: String,
        /// The size that it should have.
        size: String,
        /// The API server's own words.
        error: String,
    },
    /// The API server does not let the operator delete the volume of a node that has left.
    ReclaimForbidden { claim: String },
}

impl DatabaseTrouble {
    /// One word for it.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::DecommissionFailed { .. } => Reason::DecommissionFailed,
            Self::JoinFailed { .. } => Reason::JoinFailed,
            Self::CleanupFailed { .. } => Reason::CleanupFailed,
            Self::RepairFailed { .. } => Reason::RepairFailed,
            Self::UpgradeFailed { .. } => Reason::DatabaseUpgradeFailed,
            Self::LeaverLost { .. } => Reason::LeaverLost,
            Self::DiskLost { .. } => Reason::DiskLost,
            Self::RackMissing { .. } => Reason::RackMissing,
            Self::EngineVersion { .. } => Reason::EngineVersionRefused,
            Self::NotGrown { .. } => Reason::VolumeNotGrown,
            Self::ReclaimForbidden { .. } => Reason::ReclaimForbidden,
        }
    }
}

impl fmt::Display for DatabaseTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DecommissionFailed {
                pod,
                attempts,
                error,
            } => write!(
                f,
                "{pod} was told {attempts} times to leave the database and could not: {error}"
            ),
            Self::JoinFailed { pod, attempts } => write!(
                f,
                "{pod} has tried {attempts} times to take over its share of the data and could not: the log of its \
                 container database tells why"
            ),
            Self::CleanupFailed {
                pod,
                attempts,
                error,
            } => write!(
                f,
                "{pod} was told {attempts} times to drop what nodes that have joined took over, and could not: {error}. \
                 It serves, and its disk stays fuller than it need be; no node leaves before"
            ),
            Self::RepairFailed {
                pod,
                attempts,
                error,
            } => write!(
                f,
                "{pod} was told {attempts} times to repair its data, and could not: {error}. It serves; the next attempt \
                 is made in half an hour"
            ),
            Self::UpgradeFailed {
                pod,
                step,
                attempts,
                error,
            } => write!(
                f,
                "{pod} was told {attempts} times to {step}, and could not: {error}. It serves; the next attempt is made \
                 in half an hour"
            ),
            Self::LeaverLost {
                pod,
                host_id,
                words,
            } => write!(
                f,
                "{pod} cannot leave the database any more, because {words}: put its volume back, or run nodetool \
                 removenode {host_id} in the pod of another node, which has the others copy what it held; the rest \
                 goes on by itself"
            ),
            Self::RackMissing { pod, rack } => write!(
                f,
                "rack {rack} is not in spec.database.racks any more, and still has {pod}: put the rack back with members: 0, \
                 and remove it when its nodes have left and their pods have gone"
            ),
            Self::EngineVersion { words } => f.write_str(words),
            Self::DiskLost { pod, words } => write!(f, "{pod}: {words}"),
            Self::NotGrown { claim, size, error } => write!(
                f,
                "the volume of {claim} cannot grow to {size}: {error}. If its StorageClass can expand volumes, set \
                 allowVolumeExpansion: true there; everything else goes on"
            ),
            Self::ReclaimForbidden { claim } => write!(
                f,
                "the operator may not delete the claim {claim} of a node that has left: delete it by hand, set \
                 spec.database.reclaim to Keep, or give the operator the right with the chart's value \
                 rbac.deleteVolumeClaims"
            ),
        }
    }
}
