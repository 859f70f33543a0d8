//! The ring as the operator makes it: empty. From then on members alone write it.

use readstates_operator_api::{ReadStateRing, ReadStateRingSpec, labels::Component};

use crate::spec::ValidatedCluster;

/// A ring without owners.
pub(super) fn empty(cluster: &ValidatedCluster, number: i64) -> ReadStateRing {
    ReadStateRing {
        metadata: cluster.id.child(cluster.id.cache(), Component::Cache),
        spec: ReadStateRingSpec::empty(number),
    }
}
