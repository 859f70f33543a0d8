//! Reading a block where it lies.

use readstates_ring::fence::{self, Base};

use super::{
    Counted, State,
    layout::{self, HEADER, Meta, OLDER_ERAS, Row, Shape, channel_of, message_of, meta_of, word},
    wide::{Entry, Wide},
};

/// The bytes of a block, to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BlockRef<'a> {
    bytes: &'a [u8],
}

impl<'a> BlockRef<'a> {
    /// The block in these bytes, which are not checked: they must come from
    /// [`crate::codec::decode`], or from [`super::EMPTY`], and have been changed by [`super::apply`] and
    /// [`super::take_over`] alone. Of other bytes it reads nonsense, or panics.
    #[must_use]
    pub fn trusted(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.len() >= HEADER, "no block is shorter than its header");
        Self { bytes }
    }

    /// Whose it is: another owner's after [`super::take_over`], until the next change.
    #[must_use]
    pub fn base(self) -> Base {
        match Shape::of(self.bytes).taken_over {
            true => Base::Foreign,
            false => Base::Own,
        }
    }

    /// All of it.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The user's version.
    #[must_use]
    pub fn version(self) -> u64 {
        layout::version(self.bytes)
    }

    /// How many read states there are.
    #[must_use]
    pub fn len(self) -> usize {
        Shape::of(self.bytes).states
    }

    /// Whether there is no read state.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// How much of the cache's capacity this block takes: its states, and 1 for a user without any.
    #[must_use]
    pub fn weight(self) -> u64 {
        self.len().max(1) as u64
    }

    /// The version after the next change; `first_version` is the first version of the slot's term, see
    /// [`super::take_over`].
    #[must_use]
    pub fn next_version(self, first_version: u64) -> u64 {
        fence::next_version(self.base(), self.version(), first_version)
    }

    /// The read states, by channel.
    #[must_use]
    pub fn states(self) -> States<'a> {
        States {
            rows: layout::rows(self.bytes).iter(),
            eras: Eras::of(self.bytes),
            wide: Wide::of(self.bytes),
            next_wide: 0,
            after: None,
        }
    }

    /// The read states of the channels after this one, by channel.
    #[must_use]
    pub fn states_after(self, channel: u64) -> States<'a> {
        let start = match self.place(channel) {
            Ok(place) => place + 1,
            Err(place) => place,
        };
        let wide = Wide::of(self.bytes);
        States {
            rows: layout::rows(self.bytes)[start..].iter(),
            next_wide: wide.position(start).unwrap_or_else(|next| next),
            ..self.states()
        }
    }

    /// The read state of one channel.
    #[must_use]
    pub fn state(self, channel: u64) -> Option<State> {
        self.place(channel).ok().map(|place| self.at(place))
    }

    /// The mentions remembered of one channel.
    #[must_use]
    pub fn counted(self, channel: u64) -> Counted {
        let place = self.place(channel).ok();
        place.map_or_else(Counted::default, |place| self.counted_at(place))
    }

    /// The sum of all mention counts, and how many channels have one.
    #[must_use]
    pub fn mentions(self) -> (u64, u32) {
        let counts = self.states().map(|state| state.mention_count);
        counts
            .filter(|&count| count > 0)
            .fold((0, 0), |(sum, channels), count| {
                (sum + u64::from(count), channels + 1)
            })
    }

    pub(super) fn place(self, channel: u64) -> Result<usize, usize> {
        layout::rows(self.bytes).binary_search_by_key(&channel, channel_of)
    }

    pub(super) fn at(self, place: usize) -> State {
        let mut state = narrow(&layout::rows(self.bytes)[place], Eras::of(self.bytes));
        if let Some((entry, values)) = self.wide_at(place) {
            entry.read_scalars(values, &mut state);
        }
        state
    }

    pub(super) fn counted_at(self, place: usize) -> Counted {
        match self.wide_at(place) {
            Some((entry, values)) => entry.read_counted(values),
            None => Counted::default(),
        }
    }

    fn wide_at(self, place: usize) -> Option<(Entry, &'a [u8])> {
        if !meta_of(&layout::rows(self.bytes)[place]).is_wide() {
            return None;
        }
        let wide = Wide::of(self.bytes);
        let position = wide.position(place).ok()?;
        Some(wide.entry(position))
    }
}

impl std::fmt::Debug for BlockRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockRef")
            .field("version", &self.version())
            .field("history", &self.history())
            .field("states", &self.states().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// The read states of a block, by channel, or those of them that changed after a version.
#[derive(Debug, Clone)]
pub struct States<'a> {
    rows: std::slice::Iter<'a, Row>,
    eras: Eras,
    wide: Wide<'a>,
    /// The entry of the next wide state.
    next_wide: usize,
    after: Option<u64>,
}

impl States<'_> {
    pub(super) fn after(self, version: u64) -> Self {
        Self {
            after: Some(version),
            ..self
        }
    }
}

impl Iterator for States<'_> {
    type Item = State;

    fn next(&mut self) -> Option<State> {
        loop {
            let row = self.rows.next()?;
            let mut state = narrow(row, self.eras);
            if meta_of(row).is_wide() && self.next_wide < self.wide.len() {
                let (entry, values) = self.wide.entry(self.next_wide);
                self.next_wide += 1;
                entry.read_scalars(values, &mut state);
            }
            if self.after.is_none_or(|version| state.version > version) {
                return Some(state);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let rows = self.rows.len();
        (if self.after.is_none() { rows } else { 0 }, Some(rows))
    }
}

/// What a row alone tells.
pub(crate) fn narrow(row: &Row, eras: Eras) -> State {
    let meta: Meta = meta_of(row);
    State {
        channel: channel_of(row),
        last_message: message_of(row),
        mention_count: meta.mention_count(),
        flags: meta.flags(),
        last_viewed: meta.last_viewed(),
        last_pin_millis: 0,
        version: eras.bases[meta.era()] + u64::from(meta.offset()),
    }
}

/// Where the eras begin that are told apart, from the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Eras {
    pub(crate) bases: [u64; OLDER_ERAS + 1],
    /// The place of the newest one.
    pub(crate) newest: usize,
}

impl Eras {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let shape = Shape::of(bytes);
        let mut bases = [0; OLDER_ERAS + 1];
        for (era, base) in bases.iter_mut().enumerate().take(shape.older_eras) {
            *base = word(bytes, shape.older_eras_at() + 8 * era);
        }
        bases[shape.older_eras] = layout::base(bytes);
        Self {
            bases,
            newest: shape.older_eras,
        }
    }

    /// The newest era but one; 0 when it is not told apart.
    pub(crate) fn previous(self) -> u64 {
        self.newest.checked_sub(1).map_or(0, |era| self.bases[era])
    }
}
