//! Who owns one slot, at which epoch; and the only way in which that changes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    Epoch,
    mutant::{self, Rule},
};

/// The most that the epoch of a moved slot may be ahead of the clock: an hour. Beyond, a clock is wrong, or epochs are
/// minted in a loop. A move is optional; ScyllaDB refuses write timestamps three days ahead.
pub const MOST_AHEAD_MICROS: i64 = 3_600_000_000;

/// The most that the epoch of a slot without a serving owner may be ahead of the clock: two days. One wrong clock must
/// not leave slots without an owner.
pub const MOST_AHEAD_IN_NEED_MICROS: i64 = 48 * MOST_AHEAD_MICROS;

/// The most that the epoch of a slot may be ahead of the clock when it gets a backup: a quarter of an hour. Each backup
/// that is named and dropped again takes two epochs, so that one that comes and goes would use up what moves are given.
const MOST_AHEAD_NAMED_MICROS: i64 = MOST_AHEAD_MICROS / 4;

/// The same where it is likely that the backup is dropped again: half of that, so that enough is left for all others.
const MOST_AHEAD_TRIED_MICROS: i64 = MOST_AHEAD_NAMED_MICROS / 2;

/// The time, as Unix times in microseconds. The two differ where members' clocks do not agree.
///
/// An epoch too low does no harm, since it grows by one all the same; one too high keeps its slot from moving until the
/// clocks have come that far. So epochs are minted from the earlier time, and refused by the later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The earliest that it can be.
    pub earliest: i64,
    /// The latest.
    pub latest: i64,
}

impl From<i64> for Now {
    fn from(micros: i64) -> Self {
        Self {
            earliest: micros,
            latest: micros,
        }
    }
}

/// A process: 64 random bits drawn at its start. A pod's name would not do: Kubernetes may run two
/// processes under one name, and one that restarted has forgotten everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Incarnation(u64);

impl Incarnation {
    /// The incarnation with these bits.
    #[must_use]
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }
}

/// Sixteen hexadecimal digits.
impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TryFrom<String> for Incarnation {
    type Error = NoIncarnation;

    fn try_from(text: String) -> Result<Self, NoIncarnation> {
        text.parse()
    }
}

impl From<Incarnation> for String {
    fn from(incarnation: Incarnation) -> Self {
        incarnation.to_string()
    }
}

/// Text that is no [`Incarnation`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no incarnation: write sixteen hexadecimal digits")]
pub struct NoIncarnation(String);

impl FromStr for Incarnation {
    type Err = NoIncarnation;

    fn from_str(text: &str) -> Result<Self, NoIncarnation> {
        let digits = text.len() == 16
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match u64::from_str_radix(text, 16) {
            Ok(bits) if digits => Ok(Self(bits)),
            Ok(_) | Err(_) => Err(NoIncarnation(text.to_owned())),
        }
    }
}

/// Who owns a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotConfig {
    epoch: Epoch,
    owner: Incarnation,
    backup: Option<Incarnation>,
    inherits: Option<Epoch>,
}

/// Why a swap did not happen. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SwapRefused {
    /// Another swap came first.
    #[error("the slot is at epoch {current}, not at {expected}")]
    Conflict {
        /// What was expected.
        expected: Epoch,
        /// What is.
        current: Epoch,
    },
    /// See [`MOST_AHEAD_MICROS`] and [`MOST_AHEAD_IN_NEED_MICROS`].
    #[error(
        "epoch {next} would be too far ahead of the clock: a clock is wrong, or epochs are minted in a loop"
    )]
    TooFarAhead {
        /// The epoch that was not minted.
        next: Epoch,
    },
}

/// How the next owner comes to the slot's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Succession {
    /// It holds everything that the owner of the epoch before sealed, or is that owner itself.
    Handed,
    /// The owner is proven gone, or its lease has run out: the database is what is left.
    TakenOver,
    /// It is the backup that the config before names: it holds everything that was acknowledged, partly in its journal.
    Promoted,
}

impl SlotConfig {
    /// The first config of a slot.
    #[must_use]
    pub fn first(owner: Incarnation, now: impl Into<Now>) -> Self {
        Self {
            epoch: Epoch::mint(None, now.into().earliest),
            owner,
            backup: None,
            inherits: None,
        }
    }

    /// A config from its parts, as a ring that was stored has them.
    #[must_use]
    pub fn from_parts(
        epoch: Epoch,
        owner: Incarnation,
        backup: Option<Incarnation>,
        inherits: Option<Epoch>,
    ) -> Self {
        Self {
            epoch,
            owner,
            backup,
            inherits,
        }
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The process that owns the slot.
    #[must_use]
    pub fn owner(&self) -> Incarnation {
        self.owner
    }

    /// The process that has a copy of what is not in the database yet, if there is one: see [`crate::replication`].
    #[must_use]
    pub fn backup(&self) -> Option<Incarnation> {
        self.backup
    }

    /// The epoch directly before, when what was sealed then, or what its backup has, is what this owner starts with. A
    /// member that holds another epoch's blocks must not serve from them.
    #[must_use]
    pub fn inherits(&self) -> Option<Epoch> {
        self.inherits
    }

    /// The config after this one, without a backup.
    ///
    /// # Errors
    /// When this is not the config that the caller has seen, or the clock forbids another epoch.
    pub fn swap(
        &self,
        expected: Epoch,
        owner: Incarnation,
        succession: Succession,
        now: impl Into<Now>,
    ) -> Result<Self, SwapRefused> {
        self.swap_backed(expected, owner, None, succession, now)
    }

    /// The config after this one. No process is its own backup.
    ///
    /// # Errors
    /// As with [`SlotConfig::swap`].
    pub fn swap_backed(
        &self,
        expected: Epoch,
        owner: Incarnation,
        backup: Option<Incarnation>,
        succession: Succession,
        now: impl Into<Now>,
    ) -> Result<Self, SwapRefused> {
        if expected != self.epoch && !mutant::drops(Rule::R10) {
            return Err(SwapRefused::Conflict {
                expected,
                current: self.epoch,
            });
        }
        let now = now.into();
        let next = Epoch::mint(Some(self.epoch), now.earliest);
        let is_wish = succession == Succession::Handed && owner != self.owner;
        let most_ahead = if is_wish {
            MOST_AHEAD_MICROS
        } else {
            MOST_AHEAD_IN_NEED_MICROS
        };
        if next > Epoch::mint(None, now.latest.saturating_add(most_ahead)) {
            return Err(SwapRefused::TooFarAhead { next });
        }
        Ok(Self {
            epoch: next,
            owner,
            backup: backup.filter(|&backup| backup != owner),
            inherits: match succession {
                Succession::Handed => Some(expected),
                // One that is not the backup begins with the database.
                Succession::Promoted => Some(expected).filter(|_| self.backup == Some(owner)),
                Succession::TakenOver => None,
            },
        })
    }

    /// Whether a slot at this epoch may get a backup now, or another one. A slot that must wait for the clock can still be
    /// moved, and its backup can still be dropped.
    #[must_use]
    pub fn may_name(at: Epoch, now: impl Into<Now>) -> bool {
        let latest = now.into().latest;
        at < Epoch::mint(None, latest.saturating_add(MOST_AHEAD_NAMED_MICROS))
    }

    /// The same of a backup that was dropped not long ago, and is likely to be dropped again.
    #[must_use]
    pub fn may_try(at: Epoch, now: impl Into<Now>) -> bool {
        let latest = now.into().latest;
        at < Epoch::mint(None, latest.saturating_add(MOST_AHEAD_TRIED_MICROS))
    }

    /// Whether this config has the epoch of the other and another owner: a store was restored.
    #[must_use]
    pub fn gives_again(&self, other: Self) -> bool {
        self.epoch == other.epoch && self.owner != other.owner
    }

    /// The same owner at the next epoch, with what it has.
    #[must_use]
    pub fn raised(&self) -> Self {
        Self {
            epoch: Epoch::mint(Some(self.epoch), 0),
            inherits: Some(self.epoch),
            ..*self
        }
    }

    /// The config under which `owner`, which serves at epoch `held` and was never out of service, goes on when a
    /// restored store has this config. Its epoch is above both.
    ///
    /// # Errors
    /// When the clock forbids such an epoch.
    pub fn kept(
        &self,
        owner: Incarnation,
        held: Epoch,
        now: impl Into<Now>,
    ) -> Result<Self, SwapRefused> {
        let now = now.into();
        let next = Epoch::mint(Some(self.epoch.max(held)), now.earliest);
        let most = now.latest.saturating_add(MOST_AHEAD_IN_NEED_MICROS);
        if next > Epoch::mint(None, most) {
            return Err(SwapRefused::TooFarAhead { next });
        }
        Ok(Self {
            epoch: next,
            owner,
            backup: None,
            inherits: Some(held),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_000_000_000_000;

    #[test]
    fn a_swap_needs_the_epoch_that_is_in_force() {
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let first = SlotConfig::first(a, NOW);
        let second = first
            .swap(first.epoch(), b, Succession::Handed, NOW)
            .unwrap();
        assert_eq!(second.owner(), b);
        assert_eq!(second.inherits(), Some(first.epoch()));
        assert!(second.epoch() > first.epoch());
        assert_eq!(
            second.swap(first.epoch(), a, Succession::TakenOver, NOW),
            Err(SwapRefused::Conflict {
                expected: first.epoch(),
                current: second.epoch()
            })
        );
    }

    #[test]
    fn epochs_of_moves_do_not_run_more_than_an_hour_ahead_of_the_clock() {
        let mut config = SlotConfig::first(Incarnation::new(1), NOW);
        let refused = (0..1000).find_map(|_| {
            let other = Incarnation::new(3 - config.owner().bits());
            match config.swap(config.epoch(), other, Succession::Handed, NOW) {
                Ok(next) => {
                    config = next;
                    None
                }
                Err(refused) => Some(refused),
            }
        });
        assert!(matches!(refused, Some(SwapRefused::TooFarAhead { .. })));
        let ahead = config.epoch().number() - (NOW >> 24);
        assert!((200..=216).contains(&ahead), "{ahead} epochs ahead");
        // An hour later it goes on.
        let later = NOW + MOST_AHEAD_MICROS;
        let other = Incarnation::new(3 - config.owner().bits());
        let next = config.swap(config.epoch(), other, Succession::Handed, later);
        assert!(next.is_ok());
    }

    #[test]
    fn backups_that_come_and_go_never_stop_moves() {
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let mut config = SlotConfig::first(a, NOW);
        let mut named = 0;
        let swap = |config: SlotConfig, owner, backup, now: i64| {
            config.swap_backed(config.epoch(), owner, backup, Succession::Handed, now)
        };
        // A day, in which the backup is lost as soon as it is named.
        for second in 0..24 * 3600 {
            let now = NOW + second * 1_000_000;
            if SlotConfig::may_name(config.epoch(), now) {
                config = swap(config, a, Some(b), now).unwrap();
                config = swap(config, a, None, now).unwrap();
                named += 1;
            }
            assert!(swap(config, b, None, now).is_ok(), "after {second} s");
        }
        // Twenty-six at once, and then as many as the clock allows: one in two epochs.
        let by_clock = 24 * 3_600_000_000_i64 / (2 << 24);
        assert!((20..32).contains(&(named - by_clock)), "{named}");
    }

    #[test]
    fn backups_that_are_tried_again_and_again_leave_half_of_the_epochs_for_others() {
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let mut config = SlotConfig::first(a, NOW);
        let mut tried = 0;
        for second in 0..3600 {
            let now = NOW + second * 1_000_000;
            if SlotConfig::may_try(config.epoch(), now) {
                for backup in [Some(b), None] {
                    let how = Succession::Handed;
                    config = config
                        .swap_backed(config.epoch(), a, backup, how, now)
                        .unwrap();
                }
                tried += 1;
            }
            let most = Epoch::mint(None, now + MOST_AHEAD_TRIED_MICROS);
            assert!(config.epoch().number() <= most.number() + 1, "{second} s");
        }
        // Thirteen at once, and then as many as the clock allows: one in two epochs.
        let by_clock = 3_600_000_000_i64 / (2 << 24);
        assert!((13..=15).contains(&(tried - by_clock)), "{tried}");
    }

    #[test]
    fn a_slot_that_a_wrong_clock_minted_is_taken_and_retaken_and_not_moved() {
        const HOUR: i64 = 3_600_000_000;
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let ways = [
            (b, Succession::Handed, 1),
            (a, Succession::Handed, 48),
            (b, Succession::TakenOver, 48),
        ];
        for (owner, how, hours) in ways {
            for ahead in [1, 2, 47, 49] {
                let config = SlotConfig::first(a, NOW + ahead * HOUR - (2 << 24));
                let next = config.swap(config.epoch(), owner, how, NOW);
                assert_eq!(next.is_ok(), ahead <= hours, "{how:?}, {ahead} hours");
            }
        }
    }

    #[test]
    fn where_the_time_is_disputed_the_earlier_one_mints_and_the_later_one_refuses() {
        const DAY: i64 = 24 * 3_600_000_000;
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let now = Now {
            earliest: NOW,
            latest: NOW + 20 * DAY,
        };
        let first = SlotConfig::first(a, now);
        assert_eq!(first, SlotConfig::first(a, NOW));
        let how = Succession::Handed;
        let next = first.swap(first.epoch(), b, how, now).unwrap();
        assert_eq!(next.epoch().number(), first.epoch().number() + 1);
        // A slot whose epoch the one right clock minted can be moved, though the other clocks are days behind.
        let ahead = SlotConfig::first(a, NOW + 19 * DAY);
        assert!(ahead.swap(ahead.epoch(), b, how, NOW).is_err());
        assert!(ahead.swap(ahead.epoch(), b, how, now).is_ok());
    }

    #[test]
    fn whoever_keeps_a_slot_is_above_what_it_held_and_what_the_store_says() {
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let held = SlotConfig::first(a, NOW);
        let same = SlotConfig::first(b, NOW);
        let later = same
            .swap(same.epoch(), b, Succession::TakenOver, NOW)
            .unwrap();
        for stored in [same, later] {
            let kept = stored.kept(a, held.epoch(), NOW).unwrap();
            assert_eq!((kept.owner(), kept.inherits()), (a, Some(held.epoch())));
            assert!(kept.epoch() > stored.epoch() && kept.epoch() > held.epoch());
        }
        let days = 49 * 3_600_000_000;
        let ahead = SlotConfig::first(b, NOW + days);
        let refused = ahead.kept(a, held.epoch(), NOW);
        assert!(matches!(refused, Err(SwapRefused::TooFarAhead { .. })));
    }

    #[test]
    fn an_incarnation_is_sixteen_digits_and_nothing_else() {
        let incarnation = Incarnation::new(0x00ab);
        assert_eq!(incarnation.to_string(), "00000000000000ab");
        assert_eq!("00000000000000ab".parse(), Ok(incarnation));
        for bad in [
            "",
            "ab",
            "00000000000000AB",
            "+0000000000000ab",
            "00000000000000abc",
        ] {
            assert!(bad.parse::<Incarnation>().is_err(), "{bad:?}");
        }
    }
}
