//! `spec.database.superDisk`: local disks mirrored to the volume of each member.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A disk that reads as fast as local NVMe and is as durable as the network disk: each member's volume (`storage`) is
/// mirrored to local disks of its node. Each pod then has two privileged containers that run as root, which the
/// namespace must allow; the other containers keep their rights.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.filesystem == oldSelf.filesystem")
        .message("filesystem cannot change: the volumes are already formatted")
        .field_path(".filesystem")
        .reason(Reason::FieldValueForbidden)
)]
pub struct SuperDiskSpec {
    /// Local disks to use, as paths on the node or as patterns, for example `/dev/disk/by-id/google-local-nvme-ssd-*`.
    /// Their contents are lost. Nothing else may use them.
    #[schemars(
        length(min = 1, max = 16),
        inner(
            length(min = 6, max = 255),
            regex(pattern = r"^/dev/[a-zA-Z0-9_.:*?\[\]+-]+(/[a-zA-Z0-9_.:*?\[\]+-]+)*$")
        )
    )]
    #[x_kube(
        validation = Rule::new("self.all(p, !p.contains('/../') && !p.contains('/./') && !p.endsWith('/..'))")
            .message("localDevices must be paths without . and .."),
        validation = Rule::new(r"self.all(p, !p.matches('^/dev/[^/]*[*?\\[]') && !p.matches('^/dev/disk/[a-z-]+/([a-z0-9]+-)?[*?\\[]'))")
            .message("localDevices must be more specific than nvme* or google-*: such patterns also match network disks. Use by-id names of local disks, for example /dev/disk/by-id/google-local-nvme-ssd-*, nvme-Amazon_EC2_NVMe_Instance_Storage_* or nvme-Microsoft_NVMe_Direct_Disk*"),
        validation = Rule::new("self.all(p, !p.contains('Elastic_Block_Store') && !p.contains('nvme_card-pd') && !p.contains('NVMe_Accelerator') && !p.contains('PersistentDisk'))")
            .message("localDevices must not name network disks: the contents of local disks are lost")
    )]
    pub local_devices: Vec<String>,

    /// Number of local disks that each member uses; together they must be at least as large as the volume. If there are
    /// more, the first ones by name are used.
    #[serde(default = "default_local_count")]
    #[schemars(range(min = 1, max = 64))]
    pub local_count: i32,

    /// What to do when the local disks are not available: `Required`, the default, does not start the member;
    /// `Optional` lets it read from the network disk. The first start of a volume needs them in any case.
    #[serde(default)]
    pub fast_leg: FastLeg,

    /// The filesystem. Cannot be changed.
    #[serde(default)]
    pub filesystem: Filesystem,

    /// Image of the containers that manage the disk. Default: the image the operator was installed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
}

/// Whether a member needs its local disks.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastLeg {
    /// It does not start without them.
    #[default]
    Required,
    /// It reads from the network disk without them.
    Optional,
}

/// Filesystem of a super-disk.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filesystem {
    /// XFS.
    #[default]
    Xfs,
    /// ext4.
    Ext4,
}

fn default_local_count() -> i32 {
    1
}
