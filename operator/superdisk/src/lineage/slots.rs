//! A header as bytes, and the two slots that hold headers.

use serde::{Deserialize, Serialize};

use super::{
    Header, Point, State,
    extension::{self, Extension},
};
use crate::{
    spec::VolumeUid,
    superblock::{SECTOR, Superblock, Uuid},
};

/// Size of one slot.
pub const SLOT_BYTES: usize = 4096;
/// Both slots.
pub const REGION_BYTES: usize = 2 * SLOT_BYTES;

const MAGIC: &[u8; 16] = b"READSTATES SUPER";
const FORMAT: u32 = 1;
/// Everything before the sum.
const BODY: usize = 208;

impl Header {
    /// One slot's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self {
            volume,
            state,
            point,
            previous,
            fast,
            boot,
            snapshot,
            replaced,
            machine,
        } = self;
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(state_number(*state).to_le_bytes());
        for point in [point, previous] {
            bytes.extend(point.generation.to_le_bytes());
            bytes.extend(point.beat.to_le_bytes());
            bytes.extend(point.session.0);
        }
        bytes.extend(fast.0);
        bytes.extend(boot.0);
        let mut name = [0; VolumeUid::MAX];
        name[..volume.as_str().len()].copy_from_slice(volume.as_str().as_bytes());
        bytes.extend(name);
        bytes.resize(BODY, 0);
        bytes.extend(crc32(&bytes).to_le_bytes());
        extension::append(&mut bytes, snapshot.as_ref(), replaced, *machine);
        bytes.resize(SLOT_BYTES, 0);
        bytes
    }
}

fn state_number(state: State) -> u32 {
    match state {
        State::Creating => 1,
        State::InUse => 2,
        State::Clean => 3,
    }
}

/// Of each leg, whether one of both slots did not take the last header that was written to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokenSlots {
    pub durable: bool,
    pub fast: bool,
}

impl BrokenSlots {
    /// Whether all are well.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What the two slots hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slots {
    /// The newest good header.
    Header(Header),
    /// Nothing was ever written.
    Empty,
    /// Something is there, and no slot is good.
    Damaged,
}

/// Reads [`REGION_BYTES`] bytes.
#[must_use]
pub fn read(region: &[u8]) -> Slots {
    let newest = region
        .chunks(SLOT_BYTES)
        .filter_map(decode)
        .max_by_key(|header| header.point);
    match newest {
        Some(header) => Slots::Header(header),
        // Old data may lie in the gap: only what begins as ours can be a damaged header.
        None if region
            .chunks(SLOT_BYTES)
            .any(|slot| slot.starts_with(MAGIC)) =>
        {
            Slots::Damaged
        }
        None => Slots::Empty,
    }
}

fn decode(slot: &[u8]) -> Option<Header> {
    let body = slot.get(..BODY)?;
    let sum = u32::from_le_bytes(slot.get(BODY..BODY + 4)?.try_into().ok()?);
    if !body.starts_with(MAGIC) || crc32(body) != sum {
        return None;
    }
    let number = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
    let uuid = |at: usize| Some(Uuid(body.get(at..at + 16)?.try_into().ok()?));
    let point = |at: usize| {
        Some(Point {
            generation: long(at)?,
            beat: long(at + 8)?,
            session: uuid(at + 16)?,
        })
    };
    if number(16)? != FORMAT {
        return None;
    }
    let state = match number(20)? {
        1 => State::Creating,
        2 => State::InUse,
        3 => State::Clean,
        _ => return None,
    };
    let name = body.get(120..120 + VolumeUid::MAX)?;
    let end = name.iter().position(|byte| *byte == 0);
    let name = std::str::from_utf8(&name[..end.unwrap_or(name.len())]).ok()?;
    let Extension {
        snapshot,
        replaced,
        machine,
    } = extension::read(slot).ok()?;
    Some(Header {
        volume: name.parse().ok()?,
        state,
        point: point(24)?,
        previous: point(56)?,
        fast: uuid(88)?,
        boot: uuid(104)?,
        snapshot,
        replaced,
        machine,
    })
}

/// Where the slots lie on a member, in bytes; `None` when its gap has no room for them.
#[must_use]
pub fn region_at(superblock: &Superblock) -> Option<u64> {
    let end = superblock.data_offset.checked_mul(SECTOR)?;
    let at = end.checked_sub(REGION_BYTES as u64)?;
    let aligned = end.is_multiple_of(SLOT_BYTES as u64);
    // md itself needs the superblock, the bitmap and the bad-block log: they end before half of any gap that
    // mdadm makes (at least 1 MiB, with 40 KiB used).
    (aligned && at >= end / 2 && end >= 1 << 19).then_some(at)
}

/// CRC-32 as in IEEE 802.3, bit by bit: two hundred bytes at a time need no table.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = crc & 1 != 0;
            crc >>= 1;
            if carry {
                crc ^= 0xedb8_8320;
            }
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::tests::header;

    fn region(headers: &[&Header]) -> Vec<u8> {
        let mut region = vec![0; REGION_BYTES];
        for header in headers {
            let at = header.slot() * SLOT_BYTES;
            region[at..at + SLOT_BYTES].copy_from_slice(&header.encode());
        }
        region
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let header = header().admitting(Uuid([7; 16])).next_in(State::Clean);
        assert_eq!(read(&region(&[&header])), Slots::Header(header));
        assert_eq!(read(&vec![0; REGION_BYTES]), Slots::Empty);
    }

    #[test]
    fn a_torn_write_leaves_the_header_before() {
        let (mut before, mut region) = (header(), region(&[&header()]));
        for step in 0..5_u8 {
            let after = match step {
                2 => before.opened(Uuid([step; 16]), Uuid([1; 16])),
                _ => before.next(),
            };
            let at = after.slot() * SLOT_BYTES;
            region[at..at + 100].copy_from_slice(&after.encode()[..100]);
            assert_eq!(read(&region), Slots::Header(before), "step {step}");
            region[at..at + SLOT_BYTES].copy_from_slice(&after.encode());
            assert_eq!(read(&region), Slots::Header(after.clone()));
            before = after;
        }
        region[50] ^= 1;
        region[SLOT_BYTES + 50] ^= 1;
        assert_eq!(read(&region), Slots::Damaged);
    }
    #[test]
    fn headers_that_all_go_to_one_slot_are_read_and_so_are_those_after_it_was_mended() {
        let (mut last, mut region) = (header(), region(&[&header()]));
        let broken = header().next().slot();
        for step in 0..8 {
            let next = last.next();
            let mends_at = 5;
            let slot = match next.slot() {
                slot if slot == broken && step < mends_at => 1 - broken,
                slot => slot,
            };
            let at = slot * SLOT_BYTES;
            region[at..at + SLOT_BYTES].copy_from_slice(&next.encode());
            assert_eq!(read(&region), Slots::Header(next.clone()), "step {step}");
            last = next;
        }
    }
}
