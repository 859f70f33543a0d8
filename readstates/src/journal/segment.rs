//! A file of the journal: a head, then frames. Pure: bytes in, bytes out.
//!
//! | head, 64 bytes, little endian | |
//! |---|---|
//! | 8 | `RSJOURN1` |
//! | 8 | the number of the segment |
//! | 8 | the incarnation of the process that wrote it |
//! | 8 | the number of the segment before it that is still needed; 0: none |
//! | 8 | the bytes of that one which are acknowledged |
//! | 20 | 0 |
//! | 4 | CRC-32 of all that |
//!
//! | frame, little endian | |
//! |---|---|
//! | 4 | `RSJF` |
//! | 4 | the bytes of its records |
//! | 8 | the number of the segment |
//! | 8 | the number of the frame in it, from 0 |
//! | 4 | 0 |
//! | 4 | CRC-32 of the 28 bytes before and the records |
//! | | records |
//!
//! Each frame is on the disk before anything in it is acknowledged and before the next is begun. So a frame that
//! is not whole, with nothing behind it, was never acknowledged; one with a whole frame behind it was, and is damaged.

use std::ops::Range;

/// Bytes of the head of a segment.
pub(super) const HEAD: usize = 64;
/// Bytes of a frame before its records.
pub(super) const FRAME: usize = 32;

const MAGIC: &[u8; 8] = b"RSJOURN1";
const FRAME_MAGIC: &[u8; 4] = b"RSJF";

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) number: u64,
    pub(super) incarnation: u64,
    /// The segment before it, and how many bytes of that are acknowledged.
    pub(super) previous: Option<(u64, u64)>,
}

/// The head of a file is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoHead {
    /// The file ends too early, as when the machine went while it was made, or its checksum is wrong.
    Torn,
    /// Another format: a newer release wrote it.
    Unknown,
}

impl Head {
    pub(super) fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let (previous, acknowledged) = self.previous.unwrap_or((0, 0));
        bytes[..8].copy_from_slice(MAGIC);
        for (place, word) in [
            (8, self.number),
            (16, self.incarnation),
            (24, previous),
            (32, acknowledged),
        ] {
            bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes[..HEAD - 4]);
        bytes[HEAD - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, NoHead> {
        let Some(head) = bytes.first_chunk::<HEAD>() else {
            return Err(NoHead::Torn);
        };
        if crc32fast::hash(&head[..HEAD - 4]).to_le_bytes() != head[HEAD - 4..] {
            return Err(NoHead::Torn);
        }
        if head[..8] != *MAGIC || head[40..60] != [0; 20] {
            return Err(NoHead::Unknown);
        }
        let previous = word(head, 24);
        Ok(Self {
            number: word(head, 8),
            incarnation: word(head, 16),
            previous: (previous != 0).then(|| (previous, word(head, 32))),
        })
    }
}

/// Appends a frame with these records.
pub(super) fn put_frame(out: &mut Vec<u8>, segment: u64, number: u64, records: &[u8]) {
    let start = out.len();
    out.extend(FRAME_MAGIC);
    // The journal refuses changes long before this many wait.
    out.extend((records.len() as u32).to_le_bytes());
    out.extend(segment.to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend([0; 4]);
    let sum = checksum(&out[start..], records);
    out.extend(sum.to_le_bytes());
    out.extend(records);
}

fn checksum(head: &[u8], records: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(records);
    sum.finalize()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// Where it begins.
    pub(super) at: usize,
    number: u64,
    pub(super) records: &'a [u8],
}

impl Frame<'_> {
    fn end(&self) -> usize {
        self.at + FRAME + self.records.len()
    }
}

/// The frames of a segment, and what is between them that is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frames<'a> {
    pub(super) frames: Vec<Frame<'a>>,
    /// What is no frame and has frames behind it.
    pub(super) holes: Vec<Range<usize>>,
    /// Where the last frame ends; what is behind it was never acknowledged.
    pub(super) end: usize,
}

/// Reads the frames of the segment with this number.
pub(super) fn frames(bytes: &[u8], segment: u64) -> Frames<'_> {
    let mut found = Frames {
        frames: Vec::new(),
        holes: Vec::new(),
        end: HEAD,
    };
    let mut next = 0;
    while let Some(frame) = next_frame(bytes, segment, found.end, next) {
        // A frame that is missing without a trace has left its number.
        if frame.at != found.end || frame.number != next {
            found.holes.push(found.end..frame.at);
        }
        next = frame.number + 1;
        found.end = frame.end();
        found.frames.push(frame);
    }
    found
}

/// The first whole frame from here on, with this number or a later one.
fn next_frame(bytes: &[u8], segment: u64, from: usize, least: u64) -> Option<Frame<'_>> {
    let rest = bytes.get(from..)?;
    memchr::memmem::find_iter(rest, FRAME_MAGIC)
        .filter_map(|offset| frame(bytes, segment, from + offset))
        .find(|frame| frame.number >= least)
}

fn frame(bytes: &[u8], segment: u64, at: usize) -> Option<Frame<'_>> {
    let (head, rest) = bytes.get(at..)?.split_first_chunk::<FRAME>()?;
    let mut length = [0; 4];
    length.copy_from_slice(&head[4..8]);
    let records = rest.get(..u32::from_le_bytes(length) as usize)?;
    let sound = word(head, 8) == segment
        && head[24..28] == [0; 4]
        && checksum(&head[..28], records).to_le_bytes() == head[28..];
    sound.then(|| Frame {
        at,
        number: word(head, 16),
        records,
    })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(number: u64, records: &[Vec<u8>]) -> Vec<u8> {
        let head = Head {
            number,
            incarnation: 9,
            previous: None,
        };
        let mut bytes = head.encode().to_vec();
        for (index, records) in records.iter().enumerate() {
            put_frame(&mut bytes, number, index as u64, records);
        }
        bytes
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_no_other() {
        for previous in [None, Some((6, 4096))] {
            let head = Head {
                number: 7,
                incarnation: u64::MAX,
                previous,
            };
            let bytes = head.encode();
            assert_eq!(Head::decode(&bytes), Ok(head));
            assert_eq!(Head::decode(&bytes[..HEAD - 1]), Err(NoHead::Torn));
            let mut flipped = bytes;
            flipped[20] ^= 1;
            assert_eq!(Head::decode(&flipped), Err(NoHead::Torn));
        }
        let mut newer = Head::decode(&segment(7, &[])).unwrap().encode();
        newer[7] = b'2';
        let sum = crc32fast::hash(&newer[..HEAD - 4]);
        newer[HEAD - 4..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Head::decode(&newer), Err(NoHead::Unknown));
    }

    #[test]
    fn frames_of_the_file_s_former_life_are_none() {
        let mut bytes = segment(7, &[b"new".to_vec()]);
        let end = bytes.len();
        put_frame(&mut bytes, 6, 1, b"old");
        let read = frames(&bytes, 7);
        assert_eq!((read.frames.len(), read.end), (1, end));
        assert!(read.holes.is_empty());
    }

    #[test]
    fn a_frame_that_is_gone_without_a_trace_is_a_hole() {
        let mut bytes = segment(7, &[b"one".to_vec()]);
        let end = bytes.len();
        put_frame(&mut bytes, 7, 2, b"three");
        let holes = frames(&bytes, 7).holes;
        assert!(holes.len() == 1 && holes[0] == (end..end));
    }

    proptest! {
        #[test]
        fn what_was_synced_is_read_whatever_is_torn_behind_it(
            records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 1..6),
            torn in prop::collection::vec(any::<u8>(), 0..100),
            kept in 0..80_usize,
        ) {
            let mut bytes = segment(3, &records);
            let whole = bytes.len();
            put_frame(&mut bytes, 3, records.len() as u64, b"the write under way");
            let under_way = bytes.clone();
            bytes.truncate(whole + kept.min(bytes.len() - whole - 1));
            bytes.extend(torn);
            prop_assume!(!bytes.starts_with(&under_way));
            let read = frames(&bytes, 3);
            prop_assert_eq!(read.end, whole);
            prop_assert!(read.holes.is_empty());
            let seen: Vec<_> = read.frames.iter().map(|frame| frame.records.to_vec()).collect();
            prop_assert_eq!(seen, records);
        }

        #[test]
        fn one_wrong_byte_is_a_hole_or_the_end(
            records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 2..6),
            at in any::<prop::sample::Index>(),
        ) {
            let mut bytes = segment(3, &records);
            let at = HEAD + at.index(bytes.len() - HEAD);
            bytes[at] ^= 0x40;
            let read = frames(&bytes, 3);
            prop_assert_eq!(read.frames.len(), records.len() - 1);
            let last = bytes.len() - FRAME - records[records.len() - 1].len();
            if at >= last {
                prop_assert_eq!(read.end, last);
            } else {
                prop_assert!(read.holes.len() == 1 && read.holes[0].contains(&at));
            }
        }
    }
}
