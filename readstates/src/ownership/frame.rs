//! The binary messages between members when slots move.
//!
//! | kind | body | answer |
//! |---|---|---|
//! | 1 offer | JSON: `Offer` | JSON: `Slots`, those that are taken in |
//! | 2 part | header, blocks | empty |
//! | 3 last part | header, blocks, digest of the blocks of all parts | JSON: `Slots`, those that are here, complete |
//! | 4 hint | number u64, little endian: the ring in the store has come so far, the sender says | number u64: the ring that is known here, 0 while taken slots are not served; the release before answers nothing |
//! | 5 frame of a stream to a backup | see `replication` | its acknowledgement |
//!
//! A header, little endian: origin u64, transfer u64, number of the part u32, count of blocks u32. A
//! block: user u64, flags u8 (1 dirty, 2 taken over), milliseconds since it is dirty u32, length u32,
//! the packed block. A block of length 0 takes the user away. The digest is a u64 at the end.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use readstates_ring::slot::mix64;
use serde::{Deserialize, Serialize};

use crate::cache::Exported;

const OFFER: u8 = 1;
const PART: u8 = 2;
const LAST_PART: u8 = 3;
const HINT: u8 = 4;
const REPLICA: u8 = 5;
/// Bytes before the first block: kind and header.
const HEAD: usize = 1 + 24;
/// Bytes before a packed block.
const BLOCK_HEAD: usize = 17;
const DIRTY: u8 = 1;
const TAKEN_OVER: u8 = 2;

/// The announcement of a transfer.
///
/// A later release may add fields, which are ignored here; what must be understood needs a message kind of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Offer {
    /// The process that sends.
    pub(super) origin: u64,
    pub(super) transfer: u64,
    /// Slots, with the epochs at which the origin owns them.
    pub(super) slots: Vec<(u16, i64)>,
}

/// Slots by number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Slots {
    pub(super) slots: Vec<u16>,
}

/// Where a part belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) origin: u64,
    pub(super) transfer: u64,
    /// From 0 on.
    pub(super) number: u32,
}

/// A message as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Offer(Offer),
    Part {
        header: Header,
        blocks: Vec<Exported>,
        /// Of this part.
        digest: u64,
        /// In the last part: the digest of all.
        last: Option<u64>,
    },
    /// The number of a ring. Nothing else is said of it: the receiver reads the store.
    Hint(u64),
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is malformed")]
pub(super) struct Malformed;

/// The digest of everything so far and one more part.
pub(super) fn digest_after(before: u64, part: u64) -> u64 {
    mix64(before.rotate_left(1) ^ part)
}

impl Offer {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![OFFER];
        // Numbers in vectors: nothing that JSON cannot express.
        out.extend(serde_json::to_vec(self).unwrap_or_default());
        out.into()
    }
}

/// There is a ring of this number.
pub(super) fn hint(number: u64) -> Bytes {
    let mut out = vec![HINT];
    out.extend(number.to_le_bytes());
    out.into()
}

/// A frame of a stream to a backup.
pub(super) fn replica(frame: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(1 + frame.len());
    out.put_u8(REPLICA);
    out.put_slice(frame);
    out.freeze()
}

/// The frame of a stream to a backup, if the message is one.
pub(super) fn of_replica(message: &[u8]) -> Option<&[u8]> {
    message.strip_prefix(&[REPLICA])
}

/// The answer to a hint: the number of the ring that is known here.
pub(super) fn known(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

/// Whether the answer to a hint says that this ring, or a later one, is known and served. The release before answers
/// nothing, whether it serves or not: that is a no, and costs a write of what was handed on.
pub(super) fn knows(answer: &[u8], number: u64) -> bool {
    answer
        .first_chunk()
        .is_some_and(|known| u64::from_le_bytes(*known) >= number)
}

/// A part in the making.
#[derive(Debug)]
pub(super) struct PartEncoder {
    out: BytesMut,
    count: u32,
}

impl PartEncoder {
    pub(super) fn new() -> Self {
        let mut out = BytesMut::new();
        out.resize(HEAD, 0);
        Self { out, count: 0 }
    }

    pub(super) fn push(&mut self, exported: &Exported) {
        let Exported {
            user,
            bytes,
            taken_over,
            dirty_for,
        } = exported;
        let flags = u8::from(dirty_for.is_some()) * DIRTY + u8::from(*taken_over) * TAKEN_OVER;
        let age = dirty_for.map_or(0, |age| u32::try_from(age.as_millis()).unwrap_or(u32::MAX));
        self.out.put_u64_le(*user);
        self.out.put_u8(flags);
        self.out.put_u32_le(age);
        // A block has 16 MiB at most.
        self.out.put_u32_le(bytes.len() as u32);
        self.out.put_slice(bytes);
        self.count += 1;
    }

    pub(super) fn bytes(&self) -> usize {
        self.out.len()
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The message, and the digest of everything up to it.
    pub(super) fn finish(mut self, header: Header, before: u64, last: bool) -> (Bytes, u64) {
        let Header {
            origin,
            transfer,
            number,
        } = header;
        let digest = digest_after(before, digest(&self.out[HEAD..]));
        let mut head = &mut self.out[..HEAD];
        head.put_u8(if last { LAST_PART } else { PART });
        head.put_u64_le(origin);
        head.put_u64_le(transfer);
        head.put_u32_le(number);
        head.put_u32_le(self.count);
        if last {
            self.out.put_u64_le(digest);
        }
        (self.out.freeze(), digest)
    }
}

impl Message {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        match bytes.split_first() {
            Some((&OFFER, json)) => serde_json::from_slice(json)
                .map(Self::Offer)
                .map_err(|_| Malformed),
            Some((&PART, rest)) => decode_part(rest, false),
            Some((&LAST_PART, rest)) => decode_part(rest, true),
            Some((&HINT, number)) => number
                .try_into()
                .map(|number| Self::Hint(u64::from_le_bytes(number)))
                .map_err(|_| Malformed),
            Some(_) | None => Err(Malformed),
        }
    }
}

fn decode_part(bytes: &[u8], last: bool) -> Result<Message, Malformed> {
    let mut rest = bytes;
    let header = Header {
        origin: take_u64(&mut rest)?,
        transfer: take_u64(&mut rest)?,
        number: take_u32(&mut rest)?,
    };
    let count = take_u32(&mut rest)?;
    let blocks_end = rest.len().checked_sub(if last { 8 } else { 0 });
    let (mut blocks_left, mut tail) = rest.split_at(blocks_end.ok_or(Malformed)?);
    let digest = digest(blocks_left);
    let mut blocks = Vec::with_capacity(blocks_left.len() / BLOCK_HEAD.max(1) / 8);
    for _ in 0..count {
        let user = take_u64(&mut blocks_left)?;
        let flags = take(&mut blocks_left, 1)?[0];
        let age = take_u32(&mut blocks_left)?;
        let length = take_u32(&mut blocks_left)?;
        if flags & !(DIRTY | TAKEN_OVER) != 0 {
            return Err(Malformed);
        }
        blocks.push(Exported {
            user,
            bytes: take(&mut blocks_left, length as usize)?.to_vec(),
            taken_over: flags & TAKEN_OVER != 0,
            dirty_for: (flags & DIRTY != 0).then(|| Duration::from_millis(age.into())),
        });
    }
    if !blocks_left.is_empty() {
        return Err(Malformed);
    }
    Ok(Message::Part {
        header,
        blocks,
        digest,
        last: if last {
            Some(take_u64(&mut tail)?)
        } else {
            None
        },
    })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(Malformed)?;
    *bytes = rest;
    Ok(taken)
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = [0; 8];
    number.copy_from_slice(take(bytes, 8)?);
    Ok(u64::from_le_bytes(number))
}

fn take_u32(bytes: &mut &[u8]) -> Result<u32, Malformed> {
    let mut number = [0; 4];
    number.copy_from_slice(take(bytes, 4)?);
    Ok(u32::from_le_bytes(number))
}

/// 64 bits that almost surely differ when any byte does. Against faults, not against an adversary: a member that
/// can send a part owns the slots, and could as well send other blocks.
fn digest(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = words.iter().fold(bytes.len() as u64, |digest, word| {
        digest_after(digest, u64::from_le_bytes(*word))
    });
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    digest_after(whole, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks() -> Vec<Exported> {
        let block = |user, dirty_for| Exported {
            user,
            bytes: vec![user as u8; user as usize],
            taken_over: user == 3,
            dirty_for,
        };
        vec![
            block(3, None),
            block(10, Some(Duration::from_millis(70))),
            block(0, None),
        ]
    }

    #[test]
    fn what_was_said_is_what_is_heard() {
        let offer = Offer {
            origin: u64::MAX,
            transfer: 2,
            slots: vec![(0, 5), (1023, 6)],
        };
        let heard = Message::decode(&offer.encode());
        assert_eq!(heard, Ok(Message::Offer(offer)));
        assert_eq!(Message::decode(&hint(1 << 50)), Ok(Message::Hint(1 << 50)));
        assert_eq!(Message::decode(b"\x04{\"number\": 7}"), Err(Malformed));
        let header = Header {
            origin: 7,
            transfer: 9,
            number: 4,
        };
        for last in [false, true] {
            let mut part = PartEncoder::new();
            blocks().iter().for_each(|block| part.push(block));
            let (bytes, digest) = part.finish(header, 11, last);
            let Ok(Message::Part {
                header: heard,
                blocks: heard_blocks,
                digest: of_part,
                last: of_all,
            }) = Message::decode(&bytes)
            else {
                panic!("no part")
            };
            assert_eq!((heard, heard_blocks), (header, blocks()));
            assert_eq!(digest_after(11, of_part), digest);
            assert_eq!(of_all, last.then_some(digest));
        }
    }

    #[test]
    fn what_a_later_release_says_besides_is_not_read() {
        let offer = b"\x01{\"origin\":7,\"transfer\":2,\"slots\":[[3,5]],\"backup\":{\"of\":9}}";
        let Ok(Message::Offer(offer)) = Message::decode(offer) else {
            panic!("no offer")
        };
        assert_eq!((offer.origin, offer.slots), (7, vec![(3, 5)]));
        let answer: Slots = serde_json::from_str("{\"slots\":[1],\"pace\":3}").unwrap();
        assert_eq!(answer.slots, [1]);
        assert!(Message::decode(b"\x01{\"origin\":7,\"slots\":[]}").is_err());
    }

    #[test]
    fn the_answer_to_a_hint_says_how_far_the_ring_is_known() {
        assert!(knows(&known(8), 8) && knows(&known(9), 8));
        assert!(!knows(&known(7), 8));
        assert!(!knows(b"", 8), "the release before says nothing");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_message_or_malformed(
            kind in 0_u8..6,
            rest in proptest::collection::vec(proptest::num::u8::ANY, 0..300),
        ) {
            let bytes = [&[kind][..], &rest].concat();
            let (heard, whole) = (Message::decode(&bytes), rest.len() == 8);
            proptest::prop_assert!(heard.is_err() || matches!(kind, OFFER..=HINT));
            proptest::prop_assert_eq!(heard.is_ok() && kind == HINT, whole && kind == HINT);
        }
    }

    #[test]
    fn a_message_with_anything_wrong_is_none_or_has_another_digest() {
        let header = Header {
            origin: 7,
            transfer: 9,
            number: 4,
        };
        let mut part = PartEncoder::new();
        blocks().iter().for_each(|block| part.push(block));
        let (bytes, digest) = part.finish(header, 0, true);
        for end in 0..bytes.len() {
            assert_eq!(Message::decode(&bytes[..end]), Err(Malformed), "{end}");
        }
        for place in HEAD..bytes.len() {
            let mut other = bytes.to_vec();
            other[place] ^= 0x10;
            if let Ok(Message::Part {
                digest: of_part,
                last,
                ..
            }) = Message::decode(&other)
            {
                let same = digest_after(0, of_part) == digest && last == Some(digest);
                assert!(!same, "byte {place}");
            }
        }
    }
}
