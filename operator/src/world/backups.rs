//! What a backup needs and what became of its Jobs.

use jiff::Timestamp;
use readstates_operator_api::ReadStateCluster;
use serde::Deserialize;

use super::{CertificatesSeen, JobOutcome, SecretSeen};

/// What a backup needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceSeen {
    /// The cluster; none: there is none of this name.
    pub cluster: Option<ReadStateCluster>,
    /// The Secret with the login of its database, where it has one.
    pub login: Option<SecretSeen>,
    /// The Secret with the certificates for CQL, where the spec wants them.
    pub certificates: Option<CertificatesSeen>,
    /// What is wrong with each Secret of the place.
    pub lacking: Vec<String>,
}

/// A Job of a backup or of a schedule, and what its containers reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub job: String,
    /// When it was created.
    pub begun: Timestamp,
    pub outcome: JobOutcome,
    /// When it succeeded, if it did.
    pub finished: Option<Timestamp>,
    /// What its containers left, by their names; each of the newest pod in which that one ended.
    pub said: Vec<(String, Said)>,
}

impl Run {
    /// What the container of this name left.
    #[must_use]
    pub fn said(&self, container: &str) -> Option<&Said> {
        let mut all = self.said.iter();
        all.find(|(name, _)| name == container)
            .map(|(_, said)| said)
    }
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It did its work; none: what it reported cannot be read.
    Done(Option<Told>),
    /// It failed, with these last words.
    Failed(String),
}

/// What `readstates backup` reports: of each command a part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Told {
    /// Id of the backup.
    pub id: Option<String>,
    /// When it was complete.
    pub finished: Option<Timestamp>,
    pub users: Option<i64>,
    /// Bytes of its rows.
    pub bytes: Option<i64>,
    /// Bytes of its objects.
    pub stored_bytes: Option<i64>,
    /// Bytes of those that no earlier backup had.
    pub new_stored_bytes: Option<i64>,
    /// What it is a backup of.
    pub source: Option<String>,
    /// When it was restored.
    pub restored: Option<Timestamp>,
    /// Backups that were deleted.
    pub deleted_backups: Option<i64>,
    /// Backups that are left.
    pub kept_backups: Option<i64>,
    /// Passes of a move, oldest first.
    #[serde(default)]
    pub passes: Vec<PassTold>,
}

/// What `readstates migrate` reports of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct PassTold {
    pub ended: Timestamp,
    pub tally: Counted,
}

/// What a pass has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Counted {
    pub users: i64,
}

/// A CronJob of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronJobSeen {
    /// Its UID, by which its Jobs are known.
    pub uid: String,
    /// Whether it begins no Jobs.
    pub suspended: bool,
}
