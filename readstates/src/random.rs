//! Random numbers for jitter, and numbers that should not repeat.
//!
//! Every process draws its own: they follow from its incarnation, which is drawn from the system. Of a
//! process that is run again with the same incarnation, as by a test, all numbers are the same.

use std::sync::atomic::{AtomicU64, Ordering};

use readstates_ring::slot::mix64;

/// The step of splitmix64: odd, so that every number comes once before the first comes again.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of random numbers (splitmix64). None of them is a secret.
#[derive(Debug)]
pub struct Random(AtomicU64);

impl Random {
    /// The random numbers of a process.
    #[must_use]
    pub fn of(incarnation: u64) -> Self {
        Self(AtomicU64::new(incarnation))
    }

    /// 64 bits.
    pub fn bits(&self) -> u64 {
        let before = self.0.fetch_add(STEP, Ordering::Relaxed);
        mix64(before.wrapping_add(STEP))
    }

    /// From 0 to 1, 1 excluded.
    pub fn share(&self) -> f64 {
        // As many bits as a number of this type has.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_incarnation_draws_the_same_and_another_one_draws_others() {
        let draw = |incarnation| {
            let random = Random::of(incarnation);
            (0..1000).map(|_| random.share()).collect::<Vec<_>>()
        };
        let drawn = draw(7);
        assert_eq!(drawn, draw(7));
        assert_ne!(drawn, draw(8));
        assert!(drawn.iter().all(|share| (0.0..1.0).contains(share)));
        let mean = drawn.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }

    #[test]
    fn the_first_numbers_are_those_of_splitmix64() {
        // From the reference implementation, seed 1234567.
        let random = Random::of(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }
}
