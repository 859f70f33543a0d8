//! `status.databaseUpgrade`: a change of the database to another release of its engine.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::PendingJob;

/// A change of the database to another release of its engine, from the first snapshot until every node has removed its
/// snapshot.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseUpgrade {
    /// Image that the nodes ran before.
    pub from: String,

    /// Image that the nodes are changed to.
    pub to: String,

    /// Name of the snapshot that every node took before the first restart: the way back.
    pub snapshot: String,

    /// How far the change is.
    pub stage: DatabaseUpgradeStage,

    /// When this stage began.
    pub since: Time,
}

impl DatabaseUpgrade {
    /// Whether nodes have to take a step of it: not once it was taken back.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        match self.stage {
            DatabaseUpgradeStage::Snapshotting
            | DatabaseUpgradeStage::Restarting
            | DatabaseUpgradeStage::Rewriting
            | DatabaseUpgradeStage::Releasing => true,
            DatabaseUpgradeStage::WentBack => false,
        }
    }
}

/// Stage of a change to another release of the engine.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseUpgradeStage {
    /// The nodes take a snapshot, one after another; none has been restarted.
    Snapshotting,
    /// The nodes are restarted with the new image, one after another.
    Restarting,
    /// Every node runs the new image; they write their data in the new release's format, one after another.
    Rewriting,
    /// The nodes remove their snapshots, one after another.
    Releasing,
    /// Every node runs the former image again. The snapshots stay until a user or the next upgrade releases them.
    WentBack,
}

/// What one node does in a stage of such a change.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeUpgrade {
    /// The stage.
    pub stage: DatabaseUpgradeStage,

    /// The job of the node in this stage. Absent once it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<PendingJob>,
}
