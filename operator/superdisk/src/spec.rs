//! Specification for `assemble`, `agent`, `status` and `teardown`: flags in, a checked [`Spec`] out. No IO.

use std::{fmt, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::names::name;

/// A super-disk as it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Device of the durable leg.
    pub durable: PathBuf,
    /// Devices of the fast leg, or patterns of their names.
    pub local: Vec<String>,
    /// How many local devices the fast leg has.
    pub local_count: usize,
    /// Which volume this is, wherever it is attached.
    pub volume: VolumeUid,
    /// Where the filesystem is mounted.
    pub mount: PathBuf,
    pub filesystem: FilesystemKind,
    /// What its network disk was copied from, where its owner says that it is a copy.
    pub copy_of: Option<CopyOf>,
    /// The generation to which its network disk was put back in place, where the operator did that: no fast leg of
    /// before counts then, once.
    pub restored: Option<u64>,
    /// What to do about what can be answered in more than one way.
    pub policy: Policy,
}

/// Answers that only the owner of the data can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The volume held data once: a blank durable leg is then refused, never formatted.
    pub used_before: bool,
    /// Serve from the durable leg alone when the local devices cannot be had.
    pub fast_leg_optional: bool,
    /// Use the space by which the durable leg has grown. Costs a full copy to the fast leg.
    pub grow: bool,
    /// Rate that a rebuild keeps to even when others want the disks, in KiB/s.
    pub rebuild_min_kib: u64,
    /// Rate that a rebuild never exceeds, in KiB/s.
    pub rebuild_max_kib: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            used_before: false,
            fast_leg_optional: false,
            grow: false,
            // At md's own 1 MB/s a rebuild of 700 GiB takes eight days, and any reader slows it down to that.
            rebuild_min_kib: 64 << 10,
            rebuild_max_kib: 512 << 10,
        }
    }
}

/// Filesystems that have been tried on a super-disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FilesystemKind {
    Xfs,
    Ext4,
}

impl FilesystemKind {
    /// As mount(8) names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
        }
    }
}

impl fmt::Display for FilesystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

name! {
    /// The lasting identity of a volume: the UID of its claim.
    VolumeUid,
    /// A text that is no volume UID.
    BadVolumeUid,
    "volume UID"
}

impl VolumeUid {
    /// Name of the array that mirrors the legs, without its homehost. md has room for 32 bytes with it, and
    /// a UID is longer: 64 bits of it tell volumes apart, and the lineage header has all of it.
    #[must_use]
    pub fn mirror_name(&self) -> String {
        format!("{MIRROR_PREFIX}{:016x}", fnv1a(self.0.as_bytes()))
    }

    /// Name of the array that stripes the local devices, without its homehost.
    #[must_use]
    pub fn stripe_name(&self) -> String {
        format!("{STRIPE_PREFIX}{:016x}", fnv1a(self.0.as_bytes()))
    }

    /// Label of the filesystem: xfs takes 12 bytes.
    #[must_use]
    pub fn label(&self) -> String {
        format!("sd-{:08x}", fnv1a(self.0.as_bytes()) >> 32)
    }
}

/// How names of mirrors of super-disks begin.
pub const MIRROR_PREFIX: &str = "sd1-";
/// How names of stripes of super-disks begin.
pub const STRIPE_PREFIX: &str = "sd0-";

/// Consent to a copy: which volume it is of, and which moment of it where that is known. As text `UID@GENERATION`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CopyOf {
    /// Whose disk was copied.
    pub volume: VolumeUid,
    /// What the copy's header has to say, as `superdisk snapshot begin` said it; `None` for any moment.
    pub generation: Option<u64>,
}

/// A text that is no consent to a copy.
#[derive(Debug, thiserror::Error)]
pub enum BadCopyOf {
    /// Before the `@`.
    #[error(transparent)]
    Volume(#[from] BadVolumeUid),
    /// After it.
    #[error("a copy is named as UID or UID@GENERATION, and the generation is a number")]
    Generation,
}

impl FromStr for CopyOf {
    type Err = BadCopyOf;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (volume, generation) = match text.split_once('@') {
            Some((volume, generation)) => {
                let generation = generation.parse().map_err(|_| BadCopyOf::Generation)?;
                (volume, Some(generation))
            }
            None => (text, None),
        };
        Ok(Self {
            volume: volume.parse()?,
            generation,
        })
    }
}

impl TryFrom<String> for CopyOf {
    type Error = BadCopyOf;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CopyOf> for String {
    fn from(copy: CopyOf) -> Self {
        copy.to_string()
    }
}

impl fmt::Display for CopyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volume, generation } = self;
        match generation {
            Some(generation) => write!(f, "{volume}@{generation}"),
            None => write!(f, "{volume}"),
        }
    }
}

/// FNV-1a, 64 bits: spreads; protects from nothing.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_where_they_are_written() {
        let uid: VolumeUid = "0d1e8f3c-5b0a-4c1e-9a57-1f2e3d4c5b6a".parse().unwrap();
        let stored = format!("any:{}", uid.mirror_name());
        assert_eq!(stored.len(), 24);
        assert_eq!(uid.label().len(), 11);
        assert_ne!(uid.mirror_name(), uid.stripe_name());
    }

    #[test]
    fn consent_to_a_copy_names_a_volume_and_may_name_a_moment() {
        for (text, generation) in [("v-1", None), ("v-1@7", Some(7))] {
            let copy: CopyOf = text.parse().unwrap();
            assert_eq!((copy.volume.as_str(), copy.generation), ("v-1", generation));
            assert_eq!(copy.to_string(), text);
        }
        for bad in ["", "@7", "v-1@", "v-1@-7", "v-1@x", "v 1@7", "v-1@7@8"] {
            assert!(bad.parse::<CopyOf>().is_err(), "{bad}");
        }
    }
}
