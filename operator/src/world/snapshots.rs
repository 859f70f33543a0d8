//! VolumeSnapshots of the volumes of a database, and what each says of itself.

use jiff::Timestamp;
use readstates_operator_api::labels;
use serde::{Deserialize, Serialize};

use crate::volume_snapshot::{VolumeSnapshot, VolumeSnapshotStatus};

/// What a VolumeSnapshot is of: an annotation, so that it can be restored where nothing else is left.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotOf {
    /// Namespace of the `ReadStateCluster`.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
    /// Rack of the node.
    pub rack: String,
    /// The node's place in it.
    pub ordinal: i32,
    /// UID of the volume claim.
    pub claim_uid: String,
    /// Image of the database.
    pub image: String,
    /// Everything that was acknowledged before is in it.
    pub flushed: Timestamp,
}

/// A VolumeSnapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSeen {
    pub name: String,
    pub uid: String,
    /// UID of what controls it.
    pub owner: Option<String>,
    /// What it is of, or why that cannot be read.
    pub of: Result<SnapshotOf, String>,
    /// Whether it is being deleted.
    pub going: bool,
    /// The moment of the copy, once it is known.
    pub taken: Option<Timestamp>,
    /// Name of the VolumeSnapshotContent.
    pub content: Option<String>,
    /// Whether volumes can be made from it.
    pub ready: bool,
    /// The size that such a volume needs at least, as Kubernetes writes quantities.
    pub size: Option<String>,
    /// What went wrong last.
    pub error: Option<String>,
}

impl From<VolumeSnapshot> for SnapshotSeen {
    fn from(snapshot: VolumeSnapshot) -> Self {
        let VolumeSnapshot {
            metadata,
            spec: _,
            status,
        } = snapshot;
        let VolumeSnapshotStatus {
            bound_volume_snapshot_content_name,
            creation_time,
            ready_to_use,
            restore_size,
            error,
        } = status.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let of = match annotations.get(labels::SNAPSHOT_OF) {
            Some(text) => serde_json::from_str(text)
                .map_err(|error| format!("its annotation {}: {error}", labels::SNAPSHOT_OF)),
            None => Err(format!("it has no annotation {}", labels::SNAPSHOT_OF)),
        };
        let mut owners = metadata.owner_references.into_iter().flatten();
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            owner: owners.find(|o| o.controller == Some(true)).map(|o| o.uid),
            of,
            going: metadata.deletion_timestamp.is_some(),
            taken: creation_time.map(|time| time.0),
            content: bound_volume_snapshot_content_name,
            ready: ready_to_use.unwrap_or_default(),
            size: restore_size,
            error: error.and_then(|error| error.message),
        }
    }
}
