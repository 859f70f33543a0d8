//! Errors of a reconcile, and whether trying again soon can help.

use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

use crate::words::chain;

/// A reconcile that could not be carried to its end. What a person must know of it is in the
/// status; this is for the log and for when to try again.
#[derive(Debug, Error)]
pub enum Error {
    /// The API server could not be read.
    #[error("failed to read {what}")]
    Read {
        /// Kind and name.
        what: String,
        #[source]
        source: kube::Error,
    },
    /// The API server did not take a write, for a reason that may pass.
    #[error("failed to write {what}")]
    Write {
        /// Kind and name.
        what: String,
        #[source]
        source: kube::Error,
    },
    /// An object could not be written as JSON.
    #[error("failed to encode {what}")]
    Encode {
        /// Kind and name.
        what: String,
        #[source]
        source: serde_json::Error,
    },
    /// The system gave no random bytes.
    #[error("failed to make a token")]
    Random {
        #[source]
        source: std::io::Error,
    },
    /// A cache pod did not do as it was asked.
    #[error("failed to ask {member} to {wish}")]
    Member {
        member: String,
        /// What it was asked.
        wish: &'static str,
        #[source]
        source: crate::admin::AdminError,
    },
    /// A cache pod that has to be asked has no address.
    #[error("failed to ask {member} to {wish}: its pod has no address")]
    Unreachable {
        member: String,
        /// What it was to be asked.
        wish: &'static str,
    },
    /// A certificate for a process of the cluster could not be made.
    #[error("failed to make Secret {name}")]
    Issue {
        name: String,
        #[source]
        source: readstates_identity::NotIssued,
    },
    /// The cluster has a name that no certificate can have.
    #[error("failed to name the cluster in certificates")]
    Named {
        #[source]
        source: readstates_identity::BadName,
    },
    /// The API server handed out an object without what every stored object has.
    #[error("the object has no {field}")]
    Nameless {
        /// The metadata field that is missing.
        field: &'static str,
    },
}

impl Error {
    /// Whether the same attempt may succeed soon, without anything being changed.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => passes(source),
            Self::Random { .. } => true,
            // The next round observes again, and may decide otherwise.
            Self::Member { .. } | Self::Unreachable { .. } => true,
            Self::Issue { .. } => true,
            Self::Encode { .. } | Self::Nameless { .. } | Self::Named { .. } => false,
        }
    }

    /// When to try again, after the first time.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        if self.retryable() {
            Duration::from_secs(5)
        } else {
            Duration::from_mins(1)
        }
    }

    /// Whether attempts back off exponentially: an API server that cannot be read is away, and all clusters ask it.
    /// What it refuses to write is decided again soon, by what there is then; so is what a cache pod did not do, since
    /// others may wait for it.
    #[must_use]
    pub fn backs_off(&self) -> bool {
        match self {
            Self::Read { .. } => true,
            Self::Write { .. }
            | Self::Member { .. }
            | Self::Unreachable { .. }
            | Self::Encode { .. }
            | Self::Random { .. }
            | Self::Issue { .. }
            | Self::Named { .. }
            | Self::Nameless { .. } => false,
        }
    }

    /// Whether another client was faster: what was decided rests on an old state, and is decided again at once.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => {
                matches!(source, kube::Error::Api(status) if status.code == 409)
            }
            Self::Encode { .. }
            | Self::Random { .. }
            | Self::Member { .. }
            | Self::Unreachable { .. }
            | Self::Issue { .. }
            | Self::Named { .. }
            | Self::Nameless { .. } => false,
        }
    }

    /// What a status says that failed, and why. Nothing of a cache pod that did not do as it was asked: the status shows
    /// how far that is.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        match self {
            Self::Member { .. } | Self::Unreachable { .. } => None,
            Self::Read {
                source: kube::Error::Api(status),
                ..
            }
            | Self::Write {
                source: kube::Error::Api(status),
                ..
            } => Some(format!("{self}: {}", status.message)),
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Encode { .. }
            | Self::Random { .. }
            | Self::Issue { .. }
            | Self::Named { .. }
            | Self::Nameless { .. } => Some(chain(self)),
        }
    }

    /// What failed, for metrics.
    #[must_use]
    pub fn label(&self) -> Label {
        match self {
            Self::Read { .. } => Label::Read,
            Self::Write { .. } => Label::Write,
            Self::Encode { .. } => Label::Encode,
            Self::Random { .. } => Label::Random,
            Self::Member { .. } => Label::Member,
            Self::Unreachable { .. } => Label::Unreachable,
            Self::Issue { .. } => Label::Issue,
            Self::Nameless { .. } | Self::Named { .. } => Label::Nameless,
        }
    }
}

/// What failed, as a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Label {
    Read,
    Write,
    Encode,
    Random,
    Member,
    Unreachable,
    Issue,
    Nameless,
}

impl Label {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Connections come back and conflicts are resolved by reading again; a refusal stays one.
fn passes(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 409 || status.code == 429 || status.code >= 500,
        _ => true,
    }
}
