//! Why nothing happens just now, as a value.

use std::fmt;

use readstates_operator_api::conditions::Reason;

use super::DatabaseWait;

/// What the next step waits for. Ends up in the conditions, a column, an event and a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// A Secret, or keys in it.
    Secret {
        /// Its name.
        name: String,
        /// Keys that it lacks; none: the Secret itself is missing.
        missing: Vec<&'static str>,
    },
    /// Members of a rack.
    Rack {
        /// The rack.
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
    /// A store that members can write to, so that they can be stopped.
    StoreBeforeStop {
        /// The member that cannot write.
        member: String,
        /// Users whose changes it holds.
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
    /// An object of an earlier cluster of the same name to be collected.
    Leftover {
        /// Kind and name.
        object: String,
    },
}

impl WaitingOn {
    /// One word for it.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Secret { .. } => Reason::SecretMissing,
            Self::Rack { .. } => Reason::DatabaseNotReady,
            Self::Database(wait) => wait.reason(),
            Self::Schema { .. } => Reason::SchemaPending,
            Self::StoreBeforeStop { .. } => Reason::UnsafeToStop,
            Self::CacheStopped { .. } => Reason::CacheStopping,
            Self::Cache { .. } => Reason::CacheNotReady,
            Self::Leftover { .. } => Reason::LeftoverObject,
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
            Self::StoreBeforeStop { member, dirty } => write!(
                f,
                "{member} holds changes of {dirty} users and cannot write them to the database; \
                 pods are stopped when it can"
            ),
            Self::CacheStopped { pods } if pods.is_empty() => {
                f.write_str("the StatefulSet controller has not confirmed the stop yet")
            }
            Self::CacheStopped { pods } => {
                write!(f, "{} must stop before the members change", pods.join(", "))
            }
            Self::Cache {
                ready,
                wanted,
                trouble,
            } => {
                write!(f, "{ready} of {wanted} cache pods are ready")?;
                append(f, trouble.as_deref())
            }
            Self::Leftover { object } => {
                write!(
                    f,
                    "{object} of an earlier cluster of this name is still being deleted"
                )
            }
        }
    }
}

fn append(f: &mut fmt::Formatter<'_>, trouble: Option<&str>) -> fmt::Result {
    trouble.map_or(Ok(()), |t| write!(f, " ({t})"))
}
