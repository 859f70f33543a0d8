//! Flags that describe a super-disk, shared by all subcommands.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::{
    identify::{Disk, IdentifyError},
    spec::{BadCopyOf, BadVolumeUid, CopyOf, FilesystemKind, Policy, Spec, VolumeUid},
};

/// Description of a super-disk.
#[derive(Clone, Debug, clap::Args)]
pub struct SpecFlags {
    /// Device of the durable leg: the network disk, for example /dev/disk/by-id/google-data.
    #[arg(long, value_name = "DEVICE", required_unless_present = "disk")]
    pub durable: Option<PathBuf>,

    /// Device of the fast leg, or a pattern in quotes: '/dev/disk/by-id/google-local-nvme-ssd-*'. Repeatable.
    #[arg(long, value_name = "GLOB_OR_DEVICE", required = true)]
    pub local: Vec<String>,

    /// Number of local devices in the fast leg. If more match, its own are used first, then free ones by name.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub local_count: u16,

    /// UID of the volume, which stays the same on every machine.
    #[arg(long, value_name = "UID", value_parser = volume, required_unless_present = "disk")]
    pub volume_uid: Option<VolumeUid>,

    /// File that `superdisk identify` wrote; replaces --durable, --volume-uid and --used-before.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["durable", "volume_uid", "used_before"])]
    pub disk: Option<PathBuf>,

    /// Mount point of the filesystem.
    #[arg(long, value_name = "PATH")]
    pub mount: PathBuf,

    /// Type of the filesystem.
    #[arg(long, value_enum, default_value_t = Filesystem::Xfs)]
    pub fs: Filesystem,

    /// The volume has held data before: refuse a blank durable device instead of formatting it.
    #[arg(long)]
    pub used_before: bool,

    /// The volume that the network disk is a copy of, and the generation that the snapshot has: the disk is then taken
    /// over for this volume. Without it, a disk of another volume is refused.
    #[arg(long, value_name = "UID[@GENERATION]", value_parser = copy)]
    pub copy_of: Option<CopyOf>,

    /// The generation to which the network disk was put back in place, from a snapshot. What the local disks hold is
    /// discarded, once. For the operator: it knows that the disk was put back.
    #[arg(long, value_name = "GENERATION")]
    pub restored: Option<u64>,

    /// What to do when the local devices are not available.
    #[arg(long, value_enum, default_value_t = FastLeg::Required)]
    pub fast_leg: FastLeg,

    /// Use the space by which the durable device has grown. The fast leg is then rebuilt completely.
    #[arg(long)]
    pub grow: bool,

    /// Minimum rate of a rebuild, in MiB/s, even while the disks are in use.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub rebuild_min: u32,

    /// Maximum rate of a rebuild, in MiB/s.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub rebuild_max: u32,

    /// Folder of the lock that all runs on a node share.
    #[arg(long, value_name = "PATH", default_value = "/run/superdisk")]
    pub state_dir: PathBuf,
}

fn volume(text: &str) -> Result<VolumeUid, BadVolumeUid> {
    text.parse()
}

fn copy(text: &str) -> Result<CopyOf, BadCopyOf> {
    text.parse()
}

/// `--fs`
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Filesystem {
    /// XFS.
    Xfs,
    /// ext4.
    Ext4,
}

/// `--fast-leg`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FastLeg {
    /// Refuse.
    Required,
    /// Serve from the durable leg alone. The first start still needs the local devices.
    Optional,
}

impl SpecFlags {
    /// What the flags ask for.
    ///
    /// # Errors
    /// When the file that they name cannot be used.
    pub fn spec(&self) -> Result<Spec, IdentifyError> {
        let Self {
            durable,
            local,
            local_count,
            volume_uid,
            disk,
            mount,
            fs,
            used_before,
            copy_of,
            restored,
            fast_leg,
            grow,
            rebuild_min,
            rebuild_max,
            state_dir: _,
        } = self;
        let disk = match (durable, volume_uid) {
            (Some(durable), Some(volume)) => Disk {
                durable: durable.clone(),
                volume: volume.clone(),
                used_before: *used_before,
                copy_of: None,
                restored: None,
            },
            // One of the two without the other is refused with the flags.
            (Some(_) | None, None) | (None, Some(_)) => {
                Disk::read(disk.as_deref().unwrap_or(Path::new("")))?
            }
        };
        Ok(Spec {
            durable: disk.durable,
            local: local.clone(),
            local_count: (*local_count).into(),
            volume: disk.volume,
            copy_of: copy_of.clone().or(disk.copy_of),
            restored: restored.or(disk.restored),
            mount: mount.clone(),
            filesystem: match fs {
                Filesystem::Xfs => FilesystemKind::Xfs,
                Filesystem::Ext4 => FilesystemKind::Ext4,
            },
            policy: Policy {
                used_before: disk.used_before,
                fast_leg_optional: *fast_leg == FastLeg::Optional,
                grow: *grow,
                rebuild_min_kib: u64::from(*rebuild_min) << 10,
                rebuild_max_kib: u64::from(*rebuild_max) << 10,
            },
        })
    }
}
