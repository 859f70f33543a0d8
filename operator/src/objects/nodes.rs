//! What database pods are told of themselves: which node each is, and which volume its super-disk is made on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use readstates_operator_api::{DatabaseNode, DatabaseNodeState, labels::Component};
use serde_json::json;

use crate::{
    plan::{Kept, VolumeEntry},
    spec::{Identity, ValidatedCluster},
};

/// An entry about its volume for each pod, by the pod's name. It outlives the pods: one that comes back needs no
/// operator.
pub(super) fn entries(id: &Identity, volumes: &BTreeMap<String, VolumeEntry>) -> ConfigMap {
    let text = |entry: &VolumeEntry| {
        let VolumeEntry {
            claim_uid,
            pod_uid,
            copy_of,
            used_before,
            keep,
        } = entry;
        let mut text = json!({ "volume": claim_uid, "usedBefore": used_before });
        if let Some(pod_uid) = pod_uid {
            text["pod"] = json!(pod_uid);
        }
        if let Some(copy_of) = copy_of {
            text["copyOf"] = json!(copy_of);
        }
        if let Some(Kept { pod_uid, leg }) = keep {
            text["keep"] = json!({ "pod": pod_uid, "leg": leg });
        }
        text.to_string()
    };
    let data = volumes
        .iter()
        .map(|(pod, entry)| (pod.clone(), text(entry)));
    ConfigMap {
        metadata: id.child(id.super_disks(), Component::Database),
        data: Some(data.collect()),
        ..ConfigMap::default()
    }
}

/// Which node each pod is, by the pod's name. It outlives the pods: one that comes back needs no operator.
#[must_use]
pub fn identities(cluster: &ValidatedCluster, records: &[DatabaseNode]) -> ConfigMap {
    let known = records.iter().filter_map(|record| match record.state {
        DatabaseNodeState::Member | DatabaseNodeState::Repairing | DatabaseNodeState::Leaving => {
            Some((record.name.clone(), record.host_id.clone()?))
        }
        // What is on their disks now is not, or no more, the node that the record names.
        DatabaseNodeState::Joining | DatabaseNodeState::Replacing | DatabaseNodeState::Left => None,
    });
    let id = &cluster.id;
    ConfigMap {
        metadata: id.child(id.nodes(), Component::Database),
        data: Some(known.collect()),
        ..ConfigMap::default()
    }
}
