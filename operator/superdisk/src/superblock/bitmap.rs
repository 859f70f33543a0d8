//! Write-intent bitmaps: which parts of a mirror may differ between its members.

use super::{Uuid, u32_at, u64_at, uuid_at};

/// How many bytes the header has. The bits follow.
pub const BITMAP_BYTES: usize = 256;

/// The header of a write-intent bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bitmap {
    pub array: Uuid,
    /// Events of the array when the bitmap was last written.
    pub events: u64,
    /// Events when bits were last cleared: a member older than this has missed writes that no bit tells of.
    pub events_cleared: u64,
    /// How many chunks there are, and so bits.
    pub chunks: u64,
    /// Size of one, in bytes.
    pub chunk_bytes: u64,
}

/// Reads the header of a bitmap; `None` when there is none.
#[must_use]
pub fn parse_bitmap(bytes: &[u8]) -> Option<Bitmap> {
    if bytes.get(..4)? != b"bitm" {
        return None;
    }
    let sectors = u64_at(bytes, 40)?;
    let chunk = u64::from(u32_at(bytes, 52)?) / super::SECTOR;
    Some(Bitmap {
        array: uuid_at(bytes, 8)?,
        events: u64_at(bytes, 24)?,
        events_cleared: u64_at(bytes, 32)?,
        chunks: if chunk == 0 {
            0
        } else {
            sectors.div_ceil(chunk)
        },
        chunk_bytes: chunk * super::SECTOR,
    })
}

/// The chunks whose bits are set, as ranges with both ends included. At most `most` ranges: if there are more, some are
/// joined across unmarked chunks.
#[must_use]
pub fn marked(bits: &[u8], chunks: u64, most: usize) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (index, byte) in bits.iter().enumerate() {
        for bit in (0..8).filter(|bit| byte >> bit & 1 != 0) {
            let chunk = index as u64 * 8 + bit;
            match ranges.last_mut() {
                _ if chunk >= chunks => {}
                Some((_, last)) if *last + 1 == chunk => *last = chunk,
                Some(_) | None => ranges.push((chunk, chunk)),
            }
        }
    }
    let together = ranges.len().div_ceil(most.max(1)).max(1);
    let joined = ranges.chunks(together);
    joined
        .filter_map(|some| Some((some.first()?.0, some.last()?.1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_lowest_of_the_first_byte() {
        let bits = [0b1000_0001, 0b0000_0011, 0, 0xff];
        assert_eq!(marked(&bits, 32, 9), [(0, 0), (7, 9), (24, 31)]);
        assert_eq!(marked(&bits, 26, 9), [(0, 0), (7, 9), (24, 25)]);
        assert_eq!(marked(&[], 26, 9), []);
    }

    #[test]
    fn too_many_ranges_are_joined_and_none_is_lost() {
        let bits = [0b0101_0101; 100];
        let all = marked(&bits, 800, 400);
        assert_eq!(all.len(), 400);
        let few = marked(&bits, 800, 7);
        assert!(few.len() <= 7, "{few:?}");
        let held = |chunk| {
            few.iter()
                .any(|&(first, last)| (first..=last).contains(&chunk))
        };
        assert!(all.iter().all(|&(first, last)| held(first) && held(last)));
    }
}
