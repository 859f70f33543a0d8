//! The read states of a user in binary: a quarter of the JSON's length, and no text to parse.
//!
//! Comes in: untrusted bytes. Goes out: [`ReadStates`], or the reason why the bytes are none. A service that knows this
//! form answers with it where a request accepts [`MEDIA_TYPE`]; an earlier one answers with JSON, so the type of the
//! answer is to be looked at. Everything is little endian.
//!
//! ```text
//! header   40 bytes   "RSL1" │ version 1 │ flags 1 │ 0 ×2 │ rows 4 │ deleted 4 │ user 8 │ version of the user 8 │ next 8
//! row      48 bytes   channel 8 │ last message 8 │ last pin 8 │ version of the state 8 │ mentions 4 │ flags 4 │
//!                     last viewed 2 │ 0 ×6
//! deleted   8 bytes   channel 8
//! ```
//! The flag 1 says that it has only what changed. Rows and then deleted channels are ordered by channel. The last pin is in
//! Unix milliseconds. A last message, a last pin or a next of 0 is none.

use crate::{Id, ReadState, ReadStates, Version, pin};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.readstates.rows";
/// The length of a header.
pub const HEADER_BYTES: usize = 40;
/// The length of a row.
pub const ROW_BYTES: usize = 48;
/// The length of a deleted channel.
pub const DELETED_BYTES: usize = 8;

const MAGIC: &[u8; 4] = b"RSL1";
const VERSION: u8 = 1;
const PARTIAL: u8 = 1;

/// What is said of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The user.
    pub user: u64,
    /// The user's version.
    pub version: u64,
    /// Whether there is only what changed since the requested version.
    pub partial: bool,
    /// Number of rows.
    pub rows: usize,
    /// Number of deleted channels.
    pub deleted: usize,
    /// The value of `after` for the next page; 0: none.
    pub next: u64,
}

/// One read state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The channel.
    pub channel: u64,
    /// The last message read; 0: none.
    pub last_message: u64,
    /// The newest pin seen, in Unix milliseconds; 0: none.
    pub last_pin_millis: u64,
    /// The user's version when this state last changed.
    pub version: u64,
    /// Number of mentions newer than the last message.
    pub mention_count: u32,
    /// Bits for the clients' own use.
    pub flags: u32,
    /// The day of the last visit, in days since 2015-01-01.
    pub last_viewed: u16,
}

/// Why bytes are no rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// Shorter than a header.
    #[error("{0} bytes are shorter than a header of {HEADER_BYTES}")]
    Short(usize),
    /// It does not start as it should.
    #[error("it does not start with RSL1")]
    Magic,
    /// Another version.
    #[error("version {0} is not known; this is 1")]
    Version(u8),
    /// The header has a number that cannot be.
    #[error("the header makes no sense")]
    Header,
    /// The length does not go with the header.
    #[error("the header makes {expected} bytes; these are {found}")]
    Length {
        /// What the header says.
        expected: usize,
        /// How many bytes there are.
        found: usize,
    },
    /// A row has a number that cannot be, or is not in order.
    #[error("row {0} makes no sense")]
    Row(usize),
    /// A deleted channel is 0, or is not in order.
    #[error("deleted channel {0} makes no sense")]
    Deleted(usize),
}

impl Head {
    /// The length of a whole answer with this header.
    #[must_use]
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.rows * ROW_BYTES + self.deleted * DELETED_BYTES
    }

    /// The header on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = VERSION;
        bytes[5] = if self.partial { PARTIAL } else { 0 };
        bytes[8..12].copy_from_slice(&count(self.rows));
        bytes[12..16].copy_from_slice(&count(self.deleted));
        bytes[16..24].copy_from_slice(&self.user.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.version.to_le_bytes());
        bytes[32..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Self, RowsError> {
        let (words, _) = bytes.as_chunks::<8>();
        let &[start, counts, user, version, next] = words else {
            return Err(RowsError::Header);
        };
        let [m0, m1, m2, m3, format, flags, zeros @ ..] = start;
        if [m0, m1, m2, m3] != *MAGIC {
            return Err(RowsError::Magic);
        }
        if format != VERSION {
            return Err(RowsError::Version(format));
        }
        let [r0, r1, r2, r3, deleted @ ..] = counts;
        let count = |bytes| usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
        let head = Self {
            user: u64::from_le_bytes(user),
            version: u64::from_le_bytes(version),
            partial: flags == PARTIAL,
            rows: count([r0, r1, r2, r3]),
            deleted: count(deleted),
            next: u64::from_le_bytes(next),
        };
        let known = flags & !PARTIAL == 0 && zeros == [0; 2] && head.user != 0;
        // Only what changed has deletions, and only pages of all have a next.
        let fits = if head.partial {
            head.next == 0
        } else {
            head.deleted == 0
        };
        (known && fits).then_some(head).ok_or(RowsError::Header)
    }
}

impl Row {
    /// The row on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ROW_BYTES] {
        let Self {
            channel,
            last_message,
            last_pin_millis,
            version,
            mention_count,
            flags,
            last_viewed,
        } = *self;
        let mut bytes = [0; ROW_BYTES];
        bytes[..8].copy_from_slice(&channel.to_le_bytes());
        bytes[8..16].copy_from_slice(&last_message.to_le_bytes());
        bytes[16..24].copy_from_slice(&last_pin_millis.to_le_bytes());
        bytes[24..32].copy_from_slice(&version.to_le_bytes());
        bytes[32..36].copy_from_slice(&mention_count.to_le_bytes());
        bytes[36..40].copy_from_slice(&flags.to_le_bytes());
        bytes[40..42].copy_from_slice(&last_viewed.to_le_bytes());
        bytes
    }

    /// `None` where a reserved byte is not 0.
    fn from_bytes(bytes: &[u8; ROW_BYTES]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let &[channel, message, pin, version, counts, last] = words else {
            return None;
        };
        let [c0, c1, c2, c3, flags @ ..] = counts;
        let [v0, v1, zeros @ ..] = last;
        (zeros == [0; 6]).then(|| Self {
            channel: u64::from_le_bytes(channel),
            last_message: u64::from_le_bytes(message),
            last_pin_millis: u64::from_le_bytes(pin),
            version: u64::from_le_bytes(version),
            mention_count: u32::from_le_bytes([c0, c1, c2, c3]),
            flags: u32::from_le_bytes(flags),
            last_viewed: u16::from_le_bytes([v0, v1]),
        })
    }

    fn state(self) -> Option<ReadState> {
        let version = (self.version > 0).then_some(Version(self.version))?;
        Some(ReadState {
            channel_id: Id::new(self.channel)?,
            last_message_id: Id::new(self.last_message),
            mention_count: self.mention_count,
            flags: self.flags,
            last_viewed: self.last_viewed,
            last_pin_timestamp: pin::at_millis(self.last_pin_millis)?,
            version,
        })
    }
}

impl From<&ReadState> for Row {
    fn from(state: &ReadState) -> Self {
        Self {
            channel: state.channel_id.get(),
            last_message: state.last_message_id.map_or(0, Id::get),
            last_pin_millis: state.last_pin_timestamp.map_or(0, pin::millis),
            version: state.version.0,
            mention_count: state.mention_count,
            flags: state.flags,
            last_viewed: state.last_viewed,
        }
    }
}

/// Read states on the wire.
#[must_use]
pub fn encode(states: &ReadStates) -> Vec<u8> {
    let deleted = states.deleted.as_deref().unwrap_or_default();
    let head = Head {
        user: states.user_id.get(),
        version: states.version.0,
        partial: states.partial,
        rows: states.read_states.len(),
        deleted: deleted.len(),
        next: states.next.map_or(0, Id::get),
    };
    let mut bytes = Vec::with_capacity(head.bytes());
    bytes.extend_from_slice(&head.to_bytes());
    for state in &states.read_states {
        bytes.extend_from_slice(&Row::from(state).to_bytes());
    }
    for channel in deleted {
        bytes.extend_from_slice(&channel.get().to_le_bytes());
    }
    bytes
}

/// Reads read states from the wire.
///
/// # Errors
/// When these bytes are none.
pub fn parse(bytes: &[u8]) -> Result<ReadStates, RowsError> {
    let Some((head, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(RowsError::Short(bytes.len()));
    };
    let head = Head::from_bytes(head)?;
    // Both counts are below 2^32: their sum fits, and nothing is allocated by them before it is known.
    let expected = head.bytes();
    let Some((rows, deleted)) = body
        .split_at_checked(head.rows * ROW_BYTES)
        .filter(|_| bytes.len() == expected)
    else {
        let found = bytes.len();
        return Err(RowsError::Length { expected, found });
    };
    let mut before = 0;
    let mut read_states = Vec::with_capacity(head.rows);
    for (place, row) in rows.as_chunks::<ROW_BYTES>().0.iter().enumerate() {
        let row = Row::from_bytes(row).filter(|row| row.channel > before);
        let state = row.and_then(|row| {
            before = row.channel;
            row.state()
        });
        read_states.push(state.ok_or(RowsError::Row(place))?);
    }
    let mut before = 0;
    let deleted = deleted.as_chunks::<DELETED_BYTES>().0.iter().enumerate();
    let deleted = deleted.map(|(place, &bytes)| {
        let channel = u64::from_le_bytes(bytes);
        let in_order = channel > before;
        before = channel;
        let channel = Id::new(channel).filter(|_| in_order);
        channel.ok_or(RowsError::Deleted(place))
    });
    let deleted: Vec<Id> = deleted.collect::<Result<_, _>>()?;
    Ok(ReadStates {
        user_id: Id::new(head.user).ok_or(RowsError::Header)?,
        version: Version(head.version),
        partial: head.partial,
        read_states,
        deleted: head.partial.then_some(deleted),
        next: Id::new(head.next),
    })
}

#[cfg(test)]
mod tests;
