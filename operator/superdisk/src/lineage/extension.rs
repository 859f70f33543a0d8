//! What this release adds to a header: which snapshot it was written for. Pure.
//!
//! It lies behind the header's own sum, where earlier releases look at nothing and leave zeros: they read the header as
//! one without a snapshot. It has a sum of its own, over the header too, and shares the first 512 bytes with it, so that
//! no torn write leaves one without the other.
//!
//! ```text
//!   0        208   212        256            320   324
//!   │ header │ sum │ nothing  │ snapshot ID  │ sum │ nothing …
//! ```

use super::SnapshotId;
use super::slots::crc32;

const ID: usize = 256;
const SUM: usize = ID + SnapshotId::MAX;
const END: usize = SUM + 4;

/// A slot whose extension is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// Adds it to a slot that ends behind the header's sum.
pub(super) fn append(slot: &mut Vec<u8>, snapshot: Option<&SnapshotId>) {
    let Some(id) = snapshot else {
        return;
    };
    slot.resize(ID, 0);
    slot.extend(id.as_str().as_bytes());
    slot.resize(SUM, 0);
    slot.extend(crc32(slot).to_le_bytes());
}

/// Reads it from a slot whose header is good.
pub(super) fn read(slot: &[u8]) -> Result<Option<SnapshotId>, Damaged> {
    let extension = slot.get(ID..END).ok_or(Damaged)?;
    if extension.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let (id, sum) = extension.split_at(SnapshotId::MAX);
    if crc32(&slot[..SUM]).to_le_bytes() != *sum {
        return Err(Damaged);
    }
    let end = id.iter().position(|byte| *byte == 0).unwrap_or(id.len());
    let id = std::str::from_utf8(&id[..end]).map_err(|_| Damaged)?;
    id.parse().map(Some).map_err(|_| Damaged)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Header, REGION_BYTES, Relation, SLOT_BYTES, Slots, State, read, relation},
        *,
    };
    use crate::superblock::Uuid;

    fn id(text: &str) -> SnapshotId {
        text.parse().unwrap()
    }

    /// In use, with a fast leg.
    fn header() -> Header {
        let (session, boot) = (Uuid([1; 16]), Uuid([0xb0; 16]));
        let first = Header::first("pvc-1".parse().unwrap(), session, boot);
        first
            .opened(Uuid([2; 16]), boot)
            .admitting(Uuid([7; 16]))
            .next()
    }

    fn region(header: &Header) -> Vec<u8> {
        let mut region = vec![0; REGION_BYTES];
        let at = header.slot() * SLOT_BYTES;
        region[at..at + SLOT_BYTES].copy_from_slice(&header.encode());
        region
    }

    #[test]
    fn a_header_that_names_a_snapshot_is_read_as_it_was_written() {
        for name in ["s", "0d1e8f3c-5b0a-4c1e-9a57-1f2e3d4c5b6a", &"x".repeat(64)] {
            let marked = header().marked(id(name));
            assert_eq!(marked.encode().len(), SLOT_BYTES);
            assert_eq!(read(&region(&marked)), Slots::Header(marked));
        }
    }

    #[test]
    fn an_earlier_release_reads_the_same_header_without_the_snapshot() {
        let marked = header().marked(id("nightly"));
        // It looks at nothing behind the header's own sum, and writes zeros there.
        let mut bytes = region(&marked);
        let at = marked.slot() * SLOT_BYTES;
        bytes[at + 212..at + SLOT_BYTES].fill(0);
        let seen = Header {
            snapshot: None,
            ..marked.clone()
        };
        assert_eq!(read(&bytes), Slots::Header(seen.clone()));
        // Without a snapshot nothing is written that it would not have written.
        assert!(seen.encode()[212..].iter().all(|byte| *byte == 0));
        assert_eq!(seen.encode()[..212], marked.encode()[..212]);
    }

    #[test]
    fn a_damaged_extension_makes_the_header_none() {
        let marked = header().marked(id("nightly"));
        let at = marked.slot() * SLOT_BYTES;
        for byte in [ID, ID + 6, SUM - 1, SUM] {
            let mut bytes = region(&marked);
            bytes[at + byte] ^= 1;
            assert_eq!(read(&bytes), Slots::Damaged, "byte {byte}");
        }
        // A disk writes 512 bytes at once or not at all.
        const { assert!(END <= 512) };
    }

    #[test]
    fn a_leg_put_back_to_a_snapshot_is_older_by_generation_without_a_single_beat() {
        let before = header();
        let marked = before.marked(id("nightly"));
        let after = marked.unmarked();
        let generations = [&before, &marked, &after].map(|header| header.point.generation);
        assert_eq!(generations, [2, 3, 4]);
        assert_eq!(relation(&marked, &after), Relation::FastIsNewer);
        // The same after the durable leg that was put back has been opened.
        let opened = marked.opened(Uuid([9; 16]), Uuid([0xb1; 16]));
        assert_eq!(opened.snapshot, None);
        assert_eq!(relation(&opened, &after), Relation::FastIsNewer);
        let forgetting = marked.forgetting(Uuid([9; 16]), Uuid([0xb1; 16]));
        assert_eq!(relation(&forgetting, &after), Relation::Apart);
    }

    #[test]
    fn a_snapshot_leaves_an_honest_history_as_it_was() {
        let before = header();
        let marked = before.marked(id("nightly"));
        let after = marked.unmarked();
        for (durable, fast) in [
            // Killed between the legs.
            (&marked, &before),
            (&after, &marked),
            (&after, &after),
        ] {
            assert_eq!(relation(durable, fast), Relation::Same);
        }
        assert_eq!(
            (after.state, after.fast, after.previous),
            (State::InUse, before.fast, before.previous)
        );
        // A leg that stopped in the generation before the start is still a parent.
        assert_eq!(
            after.previous.session,
            Uuid([1; 16]),
            "the session of the start before"
        );
    }
}
