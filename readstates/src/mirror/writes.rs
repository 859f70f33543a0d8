//! Writes that are under way: from before the old system is asked until the service has answered.
//!
//! A comparison means something only if no write of its user was under way meanwhile. Users share buckets, so that the
//! memory is fixed: a write of another user of the bucket makes a comparison wait for no reason, and never lets one
//! count that must not.

use std::sync::Arc;

use parking_lot::Mutex;
use readstates_api::Id;

/// Enough that at ten thousand writes a second, of a millisecond each, few comparisons meet one of another user.
pub(super) const BUCKETS: u16 = 4096;

/// The bucket of writes whose users are not known: they count for everybody.
const UNKNOWN: u16 = BUCKETS;

#[derive(Debug, Default)]
pub(super) struct Writes {
    buckets: Vec<Mutex<Bucket>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Bucket {
    begun: u64,
    under_way: u64,
}

/// How many writes there had been while none was under way: of the bucket, and of unknown users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quiet(u64, u64);

/// A write under way, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    writes: Arc<Writes>,
    bucket: u16,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.writes.bucket(self.bucket).lock().under_way -= 1;
    }
}

impl Writes {
    pub(super) fn new() -> Arc<Self> {
        let buckets = (0..=UNKNOWN).map(|_| Mutex::default()).collect();
        Arc::new(Self { buckets })
    }

    /// A write begins in a bucket.
    pub(super) fn begin(self: &Arc<Self>, bucket: u16) -> UnderWay {
        let mut counted = self.bucket(bucket).lock();
        counted.begun += 1;
        counted.under_way += 1;
        UnderWay {
            writes: Arc::clone(self),
            bucket,
        }
    }

    /// A write begins for users who are not known.
    pub(super) fn begin_unknown(self: &Arc<Self>) -> UnderWay {
        self.begin(UNKNOWN)
    }

    /// Whether no write of the user is under way. With the same answer twice, none was in between.
    pub(super) fn quiet(&self, user: Id) -> Option<Quiet> {
        let of = |bucket| *self.bucket(bucket).lock();
        let (theirs, unknown) = (of(bucket_of(user)), of(UNKNOWN));
        let none = theirs.under_way == 0 && unknown.under_way == 0;
        none.then_some(Quiet(theirs.begun, unknown.begun))
    }

    fn bucket(&self, bucket: u16) -> &Mutex<Bucket> {
        &self.buckets[usize::from(bucket)]
    }
}

/// The bucket of a user.
pub(super) fn bucket_of(user: Id) -> u16 {
    (mix(user.get()) % u64::from(BUCKETS)) as u16
}

/// The finalizer of SplitMix64: every bit of the input changes half of those of the output.
pub(super) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_quiet_while_no_write_is_under_way_and_it_shows_that_one_was() {
        let (writes, user) = (Writes::new(), Id::new(42).unwrap());
        let other = (1..)
            .filter_map(Id::new)
            .find(|&id| bucket_of(id) != bucket_of(user));
        let before = writes.quiet(user);
        assert!(before.is_some());
        let one = writes.begin(bucket_of(user));
        let two = writes.begin(bucket_of(user));
        assert!(writes.quiet(other.unwrap()).is_some());
        assert_eq!(writes.quiet(user), None);
        drop(one);
        assert_eq!(writes.quiet(user), None);
        drop(two);
        let after = writes.quiet(user);
        assert!(after.is_some() && after != before);
        assert_eq!(writes.quiet(user), after);
        let unknown = writes.begin_unknown();
        assert_eq!(writes.quiet(user), None);
        drop(unknown);
        assert_ne!(writes.quiet(user), after);
    }
}
