//! `spec.database.repair`: how often the copies of all data are compared and made equal.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Repair of a database that the operator runs: the copies of all data are compared and made equal, one node after
/// another, within maintenance windows if there are any. A node that was rebuilt on an empty disk is repaired at once,
/// whatever the interval and the windows. Nothing is repaired with a replicationFactor of 1.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RepairSpec {
    /// Whether the operator repairs the database. Default: true. With false it repairs nothing, also after a node was
    /// rebuilt on an empty disk; use it only if another tool repairs the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,

    /// Time from one repair of a node to the next, from 1h to 9d: `7d`, `36h`. Default: 7d. Deleted data can come back
    /// if a node is not repaired within 10 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,4}d|([0-9]{1,6}(h|m))+)$")
    )]
    #[x_kube(
        validation = Rule::new(
            "!self.matches('^([0-9]{1,4}d|([0-9]{1,6}(h|m))+)$') || (self.endsWith('d') ? \
             int(self.replace('d', '')) >= 1 && int(self.replace('d', '')) <= 9 : \
             duration(self) >= duration('1h') && duration(self) <= duration('216h'))"
        ).message("interval must be between 1h and 9d")
    )]
    pub interval: Option<String>,
}
