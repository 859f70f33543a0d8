//! Reads what one leg would give to the other, and puts the other's bytes where it cannot be read.

use std::{fmt::Write as _, io, path::Path};

use crate::{action::Through, inventory::Blocks, lineage::SLOT_BYTES};

/// How much is read at once where all is well.
const STEP: u64 = 1 << 20;
/// What is given up at least: a page.
const PAGE: u64 = SLOT_BYTES as u64;
/// So many unreadable pages are named.
const NAMED: usize = 8;

/// Reads all parts of the leg at `fast`. What was given up is in the answer, for the log.
///
/// # Errors
/// When a page cannot be read and is not to be given up, or cannot be read or written on the other leg either.
pub(super) fn read_through(
    blocks: &dyn Blocks,
    fast: &Path,
    durable: &Path,
    through: &Through,
) -> io::Result<String> {
    let mut unread = Vec::new();
    for (from, to) in &through.parts {
        for at in (*from..*to).step_by(usize::try_from(STEP).unwrap_or(usize::MAX)) {
            let end = to.min(&(at + STEP)).to_owned();
            if blocks.read(fast, through.fast + at, end - at).is_ok() {
                continue;
            }
            let pages = (at..end).step_by(SLOT_BYTES);
            let bad = |page: &u64| blocks.read(fast, through.fast + page, PAGE).is_err();
            unread.extend(pages.filter(bad));
        }
    }
    if unread.is_empty() {
        return Ok(String::new());
    }
    if !through.give_up {
        return Err(io::Error::other(format!(
            "{}. Nothing was copied: try again, keep the durable leg, or give these pages up with --give-up-unreadable, \
             so that they are as the durable leg has them",
            named(&unread)
        )));
    }
    for page in &unread {
        let old = blocks.read(durable, through.durable + page, PAGE)?;
        super::write_slot(fast, through.fast + page, &old)?;
        blocks.read(fast, through.fast + page, PAGE)?;
    }
    Ok(format!(
        "{}: they are as the durable leg has them now",
        named(&unread)
    ))
}

fn named(pages: &[u64]) -> String {
    let mut text = format!("{} pages of 4 KiB cannot be read, at byte", pages.len());
    for page in pages.iter().take(NAMED) {
        // Writing to a String does not fail.
        let _ = write!(text, " {page}");
    }
    if pages.len() > NAMED {
        text.push_str(" …");
    }
    text.push_str(" of the data");
    text
}
