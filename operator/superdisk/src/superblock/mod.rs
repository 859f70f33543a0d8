//! md superblocks of version 1.2 and bitmaps: bytes in, checked values out. Pure, never panics,
//! whatever the bytes are.
//!
//! Offsets as in Linux' `struct mdp_superblock_1` (include/uapi/linux/raid/md_p.h) and `bitmap_super_t`
//! (drivers/md/md-bitmap.h); all numbers are little-endian.

mod bitmap;
mod signature;

use std::fmt;

use serde::Serialize;

pub use bitmap::{BITMAP_BYTES, Bitmap, marked, parse_bitmap};
pub use signature::{Filesystem, Signature, filesystem, foreign};

/// Where a superblock of version 1.2 lies, from the start of a device.
pub const OFFSET: u64 = 4096;
/// What has to be read for one: 256 bytes and the roles of at most 1920 devices.
pub const BYTES: usize = 4096;
/// md counts in these.
pub const SECTOR: u64 = 512;

const MAGIC: u32 = 0xa92b_4efc;
const HEAD: usize = 256;
const FEATURE_BITMAP: u32 = 1;
const FEATURE_RECOVERY_OFFSET: u32 = 2;
const FLAG_WRITE_MOSTLY: u8 = 1;
const ROLE_SPARE: u16 = 0xffff;
const ROLE_FAULTY: u16 = 0xfffe;
const ROLE_MAX: u16 = 0xff00;

/// 128 bits that name an array or a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    /// As mdadm writes and reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if index > 0 && index % 4 == 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Uuid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What one member says about its array and about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub array: Uuid,
    /// Its name with the homehost, such as `any:sd1-…`.
    pub name: String,
    /// 0 stripes, 1 mirrors.
    pub level: i32,
    /// Sectors that the array uses of each member; 0 for stripes.
    pub size: u64,
    /// Sectors of a stripe's chunk.
    pub chunk: u32,
    /// How many slots the array has.
    pub raid_disks: u32,
    /// Where the bitmap lies, in sectors from this superblock; `None` without one.
    pub bitmap_offset: Option<i32>,
    /// Where this member's data begins, in sectors.
    pub data_offset: u64,
    /// Sectors that this member has for data.
    pub data_size: u64,
    /// Up to where this member has been rebuilt; `None` when it is whole.
    pub recovery_offset: Option<u64>,
    /// This member's index in `roles`.
    pub device: u32,
    pub member: Uuid,
    /// Read from this member only when no other can be.
    pub write_mostly: bool,
    /// Sectors of the bad-block log; 0 without one.
    pub bad_block_log: u16,
    /// Grows with each change of the array's state.
    pub events: u64,
    /// Up to where the members are known to agree; `None` when everywhere.
    pub resync_offset: Option<u64>,
    /// What each device is to the array, as this member last heard.
    pub roles: Vec<Role>,
}

/// What a device is to its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It holds this slot.
    Slot(u16),
    /// It holds none.
    Spare,
    /// It has failed.
    Faulty,
    /// A journal, or something newer.
    Other(u16),
}

impl Superblock {
    /// This member's own role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role_of(self.device)
    }

    /// What this member says of the device with that index.
    #[must_use]
    pub fn role_of(&self, device: u32) -> Role {
        let index = usize::try_from(device).unwrap_or(usize::MAX);
        self.roles.get(index).copied().unwrap_or(Role::Spare)
    }

    /// The name without the homehost.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.name
            .split_once(':')
            .map_or(self.name.as_str(), |(_, name)| name)
    }

    /// Where the bitmap's header lies, in bytes from the start of the device.
    #[must_use]
    pub fn bitmap_at(&self) -> Option<u64> {
        let bytes = i64::from(self.bitmap_offset?) * 512;
        OFFSET.checked_add_signed(bytes)
    }
}

/// Bytes that began like a superblock and are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// Fewer bytes than it says it has.
    #[error("it is cut off")]
    Short,
    /// Not version 1.
    #[error("its version is {0}, not 1")]
    Version(u32),
    /// Not the sum of its bytes.
    #[error("its checksum is wrong")]
    Checksum,
    /// It says it lies elsewhere.
    #[error("it belongs at sector {0}")]
    Elsewhere(u64),
}

/// Reads a superblock from the bytes at [`OFFSET`]; `None` when there is none.
pub fn parse(bytes: &[u8]) -> Result<Option<Superblock>, Damaged> {
    let Some(magic) = u32_at(bytes, 0) else {
        return Err(Damaged::Short);
    };
    if magic != MAGIC {
        return Ok(None);
    }
    if bytes.len() < HEAD {
        return Err(Damaged::Short);
    }
    let number = |at| u32_at(bytes, at).ok_or(Damaged::Short);
    let long = |at| u64_at(bytes, at).ok_or(Damaged::Short);
    match number(4)? {
        1 => {}
        other => return Err(Damaged::Version(other)),
    }
    let devices = usize::try_from(number(220)?).map_err(|_| Damaged::Short)?;
    let end = devices
        .checked_mul(2)
        .and_then(|roles| roles.checked_add(HEAD));
    let whole = end.and_then(|end| bytes.get(..end)).ok_or(Damaged::Short)?;
    if checksum(whole) != number(216)? {
        return Err(Damaged::Checksum);
    }
    let super_offset = long(144)?;
    if super_offset != OFFSET / SECTOR {
        return Err(Damaged::Elsewhere(super_offset));
    }
    let features = number(8)?;
    let resync_offset = long(208)?;
    let recovery = long(152)?;
    Ok(Some(Superblock {
        array: uuid_at(bytes, 16).ok_or(Damaged::Short)?,
        name: text(&bytes[32..64]),
        level: number(72)?.cast_signed(),
        size: long(80)?,
        chunk: number(88)?,
        raid_disks: number(92)?,
        bitmap_offset: (features & FEATURE_BITMAP != 0)
            .then_some(number(96)?.cast_signed())
            .filter(|offset| *offset != 0),
        data_offset: long(128)?,
        data_size: long(136)?,
        recovery_offset: (features & FEATURE_RECOVERY_OFFSET != 0).then_some(recovery),
        device: number(160)?,
        member: uuid_at(bytes, 168).ok_or(Damaged::Short)?,
        write_mostly: bytes[184] & FLAG_WRITE_MOSTLY != 0,
        bad_block_log: u16::from_le_bytes([bytes[186], bytes[187]]),
        events: long(200)?,
        resync_offset: (resync_offset != u64::MAX).then_some(resync_offset),
        roles: whole[HEAD..].chunks_exact(2).map(role).collect(),
    }))
}

fn role(bytes: &[u8]) -> Role {
    match u16::from_le_bytes([bytes[0], bytes[1]]) {
        ROLE_SPARE => Role::Spare,
        ROLE_FAULTY => Role::Faulty,
        slot if slot < ROLE_MAX => Role::Slot(slot),
        other => Role::Other(other),
    }
}

/// The sum of all words but the sum itself (`calc_sb_1_csum` in drivers/md/md.c).
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum: u64 = 0;
    for (index, word) in bytes.chunks(4).enumerate() {
        let mut le = [0; 4];
        le[..word.len()].copy_from_slice(word);
        if index * 4 != 216 {
            sum = sum.wrapping_add(u64::from(u32::from_le_bytes(le)));
        }
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the two halves are added, carries dropped, as md does"
    )]
    let folded = ((sum & 0xffff_ffff) + (sum >> 32)) as u32;
    folded
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

fn uuid_at(bytes: &[u8], at: usize) -> Option<Uuid> {
    Some(Uuid(bytes.get(at..at + 16)?.try_into().ok()?))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}
