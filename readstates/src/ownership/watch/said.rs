//! What other members have said of the ring: the lines that they have seen, and the epochs that they know.
//!
//! The living members are asked before taken slots are served. The last words of the dead ones tell of takes and epochs
//! that a ring store has forgotten since.

use std::time::Instant;

use readstates_ring::{Epoch, Incarnation, Line, RingTable};

use super::{Seen, Watch};
use crate::ownership::store::Presence;

/// By so many epochs a dead process may have gone on since its last word: a slot changes hands less often within the
/// time of a lease.
const UNSAID: i64 = 8;

impl Watch {
    /// The living members that tell which takes they have seen and have not said that they agree with this line.
    pub(in crate::ownership) fn not_on(&self, line: Line, now: Instant) -> Vec<Incarnation> {
        let says_otherwise = |seen: &Seen| match &seen.presence {
            // The release before says no line: it is not waited for.
            Some(presence) => presence.line.is_some_and(|said| said != line),
            None => true,
        };
        let seen = self.seen.iter().filter(|&(&incarnation, seen)| {
            incarnation != self.me && !self.is_dead(incarnation, now) && says_otherwise(seen)
        });
        let mut others: Vec<Incarnation> = seen.map(|(&incarnation, _)| incarnation).collect();
        others.sort_unstable();
        others
    }

    /// The highest epoch that dead processes can have known; `None` when they have said none.
    pub(in crate::ownership) fn highest_of_the_dead(&self, now: Instant) -> Option<Epoch> {
        self.dead(now).filter_map(Seen::highest_epoch).max()
    }

    /// The highest epoch that any process can have known, including this one.
    pub(in crate::ownership) fn highest_of_all(&self) -> Option<Epoch> {
        self.seen.values().filter_map(Seen::highest_epoch).max()
    }

    /// The dead processes that have said a line that this ring was never on: they have seen takes that it has
    /// forgotten.
    pub(in crate::ownership) fn dead_not_on(
        &self,
        table: &RingTable,
        now: Instant,
    ) -> Vec<Incarnation> {
        let knew_other = |presence: &&Presence| {
            let line = presence.line.filter(|&line| line != Line::NONE);
            line.is_some_and(|line| !table.was_on(line))
        };
        let dead = self.dead(now).filter_map(|seen| seen.presence.as_ref());
        let mut dead: Vec<Incarnation> = dead
            .filter(knew_other)
            .map(|presence| presence.incarnation)
            .collect();
        dead.sort_unstable();
        dead
    }

    fn dead(&self, now: Instant) -> impl Iterator<Item = &Seen> {
        let seen = self.seen.iter();
        seen.filter(move |&(&incarnation, _)| self.is_dead(incarnation, now))
            .map(|(_, seen)| seen)
    }
}

impl Seen {
    /// The highest epoch that it has said, or can have been given since.
    fn highest_epoch(&self) -> Option<Epoch> {
        let presence = self.presence.as_ref()?;
        let said = Epoch::new(presence.epoch?)?;
        let unsaid = if presence.gone { 0 } else { UNSAID };
        Epoch::new(said.number() + unsaid)
    }
}
