//! Changing a block where it lies.
//!
//! What does not change the size of anything is written in place. What does moves the bytes behind it
//! once, and the bytes come from [`Room`]: nothing here allocates.

use super::{
    BlockRef, Counted, Room, State,
    layout::{
        self, DELETION, ENTRY, HEADER, Meta, OLDER_ERAS, ROW, Shape, meta_of, put_row, put_word,
        word,
    },
    since::{self, REMEMBERED_DELETIONS},
    view::Eras,
    wide::{self, Entry, Wide},
};

/// Replaces `old` bytes by `new` ones, which still hold whatever was there.
fn splice(room: &mut impl Room, at: usize, old: usize, new: usize) {
    let length = room.bytes().len();
    if new > old {
        room.resize(length + new - old);
    }
    if new != old {
        room.bytes_mut().copy_within(at + old..length, at + new);
    }
    if new < old {
        room.resize(length + new - old);
    }
}

fn reshape(room: &mut impl Room, change: impl FnOnce(&mut Shape)) {
    let mut shape = Shape::of(room.bytes());
    change(&mut shape);
    shape.put(room.bytes_mut());
}

/// Counts the version up for a change.
pub(super) fn count_up(room: &mut impl Room, first_version: u64) {
    let block = BlockRef::trusted(room.bytes());
    let (version, next) = (block.version(), block.next_version(first_version));
    let offset = next - layout::base(room.bytes());
    if next > version.saturating_add(1) || offset > u64::from(u32::MAX) {
        open_era(room, next);
    }
    layout::clear_taken_over(room.bytes_mut());
    layout::put_version(room.bytes_mut(), next);
}

/// Begins an era at this version. Of the eras before it only those are kept that a state is of, and
/// when these are too many, the oldest becomes part of the one after it: its states then seem to have
/// changed at that one's beginning, which is later than they did and below the floor.
fn open_era(room: &mut impl Room, base: u64) {
    let bytes = room.bytes_mut();
    let (shape, eras) = (Shape::of(bytes), Eras::of(bytes));
    let after = layout::version(bytes);
    let floor = since::floor(bytes).max(eras.bases[eras.newest]);
    let mut used = [false; OLDER_ERAS + 1];
    for row in layout::rows(bytes) {
        used[meta_of(row).era()] = true;
    }
    let merged = used.iter().all(|&used| used);
    let (mut places, mut kept, mut keep) = ([0; OLDER_ERAS + 1], [0; OLDER_ERAS], 0);
    for era in 0..=eras.newest {
        places[era] = keep;
        if used[era] && !(merged && era == 0) {
            kept[keep] = eras.bases[era];
            keep += 1;
        }
    }
    for row in layout::rows_mut(bytes) {
        let meta = meta_of(row);
        let offset = if merged && meta.era() == 0 {
            0
        } else {
            meta.offset()
        };
        put_word(row, 16, meta.with_era(places[meta.era()], offset).word());
    }
    let forgotten = since::deletions(bytes)
        .take_while(|&(_, version)| version <= floor)
        .count();
    let new = Shape {
        older_eras: keep,
        deletions: shape.deletions - forgotten,
        has_after: after > 0,
        has_floor: floor > keep.checked_sub(1).map_or(0, |newest| kept[newest]),
        ..shape
    };
    let at = shape.older_eras_at();
    let old_size = shape.deletions_at() + DELETION * forgotten - at;
    splice(room, at, old_size, new.deletions_at() - at);
    let bytes = room.bytes_mut();
    new.put(bytes);
    layout::put_base(bytes, base);
    for (era, &base) in kept[..keep].iter().enumerate() {
        put_word(bytes, at + 8 * era, base);
    }
    if new.has_after {
        put_word(bytes, new.after_at(), after);
    }
    if new.has_floor {
        put_word(bytes, new.floor_at(), floor);
    }
}

/// Makes a state without anything.
pub(super) fn insert(room: &mut impl Room, place: usize, channel: u64) {
    wide::move_places(room.bytes_mut(), place, |place| place + 1);
    let at = Shape::of(room.bytes()).row(place);
    splice(room, at, 0, ROW);
    room.bytes_mut()[at..at + ROW].fill(0);
    reshape(room, |shape| shape.states += 1);
    revive(room, channel);
}

/// Makes many states without a message, each with the place that it would have in the block as it is,
/// in the order of their channels.
pub(super) fn insert_all(room: &mut impl Room, places: &[(usize, u64)], meta: Meta) {
    let before = |place: usize| places.partition_point(|&(at, _)| at <= place);
    wide::move_places(room.bytes_mut(), 0, |place| place + before(place));
    let shape = Shape::of(room.bytes());
    let end = shape.older_eras_at();
    splice(room, end, 0, ROW * places.len());
    reshape(room, |shape| shape.states += places.len());
    let rows = layout::rows_mut(room.bytes_mut());
    // From the back, so that what is moved leaves room for what is before it.
    let mut end = shape.states;
    for (index, &(place, channel)) in places.iter().enumerate().rev() {
        rows.copy_within(place..end, place + index + 1);
        put_row(&mut rows[place + index], channel, 0, meta);
        end = place;
    }
    for &(_, channel) in places {
        revive(room, channel);
    }
}

/// Takes a state away.
pub(super) fn remove(room: &mut impl Room, place: usize) {
    put_wide(room, place, None, &State::default(), &Counted::default());
    wide::move_places(room.bytes_mut(), place, |place| place - 1);
    let at = Shape::of(room.bytes()).row(place);
    splice(room, at, ROW, 0);
    reshape(room, |shape| shape.states -= 1);
}

/// Writes what a state is now, as changed at the user's version.
pub(super) fn put(room: &mut impl Room, place: usize, state: &State, counted: &Counted) {
    let entry = Entry::needed(place, state, counted);
    let was_wide = meta_of(&layout::rows(room.bytes())[place]).is_wide();
    if was_wide || entry.is_some() {
        put_wide(room, place, entry, state, counted);
    }
    let bytes = room.bytes_mut();
    // A full era is ended before.
    let offset = (layout::version(bytes) - layout::base(bytes)) as u32;
    let meta = Entry::meta(entry, state).with_era(Shape::of(bytes).older_eras, offset);
    let row = &mut layout::rows_mut(bytes)[place];
    put_row(row, state.channel, state.last_message, meta);
}

fn put_wide(
    room: &mut impl Room,
    place: usize,
    entry: Option<Entry>,
    state: &State,
    counted: &Counted,
) {
    let shape = Shape::of(room.bytes());
    let wide = Wide::of(room.bytes());
    let (position, old) = match wide.position(place) {
        Ok(position) => (position, Some(wide.entry(position).0)),
        Err(position) => (position, None),
    };
    let start = wide.start(position);
    let (old_size, new_size) = (old.map_or(0, Entry::size), entry.map_or(0, Entry::size));
    splice(room, shape.heap_at() + start, old_size, new_size);
    let entry_sizes = (old.map_or(0, |_| ENTRY), entry.map_or(0, |_| ENTRY));
    splice(room, shape.entry(position), entry_sizes.0, entry_sizes.1);
    let new = Shape {
        wide: shape.wide + entry_sizes.1 / ENTRY - entry_sizes.0 / ENTRY,
        ..shape
    };
    let bytes = room.bytes_mut();
    new.put(bytes);
    if let Some(entry) = entry {
        put_word(bytes, new.entry(position), entry.word(start + new_size));
        entry.put(&mut bytes[new.heap_at() + start..], state, counted);
    }
    if new_size != old_size {
        let behind = position + entry_sizes.1 / ENTRY;
        wide::move_ends(bytes, behind, old_size, new_size);
    }
}

/// Remembers the deletion of a channel at the user's version; what is forgotten for it raises the
/// floor.
pub(super) fn remember_deletion(room: &mut impl Room, channel: u64) {
    let shape = Shape::of(room.bytes());
    if shape.deletions == REMEMBERED_DELETIONS {
        let forgotten = word(room.bytes(), shape.deletions_at() + 8);
        forget_deletion(room, 0);
        raise_floor(room, forgotten);
    }
    let at = Shape::of(room.bytes()).directory_at();
    splice(room, at, 0, DELETION);
    reshape(room, |shape| shape.deletions += 1);
    let bytes = room.bytes_mut();
    put_word(bytes, at, channel);
    put_word(bytes, at + 8, layout::version(bytes));
}

/// A channel has a state again.
fn revive(room: &mut impl Room, channel: u64) {
    let found = since::deletions(room.bytes()).position(|(deleted, _)| deleted == channel);
    if let Some(index) = found {
        forget_deletion(room, index);
    }
}

fn forget_deletion(room: &mut impl Room, index: usize) {
    let at = Shape::of(room.bytes()).deletions_at() + DELETION * index;
    splice(room, at, DELETION, 0);
    reshape(room, |shape| shape.deletions -= 1);
}

fn raise_floor(room: &mut impl Room, floor: u64) {
    let shape = Shape::of(room.bytes());
    if !shape.has_floor {
        splice(room, shape.floor_at(), 0, 8);
        reshape(room, |shape| shape.has_floor = true);
    }
    put_word(room.bytes_mut(), shape.floor_at(), floor);
}

/// Takes everything away but the version and the gap: nothing before this version is known any more.
pub(super) fn erase(room: &mut impl Room) {
    let gap = since::gap(room.bytes());
    let new = Shape {
        has_after: gap.after > 0,
        has_floor: true,
        ..Shape::default()
    };
    room.resize(HEADER);
    room.resize(new.directory_at());
    let bytes = room.bytes_mut();
    new.put(bytes);
    if new.has_after {
        put_word(bytes, new.after_at(), gap.after);
    }
    put_word(bytes, new.floor_at(), layout::version(bytes));
}
