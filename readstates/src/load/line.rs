//! Users that wait for a place at the store, in order of arrival.
//!
//! Pure, and behind one short lock per class. Users that a mention waits for and users that a client
//! waits for stand in lines of their own.

use std::collections::VecDeque;

/// The line of one class.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: VecDeque<u64>,
    /// Loads at the store that hold a place.
    loading: usize,
    /// Loads at the store that have given theirs up.
    stalled: usize,
}

/// The result of entering a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// This user, the first in the line, is loaded now.
    Load(u64),
    Wait,
    /// The line is full; the user is not in it.
    Full,
}

impl Line {
    /// Takes a user into the line, of whom `at_once` may be loaded and `most_waiting` may wait.
    pub(super) fn enter(&mut self, user: u64, at_once: usize, most_waiting: usize) -> Entered {
        if self.loading < at_once {
            self.loading += 1;
            self.waiting.push_back(user);
            // There is one: it was put there.
            return self
                .waiting
                .pop_front()
                .map_or(Entered::Full, Entered::Load);
        }
        if self.waiting.len() >= most_waiting {
            return Entered::Full;
        }
        self.waiting.push_back(user);
        Entered::Wait
    }

    /// The next user, which takes over the place of a load that has ended; `None` gives the place up.
    pub(super) fn next(&mut self, at_once: usize) -> Option<u64> {
        let next = (self.loading <= at_once)
            .then(|| self.waiting.pop_front())
            .flatten();
        if next.is_none() {
            self.leave();
        }
        next
    }

    /// Lets a load go on without a place, unless `most` do already; the caller passes its place on.
    pub(super) fn stalls(&mut self, most: usize) -> bool {
        let may = self.stalled < most;
        self.stalled += usize::from(may);
        may
    }

    /// A load without a place has ended.
    pub(super) fn stalled_ended(&mut self) {
        self.stalled = self.stalled.saturating_sub(1);
    }

    /// A place is given up.
    pub(super) fn leave(&mut self) {
        self.loading = self.loading.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_fly_in_the_order_in_which_they_came() {
        let mut line = Line::default();
        assert_eq!(line.enter(1, 2, 2), Entered::Load(1));
        assert_eq!(line.enter(2, 2, 2), Entered::Load(2));
        assert_eq!(line.enter(3, 2, 2), Entered::Wait);
        assert_eq!(line.enter(4, 2, 2), Entered::Wait);
        assert_eq!(line.enter(5, 2, 2), Entered::Full);
        assert_eq!(line.next(2), Some(3));
        assert_eq!(line.enter(6, 2, 2), Entered::Wait);
        assert_eq!([line.next(2), line.next(2)], [Some(4), Some(6)]);
        assert_eq!([line.next(2), line.next(2)], [None, None]);
        assert_eq!(line.enter(7, 2, 2), Entered::Load(7));
    }

    #[test]
    fn who_stalls_makes_room_for_the_next_and_so_many_may() {
        let mut line = Line::default();
        assert_eq!(line.enter(1, 1, 10), Entered::Load(1));
        for user in 2..=4 {
            assert_eq!(line.enter(user, 1, 10), Entered::Wait);
        }
        assert!(line.stalls(2));
        assert_eq!(line.next(1), Some(2));
        assert!(line.stalls(2));
        assert_eq!(line.next(1), Some(3));
        assert!(!line.stalls(2), "two have");
        line.stalled_ended();
        assert!(line.stalls(2));
        assert_eq!(line.next(1), Some(4));
        assert_eq!(line.next(1), None);
    }

    #[test]
    fn a_limit_that_changes_takes_effect_with_who_comes_and_who_lands_next() {
        let mut line = Line::default();
        for user in 1..=4 {
            line.enter(user, 2, 10);
        }
        assert_eq!(line.enter(5, 3, 10), Entered::Load(3), "the first of them");
        assert_eq!(line.next(1), None, "more are loaded than may be");
        assert_eq!(line.next(1), None);
        assert_eq!(line.next(1), Some(4));
    }
}
