//! Our own header on both legs: which volume this is, and how far its history goes. Pure.
//!
//! md cannot tell that a durable leg has gone back in time (a snapshot put back): the fast leg that stayed has
//! the same event count, and a re-add would mix old and new blocks. So each start of a super-disk is a
//! *generation* with a random session, and while it runs a *beat* counts up. Both are written to the durable
//! leg first, then to the fast leg: in an honest history the fast leg is never newer. A snapshot gets a generation of
//! its own, between those of before and after it ([`crate::snapshot`]).
//!
//! ```text
//!   sector 0     8            …                data_offset - 16  - 8   data_offset
//!     │ nothing │ superblock, bitmap │ unused gap │ slot 0 │ slot 1 │ data …
//! ```
//!
//! Two slots of 4 KiB, written in turn, so that a write torn by a power cut leaves the one before. md raid1
//! never writes into the gap, and a plain open of a member is allowed while md runs.

mod extension;

use crate::{
    snapshot::SnapshotId,
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

/// What a leg remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which volume.
    pub volume: VolumeUid,
    /// Whether it is in use, and whether it was ever formatted.
    pub state: State,
    /// This point of its history.
    pub point: Point,
    /// The last point of the generation before, as the durable leg had it.
    pub previous: Point,
    /// UUID of the stripe that was admitted as the fast leg in this generation; zero for none. A stripe that is
    /// recreated from the same devices has a different UUID, whatever is left inside.
    pub fast: Uuid,
    /// The boot in which it was written.
    pub boot: Uuid,
    /// The snapshot that is taken of the durable leg in this generation. On a disk that nothing has in use it says that
    /// the disk is that snapshot's, or that the power went while it was taken.
    pub snapshot: Option<SnapshotId>,
}

/// A point in a super-disk's history. Orders by generation, then by beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Point {
    /// Grows with each start, and before and after each snapshot.
    pub generation: u64,
    /// Grows with each header that is written, and never starts over.
    pub beat: u64,
    /// Random, one for each start: two histories that begin at one snapshot differ in it.
    pub session: Uuid,
}

/// What the super-disk was doing when the header was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The durable leg is being formatted: there is no data yet.
    Creating,
    /// Assembled, perhaps mounted.
    InUse,
    /// Stopped in order.
    Clean,
}

impl Header {
    /// The header of a volume that has no history.
    #[must_use]
    pub fn first(volume: VolumeUid, session: Uuid, boot: Uuid) -> Self {
        let point = Point {
            generation: 1,
            beat: 0,
            session,
        };
        Self {
            volume,
            state: State::Creating,
            point,
            previous: Point::default(),
            fast: Uuid::default(),
            boot,
            snapshot: None,
        }
    }

    /// The first header of the next generation, with no fast leg admitted.
    #[must_use]
    pub fn opened(&self, session: Uuid, boot: Uuid) -> Self {
        let Self {
            volume,
            state: _,
            point,
            previous: _,
            fast: _,
            boot: _,
            snapshot: _,
        } = self;
        Self {
            volume: volume.clone(),
            state: State::InUse,
            point: Point {
                generation: point.generation + 1,
                beat: point.beat + 1,
                session,
            },
            previous: *point,
            fast: Uuid::default(),
            boot,
            snapshot: None,
        }
    }

    /// The first header of a volume whose disk is a copy of this one's: no fast leg can be related to it.
    #[must_use]
    pub fn copied(&self, volume: VolumeUid, session: Uuid, boot: Uuid) -> Self {
        let state = match self.state {
            State::Creating => State::Creating,
            State::InUse | State::Clean => State::Clean,
        };
        Self {
            volume,
            state,
            previous: Point::default(),
            ..self.opened(session, boot)
        }
    }

    /// The first header of a generation that no fast leg of before can be related to: what one has missed or taken
    /// since, no bitmap tells, or its owner has given up.
    #[must_use]
    pub fn forgetting(&self, session: Uuid, boot: Uuid) -> Self {
        Self {
            previous: Point::default(),
            ..self.opened(session, boot)
        }
    }

    /// The next header of this generation.
    #[must_use]
    pub fn next(&self) -> Self {
        let mut next = self.clone();
        next.point.beat += 1;
        next
    }

    /// The next header, in another state.
    #[must_use]
    pub fn next_in(&self, state: State) -> Self {
        Self {
            state,
            ..self.next()
        }
    }

    /// The header right before a snapshot of the durable leg is taken. A generation of its own: a durable leg that is put
    /// back to it is older than any fast leg that went on.
    #[must_use]
    pub fn marked(&self, snapshot: SnapshotId) -> Self {
        Self {
            snapshot: Some(snapshot),
            ..self.unmarked()
        }
    }

    /// The first header after a snapshot of the durable leg was taken: again a generation of its own. The start is the
    /// same, and so are its session and its fast leg.
    #[must_use]
    pub fn unmarked(&self) -> Self {
        let mut next = self.next();
        next.point.generation += 1;
        next.snapshot = None;
        next
    }

    /// The next header, with this stripe admitted as the fast leg.
    #[must_use]
    pub fn admitting(&self, fast: Uuid) -> Self {
        Self {
            fast,
            ..self.next()
        }
    }

    /// Which of the two slots it is written to: never the one that holds the header before it.
    #[must_use]
    pub fn slot(&self) -> usize {
        usize::from(!self.point.beat.is_multiple_of(2))
    }

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
        extension::append(&mut bytes, snapshot.as_ref());
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
    Some(Header {
        volume: name.parse().ok()?,
        state,
        point: point(24)?,
        previous: point(56)?,
        fast: uuid(88)?,
        boot: uuid(104)?,
        snapshot: extension::read(slot).ok()?,
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

/// What the fast leg's header says of its history, against the durable leg's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same generation, and the durable leg has heard at least as much.
    Same,
    /// The fast leg stopped where the durable leg's generation began.
    Parent,
    /// The fast leg has heard what the durable leg has not: the durable leg went back in time.
    FastIsNewer,
    /// Their histories went apart, or too much lies between them.
    Apart,
}

/// Compares the histories of two headers of one volume.
#[must_use]
pub fn relation(durable: &Header, fast: &Header) -> Relation {
    let same = durable.point.session == fast.point.session;
    let parent = durable.previous.session == fast.point.session;
    if same && durable.point >= fast.point {
        Relation::Same
    } else if parent && durable.previous >= fast.point {
        Relation::Parent
    } else if same || parent || fast.point.generation > durable.point.generation {
        Relation::FastIsNewer
    } else {
        Relation::Apart
    }
}

/// CRC-32 as in IEEE 802.3, bit by bit: two hundred bytes at a time need no table.
fn crc32(bytes: &[u8]) -> u32 {
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

    fn header() -> Header {
        Header::first("pvc-1".parse().unwrap(), Uuid([1; 16]), Uuid([0xb0; 16]))
    }

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
    fn histories_are_told_apart() {
        let boot = Uuid([0xb0; 16]);
        let first = header();
        let later = first.next().next();
        let second = later.opened(Uuid([2; 16]), boot);
        let third = second.next().opened(Uuid([3; 16]), boot);
        let elsewhere = first.opened(Uuid([4; 16]), boot);
        for (durable, fast, want) in [
            (&later, &first, Relation::Same),
            (&later, &later, Relation::Same),
            (&first, &later, Relation::FastIsNewer),
            (&second, &later, Relation::Parent),
            (&second, &first, Relation::Parent),
            (&third, &later, Relation::Apart),
            (&later, &third, Relation::FastIsNewer),
            // Restored to `first`, then opened where the fast leg was not: it has more than that start knew.
            (&elsewhere, &later, Relation::FastIsNewer),
            (&elsewhere, &second, Relation::Apart),
        ] {
            assert_eq!(relation(durable, fast), want, "{durable:?} {fast:?}");
        }
    }
}
