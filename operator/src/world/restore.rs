//! What a restore into a new cluster needs and what became of its Jobs.

use readstates_operator_api::{RestorePhase, RestoreStatus};

use super::{Run, SnapshotSeen};
use crate::spec::RestoreSource;

/// What was seen of the restore that a cluster is to begin with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreSeen {
    /// What the status has on record.
    pub record: Option<RestoreStatus>,
    /// Which backup and where, or why that is not known. None: nothing is looked for.
    pub source: Option<Result<RestoreSource, String>>,
    /// What is wrong with each Secret of the place.
    pub lacking: Vec<String>,
    /// Its Jobs, newest first.
    pub jobs: Vec<RestoreJob>,
    /// The VolumeSnapshots that it begins with, in the place of a backup, or why there are none.
    pub snapshots: Option<Result<Vec<SnapshotSeen>, String>>,
    /// The move that it begins with, in the place of a backup.
    pub moving: Option<MoveIn>,
}

/// A move of another cluster's table into this one.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveIn {
    /// The other cluster, whose pods write here meanwhile; none: there is no such move.
    pub from: Option<String>,
    pub stage: MoveInStage,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq)]
pub enum MoveInStage {
    /// Nothing has been copied; the words say why.
    Waiting(String),
    /// Something has; the words say how far it is.
    Begun(String),
    /// Everything is here, and no cache pod of the other cluster serves any more.
    Over(Box<RestoreStatus>),
}

impl RestoreSeen {
    /// Whether everything was restored, as far as it is on record.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let record = self.record.as_ref();
        record.is_some_and(|record| record.phase == RestorePhase::Restored)
    }
}

/// A Job that restores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreJob {
    /// Its UID, so that a deletion means this one.
    pub uid: String,
    pub run: Run,
    /// How many pods it has had, with the one at work.
    pub attempts: i32,
    /// Whether another attempt would end the same, if it failed.
    pub is_final: bool,
}
