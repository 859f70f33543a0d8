//! The binary frames of `POST /v1/batch`: many operations of many users in one request.
//!
//! Comes in: untrusted bytes. Goes out: records, or the reason why the bytes are no frame. No bytes
//! panic, and nothing is copied or allocated to read a frame. Everything is little endian.
//!
//! ```text
//! header  16 bytes   magic 4 │ version 1 │ flags 1 │ 0 ×2 │ count 4 │ 0 ×4
//! request "RSB1"     header, then count × 32 bytes:
//!                    op 1 │ 0 ×3 │ arg 4 │ user 8 │ channel 8 │ message 8
//! answer  "RSR1"     header, then count × 1 byte, in the order of the records
//! ```
//!
//! A frame is refused as a whole only when it cannot be split into records. A record that makes no
//! sense gets [`RecordOutcome::Bad`], and the others around it are applied.
//!
//! This is version 1, which stays as it is. [`v2`] adds reads, and answers that carry the read state; [`v3`] is for read
//! states of another system. The first four bytes name the version, and the answer has that of the request
//! ([`AnyRequest`]). A service that does not know a version refuses the frame with 400 and does nothing.

mod layout;
pub mod v2;
pub mod v3;

use std::marker::PhantomData;

use layout::Layout;

use crate::Id;

/// The media type of requests and answers.
pub const MEDIA_TYPE: &str = "application/vnd.readstates.batch";
/// The most records of one frame.
pub const MAX_RECORDS: usize = 65_536;
/// The length of a header.
pub const HEADER_BYTES: usize = 16;
/// The length of a record.
pub const RECORD_BYTES: usize = 32;

const REQUEST: Layout = Layout {
    magic: "RSB1",
    version: 1,
    item_bytes: RECORD_BYTES,
};
const ANSWER: Layout = Layout {
    magic: "RSR1",
    version: 1,
    item_bytes: 1,
};

const ACK: u8 = 1;
const MANUAL: u8 = 2;
const MENTION: u8 = 3;

/// What one record asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOperation {
    /// The user has read up to the message.
    Ack,
    /// The user puts the position on the message, in either direction.
    Manual {
        /// The mention count from now on.
        mention_count: u32,
    },
    /// The message mentions the user.
    Mention {
        /// What it adds to the count; not 0.
        count: u32,
    },
}

/// One operation of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// What to do.
    pub operation: RecordOperation,
    /// The user.
    pub user: Id,
    /// The channel.
    pub channel: Id,
    /// The message.
    pub message: Id,
}

/// The outcome of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordOutcome {
    /// Something changed.
    Applied = 0,
    /// It was known already.
    Ignored = 1,
    /// The record makes no sense; sending it again does not help.
    Bad = 2,
    /// Nothing was done: the member is over a limit, or the database is away. Send it again later.
    NotTaken = 3,
    /// The owner did not answer. Sending it again is safe.
    Unknown = 4,
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Shorter than a header.
    #[error("{0} bytes are shorter than a header of {HEADER_BYTES}")]
    Short(usize),
    /// It does not start as it should.
    #[error("the frame does not start with {0}")]
    Magic(&'static str),
    /// Another version than the first bytes name.
    #[error("version {0} is not that of the first four bytes")]
    Version(u8),
    /// A flag, or a byte that is to be 0, is not.
    #[error("flags and reserved bytes of the header must be 0")]
    Reserved,
    /// No record, or more than [`MAX_RECORDS`].
    #[error("{0} records; send 1 to {MAX_RECORDS}")]
    Count(u32),
    /// The length does not go with the count.
    #[error("{count} records make a frame of {expected} bytes; these are {found}")]
    Length {
        /// What the header says.
        count: u32,
        /// What that makes.
        expected: usize,
        /// How many bytes there are.
        found: usize,
    },
    /// An answer has a byte that is no outcome.
    #[error("{0} is no outcome")]
    Outcome(u8),
    /// A row of an answer has a number that does not go with its outcome.
    #[error("row {0} of the answer makes no sense")]
    Row(usize),
}

/// A record that makes no sense: an operation that is not known, an id that is 0, a reserved byte or
/// an argument that is not as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record makes no sense")]
pub struct BadRecord;

/// A record as it is on the wire.
pub type RawRecord = [u8; RECORD_BYTES];

impl Record {
    /// The record on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> RawRecord {
        let (op, arg) = match self.operation {
            RecordOperation::Ack => (ACK, 0),
            RecordOperation::Manual { mention_count } => (MANUAL, mention_count),
            RecordOperation::Mention { count } => (MENTION, count),
        };
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = op;
        bytes[4..8].copy_from_slice(&arg.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.user.get().to_le_bytes());
        bytes[16..24].copy_from_slice(&self.channel.get().to_le_bytes());
        bytes[24..32].copy_from_slice(&self.message.get().to_le_bytes());
        bytes
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn from_bytes(bytes: &RawRecord) -> Result<Self, BadRecord> {
        let [op, 0, 0, 0, arg @ ..] = bytes else {
            return Err(BadRecord);
        };
        let [a0, a1, a2, a3, ids @ ..] = arg;
        let arg = u32::from_le_bytes([*a0, *a1, *a2, *a3]);
        let (ids, _) = ids.as_chunks::<8>();
        let &[user, channel, message] = ids else {
            return Err(BadRecord);
        };
        let id = |bytes| Id::new(u64::from_le_bytes(bytes)).ok_or(BadRecord);
        let operation = match (*op, arg) {
            (ACK, 0) => RecordOperation::Ack,
            (MANUAL, mention_count) => RecordOperation::Manual { mention_count },
            (MENTION, count @ 1..) => RecordOperation::Mention { count },
            // An argument where there is none, or an operation of a later version.
            _ => return Err(BadRecord),
        };
        Ok(Self {
            operation,
            user: id(user)?,
            channel: id(channel)?,
            message: id(message)?,
        })
    }
}

/// What a record of a request is in one version of the frames.
pub trait RequestRecord: Sized {
    /// Splits the frame of a request of this version into its records.
    ///
    /// # Errors
    /// When it is none.
    fn split(frame: &[u8]) -> Result<&[RawRecord], FrameError>;

    /// Reads a record.
    ///
    /// # Errors
    /// When it makes no sense.
    fn read(bytes: &RawRecord) -> Result<Self, BadRecord>;
}

impl RequestRecord for Record {
    fn split(frame: &[u8]) -> Result<&[RawRecord], FrameError> {
        Ok(REQUEST.body_of(frame)?.as_chunks().0)
    }

    fn read(bytes: &RawRecord) -> Result<Self, BadRecord> {
        Self::from_bytes(bytes)
    }
}

/// A request whose frame is sound, with records of this type.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a, R> {
    raw: &'a [RawRecord],
    record: PhantomData<R>,
}

/// A request of version 1.
pub type BatchRequest<'a> = Request<'a, Record>;

impl<'a, R: RequestRecord> Request<'a, R> {
    /// Splits a frame into its records.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(frame: &'a [u8]) -> Result<Self, FrameError> {
        Ok(Self {
            raw: R::split(frame)?,
            record: PhantomData,
        })
    }

    /// The records as they are on the wire; at least one.
    #[must_use]
    pub fn raw(&self) -> &'a [RawRecord] {
        self.raw
    }

    /// The records, in order.
    pub fn records(&self) -> impl ExactSizeIterator<Item = Result<R, BadRecord>> + use<'a, R> {
        self.raw.iter().map(R::read)
    }
}

/// A request of any version whose frame is sound.
#[derive(Debug, Clone, Copy)]
pub enum AnyRequest<'a> {
    /// Version 1.
    V1(BatchRequest<'a>),
    /// Version 2.
    V2(v2::Request<'a>),
    /// Version 3.
    V3(v3::Request<'a>),
}

impl<'a> AnyRequest<'a> {
    /// Splits a frame of the version that its first bytes name into records.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(frame: &'a [u8]) -> Result<Self, FrameError> {
        if v2::REQUEST.starts(frame) {
            v2::Request::parse(frame).map(Self::V2)
        } else if v3::REQUEST.starts(frame) {
            v3::Request::parse(frame).map(Self::V3)
        } else {
            BatchRequest::parse(frame).map(Self::V1)
        }
    }
}

/// A request in the making.
#[derive(Debug, Clone)]
pub struct BatchEncoder {
    frame: Vec<u8>,
}

impl Default for BatchEncoder {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl BatchEncoder {
    /// A request without records, with room for this many.
    #[must_use]
    pub fn with_capacity(records: usize) -> Self {
        let mut frame = Vec::with_capacity(HEADER_BYTES + records * RECORD_BYTES);
        frame.extend_from_slice(&REQUEST.header(0));
        Self { frame }
    }

    /// Adds a record. A frame with more than [`MAX_RECORDS`] will be refused.
    pub fn push(&mut self, record: &Record) {
        self.push_raw(&record.to_bytes());
    }

    /// Adds a record as it is on the wire.
    pub fn push_raw(&mut self, record: &RawRecord) {
        self.frame.extend_from_slice(record);
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.frame.len() - HEADER_BYTES) / RECORD_BYTES
    }

    /// Whether there is none yet; such a frame will be refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The frame.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let header = REQUEST.header(self.len());
        self.frame[..HEADER_BYTES].copy_from_slice(&header);
        self.frame
    }
}

/// The frame of an answer.
#[must_use]
pub fn encode_answer(outcomes: &[RecordOutcome]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + outcomes.len());
    frame.extend_from_slice(&ANSWER.header(outcomes.len()));
    frame.extend(outcomes.iter().map(|&outcome| outcome as u8));
    frame
}

/// Reads the frame of an answer: the outcomes, in the order of the request's records.
///
/// # Errors
/// When it is none.
pub fn parse_answer(
    frame: &[u8],
) -> Result<impl ExactSizeIterator<Item = RecordOutcome>, FrameError> {
    let body = ANSWER.body_of(frame)?;
    if let Some(&byte) = body.iter().find(|&&byte| outcome_of(byte).is_none()) {
        return Err(FrameError::Outcome(byte));
    }
    // None is left that is no outcome.
    let outcome = |&byte| outcome_of(byte).unwrap_or(RecordOutcome::Unknown);
    Ok(body.iter().map(outcome))
}

fn outcome_of(byte: u8) -> Option<RecordOutcome> {
    match byte {
        0 => Some(RecordOutcome::Applied),
        1 => Some(RecordOutcome::Ignored),
        2 => Some(RecordOutcome::Bad),
        3 => Some(RecordOutcome::NotTaken),
        4 => Some(RecordOutcome::Unknown),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
