//! The Secrets with which the processes of a cluster prove their identity: marks, times and versions.

use jiff::Timestamp;
use readstates_identity::{Pems, Role};

/// The Secrets with which the processes of a cluster prove their identity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdentitySeen {
    /// The certificate authority; always absent where cert-manager issues.
    pub authority: Found<AuthoritySeen>,
    /// What members show.
    pub member: Found<LeafSeen>,
    /// What the operator shows.
    pub operator: Found<LeafSeen>,
    /// What database agents show.
    pub agent: Found<LeafSeen>,
    /// The operator's own certificate with its key.
    pub own: Option<Pems>,
    /// Why nothing may be issued now although it is due.
    pub clock: Option<String>,
    /// Why cert-manager, which is to issue, cannot be asked.
    pub no_manager: Option<String>,
}

impl IdentitySeen {
    /// The Secret of the processes of a role.
    #[must_use]
    pub fn leaf(&self, role: Role) -> &Found<LeafSeen> {
        match role {
            Role::Member => &self.member,
            Role::Operator => &self.operator,
            Role::Agent => &self.agent,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
    /// There is none of this name.
    Absent {
        /// What cert-manager says of it, where it is to make it.
        words: Option<String>,
    },
    /// It does not belong to this cluster.
    Foreign {
        /// Who controls it.
        owner: Option<String>,
    },
    /// It belongs to an earlier cluster of the same name.
    Leftover,
    /// It is ours, and what it holds cannot be used.
    Broken {
        /// Which one it is.
        version: Version,
        /// What is wrong, and what to do.
        why: String,
    },
    /// It is ours.
    Known {
        /// Which one it is.
        version: Version,
        content: T,
    },
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self::Absent { words: None }
    }
}

impl<T> Found<T> {
    /// What it says, if it is ours and can be used.
    #[must_use]
    pub fn content(&self) -> Option<&T> {
        match self {
            Self::Known { content, .. } => Some(content),
            Self::Absent { .. } | Self::Foreign { .. } | Self::Leftover | Self::Broken { .. } => {
                None
            }
        }
    }

    /// The version of the Secret, if it is ours.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        match self {
            Self::Known { version, .. } | Self::Broken { version, .. } => Some(version),
            Self::Absent { .. } | Self::Foreign { .. } | Self::Leftover => None,
        }
    }
}

/// One version of one object: a write that names it changes no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub uid: String,
    /// Its resource version.
    pub number: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSeen {
    pub mark: String,
    /// The first moment at which it is valid.
    pub not_before: Timestamp,
    /// The last one.
    pub not_after: Timestamp,
}

/// The certificate authority of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthoritySeen {
    /// Issues now. None while the one before was lost and the next one is not trusted everywhere yet.
    pub issuing: Option<CertificateSeen>,
    /// Issues next.
    pub next: Option<CertificateSeen>,
    /// Issued before.
    pub old: Vec<CertificateSeen>,
    /// The wish that the newest one was made for.
    pub request: Option<String>,
}

impl AuthoritySeen {
    /// Marks of all that are to be trusted.
    #[must_use]
    pub fn trusted(&self) -> Vec<String> {
        let all = self.issuing.iter().chain(&self.next).chain(&self.old);
        all.map(|ca| ca.mark.clone()).collect()
    }
}

/// The certificate of processes of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSeen {
    pub certificate: CertificateSeen,
    /// Mark of the authority that issued it.
    pub issued_by: Option<String>,
    /// Marks of the authorities that its holder trusts.
    pub trusted: Vec<String>,
    /// When the Secret was last written, by the API server's clock.
    pub written: Option<Timestamp>,
}
