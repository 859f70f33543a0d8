//! The fence of the database: which of two writes is the later one.
//!
//! Every write of a block carries a [`Stamp`], `(epoch << 24) | seq`, as its CQL timestamp, and the
//! database keeps the higher one. An epoch is about 16.8 seconds of Unix time, so a stamp read as a
//! number is microseconds. The owner of a slot counts the writes of its epoch: the owner at a later epoch
//! stamps above everything that was written before, and above everything that may still be under way, as
//! long as no more than one block of a slot is written each microsecond.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-01-01T00:00:00Z.
    const NEW_YEAR: i64 = 1_767_225_600_000_000;

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
