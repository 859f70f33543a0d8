//! Limits: an atomic compare, and a permit that frees itself.
//!
//! Comes in: how many units the caller wants. Goes out: a permit, or nothing, at once. No caller ever
//! waits here: what is over a limit is refused before it costs anything, and a stampede grows no
//! queue.

use std::{
    fmt,
    ops::Deref,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// How many units may be taken at once.
#[derive(Debug)]
pub struct Limit {
    most: usize,
    used: AtomicUsize,
    refused: AtomicU64,
}

/// Units of a limit, given back when dropped. `L` is a reference to the limit, borrowed or counted.
pub struct Permit<L: Deref<Target = Limit>> {
    limit: L,
    units: usize,
}

impl Limit {
    /// A limit of this many units.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            used: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// How many units there are.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many are taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// How many refusals there were.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether nothing is left: for refusing early, before what a permit is taken for has arrived.
    /// Counts as a refusal.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let full = self.used() >= self.most;
        if full {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        full
    }

    fn add(&self, units: usize) -> bool {
        // Relaxed: the count guards nothing but itself.
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(units).filter(|&used| used <= self.most)
            });
        if taken.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

impl<L: Deref<Target = Limit>> Permit<L> {
    /// Takes this many units, all or none.
    pub fn take(limit: L, units: usize) -> Option<Self> {
        // Made only when it was taken: what is dropped gives back.
        limit.add(units).then(|| Self { limit, units })
    }

    /// Takes more units with the same permit, all or none.
    #[must_use]
    pub fn grow(&mut self, units: usize) -> bool {
        let grown = self.limit.add(units);
        if grown {
            self.units += units;
        }
        grown
    }

    /// Gives back all but this many units; with as many or fewer, nothing.
    pub fn shrink_to(&mut self, units: usize) {
        if let Some(spare) = self.units.checked_sub(units) {
            self.limit.used.fetch_sub(spare, Ordering::Relaxed);
            self.units = units;
        }
    }
}

impl<L: Deref<Target = Limit>> Drop for Permit<L> {
    fn drop(&mut self) {
        self.limit.used.fetch_sub(self.units, Ordering::Relaxed);
    }
}

impl<L: Deref<Target = Limit>> fmt::Debug for Permit<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn as_many_are_let_in_as_may_and_the_next_when_one_has_left() {
        let limit = Limit::new(2);
        let first = Permit::take(&limit, 1).unwrap();
        assert!(!limit.is_full());
        let _second = Permit::take(&limit, 1).unwrap();
        assert!(Permit::take(&limit, 1).is_none());
        assert!(limit.is_full());
        assert_eq!((limit.used(), limit.refused()), (2, 2));
        drop(first);
        assert!(Permit::take(&limit, 1).is_some());
        assert_eq!(limit.used(), 1);
    }

    #[test]
    fn a_limit_of_zero_lets_nobody_in() {
        assert!(Permit::take(&Limit::new(0), 1).is_none());
    }

    #[test]
    fn what_is_not_needed_is_given_back_once() {
        let limit = Limit::new(10);
        let mut permit = Permit::take(&limit, 7).unwrap();
        permit.shrink_to(9);
        assert_eq!(limit.used(), 7);
        permit.shrink_to(3);
        assert_eq!(limit.used(), 3);
        drop(permit);
        assert_eq!(limit.used(), 0);
    }

    #[test]
    fn units_are_taken_all_or_none_and_given_back_together() {
        let limit = Arc::new(Limit::new(10));
        let mut permit = Permit::take(Arc::clone(&limit), 4).unwrap();
        assert!(!permit.grow(7));
        assert!(permit.grow(6));
        assert!(Permit::take(Arc::clone(&limit), usize::MAX).is_none());
        assert_eq!(limit.used(), 10);
        drop(permit);
        assert_eq!(limit.used(), 0);
    }

    #[test]
    fn a_permit_is_given_back_when_its_holder_panics() {
        let limit = Arc::new(Limit::new(1));
        let held = Arc::clone(&limit);
        let holder = std::thread::spawn(move || {
            let _permit = Permit::take(held, 1).unwrap();
            panic!("the holder goes down");
        });
        assert!(holder.join().is_err());
        assert_eq!(limit.used(), 0);
    }

    #[test]
    fn a_stampede_never_takes_more_than_there_is() {
        let limit = Limit::new(7);
        let most_seen = AtomicUsize::new(0);
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..20_000 {
                        let permits = (Permit::take(&limit, 3), Permit::take(&limit, 2));
                        most_seen.fetch_max(limit.used(), Ordering::Relaxed);
                        drop(permits);
                    }
                });
            }
        });
        assert!(most_seen.load(Ordering::Relaxed) <= 7);
        assert_eq!(limit.used(), 0);
    }
}
