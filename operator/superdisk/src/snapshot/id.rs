//! The name that a snapshot's maker gives it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The name of one snapshot, such as the UID of a VolumeSnapshot: for one moment, and never for another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotId(String);

/// A text that is no snapshot ID.
#[derive(Debug, thiserror::Error)]
#[error(
    "a snapshot ID has 1 to {} letters, digits, dots, dashes or underscores",
    SnapshotId::MAX
)]
pub struct BadSnapshotId;

impl SnapshotId {
    /// What the lineage header has room for.
    pub const MAX: usize = 64;

    /// The ID as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SnapshotId {
    type Err = BadSnapshotId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if text.is_empty() || text.len() > Self::MAX || !text.chars().all(good) {
            return Err(BadSnapshotId);
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for SnapshotId {
    type Error = BadSnapshotId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<SnapshotId> for String {
    fn from(id: SnapshotId) -> Self {
        id.0
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_text_that_the_header_has_room_for() {
        for bad in ["", "a b", "a/b", "a@b", &"x".repeat(65)] {
            assert!(bad.parse::<SnapshotId>().is_err(), "{bad:?}");
        }
        let longest = "x".repeat(64);
        assert_eq!(longest.parse::<SnapshotId>().unwrap().as_str(), longest);
    }
}
