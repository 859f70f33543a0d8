//! Version 2 of the frames: reads of one channel, and answers that carry the read state after each record.
//!
//! ```text
//! request "RSB2"     header, then count × 32 bytes: the records of version 1, and
//!                    4 │ 0 ×3 │ 0 ×4 │ user 8 │ channel 8 │ 0 ×8      reads
//! answer  "RSR2"     header, then count × 48 bytes, in the order of the records:
//!                    outcome 1 │ 0 │ last viewed 2 │ mentions 4 │ flags 4 │ 0 ×4 │ version of the user 8 │
//!                    last message 8 │ last pin 8 │ version of the state 8
//! ```
//!
//! | outcome | means | the numbers are |
//! |---|---|---|
//! | 0 | applied | those of the state after it |
//! | 1 | ignored: it was known already | those of the state |
//! | 2 | bad record | 0 |
//! | 3 | not taken: send it again later | 0 |
//! | 4 | outcome unknown: send it again, unless it is manual | 0 |
//! | 5 | read: found | those of the state |
//! | 6 | read: the user has no state for the channel | 0, but for the version of the user |
//! | 7 | refused: the user has the most read states; waiting does not help | 0 |
//! | 8 | not taken: the owner is of an earlier release and does not know this version; send it as a request of its own | 0 |
//! | 9 | refused: the caller may not read | 0 |
//!
//! The last pin is in Unix milliseconds. A last message or a last pin of 0 is none.

mod row;

pub(super) use row::pin_at;
pub use row::{ROW_BYTES, Row, StateNumbers, encode_answer, parse_answer};

use super::{
    BadRecord, FrameError, HEADER_BYTES, RECORD_BYTES, RawRecord, Record, RequestRecord,
    layout::Layout,
};
use crate::Id;

pub(super) const REQUEST: Layout = Layout {
    magic: "RSB2",
    version: 2,
    item_bytes: RECORD_BYTES,
};
const READ: u8 = 4;

/// What one record asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A change, as version 1 has it.
    Change(Record),
    /// The read state of one channel.
    Read {
        /// The user.
        user: Id,
        /// The channel.
        channel: Id,
    },
}

impl Entry {
    /// The user that it is about.
    #[must_use]
    pub fn user(&self) -> Id {
        match *self {
            Self::Change(Record { user, .. }) | Self::Read { user, .. } => user,
        }
    }

    /// The channel that it is about.
    #[must_use]
    pub fn channel(&self) -> Id {
        match *self {
            Self::Change(Record { channel, .. }) | Self::Read { channel, .. } => channel,
        }
    }

    /// The record on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> RawRecord {
        match self {
            Self::Change(record) => record.to_bytes(),
            Self::Read { user, channel } => {
                let mut bytes = [0; RECORD_BYTES];
                bytes[0] = READ;
                bytes[8..16].copy_from_slice(&user.get().to_le_bytes());
                bytes[16..24].copy_from_slice(&channel.get().to_le_bytes());
                bytes
            }
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn from_bytes(bytes: &RawRecord) -> Result<Self, BadRecord> {
        if bytes[0] != READ {
            return Record::from_bytes(bytes).map(Self::Change);
        }
        let (words, _) = bytes.as_chunks::<8>();
        let &[op, user, channel, message] = words else {
            return Err(BadRecord);
        };
        if op != [READ, 0, 0, 0, 0, 0, 0, 0] || message != [0; 8] {
            return Err(BadRecord);
        }
        let id = |bytes| Id::new(u64::from_le_bytes(bytes)).ok_or(BadRecord);
        Ok(Self::Read {
            user: id(user)?,
            channel: id(channel)?,
        })
    }
}

/// A request of version 2.
pub type Request<'a> = super::Request<'a, Entry>;

impl RequestRecord for Entry {
    fn split(frame: &[u8]) -> Result<&[RawRecord], FrameError> {
        Ok(REQUEST.body_of(frame)?.as_chunks().0)
    }

    fn read(bytes: &RawRecord) -> Result<Self, BadRecord> {
        Self::from_bytes(bytes)
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

#[cfg(test)]
mod tests;
