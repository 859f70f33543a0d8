//! What does not fit a state's 24 bytes: large numbers, pins, remembered mentions.
//!
//! A wide state has an entry in the directory, and its values in the heap one after the other. An
//! entry is one word; entries are in the order of the states they belong to.
//!
//! | bits of an entry | |
//! |---|---|
//! | 0–19 | the state, by its place |
//! | 20–23 | which of mention count u32, flags u32, last viewed u16, last pin u64 are in the heap |
//! | 24–27 | remembered mentions, up to 8 |
//! | 28–35 | which of them, from the oldest, counted other than 1 |
//! | 36–63 | where the values end in the heap |
//!
//! In the heap, in this order: the four values as far as they are there, the messages of the
//! mentions (u64 each, oldest first), the counts of those that counted other than 1 (u32 each).

use super::{
    Counted, Mention, REMEMBERED_MENTIONS, State,
    layout::{ENTRY, Meta, Shape, put_word, word},
};

const HAS_MENTION_COUNT: u8 = 1;
const HAS_FLAGS: u8 = 2;
const HAS_LAST_VIEWED: u8 = 4;
const HAS_LAST_PIN: u8 = 8;

/// An entry of the directory, but for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) state: usize,
    members: u8,
    mentions: u8,
    /// Bit by mention: it counted other than 1.
    counts: u8,
}

impl Entry {
    /// What the state at this place needs beside its row; `None` when nothing.
    pub(crate) fn needed(place: usize, state: &State, counted: &Counted) -> Option<Self> {
        let member = |needed: bool, bit: u8| if needed { bit } else { 0 };
        let members = member(state.mention_count > Meta::MOST_MENTIONS, HAS_MENTION_COUNT)
            | member(state.flags > Meta::MOST_FLAGS, HAS_FLAGS)
            | member(state.last_viewed > Meta::LAST_DAY, HAS_LAST_VIEWED)
            | member(state.last_pin_millis > 0, HAS_LAST_PIN);
        let mentions = counted.mentions();
        let bits = mentions.iter().enumerate();
        let counts = bits.fold(0, |counts, (bit, mention)| {
            counts | u8::from(mention.count != 1) << bit
        });
        (members != 0 || !mentions.is_empty()).then_some(Self {
            state: place,
            members,
            // At most eight.
            mentions: mentions.len() as u8,
            counts,
        })
    }

    /// An entry and where its values end.
    pub(crate) fn from_word(word: u64) -> (Self, usize) {
        let entry = Self {
            state: (word & 0xf_ffff) as usize,
            members: (word >> 20 & 0xf) as u8,
            mentions: (word >> 24 & 0xf) as u8,
            counts: (word >> 28) as u8,
        };
        (entry, (word >> 36) as usize)
    }

    pub(crate) fn word(self, end: usize) -> u64 {
        self.state as u64
            | u64::from(self.members) << 20
            | u64::from(self.mentions) << 24
            | u64::from(self.counts) << 28
            | (end as u64) << 36
    }

    /// Whether it is one that [`Self::needed`] may have made.
    pub(crate) fn is_sound(self) -> bool {
        usize::from(self.mentions) <= REMEMBERED_MENTIONS
            && u16::from(self.counts) >> self.mentions == 0
    }

    /// Bytes of its values.
    pub(crate) fn size(self) -> usize {
        let member = |bit: u8, size: usize| if self.members & bit == 0 { 0 } else { size };
        member(HAS_MENTION_COUNT, 4)
            + member(HAS_FLAGS, 4)
            + member(HAS_LAST_VIEWED, 2)
            + member(HAS_LAST_PIN, 8)
            + 8 * usize::from(self.mentions)
            + 4 * self.counts.count_ones() as usize
    }

    /// The row's part of the meta.
    pub(crate) fn meta(entry: Option<Self>, state: &State) -> Meta {
        let members = entry.map_or(0, |entry| entry.members);
        let narrow = |bit: u8| members & bit == 0;
        Meta::new(
            if narrow(HAS_MENTION_COUNT) {
                state.mention_count
            } else {
                0
            },
            if narrow(HAS_LAST_VIEWED) {
                state.last_viewed
            } else {
                0
            },
            if narrow(HAS_FLAGS) { state.flags } else { 0 },
            entry.is_some(),
        )
    }

    /// Writes the values.
    pub(crate) fn put(self, values: &mut [u8], state: &State, counted: &Counted) {
        let mut at = 0;
        let mut put = |value: &[u8]| {
            values[at..at + value.len()].copy_from_slice(value);
            at += value.len();
        };
        if self.members & HAS_MENTION_COUNT != 0 {
            put(&state.mention_count.to_le_bytes());
        }
        if self.members & HAS_FLAGS != 0 {
            put(&state.flags.to_le_bytes());
        }
        if self.members & HAS_LAST_VIEWED != 0 {
            put(&state.last_viewed.to_le_bytes());
        }
        if self.members & HAS_LAST_PIN != 0 {
            put(&state.last_pin_millis.to_le_bytes());
        }
        for mention in counted.mentions() {
            put(&mention.message.to_le_bytes());
        }
        for mention in counted
            .mentions()
            .iter()
            .filter(|mention| mention.count != 1)
        {
            put(&mention.count.to_le_bytes());
        }
    }

    /// Reads the scalars into a state that has its row's.
    pub(crate) fn read_scalars(self, values: &[u8], state: &mut State) {
        let mut values = values;
        if self.members & HAS_MENTION_COUNT != 0 {
            state.mention_count = u32::from_le_bytes(take(&mut values));
        }
        if self.members & HAS_FLAGS != 0 {
            state.flags = u32::from_le_bytes(take(&mut values));
        }
        if self.members & HAS_LAST_VIEWED != 0 {
            state.last_viewed = u16::from_le_bytes(take(&mut values));
        }
        if self.members & HAS_LAST_PIN != 0 {
            state.last_pin_millis = u64::from_le_bytes(take(&mut values));
        }
    }

    /// Reads the remembered mentions.
    pub(crate) fn read_counted(self, values: &[u8]) -> Counted {
        let mentions = usize::from(self.mentions);
        let size = 8 * mentions + 4 * self.counts.count_ones() as usize;
        let (mut messages, mut counts) = values[self.size() - size..].split_at(8 * mentions);
        let mut counted = Counted::default();
        for bit in 0..mentions {
            let message = u64::from_le_bytes(take(&mut messages));
            let count = match self.counts >> bit & 1 {
                0 => 1,
                _ => u32::from_le_bytes(take(&mut counts)),
            };
            counted.push(Mention { message, count });
        }
        counted
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = bytes.split_at(N);
    *bytes = rest;
    let mut array = [0; N];
    array.copy_from_slice(taken);
    array
}

/// The directory and the heap of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wide<'a> {
    directory: &'a [[u8; ENTRY]],
    heap: &'a [u8],
}

impl<'a> Wide<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let shape = Shape::of(bytes);
        Self {
            directory: bytes[shape.directory_at()..shape.heap_at()].as_chunks().0,
            heap: &bytes[shape.heap_at()..],
        }
    }

    pub(crate) fn len(self) -> usize {
        self.directory.len()
    }

    /// Where the entry of a state is, or would be.
    pub(crate) fn position(self, state: usize) -> Result<usize, usize> {
        self.directory
            .binary_search_by_key(&state, |entry| Entry::from_word(word(entry, 0)).0.state)
    }

    /// Where the values of the entry at this position begin in the heap.
    pub(crate) fn start(self, position: usize) -> usize {
        match position {
            0 => 0,
            after => Entry::from_word(word(&self.directory[after - 1], 0)).1,
        }
    }

    /// An entry, and where it says that its values end.
    pub(crate) fn entry_and_end(self, position: usize) -> (Entry, usize) {
        Entry::from_word(word(&self.directory[position], 0))
    }

    pub(crate) fn heap_len(self) -> usize {
        self.heap.len()
    }

    /// An entry and its values.
    pub(crate) fn entry(self, position: usize) -> (Entry, &'a [u8]) {
        let (entry, end) = self.entry_and_end(position);
        (entry, &self.heap[self.start(position)..end])
    }
}

/// Moves the ends of all entries from a position on by the difference of two sizes.
pub(crate) fn move_ends(bytes: &mut [u8], from: usize, old: usize, new: usize) {
    let shape = Shape::of(bytes);
    for position in from..shape.wide {
        let at = shape.entry(position);
        let (entry, end) = Entry::from_word(word(bytes, at));
        put_word(bytes, at, entry.word(end + new - old));
    }
}

/// Gives all entries of states from a place on another place.
pub(crate) fn move_places(bytes: &mut [u8], from: usize, moved: impl Fn(usize) -> usize) {
    let shape = Shape::of(bytes);
    let first = Wide::of(bytes)
        .position(from)
        .unwrap_or_else(|position| position);
    for position in first..shape.wide {
        let at = shape.entry(position);
        let (mut entry, end) = Entry::from_word(word(bytes, at));
        entry.state = moved(entry.state);
        put_word(bytes, at, entry.word(end));
    }
}
