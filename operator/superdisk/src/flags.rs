//! The flags that describe a super-disk, alike for every subcommand.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::{
    identify::{Disk, IdentifyError},
    spec::{BadVolumeUid, FilesystemKind, Policy, Spec, VolumeUid},
};

/// Which super-disk.
#[derive(Clone, Debug, clap::Args)]
pub struct SpecFlags {
    /// Device of the durable leg: the network disk, for example /dev/disk/by-id/google-data.
    #[arg(long, value_name = "DEVICE", required_unless_present = "disk")]
    pub durable: Option<PathBuf>,

    /// Device of the fast leg, or a pattern in quotes: '/dev/disk/by-id/google-local-nvme-ssd-*'. Repeatable.
    #[arg(long, value_name = "GLOB_OR_DEVICE", required = true)]
    pub local: Vec<String>,

    /// How many local devices the fast leg has; its own, then free ones by name, when there are more.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub local_count: u16,

    /// UID of the volume, which stays the same wherever it is attached.
    #[arg(long, value_name = "UID", value_parser = volume, required_unless_present = "disk")]
    pub volume_uid: Option<VolumeUid>,

    /// What `superdisk identify` wrote, in the place of --durable, --volume-uid and --used-before.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["durable", "volume_uid", "used_before"])]
    pub disk: Option<PathBuf>,

    /// Where the filesystem is mounted.
    #[arg(long, value_name = "PATH")]
    pub mount: PathBuf,

    /// Which filesystem.
    #[arg(long, value_enum, default_value_t = Filesystem::Xfs)]
    pub fs: Filesystem,

    /// The volume held data once: refuse a blank durable device instead of formatting it.
    #[arg(long)]
    pub used_before: bool,

    /// The volume that the network disk is a copy of: it then becomes this volume's. Another volume's disk is refused
    /// otherwise.
    #[arg(long, value_name = "UID", value_parser = volume)]
    pub copy_of: Option<VolumeUid>,

    /// What to do when the local devices cannot be had.
    #[arg(long, value_enum, default_value_t = FastLeg::Required)]
    pub fast_leg: FastLeg,

    /// Use the space by which the durable device has grown. Everything is then copied to the fast leg again.
    #[arg(long)]
    pub grow: bool,

    /// MiB/s that a rebuild keeps to even when others want the disks.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub rebuild_min: u32,

    /// MiB/s that a rebuild never exceeds.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub rebuild_max: u32,

    /// Where the lock is that runs on one node share.
    #[arg(long, value_name = "PATH", default_value = "/run/superdisk")]
    pub state_dir: PathBuf,
}

fn volume(text: &str) -> Result<VolumeUid, BadVolumeUid> {
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
    /// Serve from the durable leg alone. A first boot needs the local devices all the same.
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
