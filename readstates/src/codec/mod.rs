//! The packed form of a block: the bytes of one database cell.
//!
//! Little endian; `v` is an unsigned LEB128 varint in its shortest form.
//!
//! | part | bytes |
//! |---|---|
//! | format, always 1 | u8 |
//! | writer: the incarnation of the process that wrote | u64 |
//! | version of the user | v |
//! | history floor, gap after, gap until | v v v |
//! | number of states | v |
//! | each state, by channel: channel, last message, members present, version distance, members | u64 u64 u8 v … |
//! | number of remembered deletions | v |
//! | each deletion, oldest first: channel, version distance | u64 v |
//!
//! A version distance is the user's version minus the one meant. The members of a state are there
//! when their bit is set, and are then not zero: 1 mention count `v`, 2 flags `v`, 4 last viewed `v`,
//! 8 last pin `v`, 16 counted mentions (number `v`, then message u64 and count `v` each).
//!
//! There is one way to write a block, and [`decode`] takes no other: bytes of another format or with
//! anything out of place are refused, never guessed at.

mod reader;

use reader::Reader;

use crate::block::{Block, Counted, Gap, History, Mention, NoBlock, State};

/// The only format there is.
const FORMAT: u8 = 1;

const HAS_MENTION_COUNT: u8 = 1;
const HAS_FLAGS: u8 = 2;
const HAS_LAST_VIEWED: u8 = 4;
const HAS_LAST_PIN: u8 = 8;
const HAS_COUNTED: u8 = 16;
const KNOWN_MEMBERS: u8 = 31;

/// Bytes of a state before its members, at least: the guard against counts that lie.
const LEAST_STATE_BYTES: usize = 18;
const LEAST_DELETION_BYTES: usize = 9;
const LEAST_MENTION_BYTES: usize = 9;

/// A block as it was written, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The block.
    pub block: Block,
    /// The incarnation of the process that wrote it.
    pub writer: u64,
}

/// Why bytes are no block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by a newer program, or not by us at all.
    #[error("format {0} is unknown to this version of readstates; it knows format {FORMAT}")]
    UnknownFormat(u8),
    /// The bytes end too early.
    #[error("the bytes end in the midst of the block")]
    Truncated,
    /// There are bytes after the block.
    #[error("{0} bytes follow the block")]
    Trailing(usize),
    /// A value is not what [`encode`] writes.
    #[error("{0} is out of place")]
    OutOfPlace(&'static str),
    /// The parts contradict each other.
    #[error(transparent)]
    NoBlock(#[from] NoBlock),
}

/// Packs a block.
#[must_use]
pub fn encode(block: &Block, writer: u64) -> Vec<u8> {
    let History {
        floor,
        gap: Gap { after, until },
        deleted,
    } = block.history();
    let mut out = Vec::with_capacity(48 + block.states().len() * 32 + deleted.len() * 16);
    out.push(FORMAT);
    out.extend(writer.to_le_bytes());
    put_varint(&mut out, block.version());
    for value in [*floor, *after, *until, block.states().len() as u64] {
        put_varint(&mut out, value);
    }
    for state in block.states() {
        put_state(&mut out, state, block.version());
    }
    put_varint(&mut out, deleted.len() as u64);
    for (channel, version) in deleted {
        out.extend(channel.to_le_bytes());
        put_varint(&mut out, block.version() - version);
    }
    out
}

fn put_state(out: &mut Vec<u8>, state: &State, newest: u64) {
    let State {
        channel,
        last_message,
        mention_count,
        flags,
        last_viewed,
        last_pin_millis,
        version,
        counted,
    } = state;
    out.extend(channel.to_le_bytes());
    out.extend(last_message.to_le_bytes());
    let scalars = [
        (HAS_MENTION_COUNT, u64::from(*mention_count)),
        (HAS_FLAGS, u64::from(*flags)),
        (HAS_LAST_VIEWED, u64::from(*last_viewed)),
        (HAS_LAST_PIN, *last_pin_millis),
    ];
    let mut members = if counted.mentions().is_empty() {
        0
    } else {
        HAS_COUNTED
    };
    members |= scalars
        .iter()
        .filter(|(_, value)| *value != 0)
        .fold(0, |all, (bit, _)| all | bit);
    out.push(members);
    put_varint(out, newest - version);
    for (_, value) in scalars.into_iter().filter(|(_, value)| *value != 0) {
        put_varint(out, value);
    }
    if members & HAS_COUNTED != 0 {
        put_varint(out, counted.mentions().len() as u64);
        for Mention { message, count } in counted.mentions() {
            out.extend(message.to_le_bytes());
            put_varint(out, u64::from(*count));
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        // The low seven bits, with the bit that says "more follows".
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Unpacks a block.
///
/// # Errors
/// When the bytes are not exactly what [`encode`] writes for some block.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut reader = Reader::new(bytes);
    let format = reader.u8()?;
    if format != FORMAT {
        return Err(DecodeError::UnknownFormat(format));
    }
    let writer = reader.u64()?;
    let version = reader.varint()?;
    let (floor, after, until) = (reader.varint()?, reader.varint()?, reader.varint()?);
    let states = reader.list(LEAST_STATE_BYTES, |reader| state(reader, version))?;
    let deleted = reader.list(LEAST_DELETION_BYTES, |reader| {
        Ok((reader.u64()?, version_before(reader, version)?))
    })?;
    reader.end()?;
    let history = History {
        floor,
        gap: Gap { after, until },
        deleted,
    };
    Ok(Decoded {
        block: Block::from_parts(version, states, history)?,
        writer,
    })
}

fn state(reader: &mut Reader<'_>, newest: u64) -> Result<State, DecodeError> {
    let channel = reader.u64()?;
    let last_message = reader.u64()?;
    let members = reader.u8()?;
    if members & !KNOWN_MEMBERS != 0 {
        return Err(DecodeError::OutOfPlace("a member of a state"));
    }
    let version = version_before(reader, newest)?;
    let mut scalar = |bit: u8, most: u64| match members & bit {
        0 => Ok(0),
        _ => match reader.varint()? {
            value if value == 0 || value > most => Err(DecodeError::OutOfPlace("a member's value")),
            value => Ok(value),
        },
    };
    // The bounds make the narrowing below exact.
    let mention_count = scalar(HAS_MENTION_COUNT, u64::from(u32::MAX))? as u32;
    let flags = scalar(HAS_FLAGS, u64::from(u32::MAX))? as u32;
    let last_viewed = scalar(HAS_LAST_VIEWED, u64::from(u16::MAX))? as u16;
    let last_pin_millis = scalar(HAS_LAST_PIN, u64::MAX)?;
    let counted = if members & HAS_COUNTED == 0 {
        Counted::default()
    } else {
        counted(reader)?
    };
    Ok(State {
        channel,
        last_message,
        mention_count,
        flags,
        last_viewed,
        last_pin_millis,
        version,
        counted,
    })
}

fn counted(reader: &mut Reader<'_>) -> Result<Counted, DecodeError> {
    let mentions = reader.list(LEAST_MENTION_BYTES, |reader| {
        let message = reader.u64()?;
        let count = u32::try_from(reader.varint()?)
            .map_err(|_| DecodeError::OutOfPlace("the count of a mention"))?;
        Ok(Mention { message, count })
    })?;
    if mentions.is_empty() {
        return Err(DecodeError::OutOfPlace("an empty list of mentions"));
    }
    Counted::from_sorted(mentions).ok_or(DecodeError::OutOfPlace("a list of mentions"))
}

fn version_before(reader: &mut Reader<'_>, newest: u64) -> Result<u64, DecodeError> {
    newest
        .checked_sub(reader.varint()?)
        .ok_or(DecodeError::OutOfPlace("a version"))
}

#[cfg(test)]
mod tests;
