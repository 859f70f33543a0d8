//! What the epochs mean for blocks: whose a block is, which versions its changes get, and what it shows of the ring.
//!
//! Pure, and small enough to be inlined where requests are served. The service's cache and gate call these functions, and
//! so do the members of the model (`crate::model`): what the search shows of them holds of the code that runs.
//!
//! A slot is served in *terms*, each of which begins when the slot is opened at an epoch. The stamps of a term begin with
//! the first one of its epoch. Where a member is alone in its ring they begin with the start of the process instead, if
//! that is later: the epoch of the process before is not remembered, and may be the same.

use crate::{
    Epoch, Stamp,
    mutant::{self, Rule, Shortcut},
};

/// How far a user's version jumps at the first change by another process than the one that wrote the
/// block. The last owner may have died with changes that it had answered and not yet written; it
/// never ran further ahead of the database than this (the cache holds back changes that would), so no version is ever
/// handed out twice.
pub const VERSION_GAP: u64 = 1 << 16;

/// A block that was read from the database, by its last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Of the write.
    pub stamp: Stamp,
    /// Whether this process has made the write.
    pub is_own: bool,
}

/// Whose a block is that was loaded, or that no row was found of (R14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Base {
    /// Written by this owner, or by an owner before that handed it over sealed: only this owner's writes change it.
    Own,
    /// Written by another owner, or never: a write of that owner that is still under way may replace it.
    Foreign,
}

/// Whether a write was stamped in the term whose stamps begin with `first`.
#[must_use]
#[inline]
pub fn is_of_term(stamp: Stamp, first: Stamp) -> bool {
    stamp >= first
}

/// The base of a block that is loaded in the term whose stamps begin with `first`.
#[must_use]
#[inline]
pub fn base(stored: Option<Stored>, first: Stamp) -> Base {
    if mutant::takes(Shortcut::LeavesBase) {
        return Base::Own;
    }
    match stored {
        Some(Stored { stamp, is_own }) if is_own && is_of_term(stamp, first) => Base::Own,
        // An owner before this one may have died before the first write.
        Some(_) | None => Base::Foreign,
    }
}

/// Whether a stored block shows that epochs went back (a ring restored from an old backup), or that another process has
/// had this epoch, too: then the owner at `owner` must not serve the slot until a higher epoch is minted. `next` is the
/// stamp of its next write: of more than 2^24 writes in an epoch, the last ones look like those of the epoch after it.
#[must_use]
#[inline]
pub fn shows_regression(stored: Stored, owner: Epoch, next: Stamp) -> bool {
    let Stored { stamp, is_own } = stored;
    let is_later = stamp.epoch() > owner && stamp >= next;
    is_later || (stamp.epoch() == owner && !is_own)
}

/// The version from which the changes of a term go on, of blocks that were another owner's: it is above every version
/// that an earlier owner can have handed out and not written (R7).
///
/// Versions are as wide as stamps: an epoch has 2^24 of them for each user.
#[must_use]
#[inline]
pub fn first_version(first: Stamp) -> u64 {
    if mutant::drops(Rule::R7) {
        return 0;
    }
    // Epochs are minted from a clock that reads above 0.
    u64::try_from(first.as_database()).unwrap_or(0)
}

/// The version that the next change of a block gets, in the term with this [`first_version`].
///
/// It jumps where the block was another owner's, also above one that took over, answered and died without writing.
#[must_use]
#[inline]
pub fn next_version(base: Base, version: u64, first_version: u64) -> u64 {
    match base {
        Base::Own => version.saturating_add(1),
        Base::Foreign => version.max(first_version).saturating_add(VERSION_GAP),
    }
}

/// What must be done, and what a backup must have, before an answer that rests on a block is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: what was sent before is enough.
    Nothing,
    /// The operation that was applied.
    Change,
    /// The whole block as it is now. The block becomes dirty and the owner's own, at its [`next_version`], whether
    /// anything was applied or not.
    Image,
}

/// What an answer needs that rests on a block with this base, which was at `version`; `applied`: to which an operation
/// was applied for it. Reads are not asked for: they may show what was never acknowledged and vanishes again.
///
/// "Was applied before" rests on what another owner's late write could still replace: the block is written again, under
/// the owner's own epoch (R8). Of a user never seen, who has version 0, there is nothing that it could rest on.
///
/// An owner without a backup does the same to the block, and sends nothing.
#[must_use]
#[inline]
pub fn needs(base: Base, version: u64, applied: bool) -> Needs {
    match (base, applied) {
        (Base::Foreign, false) if version == 0 || leaves_ignored() => Needs::Nothing,
        (Base::Foreign, true | false) => Needs::Image,
        (Base::Own, true) => Needs::Change,
        (Base::Own, false) => Needs::Nothing,
    }
}

fn leaves_ignored() -> bool {
    mutant::drops(Rule::R8) || mutant::takes(Shortcut::LeavesBaseOfIgnored)
}

/// The epochs of the operations that may be acknowledged now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InForce {
    /// The first one of this ownership: the owner's own swaps, from one backup to another, do not end it.
    pub since: Epoch,
    /// The last one.
    pub current: Epoch,
}

/// Whether an operation that was admitted at `admitted` and has been applied may be acknowledged (R1). `lease_valid` must
/// have been read after the work was done: a process may be paused between any two instructions.
#[must_use]
#[inline]
pub fn may_acknowledge(admitted: Epoch, in_force: Option<InForce>, lease_valid: bool) -> bool {
    if mutant::drops(Rule::R1) {
        return true;
    }
    let lease_valid = lease_valid || mutant::takes(Shortcut::NoLease);
    let is_in_force = |InForce { since, current }| (since..=current).contains(&admitted);
    lease_valid && in_force.is_some_and(is_in_force)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs() -> [Epoch; 3] {
        let old = Epoch::mint(None, 1_795_000_000_000_000);
        let new = Epoch::mint(Some(old), 0);
        [old, new, Epoch::mint(Some(new), 0)]
    }

    fn first(epoch: Epoch) -> Stamp {
        Stamp::new(epoch, 0)
    }

    #[test]
    fn a_version_after_a_take_over_is_above_all_that_can_have_been_handed_out() {
        let [old, new, _] = epochs();
        let jumps =
            |version, epoch| next_version(Base::Foreign, version, first_version(first(epoch)));
        let most_of_old = first_version(first(old)) + (1 << 24) - 1;
        assert!(jumps(7, new) > most_of_old);
        // A process that is alone has no other epoch than the one before it, which ran ahead of the database.
        let written = jumps(7, old);
        assert!(jumps(written, old) >= written + VERSION_GAP);
        // And goes on from there.
        let goes_on = next_version(Base::Own, jumps(7, new), first_version(first(new)));
        assert_eq!(goes_on, jumps(7, new) + 1);
    }

    #[test]
    fn a_block_of_another_owner_goes_to_the_backup_as_a_whole_before_any_answer_rests_on_it() {
        let [old, since, later] = epochs();
        for (epoch, is_own, is) in [
            (old, true, Base::Foreign),
            (old, false, Base::Foreign),
            (since, true, Base::Own),
            (since, false, Base::Foreign),
            (later, true, Base::Own),
        ] {
            let stamp = Stamp::new(epoch, 9);
            let stored = Some(Stored { stamp, is_own });
            assert_eq!(base(stored, first(since)), is, "{stored:?}");
        }
        assert_eq!(base(None, first(since)), Base::Foreign);
        assert_eq!(needs(Base::Foreign, 9, false), Needs::Image);
        assert_eq!(needs(Base::Foreign, 9, true), Needs::Image);
        assert_eq!(needs(Base::Foreign, 0, true), Needs::Image);
        assert_eq!(needs(Base::Foreign, 0, false), Needs::Nothing);
        assert_eq!(needs(Base::Own, 9, true), Needs::Change);
        assert_eq!(needs(Base::Own, 9, false), Needs::Nothing);
    }

    #[test]
    fn a_later_epoch_or_another_process_at_this_one_shows_that_the_ring_went_back() {
        let [old, owner, later] = epochs();
        let shows = |epoch, seq, is_own, next| {
            let stamp = Stamp::new(epoch, seq);
            shows_regression(Stored { stamp, is_own }, owner, next)
        };
        let next = Stamp::new(owner, 7);
        assert!(shows(later, 0, true, next) && shows(later, 0, false, next));
        assert!(shows(owner, 3, false, next), "the epoch was given twice");
        assert!(!shows(owner, 3, true, next));
        assert!(!shows(old, 3, false, next));
        let many = Stamp::new(later, 5);
        assert!(!shows(later, 4, true, many), "its own, one of very many");
    }

    #[test]
    fn only_what_was_admitted_in_this_ownership_is_acknowledged_and_only_with_a_lease() {
        let [old, since, current] = epochs();
        let in_force = Some(InForce { since, current });
        assert!(may_acknowledge(since, in_force, true));
        assert!(may_acknowledge(current, in_force, true));
        assert!(!may_acknowledge(old, in_force, true));
        assert!(!may_acknowledge(current, in_force, false));
        assert!(!may_acknowledge(current, None, true));
        let before = Some(InForce {
            since: old,
            current: since,
        });
        assert!(!may_acknowledge(current, before, true));
    }
}
