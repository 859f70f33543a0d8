//! Ids: users that no other test and no earlier run has used, and a channel for all of them.

use std::time::{SystemTime, UNIX_EPOCH};

/// A channel; every user has read states of their own in it.
pub const CHANNEL: u64 = 81_384_788_765_712_384;
/// A message in it; later ones have higher ids.
pub const MESSAGE: u64 = 1_175_928_847_299_117_063;

/// Low bits of an id that count within one test.
const COUNT_BITS: u32 = 20;

/// A source of new user ids.
#[derive(Debug)]
pub struct Users {
    next: u64,
}

impl Users {
    /// Begins where no test has been: ids carry the time of this call.
    #[must_use]
    pub fn fresh() -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        Self {
            next: millis << COUNT_BITS,
        }
    }

    /// The next `count` ids.
    pub fn take(&mut self, count: u64) -> Vec<u64> {
        let first = self.next;
        self.next += count;
        (first..self.next).collect()
    }

    pub fn one(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}
