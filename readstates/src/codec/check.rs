//! Whether bytes are a block: everything that [`crate::block::apply`] and the reading of blocks take
//! for granted, and that nothing is written in two ways.

use super::{DecodeError, LAST_VERSION};
use crate::block::{
    BlockRef, MAX_READ_STATES, REMEMBERED_DELETIONS,
    layout::{self, HEADER, Shape, channel_of, meta_of, word},
    since,
    view::{Eras, narrow},
    wide::{Entry, Wide},
};

type Check<T = ()> = Result<T, DecodeError>;

fn require(holds: bool, what: &'static str) -> Check {
    holds.then_some(()).ok_or(DecodeError::OutOfPlace(what))
}

pub(super) fn checked(bytes: &[u8]) -> Check<BlockRef<'_>> {
    if bytes.len() < HEADER {
        return Err(DecodeError::Truncated);
    }
    let shape = Shape::of(bytes);
    check_shape(bytes, shape)?;
    check_length(bytes, shape)?;
    check_history(bytes, shape)?;
    check_rows(bytes)?;
    check_wide(bytes)?;
    check_deletions(bytes)?;
    Ok(BlockRef::trusted(bytes))
}

fn check_shape(bytes: &[u8], shape: Shape) -> Check {
    require(!Shape::is_strange(bytes) && !shape.taken_over, "a bit")?;
    if shape.states > MAX_READ_STATES {
        return Err(DecodeError::TooMany(shape.states));
    }
    require(
        shape.wide <= shape.states && shape.deletions <= REMEMBERED_DELETIONS,
        "a number of parts",
    )
}

/// The counts are believed only as far as the bytes can hold it. The end of the last values is the
/// end of the block.
fn check_length(bytes: &[u8], shape: Shape) -> Check {
    if bytes.len() < shape.heap_at() {
        return Err(DecodeError::Truncated);
    }
    let end = match shape.wide.checked_sub(1) {
        None => shape.heap_at(),
        Some(last) => shape.heap_at() + Entry::from_word(word(bytes, shape.entry(last))).1,
    };
    match bytes.len().checked_sub(end) {
        None => Err(DecodeError::Truncated),
        Some(0) => Ok(()),
        Some(trailing) => Err(DecodeError::Trailing(trailing)),
    }
}

fn check_history(bytes: &[u8], shape: Shape) -> Check {
    let (version, eras) = (layout::version(bytes), Eras::of(bytes));
    let base = layout::base(bytes);
    require(
        version <= LAST_VERSION && base <= version && version - base <= u64::from(u32::MAX),
        "the version",
    )?;
    let bases = &eras.bases[..=eras.newest];
    let rising = bases.windows(2).all(|pair| pair[0] < pair[1]);
    require(rising, "an era")?;
    let history = BlockRef::trusted(bytes).history();
    let after = history.gap.after;
    let ordered = eras.previous() <= after && (after < base || base == 0 && after == 0);
    require(ordered && shape.has_after == (after > 0), "a gap")?;
    let floor = history.floor;
    let known = floor <= after || (base..=version).contains(&floor);
    require(
        known && shape.has_floor == (floor > eras.previous()),
        "the floor",
    )
}

fn check_rows(bytes: &[u8]) -> Check {
    let rows = layout::rows(bytes);
    let rising = rows
        .windows(2)
        .all(|pair| channel_of(&pair[0]) < channel_of(&pair[1]));
    require(
        rising && rows.first().is_none_or(|row| channel_of(row) > 0),
        "a channel",
    )?;
    let (version, eras) = (layout::version(bytes), Eras::of(bytes));
    let after = since::gap(bytes).after;
    // The first offset that an era cannot have, so that no version is written in two ways.
    let mut ends = [0; layout::OLDER_ERAS + 1];
    for (era, first) in ends.iter_mut().enumerate().take(eras.newest + 1) {
        let end = match eras.newest - era {
            0 => version + 1,
            1 => after + 1,
            _ => eras.bases[era + 1],
        };
        *first = end - eras.bases[era];
    }
    for meta in rows.iter().map(meta_of) {
        let offset = u64::from(meta.offset());
        let zero = meta.era() == 0 && eras.bases[0] + offset == 0;
        require(offset < ends[meta.era()] && !zero, "the version of a state")?;
    }
    Ok(())
}

fn check_wide(bytes: &[u8]) -> Check {
    let (wide, rows) = (Wide::of(bytes), layout::rows(bytes));
    let mut position = 0;
    for (place, row) in rows.iter().enumerate() {
        if !meta_of(row).is_wide() {
            continue;
        }
        require(position < wide.len(), "a wide state")?;
        check_entry(Eras::of(bytes), wide, position, place, row)?;
        position += 1;
    }
    require(position == wide.len(), "a wide state")
}

/// An entry says exactly what its values need.
fn check_entry(
    eras: Eras,
    wide: Wide<'_>,
    position: usize,
    place: usize,
    row: &layout::Row,
) -> Check {
    let what = "a wide state";
    let start = wide.start(position);
    let (entry, end) = wide.entry_and_end(position);
    require(entry.state == place && entry.is_sound(), what)?;
    require(end == start + entry.size() && end <= wide.heap_len(), what)?;
    let (entry, values) = wide.entry(position);
    let mut state = narrow(row, eras);
    let in_row = Entry::meta(Some(entry), &state);
    entry.read_scalars(values, &mut state);
    let counted = entry.read_counted(values);
    require(counted.is_sound(), "a list of mentions")?;
    let needed = Entry::needed(place, &state, &counted);
    let meta = meta_of(row);
    require(
        needed == Some(entry) && in_row == meta.with_era(0, 0),
        "a wide state",
    )
}

/// Deletions are of the past that can be asked about, and of channels without a state.
fn check_deletions(bytes: &[u8]) -> Check {
    let block = BlockRef::trusted(bytes);
    let history = block.history();
    let mut newest = history.floor;
    for (index, &(channel, version)) in history.deleted.iter().enumerate() {
        let twice = history.deleted[..index]
            .iter()
            .any(|&(other, _)| other == channel);
        require(
            channel > 0 && !twice && block.state(channel).is_none(),
            "a deletion",
        )?;
        let known = version <= history.gap.after
            || (history.gap.until..=block.version()).contains(&version);
        require(newest < version && known, "a deletion")?;
        newest = version;
    }
    Ok(())
}
