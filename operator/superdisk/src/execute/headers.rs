//! Writes lineage headers to their slots, past the page cache and down to the medium.

use std::{
    fmt,
    fs::OpenOptions,
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use crate::{
    inventory::{Blocks, Identity},
    lineage::{Header, SLOT_BYTES},
};

/// Where a durable leg keeps its headers.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub durable: &'a Identity,
    /// Where the two slots lie, in bytes.
    pub region: u64,
}

/// Writes a header, to its slot or to the other one; why its own was not written.
pub type WriteHeader<'a> = &'a dyn Fn(&Header) -> io::Result<Option<io::Error>>;

/// What writes headers to the durable leg while a plan is carried out: the beats of an agent.
pub trait Beside: fmt::Debug {
    /// Has a header of the plan written while nothing else is, as the one that follows the newest: what was written
    /// since it was decided must not stay in front of it.
    fn in_turn(
        &self,
        place: Place<'_>,
        header: &Header,
        write: WriteHeader<'_>,
    ) -> io::Result<Option<io::Error>>;
}

/// Writes a header to its slot, or to the other one; why its own was not written.
pub(crate) fn write_header(
    node: &Path,
    region: u64,
    header: &Header,
) -> io::Result<Option<io::Error>> {
    let bytes = header.encode();
    let write = |slot: usize| write_slot(node, region + (slot * SLOT_BYTES) as u64, &bytes);
    in_either_slot(header.slot(), &write, &|_| true)
}

/// Writes a slot, or the other one where the disk does not take that one: a sector that cannot be written keeps no header
/// from being written. It goes over the header before it then, so that a write torn by a power cut leaves none. Answers
/// why the first was not written.
pub(crate) fn in_either_slot<E>(
    slot: usize,
    write: &dyn Fn(usize) -> Result<(), E>,
    is_of_slot: &dyn Fn(&E) -> bool,
) -> Result<Option<E>, E> {
    match write(slot) {
        Ok(()) => Ok(None),
        Err(error) if is_of_slot(&error) => write(1 - slot).map(|()| Some(error)),
        Err(error) => Err(error),
    }
}

/// Erases both slots. One that can be neither written nor read says nothing either: it is left as it is.
pub(super) fn erase_headers(node: &Path, region: u64, blocks: &dyn Blocks) -> io::Result<()> {
    let erase = |at: u64| write_slot(node, at, &[]);
    let is_read = |at: u64| blocks.read(node, at, SLOT_BYTES as u64).is_ok();
    [region, region + SLOT_BYTES as u64]
        .into_iter()
        .try_for_each(|at| erase_slot(at, &erase, &is_read))
}

fn erase_slot(
    at: u64,
    erase: &dyn Fn(u64) -> io::Result<()>,
    is_read: &dyn Fn(u64) -> bool,
) -> io::Result<()> {
    match erase(at) {
        Err(_) if !is_read(at) => Ok(()),
        result => result,
    }
}

/// Writes one slot, what is left of it zeros, past the page cache and down to the medium.
pub(crate) fn write_slot(node: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
    let flags = rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::DSYNC;
    let file = OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(node)?;
    // O_DIRECT wants an aligned address: one slot more than is written has one.
    let mut memory = vec![0; 2 * SLOT_BYTES];
    let shift = memory.as_ptr().align_offset(SLOT_BYTES);
    let aligned = &mut memory[shift..shift + SLOT_BYTES];
    aligned[..bytes.len()].copy_from_slice(bytes);
    file.write_all_at(aligned, at)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Slots that were tried, and what came of it.
    fn tried(slot: usize, broken: &[usize]) -> (Vec<usize>, Result<Option<usize>, usize>) {
        let tried = RefCell::new(Vec::new());
        let write = |slot| {
            tried.borrow_mut().push(slot);
            if broken.contains(&slot) {
                Err(slot)
            } else {
                Ok(())
            }
        };
        let written = in_either_slot(slot, &write, &|_| true);
        (tried.into_inner(), written)
    }

    #[test]
    fn a_slot_that_cannot_be_written_keeps_no_header_from_being_written() {
        for slot in [0, 1] {
            let other = 1 - slot;
            assert_eq!(tried(slot, &[]), (vec![slot], Ok(None)));
            assert_eq!(tried(slot, &[other]), (vec![slot], Ok(None)));
            assert_eq!(tried(slot, &[slot]), (vec![slot, other], Ok(Some(slot))));
            assert_eq!(tried(slot, &[0, 1]), (vec![slot, other], Err(other)));
        }
    }

    #[test]
    fn a_slot_that_cannot_be_erased_matters_as_long_as_it_can_be_read() {
        let erased = |takes: bool, reads: bool| {
            let erase = |_| match takes {
                true => Ok(()),
                false => Err(io::Error::other("EIO")),
            };
            erase_slot(0, &erase, &|_| reads).is_ok()
        };
        assert!(erased(true, true) && erased(true, false));
        assert!(erased(false, false));
        assert!(!erased(false, true));
    }

    #[test]
    fn what_is_not_about_the_slot_is_not_tried_in_the_other_one() {
        let tries = RefCell::new(0);
        let write = |_| {
            *tries.borrow_mut() += 1;
            Err("another disk")
        };
        let written = in_either_slot(0, &write, &|_| false);
        assert_eq!((written, tries.into_inner()), (Err("another disk"), 1));
    }
}
