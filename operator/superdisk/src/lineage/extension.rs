//! What later releases have added to a header: which snapshot it was written for, which stripes its volume has replaced, and
//! on which machine its fast leg is. Pure.
//!
//! It lies behind the header's own sum, where earlier releases look at nothing and leave zeros: they read the header as
//! one without them. Each addition has a sum of its own, over everything before it, and all share the first 512 bytes
//! with the header, so that no torn write leaves one without the other.
//!
//! ```text
//!   0        208   212        256            320   324   328                 456   460   464       476   480
//!   │ header │ sum │ nothing  │ snapshot ID  │ sum │ 0   │ replaced stripes  │ sum │ 0   │ machine │ sum │ nothing …
//! ```

use super::slots::crc32;
use super::{Header, Machine, SnapshotId};
use crate::superblock::Uuid;

const ID: usize = 256;
const ID_SUM: usize = ID + SnapshotId::MAX;
const REPLACED: usize = ID_SUM + 8;
const UUID_BYTES: usize = 16;
const REPLACED_SUM: usize = REPLACED + Header::MAX_REPLACED * UUID_BYTES;
const MACHINE: usize = REPLACED_SUM + 8;
const MACHINE_SUM: usize = MACHINE + 12;
const SUM_BYTES: usize = 4;

/// What was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) snapshot: Option<SnapshotId>,
    pub(super) replaced: Vec<Uuid>,
    pub(super) machine: Option<Machine>,
}

/// A slot whose extension is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// Adds it to a slot that ends behind the header's sum.
pub(super) fn append(
    slot: &mut Vec<u8>,
    snapshot: Option<&SnapshotId>,
    replaced: &[Uuid],
    machine: Option<Machine>,
) {
    if let Some(id) = snapshot {
        slot.resize(ID, 0);
        slot.extend(id.as_str().as_bytes());
        slot.resize(ID_SUM, 0);
        slot.extend(crc32(slot).to_le_bytes());
    }
    if !replaced.is_empty() {
        slot.resize(REPLACED, 0);
        slot.extend(
            replaced
                .iter()
                .take(Header::MAX_REPLACED)
                .flat_map(|uuid| uuid.0),
        );
        slot.resize(REPLACED_SUM, 0);
        slot.extend(crc32(slot).to_le_bytes());
    }
    if let Some(Machine { id, devices }) = machine {
        slot.resize(MACHINE, 0);
        slot.extend(id.to_le_bytes());
        slot.extend(devices.to_le_bytes());
        slot.extend(crc32(slot).to_le_bytes());
    }
}

/// Reads it from a slot whose header is good.
pub(super) fn read(slot: &[u8]) -> Result<Extension, Damaged> {
    let id = addition(slot, ID, ID_SUM)?.map(snapshot).transpose()?;
    let replaced = addition(slot, REPLACED, REPLACED_SUM)?.unwrap_or_default();
    let uuids = replaced
        .chunks_exact(UUID_BYTES)
        .filter_map(|bytes| Some(Uuid(bytes.try_into().ok()?)));
    Ok(Extension {
        snapshot: id,
        replaced: uuids.filter(|uuid| *uuid != Uuid::default()).collect(),
        machine: addition(slot, MACHINE, MACHINE_SUM)?.and_then(machine),
    })
}

fn machine(bytes: &[u8]) -> Option<Machine> {
    let (id, devices) = bytes.split_first_chunk()?;
    Some(Machine {
        id: u64::from_le_bytes(*id),
        devices: u32::from_le_bytes(devices.try_into().ok()?),
    })
}

/// The bytes of one addition, if there is one.
fn addition(slot: &[u8], from: usize, sum_at: usize) -> Result<Option<&[u8]>, Damaged> {
    let bytes = slot.get(from..sum_at).ok_or(Damaged)?;
    let sum = slot.get(sum_at..sum_at + SUM_BYTES).ok_or(Damaged)?;
    if bytes.iter().chain(sum).all(|byte| *byte == 0) {
        return Ok(None);
    }
    match crc32(&slot[..sum_at]).to_le_bytes() == *sum {
        true => Ok(Some(bytes)),
        false => Err(Damaged),
    }
}

fn snapshot(id: &[u8]) -> Result<SnapshotId, Damaged> {
    let end = id.iter().position(|byte| *byte == 0).unwrap_or(id.len());
    let id = std::str::from_utf8(&id[..end]).map_err(|_| Damaged)?;
    id.parse().map_err(|_| Damaged)
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
        for byte in [ID, ID + 6, ID_SUM - 1, ID_SUM] {
            let mut bytes = region(&marked);
            bytes[at + byte] ^= 1;
            assert_eq!(read(&bytes), Slots::Damaged, "byte {byte}");
        }
        // A disk writes 512 bytes at once or not at all.
        const { assert!(MACHINE_SUM + SUM_BYTES <= 512) };
    }

    fn replacing(count: u8) -> Header {
        (1..=count).fold(header(), |header, at| {
            header.replacing(&[Uuid([at; 16])]).unwrap()
        })
    }

    #[test]
    fn replaced_stripes_are_read_as_they_were_written_with_a_snapshot_and_without() {
        for count in [1, 3, 8] {
            let header = replacing(count);
            assert_eq!(header.replaced.len(), usize::from(count));
            assert_eq!(read(&region(&header)), Slots::Header(header.clone()));
            let marked = header.marked(id("nightly"));
            assert_eq!(read(&region(&marked)), Slots::Header(marked));
        }
    }

    #[test]
    fn the_newest_replaced_stripes_are_kept_each_once_and_through_every_start() {
        let header = replacing(11);
        let newest: Vec<Uuid> = (4..=11).map(|at| Uuid([at; 16])).collect();
        assert_eq!(header.replaced, newest);
        assert_eq!(header.replacing(&newest[..3]), None, "they are known");
        let boot = Uuid([0xb1; 16]);
        let opened = header.opened(Uuid([9; 16]), boot);
        assert_eq!(opened.replaced, newest);
        assert_eq!(opened.marked(id("nightly")).unmarked().replaced, newest);
        // A copy lives on another node, or beside the volume itself.
        let copied = header.copied("pvc-2".parse().unwrap(), Uuid([9; 16]), boot);
        assert_eq!(copied.replaced, []);
    }

    #[test]
    fn a_stripe_that_was_to_be_replaced_and_is_in_use_again_is_not_listed() {
        let own = header().fast;
        let header = header().replacing(&[Uuid([1; 16]), own]).unwrap();
        assert!(!header.admits(own));
        let again = header.admitting(own);
        assert!(again.admits(own));
        assert_eq!(again.replaced, [Uuid([1; 16])]);
    }

    #[test]
    fn an_earlier_release_reads_the_same_header_without_the_replaced_stripes() {
        let header = replacing(2);
        let mut bytes = region(&header);
        let at = header.slot() * SLOT_BYTES;
        bytes[at + REPLACED..at + SLOT_BYTES].fill(0);
        let seen = Header {
            replaced: Vec::new(),
            ..header
        };
        assert_eq!(read(&bytes), Slots::Header(seen));
    }

    #[test]
    fn damaged_replaced_stripes_make_the_header_none() {
        let header = replacing(2);
        let at = header.slot() * SLOT_BYTES;
        for byte in [REPLACED, REPLACED + 40, REPLACED_SUM - 1, REPLACED_SUM] {
            let mut bytes = region(&header);
            bytes[at + byte] ^= 1;
            assert_eq!(read(&bytes), Slots::Damaged, "byte {byte}");
        }
    }

    /// With all that can be added, and with the machine alone.
    fn on_a_machine() -> [Header; 2] {
        [replacing(8).marked(id("nightly")), header()].map(|header| Header {
            machine: Some(Machine {
                id: 0x0123_4567_89ab_cdef,
                devices: 4,
            }),
            ..header
        })
    }

    #[test]
    fn a_machine_is_read_as_it_was_written_and_an_earlier_release_reads_the_same_without_it() {
        for header in on_a_machine() {
            let mut bytes = region(&header);
            assert_eq!(read(&bytes), Slots::Header(header.clone()));
            let at = header.slot() * SLOT_BYTES;
            bytes[at + MACHINE..at + SLOT_BYTES].fill(0);
            let seen = Header {
                machine: None,
                ..header
            };
            assert_eq!(read(&bytes), Slots::Header(seen));
        }
    }

    #[test]
    fn a_damaged_machine_makes_the_header_none() {
        for header in on_a_machine() {
            let at = header.slot() * SLOT_BYTES;
            for byte in [MACHINE, MACHINE + 8, MACHINE_SUM - 1, MACHINE_SUM] {
                let mut bytes = region(&header);
                bytes[at + byte] ^= 1;
                assert_eq!(read(&bytes), Slots::Damaged, "byte {byte}");
            }
        }
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
