//! VolumeSnapshots of database nodes, and volume claims that are made from them.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, TypedLocalObjectReference},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use readstates_operator_api::labels::{self, Component};

use super::database;
use crate::{
    spec::{Amount, BackupOwner, Database, Rack, ValidatedCluster},
    volume_snapshot::{GROUP, SnapshotSource, VolumeSnapshot, VolumeSnapshotSpec},
    world::{SnapshotOf, SnapshotSeen},
};

/// The VolumeSnapshot of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotWish {
    /// The node's pod.
    pub node: String,
    pub snapshot: Box<VolumeSnapshot>,
}

/// A VolumeSnapshot of this claim, which goes when the backup goes.
#[must_use]
pub fn snapshot_wish(
    owner: &BackupOwner,
    class: Option<&String>,
    (node, claim): (&str, &str),
    of: &SnapshotOf,
) -> SnapshotWish {
    let mut labels = labels::all(&of.cluster, Component::Backup);
    labels.insert(labels::BACKUP.to_owned(), owner.id.name.clone());
    labels.insert(labels::RACK.to_owned(), of.rack.clone());
    let said = serde_json::json!(of).to_string();
    let metadata = ObjectMeta {
        name: Some(owner.snapshot(&of.rack, of.ordinal)),
        namespace: Some(owner.id.namespace.clone()),
        labels: Some(labels),
        annotations: Some([(labels::SNAPSHOT_OF.to_owned(), said)].into()),
        owner_references: Some(vec![owner.owner_reference()]),
        ..ObjectMeta::default()
    };
    let spec = VolumeSnapshotSpec {
        source: SnapshotSource {
            persistent_volume_claim_name: Some(claim.to_owned()),
            volume_snapshot_content_name: None,
        },
        volume_snapshot_class_name: class.cloned(),
    };
    let snapshot = VolumeSnapshot {
        metadata,
        spec,
        status: None,
    };
    SnapshotWish {
        node: node.to_owned(),
        snapshot: Box::new(snapshot),
    }
}

/// The claim of a node, as the StatefulSet of its rack would make it, but with a copy of this snapshot on its volume.
#[must_use]
pub fn claim_from_snapshot(
    cluster: &ValidatedCluster,
    database: &Database,
    rack: &Rack,
    name: String,
    snapshot: &SnapshotSeen,
) -> PersistentVolumeClaim {
    let size = snapshot.size.clone().map(Quantity);
    let claim = database::claim(database, larger(size, &database.volume.size).as_ref(), true);
    let mut annotations =
        BTreeMap::from([(labels::RESTORED_FROM.to_owned(), snapshot.uid.clone())]);
    if let (Some(_), Ok(of)) = (&database.super_disk, &snapshot.of) {
        // The consent to a copy, which a super-disk is not started without.
        annotations.insert(labels::COPY_OF.to_owned(), of.claim_uid.clone());
    }
    let labels = database::with_rack(cluster.id.selector(Component::Database), rack);
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(cluster.id.namespace.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: claim.spec.map(|mut spec| {
            spec.data_source = Some(TypedLocalObjectReference {
                api_group: Some(GROUP.to_owned()),
                kind: "VolumeSnapshot".to_owned(),
                name: snapshot.name.clone(),
            });
            spec
        }),
        status: None,
    }
}

/// The size of the copy, where more than the wanted one is needed.
fn larger(needed: Option<Quantity>, wanted: &Quantity) -> Option<Quantity> {
    let bytes = |quantity: &Quantity| Amount::parse(&quantity.0);
    needed.filter(|needed| bytes(needed) > bytes(wanted))
}
