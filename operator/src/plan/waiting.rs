//! Why nothing happens just now, as a value.

use std::fmt;

use jiff::Timestamp;
use readstates_operator_api::{conditions::Reason, labels};

use super::{DatabaseWait, rollout};
use crate::{names::MOVING_TO, rollouts::Holder};

/// What the next step waits for. Ends up in the conditions, a column, an event and a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// A Secret, or keys in it.
    Secret {
        name: String,
        /// Keys that it lacks; none: the Secret itself is missing.
        missing: Vec<&'static str>,
    },
    /// A certificate that cert-manager is to make.
    CertificateIssued {
        /// Its name, and that of its Secret.
        name: String,
        /// What cert-manager says of it.
        words: Option<String>,
    },
    /// Certificates that can be used.
    CertificateUsable {
        /// The Secret that holds others.
        name: String,
        /// What is wrong with them, and what to do.
        why: String,
    },
    /// A Secret by which processes prove what they are.
    IdentityMade { name: String },
    /// The name of an identity Secret is taken by an object that is not ours.
    IdentityTaken {
        /// What a person can do about it.
        words: String,
    },
    /// A process to use or trust what the present stage of a rotation gives it.
    IdentityRotating {
        /// The pod or the Secret.
        who: String,
        /// What it is to do.
        what: &'static str,
        /// Why it does not yet.
        why: String,
    },
    /// A clock to be set.
    Clock {
        /// How they differ.
        words: String,
    },
    /// A cache pod of an earlier release to write what it holds and stop: pods of this one take nothing from
    /// it.
    DrainingCold {
        member: String,
        /// Slots it still owns.
        owned: usize,
        /// Users whose changes it holds.
        dirty: i64,
    },
    /// A way to cert-manager.
    CertManager {
        /// Why there is none, and what to do.
        why: String,
    },
    /// Members of a rack.
    Rack {
        rack: String,
        /// Members that are ready.
        ready: i32,
        /// Members that are wanted.
        members: i32,
        /// What keeps one of them.
        trouble: Option<String>,
    },
    /// Something about the nodes of the database.
    Database(DatabaseWait),
    /// The Job that makes keyspace and table.
    Schema {
        /// Its name.
        job: String,
        /// What keeps its pod.
        trouble: Option<String>,
    },
    /// The backup that a new cluster begins with.
    Restore { reason: Reason, words: String },
    /// The `ReadStateMigration` to go by which this cluster's table was handed over.
    HandedOver {
        migration: String,
        /// The cluster that has the table.
        to: String,
    },
    /// A way to tell whether this cluster's table was handed over.
    HandOverUnknown {
        /// Why there is none, and what to do.
        why: String,
    },
    /// Cache pods of another cluster to leave this database, so that it can stop.
    StillWritten {
        /// Those that write it.
        pods: Vec<String>,
    },
    /// A store that a member can write to, so that its pod can go.
    StoreBeforeStop {
        /// The member that cannot write.
        member: String,
        /// Users whose changes it holds.
        dirty: i64,
        /// Why it cannot.
        problem: String,
    },
    /// A ring that can be worked by.
    RingUnreadable {
        /// What is wrong with the one there is.
        why: String,
    },
    /// Running pods to write the owners of slots into a ring that replaces a deleted one.
    RingLost {
        /// Those still there.
        pods: Vec<String>,
    },
    /// A member to hand on what it owns and to write what is left.
    Draining {
        member: String,
        /// Slots it still owns.
        owned: usize,
        /// Users whose changes it holds.
        dirty: i64,
    },
    /// Proof that a pod holds nothing.
    Unproven {
        member: String,
        /// Why there is none.
        why: String,
    },
    /// Members to take what a process left that is gone.
    Takeover {
        /// Its name.
        member: String,
        /// Slots that are its by the ring.
        slots: usize,
    },
    /// Members to take slots that never had an owner.
    Unowned { slots: usize },
    /// Slots to arrive.
    Moving {
        /// How many, from where to where.
        moves: String,
    },
    /// Cache pods of a cluster that is deleted or stopped to write what they hold and stop, before its database
    /// does.
    Stopping {
        /// Whether it is deleted.
        deleted: bool,
        /// Those still there.
        pods: Vec<String>,
        /// Users whose changes those that answer have not written.
        dirty: i64,
    },
    /// Cache pods to write what they hold and go.
    CacheStopped {
        /// Those still there.
        pods: Vec<String>,
    },
    /// Cache pods to become ready.
    Cache {
        /// Those that are.
        ready: i32,
        /// Those that are wanted.
        wanted: i32,
        /// What keeps one of them.
        trouble: Option<String>,
    },
    /// A member to keep another number of read states.
    Capacity {
        member: String,
        /// How many it keeps now.
        from: i64,
        /// How many it is to keep.
        to: i64,
    },
    /// A pod to get more memory from its node while it runs.
    Memory {
        pod: String,
        /// How much it is to have, in bytes.
        memory: u64,
        /// What keeps it, in Kubernetes' words.
        words: Option<String>,
    },
    /// A pod that serves to be restarted.
    Maintenance {
        pod: String,
        /// When it may.
        at: Timestamp,
        /// What happens then.
        what: &'static str,
        /// What was set as the time until which the window is open, and is no time.
        unreadable: Option<String>,
    },
    /// Other clusters to be done with the restarts of their pods.
    OtherClusters {
        /// The pod that is to be restarted.
        pod: String,
        /// How many clusters may restart pods at once.
        limit: usize,
        /// Those that do; `None` while not all clusters are known.
        others: Option<Vec<Holder>>,
    },
    /// An object of an earlier cluster of the same name to be collected.
    Leftover {
        /// Kind and name.
        object: String,
    },
    /// What failed to be tried again.
    AnotherAttempt {
        /// What failed, and why.
        words: String,
    },
}

impl WaitingOn {
    /// Whether it is members that are waited for, at work on their slots: that is a matter of
    /// seconds, and no watch tells when it is done.
    #[must_use]
    pub fn for_members(&self) -> bool {
        match self {
            Self::Draining { .. }
            | Self::DrainingCold { .. }
            | Self::Takeover { .. }
            | Self::Unowned { .. }
            | Self::Capacity { .. }
            | Self::Stopping { .. }
            | Self::Moving { .. } => true,
            Self::Secret { .. }
            | Self::CertificateIssued { .. }
            | Self::CertificateUsable { .. }
            | Self::CertManager { .. }
            | Self::IdentityMade { .. }
            | Self::IdentityTaken { .. }
            | Self::IdentityRotating { .. }
            | Self::Clock { .. }
            | Self::Rack { .. }
            | Self::Database(_)
            | Self::Schema { .. }
            | Self::Restore { .. }
            | Self::HandedOver { .. }
            | Self::HandOverUnknown { .. }
            | Self::StillWritten { .. }
            | Self::StoreBeforeStop { .. }
            | Self::RingUnreadable { .. }
            | Self::RingLost { .. }
            | Self::Unproven { .. }
            | Self::CacheStopped { .. }
            | Self::Maintenance { .. }
            | Self::OtherClusters { .. }
            | Self::Cache { .. }
            | Self::Memory { .. }
            | Self::Leftover { .. }
            | Self::AnotherAttempt { .. } => false,
        }
    }

    /// One word for it.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Secret { .. } => Reason::SecretMissing,
            Self::CertificateIssued { .. } => Reason::CertificatePending,
            Self::CertificateUsable { .. } => Reason::CertificateInvalid,
            Self::CertManager { .. } => Reason::CertManagerMissing,
            Self::IdentityMade { .. } => Reason::IdentityPending,
            Self::IdentityTaken { .. } => Reason::NameConflict,
            Self::IdentityRotating { .. } => Reason::IdentityRotating,
            Self::Clock { .. } => Reason::ClockWrong,
            Self::DrainingCold { .. } => Reason::DrainingCold,
            Self::Rack { .. } => Reason::DatabaseNotReady,
            Self::Database(wait) => wait.reason(),
            Self::Schema { .. } => Reason::SchemaPending,
            Self::Restore { reason, words: _ } => *reason,
            Self::HandedOver { .. } => Reason::HandedOver,
            Self::HandOverUnknown { .. } => Reason::NotObserved,
            Self::StillWritten { .. } => Reason::StillWritten,
            Self::StoreBeforeStop { .. } => Reason::UnsafeToStop,
            Self::RingUnreadable { .. } => Reason::RingUnreadable,
            Self::RingLost { .. } => Reason::RingLost,
            Self::Draining { .. } => Reason::CacheDraining,
            Self::Unproven { .. } => Reason::DrainUnproven,
            Self::Takeover { .. } => Reason::TakeoverPending,
            Self::Unowned { .. } => Reason::SlotsUnowned,
            Self::Moving { .. } => Reason::SlotsMoving,
            Self::Stopping { .. } | Self::CacheStopped { .. } => Reason::CacheStopping,
            Self::Cache { .. } => Reason::CacheNotReady,
            Self::Maintenance { .. } => Reason::MaintenancePending,
            Self::OtherClusters { .. } => Reason::WaitsForOtherClusters,
            Self::Capacity { .. } | Self::Memory { .. } => Reason::CapacityChanging,
            Self::Leftover { .. } => Reason::LeftoverObject,
            Self::AnotherAttempt { .. } => Reason::RequestFailed,
        }
    }
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret { name, missing } if missing.is_empty() => {
                write!(f, "Secret {name} does not exist")
            }
            Self::Secret { name, missing } => {
                write!(f, "Secret {name} has no {}", missing.join(" and no "))
            }
            Self::CertificateIssued { name, words } => {
                write!(f, "cert-manager has not made Certificate {name} yet")?;
                append(f, words.as_deref())
            }
            Self::CertificateUsable { name, why } => write!(f, "Secret {name}: {why}"),
            Self::CertManager { why } => f.write_str(why),
            Self::IdentityMade { name } => write!(f, "Secret {name} is not made yet"),
            Self::IdentityTaken { words } => f.write_str(words),
            Self::IdentityRotating { who, what, why } => {
                write!(f, "{who} is to {what}: {why}")
            }
            Self::Clock { words } => f.write_str(words),
            Self::DrainingCold {
                member,
                owned,
                dirty,
            } => write!(
                f,
                "{member}, of an earlier release, writes changes of {dirty} users and stops; its {owned} slots are \
                 taken by pods that have to load their users again"
            ),
            Self::Rack {
                rack,
                ready,
                members,
                trouble,
            } if ready == members => {
                write!(
                    f,
                    "rack {rack} is changing, with all {members} members ready"
                )?;
                append(f, trouble.as_deref())
            }
            Self::Rack {
                rack,
                ready,
                members,
                trouble,
            } => {
                write!(f, "rack {rack} has {ready} of {members} members ready")?;
                append(f, trouble.as_deref())
            }
            Self::Database(wait) => wait.fmt(f),
            Self::Schema { job, trouble } => {
                write!(f, "Job {job} has not made keyspace and table yet")?;
                append(f, trouble.as_deref())
            }
            Self::Restore { reason: _, words } => f.write_str(words),
            Self::HandedOver { migration, to } => write!(
                f,
                "ReadStateMigration {migration} has handed the table over to ReadStateCluster {to}: no cache pod starts here \
                 while it exists, since two clusters would not see each other's changes"
            ),
            Self::HandOverUnknown { why } => write!(
                f,
                "cache pods start when it is known that no ReadStateMigration has handed the table over: {why}"
            ),
            Self::StillWritten { pods } => write!(
                f,
                "{} of another ReadStateCluster write this database, too, and cannot write without it: it stops once they \
                 are gone or run without {MOVING_TO}",
                pods.join(", ")
            ),
            Self::StoreBeforeStop {
                member,
                dirty,
                problem,
            } => write!(
                f,
                "{member} holds changes of {dirty} users and cannot write them to the database \
                 ({problem}); its pod goes when it can"
            ),
            Self::RingUnreadable { why } => {
                write!(f, "the ReadStateRing cannot be used: {why}")
            }
            Self::RingLost { pods } => write!(
                f,
                "the ReadStateRing was deleted; there is an empty one again, into which {} write who owns what",
                pods.join(", ")
            ),
            Self::Draining {
                member,
                owned,
                dirty,
            } => write!(
                f,
                "{member} hands on what it holds: {owned} slots and changes of {dirty} users are left"
            ),
            Self::Unproven { member, why } => {
                write!(f, "{member} does not say what it holds: {why}")
            }
            Self::Takeover { member, slots } => write!(
                f,
                "{slots} slots of {member}, which is gone, are to be taken over by the others"
            ),
            Self::Unowned { slots } => write!(f, "{slots} slots are to be taken by members"),
            Self::Moving { moves } => f.write_str(moves),
            Self::Stopping {
                deleted: true,
                pods,
                dirty,
            } => write!(
                f,
                "the cluster is deleted: {} write changes of {dirty} users and stop, then the database goes",
                pods.join(", ")
            ),
            Self::Stopping {
                deleted: false,
                pods,
                dirty,
            } => write!(
                f,
                "the cluster is stopped: {} write changes of {dirty} users and stop, then the database stops",
                pods.join(", ")
            ),
            Self::CacheStopped { pods } => write!(f, "{} must stop", pods.join(", ")),
            Self::Cache {
                ready,
                wanted,
                trouble,
            } => {
                write!(f, "{ready} of {wanted} cache pods are ready")?;
                append(f, trouble.as_deref())
            }
            Self::Capacity { member, from, to } => {
                write!(
                    f,
                    "{member} is told to keep {to} read states in the place of {from}"
                )
            }
            Self::Memory { pod, memory, words } => {
                let mib = memory >> 20;
                write!(f, "{pod} is given {mib} MiB of memory while it runs")?;
                append(f, words.as_deref())
            }
            Self::Maintenance {
                pod,
                at,
                what,
                unreadable,
            } => {
                write!(f, "{pod} is restarted when {what}, at {at:.0}")?;
                match unreadable {
                    None => Ok(()),
                    Some(text) => write!(
                        f,
                        " ({text:?}, the value of the annotation {}, is no time such as 2026-12-31T23:00:00Z)",
                        labels::OPEN_WINDOW_UNTIL
                    ),
                }
            }
            Self::OtherClusters { pod, limit, others } => {
                rollout::tell(f, pod, *limit, others.as_deref())
            }
            Self::Leftover { object } => {
                write!(
                    f,
                    "{object} of an earlier cluster of this name is still being deleted"
                )
            }
            Self::AnotherAttempt { words } => {
                write!(
                    f,
                    "{words}; it is tried again, and what comes after it waits"
                )
            }
        }
    }
}

fn append(f: &mut fmt::Formatter<'_>, trouble: Option<&str>) -> fmt::Result {
    trouble.map_or(Ok(()), |t| write!(f, " ({t})"))
}
