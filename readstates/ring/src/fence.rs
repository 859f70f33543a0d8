//! What the epochs mean for blocks: stamps, versions, and what a block that was loaded is good for.

use crate::{
    Epoch, Stamp,
    mutant::{self, Rule, Shortcut},
};

/// Whether a block that was loaded with this stamp must be written again, under the owner's epoch,
/// before an answer may rest on it (R8). A write of the owner before may still be on its way to the
/// database: it stands above what was loaded, and may lack it.
///
/// An answer rests on a block also when it says "was applied before".
#[must_use]
pub fn needs_restamp(loaded: Option<Stamp>, owner: Epoch) -> bool {
    if mutant::drops(Rule::R8) {
        return false;
    }
    loaded.is_some_and(|stamp| stamp.epoch() < owner)
}

/// Whether a stored block shows that epochs went back (a ring restored from an old backup): then the
/// owner must not serve the slot until a higher epoch is minted.
#[must_use]
pub fn shows_regression(loaded: Option<Stamp>, owner: Epoch) -> bool {
    loaded.is_some_and(|stamp| stamp.epoch() > owner)
}

/// The version that a user's first change at `owner` gets, when the block was last changed under
/// another epoch: at least the first of the epoch, so that it is above every version that an earlier
/// owner can have handed out and not written (R7).
///
/// Versions are as wide as stamps: an epoch has 2^24 of them for each user.
#[must_use]
pub fn first_version(loaded: u64, owner: Epoch) -> u64 {
    let next = loaded.saturating_add(1);
    if mutant::drops(Rule::R7) {
        return next;
    }
    // Epochs are minted from a clock that reads above 0.
    let first = u64::try_from(Stamp::new(owner, 0).as_database()).unwrap_or(0);
    next.max(first)
}

/// Whose a block is that was loaded, or that no row was found of (R14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Base {
    /// Written by this owner, or by an owner before that handed it over sealed: only this owner's writes change it.
    Own,
    /// Written by another owner, or never: a write of that owner that is still under way may replace it.
    Foreign,
}

/// The base of a block that was loaded with this stamp, for an ownership that began with the epoch `since`.
#[must_use]
pub fn base(loaded: Option<Stamp>, since: Epoch) -> Base {
    if mutant::takes(Shortcut::LeavesBase) {
        return Base::Own;
    }
    match loaded {
        Some(stamp) if stamp.epoch() >= since => Base::Own,
        Some(_) | None => Base::Foreign,
    }
}

/// What a backup must have of an answer that rests on a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// What it was sent before.
    Nothing,
    /// The operation that was applied.
    Change,
    /// The whole block as it is now. The block becomes dirty and the owner's own. If nothing was applied, its version
    /// becomes [`first_version`].
    Image,
}

/// What a backup must have of an answer that rests on a block with this base; `applied`: to which an operation was
/// applied for it. Reads are not asked for: they may show what was never acknowledged and vanishes again.
///
/// An owner without a backup does the same to the block, and sends nothing.
#[must_use]
pub fn needs(base: Base, applied: bool) -> Needs {
    match (base, applied) {
        (Base::Foreign, false) if mutant::takes(Shortcut::LeavesBaseOfIgnored) => Needs::Nothing,
        (Base::Foreign, true | false) => Needs::Image,
        (Base::Own, true) => Needs::Change,
        (Base::Own, false) => Needs::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_after_a_take_over_is_above_all_that_can_have_been_handed_out() {
        let old = Epoch::mint(None, 1_795_000_000_000_000);
        let new = Epoch::mint(Some(old), 0);
        let most_of_old = first_version(0, old) + (1 << 24) - 1;
        assert!(first_version(7, new) > most_of_old);
        // And goes on from there.
        assert_eq!(
            first_version(first_version(7, new), new),
            first_version(7, new) + 1
        );
    }

    #[test]
    fn only_an_older_epochs_block_is_written_again() {
        let old = Epoch::mint(None, 1_795_000_000_000_000);
        let new = Epoch::mint(Some(old), 0);
        assert!(needs_restamp(Some(Stamp::new(old, 3)), new));
        assert!(!needs_restamp(Some(Stamp::new(new, 0)), new));
        assert!(!needs_restamp(None, new));
        assert!(shows_regression(Some(Stamp::new(new, 0)), old));
        assert!(!shows_regression(Some(Stamp::new(old, 9)), old));
    }

    #[test]
    fn a_block_of_another_owner_goes_to_the_backup_as_a_whole_before_any_answer_rests_on_it() {
        let old = Epoch::mint(None, 1_795_000_000_000_000);
        let since = Epoch::mint(Some(old), 0);
        let later = Epoch::mint(Some(since), 0);
        for (loaded, is) in [
            (None, Base::Foreign),
            (Some(Stamp::new(old, 9)), Base::Foreign),
            (Some(Stamp::new(since, 0)), Base::Own),
            (Some(Stamp::new(later, 0)), Base::Own),
        ] {
            assert_eq!(base(loaded, since), is, "{loaded:?}");
        }
        assert_eq!(needs(Base::Foreign, false), Needs::Image);
        assert_eq!(needs(Base::Foreign, true), Needs::Image);
        assert_eq!(needs(Base::Own, true), Needs::Change);
        assert_eq!(needs(Base::Own, false), Needs::Nothing);
    }
}
