//! Byte layout of a block, and the bit fields of its words.
//!
//! The table of the format is in the head of [`super`]. Nothing here checks anything: bytes come from
//! [`crate::codec::decode`] or from [`super::apply`], and everything else panics or reads nonsense,
//! though never beyond the bytes.

/// Bytes before the first state.
pub(crate) const HEADER: usize = 24;
/// Bytes of a state.
pub(crate) const ROW: usize = 24;
/// Bytes of a remembered deletion: channel, version.
pub(crate) const DELETION: usize = 16;
/// Bytes of an entry of the directory of wide states.
pub(crate) const ENTRY: usize = 8;

/// Eras besides the newest: what two bits can tell apart, less one.
pub(crate) const OLDER_ERAS: usize = 3;

const VERSION_AT: usize = 0;
const BASE_AT: usize = 8;
const SHAPE_AT: usize = 16;

pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

pub(crate) fn put_word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The user's version.
pub(crate) fn version(bytes: &[u8]) -> u64 {
    word(bytes, VERSION_AT)
}

pub(crate) fn put_version(bytes: &mut [u8], version: u64) {
    put_word(bytes, VERSION_AT, version);
}

/// Where the newest era begins.
pub(crate) fn base(bytes: &[u8]) -> u64 {
    word(bytes, BASE_AT)
}

pub(crate) fn put_base(bytes: &mut [u8], base: u64) {
    put_word(bytes, BASE_AT, base);
}

/// How many there are of what, and so where everything is: the third word of the header.
///
/// | bits | |
/// |---|---|
/// | 0–19 | states |
/// | 20–39 | wide states |
/// | 40–47 | remembered deletions |
/// | 48–49 | eras besides the newest |
/// | 50 | there is a gap's `after` |
/// | 51 | there is a floor |
/// | 52 | the next change takes over; only in memory |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) states: usize,
    pub(crate) wide: usize,
    pub(crate) deletions: usize,
    pub(crate) older_eras: usize,
    pub(crate) has_after: bool,
    pub(crate) has_floor: bool,
    pub(crate) taken_over: bool,
}

impl Shape {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let word = word(bytes, SHAPE_AT);
        Self {
            states: (word & 0xf_ffff) as usize,
            wide: (word >> 20 & 0xf_ffff) as usize,
            deletions: (word >> 40 & 0xff) as usize,
            older_eras: (word >> 48 & 3) as usize,
            has_after: word >> 50 & 1 == 1,
            has_floor: word >> 51 & 1 == 1,
            taken_over: word >> 52 & 1 == 1,
        }
    }

    pub(crate) fn put(self, bytes: &mut [u8]) {
        let Self {
            states,
            wide,
            deletions,
            older_eras,
            has_after,
            has_floor,
            taken_over,
        } = self;
        let word = states as u64
            | (wide as u64) << 20
            | (deletions as u64) << 40
            | (older_eras as u64) << 48
            | u64::from(has_after) << 50
            | u64::from(has_floor) << 51
            | u64::from(taken_over) << 52;
        put_word(bytes, SHAPE_AT, word);
    }

    /// Whether the word has bits that mean nothing.
    pub(crate) fn is_strange(bytes: &[u8]) -> bool {
        word(bytes, SHAPE_AT) >> 53 != 0
    }

    pub(crate) fn row(self, index: usize) -> usize {
        HEADER + ROW * index
    }

    pub(crate) fn older_eras_at(self) -> usize {
        self.row(self.states)
    }

    pub(crate) fn after_at(self) -> usize {
        self.older_eras_at() + 8 * self.older_eras
    }

    pub(crate) fn floor_at(self) -> usize {
        self.after_at() + 8 * usize::from(self.has_after)
    }

    pub(crate) fn deletions_at(self) -> usize {
        self.floor_at() + 8 * usize::from(self.has_floor)
    }

    pub(crate) fn directory_at(self) -> usize {
        self.deletions_at() + DELETION * self.deletions
    }

    pub(crate) fn entry(self, position: usize) -> usize {
        self.directory_at() + ENTRY * position
    }

    pub(crate) fn heap_at(self) -> usize {
        self.entry(self.wide)
    }
}

/// Says that the next change does not take over.
pub(crate) fn clear_taken_over(bytes: &mut [u8]) {
    let shape = Shape {
        taken_over: false,
        ..Shape::of(bytes)
    };
    shape.put(bytes);
}

/// A row: channel, last message, meta.
pub(crate) type Row = [u8; ROW];

pub(crate) fn rows(bytes: &[u8]) -> &[Row] {
    let end = Shape::of(bytes).older_eras_at();
    bytes[HEADER..end].as_chunks().0
}

pub(crate) fn rows_mut(bytes: &mut [u8]) -> &mut [Row] {
    let end = Shape::of(bytes).older_eras_at();
    bytes[HEADER..end].as_chunks_mut().0
}

pub(crate) fn channel_of(row: &Row) -> u64 {
    word(row, 0)
}

pub(crate) fn message_of(row: &Row) -> u64 {
    word(row, 8)
}

pub(crate) fn meta_of(row: &Row) -> Meta {
    Meta(word(row, 16))
}

pub(crate) fn put_row(row: &mut Row, channel: u64, message: u64, meta: Meta) {
    put_word(row, 0, channel);
    put_word(row, 8, message);
    put_word(row, 16, meta.0);
}

/// The third word of a row.
///
/// | bits | |
/// |---|---|
/// | 0–31 | the version of the last change, from the base of its era |
/// | 32–33 | the era, from the oldest |
/// | 34–45 | mention count |
/// | 46–59 | last viewed |
/// | 60–62 | flags |
/// | 63 | wide: more is in the heap, and what is there is 0 here |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta(u64);

impl Meta {
    pub(crate) const MOST_MENTIONS: u32 = (1 << 12) - 1;
    pub(crate) const LAST_DAY: u16 = (1 << 14) - 1;
    pub(crate) const MOST_FLAGS: u32 = (1 << 3) - 1;

    pub(crate) fn new(mention_count: u32, last_viewed: u16, flags: u32, wide: bool) -> Self {
        Self(
            u64::from(mention_count) << 34
                | u64::from(last_viewed) << 46
                | u64::from(flags) << 60
                | u64::from(wide) << 63,
        )
    }

    pub(crate) fn with_era(self, era: usize, offset: u32) -> Self {
        Self(self.0 & !0x3_ffff_ffff | u64::from(offset) | (era as u64) << 32)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn offset(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn era(self) -> usize {
        (self.0 >> 32 & 3) as usize
    }

    pub(crate) fn mention_count(self) -> u32 {
        (self.0 >> 34) as u32 & Self::MOST_MENTIONS
    }

    pub(crate) fn last_viewed(self) -> u16 {
        (self.0 >> 46) as u16 & Self::LAST_DAY
    }

    pub(crate) fn flags(self) -> u32 {
        (self.0 >> 60) as u32 & Self::MOST_FLAGS
    }

    pub(crate) fn is_wide(self) -> bool {
        self.0 >> 63 == 1
    }
}
