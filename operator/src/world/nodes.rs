//! The nodes of a database: claims and what their agents say.

use std::{collections::BTreeMap, fmt};

use readstates_agent::wire::{Facts, Report};

use super::Seen;

/// The nodes of the database of one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nodes {
    /// What the agents said, by pod name. A pod that is missing here was not asked.
    pub reports: BTreeMap<String, Seen<Report>>,
    /// What must be known for a node to join or leave or get another release, and for the first record of the number of
    /// copies, by the name of the pod that was asked; asked only where it may be needed.
    pub facts: BTreeMap<String, Seen<Facts>>,
    /// Claims of database pods, by name.
    pub claims: BTreeMap<String, ClaimSeen>,
    /// The token that agents take orders by.
    pub token: Option<Token>,
}

/// A secret that no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimSeen {
    pub uid: String,
    /// Whether there is a volume behind it.
    pub bound: bool,
    /// UID of the claim that it was made from, where that is known.
    pub copy_of: Option<String>,
    /// UID of the VolumeSnapshot that the operator made it from.
    pub restored_from: Option<String>,
    /// What its volume has of what was asked for.
    pub size: ClaimSize,
}

/// The size of a claim, as Kubernetes writes quantities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimSize {
    /// What is asked for.
    pub requested: Option<String>,
    /// What there is; less than requested while the volume or its filesystem grows.
    pub capacity: Option<String>,
    /// How far that is, or what the driver has against it.
    pub words: Option<String>,
}
