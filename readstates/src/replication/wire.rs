//! Frames between an owner and a backup, and their acknowledgements, as bytes.
//!
//! A frame, little endian: from u64, to u64, number u64, stream u32, [`SEMANTICS`] u16, 0 u16, then entries up to the end.
//! An entry: epoch i64, slot u16, kind u16, and
//!
//! | kind | |
//! |---|---|
//! | 1 seed, 2 seeded, 3 serves | nothing |
//! | 5 continue | the epoch that was sealed i64 |
//! | 6 change | parts u32, user u64, version before u64, version after u64, first version of the term u64, parts of 32 bytes as in the journal on the disk |
//! | 7 image | length u32, user u64, version u64, the packed block |
//! | 8 trim | user u64, version u64 |
//!
//! Kind 4 was given a meaning once that no release has sent.
//!
//! An acknowledgement: from u64, to u64, next u64, stream u32, flags u16 (1: the backup has little room), count of refused
//! slots u16, each as slot u16 and epoch i64.

use std::sync::Arc;

use readstates_ring::{
    Epoch, Incarnation, Slot,
    replication::{Acknowledgement, Change, Entry, Frame, What},
};
use smallvec::SmallVec;

use super::room::{Account, Room};
use crate::{
    block::Operation,
    codec::{
        self,
        parts::{self, UnknownRecord},
    },
};

/// What operations do to a block. An owner and its backup must agree on it, or a replay does not give the same bytes.
pub(crate) const SEMANTICS: u16 = 1;

const SEED: u16 = 1;
const SEEDED: u16 = 2;
const SERVES: u16 = 3;
const CONTINUE: u16 = 5;
const CHANGE: u16 = 6;
const IMAGE: u16 = 7;
const TRIM: u16 = 8;

const HAS_LITTLE_ROOM: u16 = 1;

/// Operations of one change of one user, as they were sent.
#[derive(Debug)]
pub(crate) struct Done {
    /// The first version of the owner's term: see [`crate::block::take_over`].
    pub(crate) first_version: u64,
    /// Mostly one: it takes no memory of its own.
    parts: SmallVec<[u8; parts::PART]>,
    _room: Room,
}

impl Done {
    /// What was done.
    ///
    /// # Errors
    /// When another release sent it that knows other operations.
    pub(crate) fn operations(&self) -> Result<Vec<Operation>, UnknownRecord> {
        parts::operations_of(&self.parts)
    }
}

/// A packed block, as it was sent.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) bytes: Box<[u8]>,
    _room: Room,
}

impl Image {
    pub(crate) fn new(bytes: Box<[u8]>, account: &Arc<Account>) -> Self {
        let _room = Room::of(bytes.len(), account);
        Self { bytes, _room }
    }
}

/// A frame of this service.
pub(crate) type OfUsers = Frame<Done, Arc<Image>>;

/// The bytes are no frame, or no acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the bytes are no frame of a stream between an owner and its backup")]
    Bytes,
    #[error("the owner's operations have the semantics {0}, and this release's have {SEMANTICS}")]
    Semantics(u16),
}

/// What a backup answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) acknowledgement: Acknowledgement,
    /// What the database lacks should be written soon.
    pub(crate) has_little_room: bool,
}

/// Where a frame belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) from: Incarnation,
    pub(crate) to: Incarnation,
    pub(crate) stream: u32,
    pub(crate) number: u64,
}

/// Bytes before the entries.
pub(crate) const HEAD: usize = 32;

pub(crate) fn put_head(out: &mut Vec<u8>, head: Head) {
    let Head {
        from,
        to,
        stream,
        number,
    } = head;
    out.extend(from.bits().to_le_bytes());
    out.extend(to.bits().to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend(stream.to_le_bytes());
    out.extend(SEMANTICS.to_le_bytes());
    out.extend([0; 2]);
}

/// An entry that is about a slot and no user of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfSlot {
    Seed,
    Seeded,
    Serves,
    Continue { sealed: Epoch },
}

pub(crate) fn put_of_slot(out: &mut Vec<u8>, slot: Slot, epoch: Epoch, what: OfSlot) {
    let (kind, sealed) = match what {
        OfSlot::Seed => (SEED, None),
        OfSlot::Seeded => (SEEDED, None),
        OfSlot::Serves => (SERVES, None),
        OfSlot::Continue { sealed } => (CONTINUE, Some(sealed)),
    };
    put_entry(out, slot, epoch, kind);
    if let Some(sealed) = sealed {
        out.extend(sealed.number().to_le_bytes());
    }
}

fn put_entry(out: &mut Vec<u8>, slot: Slot, epoch: Epoch, kind: u16) {
    out.extend(epoch.number().to_le_bytes());
    out.extend(slot.number().to_le_bytes());
    out.extend(kind.to_le_bytes());
}

/// A change of a block that was the owner's own before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed<'a> {
    pub(crate) user: u64,
    pub(crate) before: u64,
    pub(crate) version: u64,
    pub(crate) first_version: u64,
    pub(crate) operations: &'a [Operation],
}

pub(crate) fn put_change(out: &mut Vec<u8>, epoch: Epoch, change: &Changed<'_>) {
    let Changed {
        user,
        before,
        version,
        first_version,
        operations,
    } = *change;
    put_entry(out, Slot::of_user(user), epoch, CHANGE);
    let count_at = out.len();
    out.extend([0; 4]);
    for number in [user, before, version, first_version] {
        out.extend(number.to_le_bytes());
    }
    let count = parts::put_operations(out, operations);
    out[count_at..count_at + 4].copy_from_slice(&count.to_le_bytes());
}

pub(crate) fn put_image(out: &mut Vec<u8>, epoch: Epoch, user: u64, version: u64, block: &[u8]) {
    put_entry(out, Slot::of_user(user), epoch, IMAGE);
    // A block has 16 MiB at most.
    out.extend((block.len() as u32).to_le_bytes());
    out.extend(user.to_le_bytes());
    out.extend(version.to_le_bytes());
    out.extend(block);
}

pub(crate) fn put_trim(out: &mut Vec<u8>, epoch: Epoch, user: u64, version: u64) {
    put_entry(out, Slot::of_user(user), epoch, TRIM);
    out.extend(user.to_le_bytes());
    out.extend(version.to_le_bytes());
}

/// A frame as it came; what it has takes room of the account.
pub(crate) fn decode(bytes: &[u8], account: &Arc<Account>) -> Result<OfUsers, Malformed> {
    let mut rest = Rest(bytes);
    let (from, to) = (Incarnation::new(rest.u64()?), Incarnation::new(rest.u64()?));
    let (number, stream) = (rest.u64()?, rest.u32()?);
    let (semantics, _) = (rest.u16()?, rest.u16()?);
    if semantics != SEMANTICS {
        return Err(Malformed::Semantics(semantics));
    }
    let mut entries = Vec::new();
    while !rest.0.is_empty() {
        entries.push(entry(&mut rest, account)?);
    }
    Ok(Frame {
        from,
        to,
        stream,
        number,
        entries,
    })
}

fn entry(
    rest: &mut Rest<'_>,
    account: &Arc<Account>,
) -> Result<Entry<Done, Arc<Image>>, Malformed> {
    let epoch = rest.epoch()?;
    let slot = Slot::new(rest.u16()?).ok_or(Malformed::Bytes)?;
    let (what, user) = match rest.u16()? {
        SEED => (What::Seed, None),
        SEEDED => (What::Seeded, None),
        SERVES => (What::Serves, None),
        CONTINUE => {
            let sealed = rest.epoch()?;
            (What::Continue { sealed }, None)
        }
        CHANGE => {
            let count = rest.u32()? as usize;
            let user = rest.u64()?;
            let (before, version, first_version) = (rest.u64()?, rest.u64()?, rest.u64()?);
            let bytes = count.checked_mul(parts::PART).ok_or(Malformed::Bytes)?;
            let operation = Done {
                first_version,
                parts: SmallVec::from_slice(rest.take(bytes)?),
                _room: Room::of(bytes, account),
            };
            let change = Change {
                before,
                version,
                operation,
            };
            (What::Change { user, change }, Some(user))
        }
        IMAGE => {
            let length = rest.u32()? as usize;
            let (user, version) = (rest.u64()?, rest.u64()?);
            let bytes = rest.take(length)?;
            let decoded = codec::decode(bytes).map_err(|_| Malformed::Bytes)?;
            if decoded.block.version() != version {
                return Err(Malformed::Bytes);
            }
            let block = Arc::new(Image::new(bytes.into(), account));
            let image = What::Image {
                user,
                version,
                block,
            };
            (image, Some(user))
        }
        TRIM => {
            let (user, version) = (rest.u64()?, rest.u64()?);
            (What::Trim { user, version }, Some(user))
        }
        _ => return Err(Malformed::Bytes),
    };
    // A user that is another slot's would be replayed by nobody.
    if user.is_some_and(|user| Slot::of_user(user) != slot) {
        return Err(Malformed::Bytes);
    }
    Ok(Entry { slot, epoch, what })
}

impl Said {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self {
            acknowledgement:
                Acknowledgement {
                    from,
                    to,
                    stream,
                    next,
                    refused,
                },
            has_little_room,
        } = self;
        let mut out = Vec::with_capacity(HEAD + refused.len() * 10);
        out.extend(from.bits().to_le_bytes());
        out.extend(to.bits().to_le_bytes());
        out.extend(next.to_le_bytes());
        out.extend(stream.to_le_bytes());
        out.extend((u16::from(*has_little_room) * HAS_LITTLE_ROOM).to_le_bytes());
        // One for each slot at most.
        out.extend((refused.len() as u16).to_le_bytes());
        for (slot, epoch) in refused {
            out.extend(slot.number().to_le_bytes());
            out.extend(epoch.number().to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(bytes);
        let (from, to) = (Incarnation::new(rest.u64()?), Incarnation::new(rest.u64()?));
        let (next, stream, flags, count) = (rest.u64()?, rest.u32()?, rest.u16()?, rest.u16()?);
        let mut refused = Vec::new();
        for _ in 0..count {
            let slot = Slot::new(rest.u16()?).ok_or(Malformed::Bytes)?;
            refused.push((slot, rest.epoch()?));
        }
        if !rest.0.is_empty() {
            return Err(Malformed::Bytes);
        }
        Ok(Self {
            acknowledgement: Acknowledgement {
                from,
                to,
                stream,
                next,
                refused,
            },
            has_little_room: flags & HAS_LITTLE_ROOM != 0,
        })
    }
}

/// What is left to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Malformed::Bytes)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Bytes)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn epoch(&mut self) -> Result<Epoch, Malformed> {
        let number = self.array().map(i64::from_le_bytes)?;
        Epoch::new(number).ok_or(Malformed::Bytes)
    }
}
