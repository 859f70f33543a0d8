//! Other signatures at the start and at the end of a device: filesystems, partition tables, other md formats.
//!
//! A device is blank when the regions that are read hold nothing but zeros; a signature only gives a better name to
//! what makes a device not blank.

use std::fmt;

use crate::spec::FilesystemKind;

/// A filesystem at the start of a device or of an array's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// Which one.
    pub kind: FilesystemKind,
    /// How much of the device it uses.
    pub bytes: u64,
    /// mkfs has not come to its end.
    pub unfinished: bool,
}

/// Finds xfs and ext4; `head` begins where the filesystem would.
#[must_use]
pub fn filesystem(head: &[u8]) -> Option<Filesystem> {
    xfs(head).or_else(|| ext4(head))
}

/// `struct xfs_dsb` (fs/xfs/libxfs/xfs_format.h), big-endian.
fn xfs(head: &[u8]) -> Option<Filesystem> {
    if head.get(..4)? != b"XFSB" {
        return None;
    }
    let block = u32::from_be_bytes(head.get(4..8)?.try_into().ok()?);
    let blocks = u64::from_be_bytes(head.get(8..16)?.try_into().ok()?);
    Some(Filesystem {
        kind: FilesystemKind::Xfs,
        bytes: blocks.saturating_mul(block.into()),
        unfinished: *head.get(126)? != 0,
    })
}

/// `struct ext4_super_block` (fs/ext4/ext4.h) at 1024, little-endian. mke2fs writes it last, so that one that
/// is there is finished.
fn ext4(head: &[u8]) -> Option<Filesystem> {
    let superblock = head.get(1024..2048)?;
    if superblock[56..58] != [0x53, 0xef] {
        return None;
    }
    let word = |at: usize| {
        let bytes = [
            superblock[at],
            superblock[at + 1],
            superblock[at + 2],
            superblock[at + 3],
        ];
        u32::from_le_bytes(bytes)
    };
    let wide = word(0x60) & 0x80 != 0;
    let high = if wide { u64::from(word(0x150)) } else { 0 };
    let blocks = (high << 32) | u64::from(word(4));
    let block = 1024_u64.checked_shl(word(24)).unwrap_or(0);
    Some(Filesystem {
        kind: FilesystemKind::Ext4,
        bytes: blocks.saturating_mul(block),
        unfinished: false,
    })
}

/// Something that is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    Filesystem(FilesystemKind),
    Btrfs,
    /// Swap space.
    Swap,
    /// A physical volume of LVM.
    Lvm,
    /// An encrypted volume.
    Luks,
    /// A cache or a backing device of bcache.
    Bcache,
    /// A GUID partition table.
    Gpt,
    /// A partition table of the old kind, or a boot sector.
    Mbr,
    /// md in a format other than 1.2.
    OtherMd,
    /// Bytes that are not zero, of nothing that is known.
    Data,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filesystem(FilesystemKind::Xfs) => "an xfs filesystem",
            Self::Filesystem(FilesystemKind::Ext4) => "an ext filesystem",
            Self::Btrfs => "a btrfs filesystem",
            Self::Swap => "swap space",
            Self::Lvm => "an LVM volume",
            Self::Luks => "an encrypted volume",
            Self::Bcache => "a bcache device",
            Self::Gpt => "a GPT partition table",
            Self::Mbr => "an MBR partition table or a boot sector",
            Self::OtherMd => "an md superblock of another version than 1.2",
            Self::Data => "unknown data",
        })
    }
}

const MD: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];

/// Says what makes a device not blank: `head` is its beginning and `tail` its end (a MiB each, or the whole
/// device when it is smaller). `None` when there is nothing but zeros.
#[must_use]
pub fn foreign(head: &[u8], tail: &[u8]) -> Option<Signature> {
    let at = |from: usize, want: &[u8]| head.get(from..from + want.len()) == Some(want);
    if is_zero(head) && is_zero(tail) {
        return None;
    }
    if let Some(filesystem) = filesystem(head) {
        return Some(Signature::Filesystem(filesystem.kind));
    }
    let known = [
        (at(65_600, b"_BHRfS_M"), Signature::Btrfs),
        (at(4086, b"SWAPSPACE2"), Signature::Swap),
        (
            (0..4).any(|sector| at(sector * 512, b"LABELONE")),
            Signature::Lvm,
        ),
        (at(0, b"LUKS\xba\xbe"), Signature::Luks),
        (
            at(4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
            Signature::Bcache,
        ),
        (
            at(512, b"EFI PART") || at(4096, b"EFI PART") || ends_in_gpt(tail),
            Signature::Gpt,
        ),
        (at(0, &MD) || ends_in_md(tail), Signature::OtherMd),
        (at(510, &[0x55, 0xaa]), Signature::Mbr),
    ];
    let found = known.iter().find(|(found, _)| *found);
    Some(found.map_or(Signature::Data, |(_, signature)| *signature))
}

/// All bytes are alike and the first is zero: compared as memory, for this is done for megabytes.
fn is_zero(bytes: &[u8]) -> bool {
    bytes
        .split_first()
        .is_none_or(|(first, rest)| *first == 0 && *rest == bytes[..rest.len()])
}

/// The second table is in the last sector, whichever size sectors have.
fn ends_in_gpt(tail: &[u8]) -> bool {
    [512, 4096].into_iter().any(|sector| {
        let at = tail.len().checked_sub(sector);
        at.is_some_and(|at| tail[at..].starts_with(b"EFI PART"))
    })
}

/// Versions 0.90 (64 KiB blocks) and 1.0 (8 to 12 KiB before the end) begin at some 4 KiB of the last 128 KiB.
fn ends_in_md(tail: &[u8]) -> bool {
    let last = &tail[tail.len().saturating_sub(128 << 10)..];
    last.chunks(4096).any(|block| block.starts_with(&MD))
}
