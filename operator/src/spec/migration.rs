//! A move of a table as values.

use readstates_operator_api::{ExternalSpec, MembersMeanwhile};

/// A move that can be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedMigration {
    pub target: MoveTarget,
    pub members: MembersMeanwhile,
    /// The claim with the file that says how far it is.
    pub checkpoints: String,
    pub merge: bool,
    pub rate: Option<i32>,
    pub parallel: Option<i32>,
    pub suspend: bool,
}

/// Where the table moves.
#[derive(Clone, Debug, PartialEq)]
pub enum MoveTarget {
    /// A database that the cluster itself will name.
    Database {
        external: Box<ExternalSpec>,
        tls_secret: Option<String>,
    },
    /// That of another cluster, of this name.
    Cluster(String),
}

impl MoveTarget {
    /// The other cluster, if it is that of one.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        match self {
            Self::Cluster(name) => Some(name),
            Self::Database { .. } => None,
        }
    }
}
