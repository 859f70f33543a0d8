//! Who is served from the service: a stable share of the users, and of these who is proven to be the same in both.

use std::collections::HashSet;

use parking_lot::Mutex;
use readstates_api::Id;

use super::writes::mix;
use crate::config::Percent;

/// Another one than for buckets and slots, so that a share has users of all of them.
const SALT: u64 = 0x5eed_0f5a_4e00_0001;
/// Some tens of bytes each.
const MOST_PROVEN: usize = 1_000_000;

/// A share of the users. A larger one has all users of a smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share(Percent);

impl Share {
    pub(super) fn new(percent: Percent) -> Self {
        Self(percent)
    }

    /// Whether it has no users at all.
    pub(super) fn is_nobody(self) -> bool {
        self.0.thousandths() == 0
    }

    /// Whether a user is in it.
    pub(super) fn has(self, user: Id) -> bool {
        let lot = mix(user.get() ^ SALT) % u64::from(Percent::ALL);
        lot < u64::from(self.0.thousandths())
    }
}

/// Users of whom a comparison has shown that the service has what the old system has, and of whom each write since has
/// reached the service. Nobody is at the start, so that what a process did not see costs nobody a wrong answer.
#[derive(Debug, Default)]
pub(super) struct Proven {
    users: Mutex<HashSet<Id>>,
}

impl Proven {
    pub(super) fn has(&self, user: Id) -> bool {
        self.users.lock().contains(&user)
    }

    pub(super) fn count(&self) -> usize {
        self.users.lock().len()
    }

    /// A write of the user may not have reached the service. To be called while it is under way.
    pub(super) fn remove(&self, user: Id) -> bool {
        self.users.lock().remove(&user)
    }

    /// A write of somebody who is not known may not have reached the service.
    pub(super) fn clear(&self) {
        self.users.lock().clear();
    }

    /// Both systems have the same of the user, if `still` no write has begun since: asked while no other thread can
    /// remove the user.
    pub(super) fn prove(&self, user: Id, still: impl FnOnce() -> bool) {
        let mut users = self.users.lock();
        if !still() || users.contains(&user) {
            return;
        }
        if users.len() >= MOST_PROVEN
            && let Some(other) = users.iter().next().copied()
        {
            users.remove(&other);
        }
        users.insert(user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str) -> Share {
        Share::new(text.parse().unwrap())
    }

    #[test]
    fn a_larger_share_only_adds_users() {
        let users: Vec<Id> = (1..=20_000).filter_map(Id::new).collect();
        let of = |percent: &str| {
            let share = share(percent);
            let has = users.iter().copied().filter(move |&user| share.has(user));
            has.collect::<HashSet<Id>>()
        };
        let (none, one, ten, all) = (of("0"), of("1"), of("10.5"), of("100"));
        assert!(none.is_empty() && all.len() == users.len());
        assert!((100..300).contains(&one.len()), "{}", one.len());
        assert!((1900..2300).contains(&ten.len()), "{}", ten.len());
        assert!(one.is_subset(&ten));
    }

    #[test]
    fn a_user_is_proven_until_a_write_may_be_missing() {
        let (proven, user) = (Proven::default(), Id::new(42).unwrap());
        proven.prove(user, || false);
        assert!(!proven.has(user));
        proven.prove(user, || true);
        assert!(proven.has(user) && proven.count() == 1);
        assert!(proven.remove(user) && !proven.remove(user));
        proven.prove(user, || true);
        proven.clear();
        assert!(!proven.has(user));
    }
}
