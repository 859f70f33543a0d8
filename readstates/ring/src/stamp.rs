//! The fence of the database: which of two writes is the later one.
//!
//! Every write of a block carries a [`Stamp`], `(epoch << 24) | seq`, as its CQL timestamp, and the
//! database keeps the higher one. An epoch is about 16.8 seconds of Unix time, so a stamp read as a
//! number is microseconds: [`StampMint`] starts at the microsecond of the process's start and hands
//! out one stamp for each write. A process that starts later therefore stamps above everything an
//! earlier one wrote, and above everything it may still have under way, as long as no process writes
//! more than one block each microsecond.

use std::{
    fmt,
    sync::atomic::{AtomicI64, Ordering},
};

/// Bits of a stamp below the epoch.
const SEQ_BITS: u32 = 24;
const SEQ_MASK: i64 = (1 << SEQ_BITS) - 1;

/// A slot's ownership number; only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(i64);

impl Epoch {
    /// The highest epoch whose stamps are numbers that a database takes.
    pub const MAX: i64 = i64::MAX >> SEQ_BITS;

    /// The epoch with this number, from 0 to [`Epoch::MAX`].
    #[must_use]
    pub fn new(number: i64) -> Option<Self> {
        (0..=Self::MAX).contains(&number).then_some(Self(number))
    }

    /// The epoch that follows `old`: `max(old + 1, now_µs >> 24)`. Time alone makes it grow too, so a
    /// lost record of the old one cannot bring an epoch back.
    #[must_use]
    pub fn mint(old: Option<Self>, now_micros: i64) -> Self {
        let by_clock = now_micros >> SEQ_BITS;
        Self(old.map_or(by_clock, |old| by_clock.max(old.0.saturating_add(1))))
    }

    /// The epoch as a number.
    #[must_use]
    pub fn number(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The database timestamp of one write of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(i64);

impl Stamp {
    /// The stamp of the write `seq` under `epoch`; `seq` counts on into the next epoch when it does
    /// not fit 24 bits.
    #[must_use]
    pub fn new(epoch: Epoch, seq: u32) -> Self {
        Self((epoch.0 << SEQ_BITS).saturating_add(i64::from(seq)))
    }

    /// The stamp with this database timestamp (`WRITETIME(block)`).
    #[must_use]
    pub fn from_database(timestamp: i64) -> Self {
        Self(timestamp)
    }

    /// What to bind to `USING TIMESTAMP ?`.
    #[must_use]
    pub fn as_database(self) -> i64 {
        self.0
    }

    /// The epoch under which the write was made.
    #[must_use]
    pub fn epoch(self) -> Epoch {
        Epoch(self.0 >> SEQ_BITS)
    }

    /// The number of the write within its epoch.
    #[must_use]
    pub fn seq(self) -> u32 {
        // 24 bits always fit.
        (self.0 & SEQ_MASK) as u32
    }

    /// The lowest stamp above this one.
    #[must_use]
    pub fn successor(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.epoch(), self.seq())
    }
}

/// Hands out the stamps of one process, each at most once.
#[derive(Debug)]
pub struct StampMint {
    next: AtomicI64,
}

impl StampMint {
    /// The mint of a process that started at this Unix time in microseconds.
    #[must_use]
    pub fn started_at(now_micros: i64) -> Self {
        Self {
            next: AtomicI64::new(now_micros),
        }
    }

    /// The stamp of the next write of a block whose last known write carried `last`: the next one of
    /// this process, or `last + 1` where that is higher (a clock that went back).
    pub fn next(&self, last: Option<Stamp>) -> Stamp {
        let own = Stamp(self.next.fetch_add(1, Ordering::Relaxed));
        last.map_or(own, |last| own.max(last.successor()))
    }

    /// Whether every stamp handed out from now on is above `last` by itself, so that `last` need not be
    /// remembered.
    #[must_use]
    pub fn is_above(&self, last: Stamp) -> bool {
        last.0 < self.next.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-01-01T00:00:00Z.
    const NEW_YEAR: i64 = 1_767_225_600_000_000;

    #[test]
    fn a_process_that_starts_later_stamps_above_all_writes_of_an_earlier_one() {
        let earlier = StampMint::started_at(NEW_YEAR);
        let last_of_earlier = (0..5000).map(|_| earlier.next(None)).max();
        // Five milliseconds later, in the same epoch.
        let later = StampMint::started_at(NEW_YEAR + 5000);
        assert!(Some(later.next(None)) > last_of_earlier);
    }

    #[test]
    fn a_block_that_was_written_ahead_of_our_clock_is_still_written_above() {
        let mint = StampMint::started_at(NEW_YEAR);
        let ahead = Stamp::from_database(NEW_YEAR + 3_600_000_000);
        assert!(!mint.is_above(ahead), "it has to be remembered");
        assert_eq!(mint.next(Some(ahead)), ahead.successor());
        // The other blocks are not dragged along.
        let own = mint.next(None);
        assert_eq!(own.as_database(), NEW_YEAR + 1);
        assert!(mint.is_above(own) && mint.next(None) > own);
    }

    #[test]
    fn an_epoch_grows_even_when_the_clock_stands_still_or_goes_back() {
        let first = Epoch::mint(None, NEW_YEAR);
        assert_eq!(first.number(), NEW_YEAR >> 24);
        assert_eq!(
            Epoch::mint(Some(first), NEW_YEAR).number(),
            first.number() + 1
        );
        assert_eq!(Epoch::mint(Some(first), 0).number(), first.number() + 1);
    }

    proptest! {
        #[test]
        fn a_stamp_is_epoch_then_seq(micros in 0_i64..i64::MAX >> 1, seq in 0_u32..1 << 24) {
            let epoch = Epoch::mint(None, micros);
            let stamp = Stamp::new(epoch, seq);
            prop_assert_eq!((stamp.epoch(), stamp.seq()), (epoch, seq));
            prop_assert_eq!(Stamp::from_database(stamp.as_database()), stamp);
            prop_assert!(stamp < Stamp::new(Epoch::mint(Some(epoch), micros), 0));
        }
    }
}
