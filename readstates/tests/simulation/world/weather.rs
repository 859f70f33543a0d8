//! What works and what does not: links, the ring, the database, clocks.

use std::{collections::BTreeSet, ops::Range};

use readstates_ring::Incarnation;

use super::{Process, World};

impl World {
    pub(crate) fn is_calm(&self) -> bool {
        self.state(|state| state.calm)
    }

    pub(crate) fn calm_down(&self) {
        self.state(|state| {
            state.calm = true;
            state.broken.clear();
            state.cut_off.clear();
            state.blind.clear();
            (state.ring_away, state.ring_slow) = (false, false);
            state.database_away = false;
        });
    }

    pub(crate) fn break_link(&self, from: Incarnation, to: Incarnation, broken: bool) {
        self.state(|state| match broken {
            true => state.broken.insert((from, to)),
            false => state.broken.remove(&(from, to)),
        });
    }

    pub(crate) fn is_broken(&self, from: Incarnation, to: Incarnation) -> bool {
        self.state(|state| state.broken.contains(&(from, to)))
    }

    pub(crate) fn cut_off(&self, who: Incarnation, off: bool) {
        self.state(|state| match off {
            true => state.cut_off.insert(who),
            false => state.cut_off.remove(&who),
        });
    }

    pub(crate) fn is_cut_off(&self, who: Incarnation) -> bool {
        self.state(|state| state.ring_away || state.cut_off.contains(&who))
    }

    /// Whether the ring is there for this process when it is there at all.
    pub(crate) fn reaches_the_ring(&self, who: &Process) -> bool {
        self.state(|state| !state.cut_off.contains(&who.life.incarnation))
    }

    /// A process goes on with its lease, and does not hear what the ring says.
    pub(crate) fn blind(&self, who: Incarnation, blind: bool) {
        self.state(|state| match blind {
            true => state.blind.insert(who),
            false => state.blind.remove(&who),
        });
    }

    pub(crate) fn is_blind(&self, who: Incarnation) -> bool {
        self.state(|state| state.blind.contains(&who))
    }

    /// A process gets too little of its processor: what comes and goes is late again and again, by so many milliseconds.
    pub(crate) fn starve(&self, who: Incarnation, late_by: Range<u64>) {
        self.state(|state| state.starved.insert(who, late_by));
    }

    /// No process is starved any more.
    pub(crate) fn feed_all(&self) {
        self.state(|state| state.starved.clear());
    }

    /// By how many milliseconds messages of a process are late.
    pub(crate) fn late_by(&self, who: Incarnation) -> Option<Range<u64>> {
        self.state(|state| state.starved.get(&who).cloned())
    }

    /// Whether a process can not reach the ring that others may reach.
    pub(crate) fn is_anybody_cut_off(&self) -> bool {
        self.state(|state| !state.cut_off.is_empty())
    }

    /// Whether the owners that have a process as their backup live all, and one of them cannot reach the ring.
    pub(crate) fn backs_one_that_is_cut_off(&self, who: Incarnation) -> bool {
        let Some(table) = self.table() else {
            return false;
        };
        let backed = table.configs().filter(|(_, it)| it.backup() == Some(who));
        let owners: BTreeSet<Incarnation> = backed.map(|(_, it)| it.owner()).collect();
        owners.iter().all(|&owner| self.find(owner).is_some())
            && self.state(|state| owners.iter().any(|owner| state.cut_off.contains(owner)))
    }

    pub(crate) fn set_ring_away(&self, away: bool) {
        self.state(|state| state.ring_away = away);
    }

    pub(crate) fn set_ring_slow(&self, slow: bool) {
        self.state(|state| state.ring_slow = slow);
    }

    /// Milliseconds that the ring takes in each direction, less than.
    pub(crate) fn ring_takes(&self) -> u64 {
        self.state(|state| if state.ring_slow { 900 } else { 15 })
    }

    /// In every third seed some clocks are wrong.
    pub(crate) fn has_wrong_clocks(&self) -> bool {
        self.seed.is_multiple_of(3)
    }

    /// In three of four seeds the ring may be restored from seconds ago, or be deleted.
    pub(crate) fn has_restores(&self) -> bool {
        // A slot with a backup is not protected against them (R16).
        !self.seed.is_multiple_of(4) && !self.backed
    }

    pub(crate) fn set_database_away(&self, away: bool) {
        self.state(|state| state.database_away = away);
    }

    pub(crate) fn lose_answers(&self, lost: bool) {
        self.state(|state| state.answers_lost = lost);
    }

    pub(crate) fn are_answers_lost(&self) -> bool {
        self.state(|state| state.answers_lost)
    }

    pub(crate) fn is_database_away(&self) -> bool {
        self.state(|state| state.database_away)
    }
}
