//! The rows of an answer of version 2.

use jiff::Timestamp;

use crate::{
    Id, ReadState, Version,
    batch::{FrameError, HEADER_BYTES, layout::Layout},
};

/// The length of a row.
pub const ROW_BYTES: usize = 48;

const ANSWER: Layout = Layout {
    magic: "RSR2",
    version: 2,
    item_bytes: ROW_BYTES,
};

/// A read state without its channel, which the record names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateNumbers {
    /// The last message read; `None` when the channel has mentions or pins but was never read.
    pub last_message_id: Option<Id>,
    /// Number of mentions newer than `last_message_id`.
    pub mention_count: u32,
    /// Bits for the clients' own use.
    pub flags: u32,
    /// The day of the last visit, in days since 2015-01-01.
    pub last_viewed: u16,
    /// The newest pin seen, to the millisecond.
    pub last_pin_timestamp: Option<Timestamp>,
    /// The user's version when this state last changed; not 0.
    pub version: Version,
}

impl StateNumbers {
    /// The read state of this channel.
    #[must_use]
    pub fn of_channel(self, channel_id: Id) -> ReadState {
        let Self {
            last_message_id,
            mention_count,
            flags,
            last_viewed,
            last_pin_timestamp,
            version,
        } = self;
        ReadState {
            channel_id,
            last_message_id,
            mention_count,
            flags,
            last_viewed,
            last_pin_timestamp,
            version,
        }
    }
}

/// The answer to one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// Something changed.
    Applied {
        /// The user's version.
        version: Version,
        /// The state after it.
        state: StateNumbers,
    },
    /// It was known already.
    Ignored {
        /// The user's version.
        version: Version,
        /// The state.
        state: StateNumbers,
    },
    /// The record makes no sense; sending it again does not help.
    Bad,
    /// Nothing was done: the member is over a limit, or the database is away. Send it again later.
    NotTaken,
    /// The owner did not answer. Sending it again is safe, unless it is manual.
    Unknown,
    /// A read: there is a state.
    Found {
        /// The user's version.
        version: Version,
        /// The state.
        state: StateNumbers,
    },
    /// A read: the user has no state for the channel.
    Absent {
        /// The user's version.
        version: Version,
    },
    /// Nothing was done: the user has the most read states that there may be.
    Full,
    /// Nothing was done: the owner is of an earlier release, which does not know this version.
    OwnerTooOld,
    /// Nothing was done: a read, and the caller may not read.
    Forbidden,
}

impl Row {
    fn code(&self) -> u8 {
        match self {
            Self::Applied { .. } => 0,
            Self::Ignored { .. } => 1,
            Self::Bad => 2,
            Self::NotTaken => 3,
            Self::Unknown => 4,
            Self::Found { .. } => 5,
            Self::Absent { .. } => 6,
            Self::Full => 7,
            Self::OwnerTooOld => 8,
            Self::Forbidden => 9,
        }
    }

    fn to_bytes(self) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[0] = self.code();
        let (user, state) = match self {
            Self::Applied { version, state }
            | Self::Ignored { version, state }
            | Self::Found { version, state } => (version, Some(state)),
            Self::Absent { version } => (version, None),
            Self::Bad
            | Self::NotTaken
            | Self::Unknown
            | Self::Full
            | Self::OwnerTooOld
            | Self::Forbidden => return bytes,
        };
        bytes[16..24].copy_from_slice(&user.0.to_le_bytes());
        let Some(state) = state else {
            return bytes;
        };
        let StateNumbers {
            last_message_id,
            mention_count,
            flags,
            last_viewed,
            last_pin_timestamp,
            version,
        } = state;
        let last_pin = last_pin_timestamp.map_or(0, |pin| pin.as_millisecond());
        bytes[2..4].copy_from_slice(&last_viewed.to_le_bytes());
        bytes[4..8].copy_from_slice(&mention_count.to_le_bytes());
        bytes[8..12].copy_from_slice(&flags.to_le_bytes());
        bytes[24..32].copy_from_slice(&last_message_id.map_or(0, Id::get).to_le_bytes());
        // There are no pins before 1970.
        bytes[32..40].copy_from_slice(&last_pin.max(0).to_le_bytes());
        bytes[40..48].copy_from_slice(&version.0.to_le_bytes());
        bytes
    }

    /// Reads the row at `place`.
    fn from_bytes(bytes: &[u8; ROW_BYTES], place: usize) -> Result<Self, FrameError> {
        let (words, _) = bytes.as_chunks::<8>();
        let &[head, more, user, message, pin, version] = words else {
            return Err(FrameError::Row(place));
        };
        let [code, zero, viewed @ .., m0, m1, m2, m3] = head;
        let [f0, f1, f2, f3, zeros @ ..] = more;
        let [user, message, pin, version] = [user, message, pin, version].map(u64::from_le_bytes);
        let nothing = bytes[1..16] == [0; 15] && (message, pin, version) == (0, 0, 0);
        let alone = |row| {
            let fits = nothing && user == 0;
            fits.then_some(row).ok_or(FrameError::Row(place))
        };
        let state = || {
            if zero != 0 || zeros != [0; 4] || version == 0 {
                return Err(FrameError::Row(place));
            }
            Ok(StateNumbers {
                last_message_id: Id::new(message),
                mention_count: u32::from_le_bytes([m0, m1, m2, m3]),
                flags: u32::from_le_bytes([f0, f1, f2, f3]),
                last_viewed: u16::from_le_bytes(viewed),
                last_pin_timestamp: pin_at(pin).ok_or(FrameError::Row(place))?,
                version: Version(version),
            })
        };
        let user = Version(user);
        Ok(match code {
            0 => Self::Applied {
                version: user,
                state: state()?,
            },
            1 => Self::Ignored {
                version: user,
                state: state()?,
            },
            2 => alone(Self::Bad)?,
            3 => alone(Self::NotTaken)?,
            4 => alone(Self::Unknown)?,
            5 => Self::Found {
                version: user,
                state: state()?,
            },
            6 if nothing => Self::Absent { version: user },
            6 => return Err(FrameError::Row(place)),
            7 => alone(Self::Full)?,
            8 => alone(Self::OwnerTooOld)?,
            9 => alone(Self::Forbidden)?,
            code => return Err(FrameError::Outcome(code)),
        })
    }
}

/// The pin at these Unix milliseconds, none for 0; `None` outside of the calendar.
pub(in crate::batch) fn pin_at(millis: u64) -> Option<Option<Timestamp>> {
    if millis == 0 {
        return Some(None);
    }
    let seconds = i64::try_from(millis / 1000).ok()?;
    // Below a second. (`Timestamp::from_millisecond` does not take the last one of the calendar.)
    let nanoseconds = (millis % 1000) as i32 * 1_000_000;
    Timestamp::new(seconds, nanoseconds).ok().map(Some)
}

/// The frame of an answer.
#[must_use]
pub fn encode_answer(rows: &[Row]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + rows.len() * ROW_BYTES);
    frame.extend_from_slice(&ANSWER.header(rows.len()));
    for row in rows {
        frame.extend_from_slice(&row.to_bytes());
    }
    frame
}

/// Reads the frame of an answer: the rows, in the order of the request's records.
///
/// # Errors
/// When it is none.
pub fn parse_answer(frame: &[u8]) -> Result<Vec<Row>, FrameError> {
    let (rows, _) = ANSWER.body_of(frame)?.as_chunks::<ROW_BYTES>();
    let rows = rows.iter().enumerate();
    rows.map(|(place, row)| Row::from_bytes(row, place))
        .collect()
}
