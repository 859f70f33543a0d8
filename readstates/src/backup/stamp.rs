//! Under which stamp a backup is restored, and whether it may be.
//!
//! The stamp is above everything that the backup and the destination know, and of the epoch before the one that the
//! clock would give to a slot now. So the members that start on the destination later own their slots at later epochs:
//! they write above every restored row, and their first change of a user jumps to a version above every one that was
//! handed out before. Where the epochs known are ahead of the clock, the stamp is ahead, too: then members see that,
//! and mint epochs above it.

use readstates_ring::{Epoch, MOST_AHEAD_IN_NEED_MICROS, Stamp};

use super::BackupError;

/// Microseconds of an epoch: about 16.8 seconds.
const EPOCH: i64 = 1 << 24;

/// What is in the destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) rows: u64,
    /// Rows that this restore has not written.
    pub(super) others: u64,
    pub(super) highest: Option<Stamp>,
}

/// The stamp of a restore into a destination, or why it must not be.
pub(super) fn decide(
    found: Found,
    known: Option<Stamp>,
    overwrite: bool,
    now_micros: i64,
) -> Result<Stamp, BackupError> {
    let Found {
        rows,
        others,
        highest,
    } = found;
    // A restore that did not come to its end goes on.
    if let Some(its) = highest.filter(|its| others == 0 && Some(*its) > known) {
        return Ok(its);
    }
    if rows > 0 && !overwrite {
        return Err(BackupError::NotEmpty { rows, others });
    }
    above(known.max(highest), now_micros)
}

/// The stamp above all that is known; of the epoch before that of the clock, unless what is known is later.
pub(super) fn above(known: Option<Stamp>, now_micros: i64) -> Result<Stamp, BackupError> {
    let epoch = Epoch::mint(known.map(Stamp::epoch), now_micros.saturating_sub(EPOCH));
    // Members must be able to mint one more.
    let next = Epoch::mint(Some(epoch), 0);
    let ahead = now_micros.saturating_add(MOST_AHEAD_IN_NEED_MICROS);
    if next > Epoch::mint(None, ahead) {
        let ahead = Stamp::new(epoch, 0)
            .as_database()
            .saturating_sub(now_micros);
        let hours = ahead / 3_600_000_000;
        return Err(BackupError::ClockBehind { hours });
    }
    Ok(Stamp::new(epoch, 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use readstates_ring::fence::{self, Base, Stored};

    use super::*;

    const HOUR: i64 = 3_600_000_000;
    const NOW: i64 = 1_795_000_000_000_000;

    proptest! {
        #[test]
        fn a_stamp_is_above_all_that_is_known_and_a_member_that_starts_now_owns_above_it(
            known in NOW - 10 * HOUR..NOW - 2 * EPOCH
        ) {
            let stamp = above(Some(Stamp::from_database(known)), NOW).unwrap();
            prop_assert!(stamp > Stamp::from_database(known));
            let owner = Epoch::mint(None, NOW);
            let (first, restored) = (Stamp::new(owner, 0), Stored { stamp, is_own: false });
            prop_assert!(!fence::shows_regression(restored, owner, first));
            prop_assert_eq!(fence::base(Some(restored), first), Base::Foreign);
            // A version that was handed out before is not handed out again.
            let first_version = fence::first_version(first);
            prop_assert!(fence::next_version(Base::Foreign, 7, first_version) > known as u64);
        }

        #[test]
        fn of_epochs_ahead_of_the_clock_members_are_told(known in NOW..NOW + 47 * HOUR) {
            let stamp = above(Some(Stamp::from_database(known)), NOW).unwrap();
            prop_assert!(stamp > Stamp::from_database(known));
            let owner = Epoch::mint(None, NOW);
            let restored = Stored { stamp, is_own: false };
            prop_assert!(fence::shows_regression(restored, owner, Stamp::new(owner, 0)));
        }
    }

    #[test]
    fn a_clock_that_is_days_behind_is_refused() {
        let known = Some(Stamp::from_database(NOW + 49 * HOUR));
        let refusal = above(known, NOW).unwrap_err();
        assert!(
            matches!(refusal, BackupError::ClockBehind { hours: 49 }),
            "{refusal}"
        );
    }

    #[test]
    fn a_destination_is_empty_or_of_the_same_restore_or_written_over() {
        let known = Some(Stamp::from_database(NOW - HOUR));
        let before = above(known, NOW - EPOCH).unwrap();
        let found = |others| Found {
            rows: 9,
            others,
            highest: Some(before),
        };
        assert_eq!(
            decide(found(0), known, false, NOW).unwrap(),
            before,
            "goes on"
        );
        let refusal = decide(found(1), known, false, NOW).unwrap_err();
        assert!(matches!(
            refusal,
            BackupError::NotEmpty { rows: 9, others: 1 }
        ));
        assert!(decide(found(1), known, true, NOW).unwrap() > before);
        let fresh = decide(Found::default(), known, false, NOW).unwrap();
        assert_eq!(fresh.epoch().number(), (NOW >> 24) - 1);
    }
}
