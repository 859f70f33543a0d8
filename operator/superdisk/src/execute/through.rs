//! Reads what one leg would give to the other.

use std::{fmt::Write as _, io, path::Path};

use crate::{action::Through, inventory::Blocks, lineage::SLOT_BYTES};

/// How much is read at once where all is well.
const STEP: u64 = 1 << 20;
const PAGE: u64 = SLOT_BYTES as u64;
/// So many unreadable pages are named.
const NAMED: usize = 8;

/// Reads all parts of the leg at `fast`.
///
/// # Errors
/// When pages cannot be read; it names them.
pub(super) fn read_through(blocks: &dyn Blocks, fast: &Path, through: &Through) -> io::Result<()> {
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
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{}. Nothing was copied: try again, or keep the durable leg",
        named(&unread)
    )))
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
