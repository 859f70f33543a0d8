//! Version 3 of the frames: read states of another system, to be imported.
//!
//! ```text
//! request "RSB3"     header, then count × 56 bytes:
//!                    5 │ flags given 1 │ last viewed 2 │ mentions 4 │ flags 4 │ 0 ×4 │ user 8 │ channel 8 │
//!                    last message 8 │ counted through 8 │ last pin 8
//! answer  "RSR3"     header, then count × 1 byte, in the order of the records
//! ```
//!
//! A record says what another system has of one channel of one user. It sets what is absent and otherwise moves only
//! forward, so it may be sent again: see [`Import`] for what it means exactly. A caller needs the verbs `write` and
//! `import`.
//!
//! | outcome | means |
//! |---|---|
//! | 0 | applied |
//! | 1 | ignored: the service knows as much or more, or what the record is about was deleted |
//! | 2 | bad record |
//! | 3 | not taken: send it again later |
//! | 4 | outcome unknown: send it again |
//! | 7 | refused: the user has the most read states; waiting does not help |
//! | 8 | not taken: the owner is of an earlier release and does not know this version |
//!
//! The last pin is in Unix milliseconds. A last message, a counted through or a last pin of 0 is none.

use jiff::Timestamp;

use super::{BadRecord, FrameError, HEADER_BYTES, layout::Layout};
use crate::{Id, pin};

/// The length of a record.
pub const RECORD_BYTES: usize = 56;

pub(super) const REQUEST: Layout = Layout {
    magic: "RSB3",
    version: 3,
    item_bytes: RECORD_BYTES,
};
const ANSWER: Layout = Layout {
    magic: "RSR3",
    version: 3,
    item_bytes: 1,
};
const IMPORT: u8 = 5;
const HAS_FLAGS: u8 = 1;

/// A record as it is on the wire.
pub type RawRecord = [u8; RECORD_BYTES];

/// What another system has of one channel of one user.
///
/// - The user has no read state for the channel: it gets this one. If the channel's read state is known to have been
///   deleted, or all data of the user was, nothing is done.
/// - `last_message_id` is ahead of the position: the position moves there, flags become those given, and the mention
///   count becomes the greater of the imported one and what is left of the count here after that message.
/// - It is where the position is: the mention count becomes the greater of both if `counted_through` is above every
///   mention that is remembered here; nothing else moves.
/// - It is behind the position: position, count and flags stay.
///
/// `last_viewed` and `last_pin_timestamp` only move forward, in each of these cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Import {
    /// The user.
    pub user: Id,
    /// The channel.
    pub channel: Id,
    /// The last message read; `None` when the channel has mentions or pins but was never read.
    pub last_message_id: Option<Id>,
    /// Number of mentions newer than `last_message_id`.
    pub mention_count: u32,
    /// The newest message whose mention is in `mention_count`, or would be. Mentions up to it are not counted again.
    pub counted_through: Option<Id>,
    /// Bits for the clients' own use; `None`: they stay as they are.
    pub flags: Option<u32>,
    /// The day of the last visit, in days since 2015-01-01.
    pub last_viewed: u16,
    /// The newest pin seen, to the millisecond.
    pub last_pin_timestamp: Option<Timestamp>,
}

/// The outcome of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ImportOutcome {
    /// Something changed.
    Applied = 0,
    /// The service knows as much or more, or what the record is about was deleted.
    Ignored = 1,
    /// The record makes no sense; sending it again does not help.
    Bad = 2,
    /// Nothing was done: the member is over a limit, or the database is away. Send it again later.
    NotTaken = 3,
    /// The owner did not answer. Sending it again is safe.
    Unknown = 4,
    /// Nothing was done: the user has the most read states that there may be.
    Full = 7,
    /// Nothing was done: the owner is of an earlier release, which does not know this version.
    OwnerTooOld = 8,
}

impl Import {
    /// The record on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> RawRecord {
        let Self {
            user,
            channel,
            last_message_id,
            mention_count,
            counted_through,
            flags,
            last_viewed,
            last_pin_timestamp,
        } = *self;
        // There are no pins before 1970.
        let pin = last_pin_timestamp.map_or(0, |pin| pin.as_millisecond().max(0));
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = IMPORT;
        bytes[1] = flags.map_or(0, |_| HAS_FLAGS);
        bytes[2..4].copy_from_slice(&last_viewed.to_le_bytes());
        bytes[4..8].copy_from_slice(&mention_count.to_le_bytes());
        bytes[8..12].copy_from_slice(&flags.unwrap_or(0).to_le_bytes());
        bytes[16..24].copy_from_slice(&user.get().to_le_bytes());
        bytes[24..32].copy_from_slice(&channel.get().to_le_bytes());
        bytes[32..40].copy_from_slice(&last_message_id.map_or(0, Id::get).to_le_bytes());
        bytes[40..48].copy_from_slice(&counted_through.map_or(0, Id::get).to_le_bytes());
        bytes[48..56].copy_from_slice(&pin.to_le_bytes());
        bytes
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn from_bytes(bytes: &RawRecord) -> Result<Self, BadRecord> {
        let (words, _) = bytes.as_chunks::<8>();
        let &[head, more, user, channel, message, through, pin] = words else {
            return Err(BadRecord);
        };
        let [op, has, v0, v1, mentions @ ..] = head;
        let [f0, f1, f2, f3, zeros @ ..] = more;
        if op != IMPORT || has > HAS_FLAGS || zeros != [0; 4] {
            return Err(BadRecord);
        }
        let flags = u32::from_le_bytes([f0, f1, f2, f3]);
        if has == 0 && flags != 0 {
            return Err(BadRecord);
        }
        let [user, channel, message, through, pin] =
            [user, channel, message, through, pin].map(u64::from_le_bytes);
        Ok(Self {
            user: Id::new(user).ok_or(BadRecord)?,
            channel: Id::new(channel).ok_or(BadRecord)?,
            last_message_id: Id::new(message),
            mention_count: u32::from_le_bytes(mentions),
            counted_through: Id::new(through),
            flags: (has == HAS_FLAGS).then_some(flags),
            last_viewed: u16::from_le_bytes([v0, v1]),
            last_pin_timestamp: pin::at_millis(pin).ok_or(BadRecord)?,
        })
    }
}

/// A request of version 3 whose frame is sound.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    raw: &'a [RawRecord],
}

impl<'a> Request<'a> {
    /// Splits a frame into its records.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(frame: &'a [u8]) -> Result<Self, FrameError> {
        let (raw, _) = REQUEST.body_of(frame)?.as_chunks();
        Ok(Self { raw })
    }

    /// The records as they are on the wire; at least one.
    #[must_use]
    pub fn raw(&self) -> &'a [RawRecord] {
        self.raw
    }

    /// The records, in order.
    pub fn records(&self) -> impl ExactSizeIterator<Item = Result<Import, BadRecord>> + use<'a> {
        self.raw.iter().map(Import::from_bytes)
    }
}

/// The frame of a request with these records, which are as on the wire. One with none, or with more than
/// [`super::MAX_RECORDS`], will be refused.
#[must_use]
pub fn encode_request(records: impl ExactSizeIterator<Item = RawRecord>) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + records.len() * RECORD_BYTES);
    frame.extend_from_slice(&REQUEST.header(records.len()));
    for record in records {
        frame.extend_from_slice(&record);
    }
    frame
}

/// The frame of an answer.
#[must_use]
pub fn encode_answer(outcomes: &[ImportOutcome]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + outcomes.len());
    frame.extend_from_slice(&ANSWER.header(outcomes.len()));
    frame.extend(outcomes.iter().map(|&outcome| outcome as u8));
    frame
}

/// Reads the frame of an answer: the outcomes, in the order of the request's records.
///
/// # Errors
/// When it is none.
pub fn parse_answer(frame: &[u8]) -> Result<Vec<ImportOutcome>, FrameError> {
    let body = ANSWER.body_of(frame)?.iter();
    body.map(|&byte| outcome_of(byte).ok_or(FrameError::Outcome(byte)))
        .collect()
}

fn outcome_of(byte: u8) -> Option<ImportOutcome> {
    match byte {
        0 => Some(ImportOutcome::Applied),
        1 => Some(ImportOutcome::Ignored),
        2 => Some(ImportOutcome::Bad),
        3 => Some(ImportOutcome::NotTaken),
        4 => Some(ImportOutcome::Unknown),
        7 => Some(ImportOutcome::Full),
        8 => Some(ImportOutcome::OwnerTooOld),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
