//! `status.databaseReplication`: how many copies of each read state there are, and how far a change of them is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Copies of each read state in the database that the operator runs. A change of `spec.database.replicationFactor` is made
/// by one copy at a time, each followed by a repair of every node.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseReplication {
    /// Copies that the keyspace has, or is being altered to have.
    pub keyspace: i32,

    /// Copies that every read state has: fewer than `keyspace` after it was raised, until every node has been repaired.
    pub complete: i32,

    /// How far the change is.
    pub stage: DatabaseReplicationStage,

    /// When this stage began.
    pub since: Time,
}

/// How far a change of the replication factor is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseReplicationStage {
    /// Nothing is under way.
    Stable,
    /// The schema Job alters the keyspace.
    Altering,
    /// Every node is repaired, one after another: copies that were added get their data, and copies that differ become
    /// equal.
    Repairing,
}
