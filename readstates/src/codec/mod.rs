//! The bytes of one database cell, and of one user in a hand-off: who wrote, and the block as it is.
//!
//! | bytes, little endian | |
//! |---|---|
//! | 1 | format, always 2 |
//! | 8 | writer: the incarnation of the process that wrote |
//! | the rest | the block, as the head of [`crate::block`] describes it |
//!
//! There is one way to write a block, and [`decode`] takes no other: bytes of another format or with
//! anything out of place are refused, never guessed at. What [`decode`] took is not checked again.

mod check;
pub(crate) mod parts;

use crate::block::{BlockRef, MAX_READ_STATES, layout};

/// The only format there is. (1 was never in a release.)
const FORMAT: u8 = 2;

/// Bytes before the block.
const ENVELOPE: usize = 9;

/// The last version a block may have. No user gets there: it is 146 thousand years of microseconds.
pub const LAST_VERSION: u64 = 1 << 62;

/// A block as it was written, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded<'a> {
    pub block: BlockRef<'a>,
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
    #[error("the bytes end in the middle of the block")]
    Truncated,
    /// There are bytes after the block.
    #[error("{0} bytes follow the block")]
    Trailing(usize),
    /// A value is not what [`encode`] writes.
    #[error("{0} is invalid")]
    OutOfPlace(&'static str),
    /// More states than a block can have.
    #[error("there are {0} states, more than the {MAX_READ_STATES} a user can have")]
    TooMany(usize),
}

/// Packs a block for another process to read.
#[must_use]
pub fn encode(block: BlockRef<'_>, writer: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(ENVELOPE + block.bytes().len());
    out.push(FORMAT);
    out.extend(writer.to_le_bytes());
    out.extend(block.bytes());
    layout::clear_taken_over(&mut out[ENVELOPE..]);
    out
}

/// Unpacks a block.
///
/// # Errors
/// When the bytes are not exactly what [`encode`] writes for some block.
pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, DecodeError> {
    let (&format, rest) = bytes.split_first().ok_or(DecodeError::Truncated)?;
    if format != FORMAT {
        return Err(DecodeError::UnknownFormat(format));
    }
    let (writer, block) = rest.split_first_chunk().ok_or(DecodeError::Truncated)?;
    Ok(Decoded {
        writer: u64::from_le_bytes(*writer),
        block: check::checked(block)?,
    })
}

/// The incarnation of the process that wrote these bytes, if they begin as a block of this format does.
#[must_use]
pub fn writer(bytes: &[u8]) -> Option<u64> {
    let (&format, rest) = bytes.split_first()?;
    let writer = rest.first_chunk().filter(|_| format == FORMAT)?;
    Some(u64::from_le_bytes(*writer))
}

#[cfg(test)]
mod tests;
