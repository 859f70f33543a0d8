//! The header that all frames share, and their length.

use super::{FrameError, HEADER_BYTES, MAX_RECORDS};

/// A kind of frame: a header, then items of one length.
pub(super) struct Layout {
    /// Its first four bytes.
    pub(super) magic: &'static str,
    pub(super) version: u8,
    pub(super) item_bytes: usize,
}

impl Layout {
    /// The header of a frame with so many items.
    pub(super) fn header(&self, items: usize) -> [u8; HEADER_BYTES] {
        let count = u32::try_from(items).unwrap_or(u32::MAX);
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(self.magic.as_bytes());
        header[4] = self.version;
        header[8..12].copy_from_slice(&count.to_le_bytes());
        header
    }

    /// Whether these bytes start as such a frame does.
    pub(super) fn starts(&self, frame: &[u8]) -> bool {
        frame.starts_with(self.magic.as_bytes())
    }

    /// What follows the header, when it is as long as the header says.
    pub(super) fn body_of<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], FrameError> {
        let Some((head, body)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            return Err(FrameError::Short(frame.len()));
        };
        if !self.starts(head) {
            return Err(FrameError::Magic(self.magic));
        }
        let &[
            _,
            _,
            _,
            _,
            version,
            flags,
            z0,
            z1,
            c0,
            c1,
            c2,
            c3,
            z2,
            z3,
            z4,
            z5,
        ] = head;
        if version != self.version {
            return Err(FrameError::Version(version));
        }
        if [flags, z0, z1, z2, z3, z4, z5] != [0; 7] {
            return Err(FrameError::Reserved);
        }
        let count = u32::from_le_bytes([c0, c1, c2, c3]);
        let items = usize::try_from(count).unwrap_or(usize::MAX);
        if !(1..=MAX_RECORDS).contains(&items) {
            return Err(FrameError::Count(count));
        }
        let expected = HEADER_BYTES + items * self.item_bytes;
        if frame.len() != expected {
            return Err(FrameError::Length {
                count,
                expected,
                found: frame.len(),
            });
        }
        Ok(body)
    }
}
