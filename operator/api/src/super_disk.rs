//! `spec.database.superDisk`: local disks in front of the volume of each member.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A disk that reads like local NVMe and keeps like the network disk: each member's volume (`storage`) is
/// mirrored to local disks of the node that it is on. Its pods then have two containers that are privileged
/// and run as root, which the namespace has to allow; the others keep their rights.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.filesystem == oldSelf.filesystem")
        .message("filesystem cannot change: the volumes have one already")
        .field_path(".filesystem")
        .reason(Reason::FieldValueForbidden)
)]
pub struct SuperDiskSpec {
    /// Local disks to use, by their paths on the node or by patterns of them, for example
    /// `/dev/disk/by-id/google-local-nvme-ssd-*`. What is on them is lost. Nothing else may use them.
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
            .message("localDevices must say more than nvme* or google-*: network disks match such patterns as well. Use by-id names of local disks, for example /dev/disk/by-id/google-local-nvme-ssd-*, nvme-Amazon_EC2_NVMe_Instance_Storage_* or nvme-Microsoft_NVMe_Direct_Disk*"),
        validation = Rule::new("self.all(p, !p.contains('Elastic_Block_Store') && !p.contains('nvme_card-pd') && !p.contains('NVMe_Accelerator') && !p.contains('PersistentDisk'))")
            .message("localDevices must not name network disks: what is on local disks is lost")
    )]
    pub local_devices: Vec<String>,

    /// How many of them each member uses; together they must be as large as the volume. Where there are more,
    /// the first by name.
    #[serde(default = "default_local_count")]
    #[schemars(range(min = 1, max = 64))]
    pub local_count: i32,

    /// What to do where the local disks cannot be had: `Required`, the default, does not start the member;
    /// `Optional` lets it read from the network disk. The first start of a volume needs them in any case.
    #[serde(default)]
    pub fast_leg: FastLeg,

    /// The filesystem. Cannot be changed.
    #[serde(default)]
    pub filesystem: Filesystem,

    /// Image of the containers that look after the disk. Default: the one the operator was installed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
}

/// Whether a member needs its local disks.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastLeg {
    /// Without them it does not start.
    #[default]
    Required,
    /// Without them it reads from the network disk.
    Optional,
}

/// A filesystem that a super-disk can have.
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
