//! The circuits of a database: one for the whole and one for each of its parts.
//!
//! A part that does not answer is asked by one probe at a time; the others are not affected. The whole counts as
//! away only when most of the parts that were asked have failed and none has answered since: a few that keep failing
//! do not open it.
//!
//! Pure: the clock and the dice are arguments.

use std::time::Instant;

use super::circuit::{Admission, Circuit};
use crate::store::{PARTS, Part};

/// One way to the database: its loads, or its writes.
#[derive(Debug)]
pub struct Circuits {
    whole: Circuit,
    parts: [Circuit; PARTS],
    /// A bit for each part that was ever asked.
    asked: u64,
    /// A bit for each part that has failed since anything succeeded.
    failing: u64,
}

impl Default for Circuits {
    fn default() -> Self {
        Self {
            whole: Circuit::default(),
            parts: std::array::from_fn(|_| Circuit::default()),
            asked: 0,
            failing: 0,
        }
    }
}

impl Circuits {
    /// How many requests may go to the database, whatever their part.
    #[must_use]
    pub fn admits_any(&self, now: Instant) -> Admission {
        self.whole.admits(now)
    }

    /// How many requests may go to this part.
    #[must_use]
    pub fn admits(&self, part: Part, now: Instant) -> Admission {
        match (self.whole.admits(now), self.parts[part.index()].admits(now)) {
            (Admission::None, _) | (_, Admission::None) => Admission::None,
            (Admission::One, _) | (_, Admission::One) => Admission::One,
            (Admission::All, Admission::All) => Admission::All,
        }
    }

    /// Lets a request to this part through, or not. One that was let through must end in [`Circuits::ended`].
    pub fn enter(&mut self, part: Part, now: Instant) -> bool {
        self.admits(part, now) != Admission::None
            && self.whole.enter(now)
            && self.parts[part.index()].enter(now)
    }

    /// Books the end of a request that was let through; `dice` is from 0 to 1.
    pub fn ended(&mut self, part: Part, succeeded: bool, now: Instant, dice: f64) {
        let bit = 1 << part.index();
        self.asked |= bit;
        if succeeded {
            self.failing = 0;
            if self.whole.is_open() {
                // What failed while all was away may be back as well.
                self.parts
                    .iter_mut()
                    .for_each(|circuit| circuit.probe_now(now));
            }
            self.whole.ended(true, now, dice);
        } else {
            self.failing |= bit;
            let most = self.failing.count_ones() * 2 > self.asked.count_ones();
            if most || self.whole.is_open() {
                self.whole.ended(false, now, dice);
            }
        }
        self.parts[part.index()].ended(succeeded, now, dice);
    }

    /// Books that one has not ended in a time in which others have: says something of its part, and nothing of the
    /// whole. Where there is only one part, those others were of it.
    pub fn stalled(&mut self, part: Part, now: Instant, dice: f64) {
        if self.has_parts() {
            self.parts[part.index()].ended(false, now, dice);
        }
    }

    /// Lets probes through now, one for each part, for a caller that waits for the database.
    pub fn probe_now(&mut self, now: Instant) {
        self.whole.probe_now(now);
        self.parts
            .iter_mut()
            .for_each(|circuit| circuit.probe_now(now));
    }

    /// Whether the database is away as a whole, as far as is known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.whole.is_open()
    }

    /// Whether this part, or the whole, is away, and was found so at `since` or later.
    #[must_use]
    pub fn is_open_since(&self, part: Part, since: Instant) -> bool {
        self.whole.is_open_since(since) || self.parts[part.index()].is_open_since(since)
    }

    /// Whether this part is away, as far as is known.
    #[must_use]
    pub fn part_is_open(&self, part: Part) -> bool {
        self.parts[part.index()].is_open()
    }

    /// Whether more than one part was ever asked.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.asked.count_ones() > 1
    }

    /// How many parts are away.
    #[must_use]
    pub fn open_parts(&self) -> usize {
        self.parts
            .iter()
            .filter(|circuit| circuit.is_open())
            .count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn part(number: u64) -> Part {
        Part::new(number)
    }

    /// Every part has been asked, and answered.
    fn well(now: Instant) -> Circuits {
        let mut circuits = Circuits::default();
        for number in 0..PARTS as u64 {
            assert!(circuits.enter(part(number), now));
            circuits.ended(part(number), true, now, 0.0);
        }
        circuits
    }

    #[test]
    fn parts_that_fail_one_after_the_other_leave_the_whole_and_the_others_alone() {
        let now = Instant::now();
        let mut circuits = well(now);
        for attempt in 0..1000 {
            circuits.ended(part(attempt % 20), false, now, 0.0);
        }
        assert!(!circuits.is_open());
        assert_eq!(circuits.open_parts(), 20);
        assert_eq!(circuits.admits(part(19), now), Admission::None);
        assert_eq!(circuits.admits(part(20), now), Admission::All);
        assert!(circuits.is_open_since(part(3), now));
        assert!(!circuits.is_open_since(part(30), now));
    }

    #[test]
    fn the_whole_is_away_when_most_parts_fail_and_nothing_succeeds() {
        let now = Instant::now();
        let mut circuits = well(now);
        let mut failures = 0;
        while !circuits.is_open() {
            circuits.ended(part(failures * 7), false, now, 0.0);
            failures += 1;
        }
        assert!((33..64).contains(&failures), "{failures} failures");
        assert_eq!(circuits.admits(part(63), now), Admission::None);
        // One probe at a time, whichever part it is of; what it finds is true of all.
        let later = now + Duration::from_secs(1);
        assert!(circuits.enter(part(63), later));
        assert!(!circuits.enter(part(62), later));
        circuits.ended(part(63), true, later, 0.0);
        assert!(!circuits.is_open());
        assert_eq!(circuits.admits(part(62), later), Admission::All);
    }

    #[test]
    fn of_a_database_of_one_part_the_part_is_the_whole() {
        let now = Instant::now();
        let mut circuits = Circuits::default();
        for _ in 0..16 {
            assert!(circuits.enter(part(0), now));
            circuits.ended(part(0), false, now, 0.0);
        }
        assert!(circuits.is_open());
        assert!(!circuits.enter(part(0), now));
        circuits.probe_now(now);
        assert!(circuits.enter(part(0), now));
        circuits.ended(part(0), true, now, 0.0);
        assert_eq!(circuits.admits(part(0), now), Admission::All);
    }

    #[test]
    fn what_stalls_closes_its_part_and_the_first_answer_opens_it() {
        let now = Instant::now();
        let mut circuits = well(now);
        for _ in 0..16 {
            circuits.stalled(part(5), now, 0.0);
        }
        assert!(circuits.part_is_open(part(5)) && !circuits.is_open());
        circuits.ended(part(5), true, now, 0.0);
        assert_eq!(circuits.open_parts(), 0);
    }
}
