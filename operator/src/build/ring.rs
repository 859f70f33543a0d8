//! The published member table.

use readstates_operator_api::{ReadStateRing, ReadStateRingSpec, labels::Component};

use crate::validate::ValidatedCluster;

pub(super) fn ring(cluster: &ValidatedCluster, table: &ReadStateRingSpec) -> ReadStateRing {
    ReadStateRing {
        metadata: cluster.id.child(cluster.id.cache(), Component::Cache),
        spec: table.clone(),
    }
}
