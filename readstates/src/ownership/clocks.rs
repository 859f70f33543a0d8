//! Whether this process's clock can be believed, by the other members' clocks and the store's.
//!
//! Epochs are minted from the clock, and a slot that a clock hours ahead has minted cannot be moved for hours. So a
//! process takes nothing while its clock is contradicted, or not compared yet; what it must mint anyway (a new epoch
//! for slots that it owns) it mints from the time that the others agree on.

use std::time::Instant;

use readstates_ring::Now;

use super::Ownership;
use crate::clock;

/// The most that two clocks may be apart, in microseconds: a minute. Clocks that are kept by NTP are apart by
/// milliseconds; another member's is known to within the time between two looks, some seconds.
pub(super) const MOST_APART: i64 = 60_000_000;

/// What is known of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There are members whose clocks are not known yet.
    Unheard,
    /// A member or the store confirms this clock, or there is none to compare it with.
    Right,
    /// All that it can be compared with contradict it. It is so many microseconds ahead of them, or behind when
    /// negative.
    Wrong { ahead: i64 },
}

/// How far the clocks of others are ahead of this one, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// Live members.
    pub(super) members: Vec<i64>,
    pub(super) store: Option<i64>,
    /// Whether there are live members that tell their time and were not compared with yet.
    pub(super) unheard: bool,
}

impl Others {
    /// One witness is enough: the median of the members, or the store. With two members and no store that tells the
    /// time, there is no telling which is right; then neither is believed.
    pub(super) fn judge(mut self) -> Verdict {
        self.members.sort_unstable();
        let apart = match self.members.len() {
            0 => None,
            // Of an even number both in the middle count, and everything between them.
            count => Some(outside(
                self.members[(count - 1) / 2],
                self.members[count / 2],
            )),
        };
        let witnesses = [apart, self.store];
        let confirms = |apart: i64| apart.saturating_abs() <= MOST_APART;
        if witnesses.into_iter().flatten().any(confirms) {
            return Verdict::Right;
        }
        // All members see the same store's time.
        match self.store.or(apart) {
            Some(apart) if !self.unheard || self.store.is_some() => Verdict::Wrong {
                ahead: apart.saturating_neg(),
            },
            None if !self.unheard => Verdict::Right,
            Some(_) | None => Verdict::Unheard,
        }
    }
}

/// How far 0 is from the span between two numbers.
fn outside(low: i64, high: i64) -> i64 {
    0.clamp(low, high)
}

/// The time as it was when this clock was last compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checked {
    /// When that was.
    pub(super) at: Instant,
    /// Unix time in microseconds then, as others agree.
    pub(super) micros: i64,
    pub(super) verdict: Verdict,
    /// The store's time then, where it tells it and others do not agree with it.
    pub(super) disputed: Option<i64>,
}

impl Checked {
    /// What time it may be. Members that agree may all be wrong, and so may the store: there is no telling which.
    pub(super) fn now(self, now: Instant, own_micros: i64) -> Now {
        let agreed = self.mint(now, own_micros);
        let since = now.saturating_duration_since(self.at).as_micros();
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let store = self.disputed.map(|store| store.saturating_add(since));
        Now {
            earliest: store.map_or(agreed, |store| store.min(agreed)),
            latest: store.map_or(agreed, |store| store.max(agreed)),
        }
    }

    /// The time to mint from: this clock's, unless it has been set by more than a minute since, or is wrong.
    pub(super) fn mint(self, now: Instant, own_micros: i64) -> i64 {
        let since = now.saturating_duration_since(self.at).as_micros();
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let expected = self.micros.saturating_add(since);
        if own_micros.saturating_sub(expected).saturating_abs() <= MOST_APART {
            own_micros
        } else {
            expected
        }
    }
}

impl Ownership {
    /// Compares this process's clock, and says so when it has become wrong or right.
    pub(super) fn check_clock(&self, others: Others, at: Instant, own_micros: i64) {
        let store = others.store;
        let verdict = others.judge();
        let micros = match verdict {
            Verdict::Wrong { ahead } => own_micros.saturating_sub(ahead),
            Verdict::Right | Verdict::Unheard => own_micros,
        };
        let mut checked = self.checked.lock();
        let before = checked.map(|checked| checked.verdict);
        let was_wrong = matches!(before, Some(Verdict::Wrong { .. }));
        match verdict {
            // What was agreed on is better than nothing.
            Verdict::Unheard if checked.is_some() => return,
            Verdict::Wrong { ahead } if !was_wrong => tracing::error!(
                ahead_seconds = ahead as f64 / 1e6,
                "ClockWrong: this machine's clock differs from the other members' and from the ring store's: no slots \
                 are taken here until it is set"
            ),
            Verdict::Right if was_wrong => {
                tracing::info!("this machine's clock is right again: slots are taken here");
            }
            Verdict::Wrong { .. } | Verdict::Right | Verdict::Unheard => {}
        }
        let store = store.map(|apart| own_micros.saturating_add(apart));
        let is_apart = |store: &i64| store.saturating_sub(micros).saturating_abs() > MOST_APART;
        let disputed = store.filter(is_apart);
        let was_disputed = checked.is_some_and(|checked| checked.disputed.is_some());
        if let Some(store) = disputed.filter(|_| !was_disputed) {
            tracing::error!(
                store_ahead_seconds = store.saturating_sub(micros) as f64 / 1e6,
                "ClockDisputed: the members' clocks agree, and the ring store's contradicts them all: epochs are minted \
                 from the earlier time. Find out which is wrong: the machines' clocks or the API server's"
            );
        }
        *checked = Some(Checked {
            at,
            micros,
            verdict,
            disputed,
        });
    }

    /// What is known of this process's clock.
    pub(super) fn clock_verdict(&self) -> Verdict {
        self.checked
            .lock()
            .map_or(Verdict::Unheard, |checked| checked.verdict)
    }

    /// The time to mint epochs from.
    pub(super) fn mint_time(&self) -> Now {
        let own = self.config.unix_clock.micros();
        let checked = *self.checked.lock();
        checked.map_or(own.into(), |checked| checked.now(clock::now(), own))
    }

    /// How many seconds the store's time is ahead of the one that the members agree on, while that is disputed.
    pub(super) fn store_ahead_seconds(&self) -> f64 {
        let checked = *self.checked.lock();
        let apart = checked.and_then(|it| Some(it.disputed?.saturating_sub(it.micros)));
        apart.unwrap_or(0) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn judge(members: &[i64], store: Option<i64>) -> Verdict {
        let members = members.to_vec();
        let unheard = false;
        Others {
            members,
            store,
            unheard,
        }
        .judge()
    }

    #[test]
    fn a_clock_is_right_when_somebody_confirms_it_or_nobody_is_there() {
        let second = 1_000_000;
        for (members, store) in [
            (&[][..], None),
            (&[], Some(30 * second)),
            (&[-50 * second], None),
            (&[0, 2 * HOUR], None),
            (&[-2 * HOUR, 0], None),
            (&[0, 0, 2 * HOUR], None),
            // One of two is wrong, and the store knows which.
            (&[2 * HOUR], Some(0)),
            // The store is wrong, and the members agree.
            (&[0, 0], Some(24 * HOUR)),
        ] {
            assert_eq!(
                judge(members, store),
                Verdict::Right,
                "{members:?} {store:?}"
            );
        }
    }

    #[test]
    fn a_clock_is_wrong_when_everybody_contradicts_and_by_how_much_is_known() {
        let wrong = |ahead| Verdict::Wrong { ahead };
        assert_eq!(judge(&[-2 * HOUR; 3], None), wrong(2 * HOUR));
        assert_eq!(judge(&[], Some(72 * HOUR)), wrong(-72 * HOUR));
        assert_eq!(judge(&[-HOUR, -2 * HOUR], None), wrong(HOUR));
        assert_eq!(judge(&[2 * HOUR], None), wrong(-2 * HOUR), "one of the two");
        assert_eq!(judge(&[-HOUR], Some(-2 * HOUR)), wrong(2 * HOUR));
        assert_eq!(judge(&[-61_000_000], None), wrong(61_000_000));
    }

    #[test]
    fn whoever_was_not_heard_yet_is_waited_for() {
        let unheard = |members: &[i64], store| Others {
            members: members.to_vec(),
            store,
            unheard: true,
        };
        assert_eq!(unheard(&[], None).judge(), Verdict::Unheard);
        assert_eq!(unheard(&[-HOUR], None).judge(), Verdict::Unheard);
        assert_eq!(unheard(&[], Some(0)).judge(), Verdict::Right);
        assert_eq!(unheard(&[0], None).judge(), Verdict::Right);
        let ahead = HOUR;
        assert_eq!(unheard(&[], Some(-HOUR)).judge(), Verdict::Wrong { ahead });
    }

    #[test]
    fn epochs_are_minted_from_the_time_that_was_agreed_on_when_the_clock_was_set_since() {
        let at = Instant::now();
        let checked = |micros, verdict| Checked {
            at,
            micros,
            verdict,
            disputed: None,
        };
        let (later, minute) = (at + Duration::from_secs(60), MOST_APART);
        let right = checked(HOUR, Verdict::Right);
        assert_eq!(right.mint(later, HOUR + minute + 5), HOUR + minute + 5);
        assert_eq!(right.mint(later, 3 * HOUR), HOUR + minute);
        assert_eq!(right.mint(later, 0), HOUR + minute);
        let wrong = checked(HOUR, Verdict::Wrong { ahead: 2 * HOUR });
        assert_eq!(wrong.mint(later, 3 * HOUR + minute), HOUR + minute);
    }

    #[test]
    fn where_the_store_contradicts_members_that_agree_both_times_count() {
        let at = Instant::now();
        let checked = |disputed| Checked {
            at,
            micros: 72 * HOUR,
            verdict: Verdict::Right,
            disputed,
        };
        let later = at + Duration::from_secs(60);
        let time = 72 * HOUR + MOST_APART;
        assert_eq!(checked(None).now(later, time), time.into());
        let of_store = |hours| checked(Some(hours * HOUR)).now(later, time);
        let (earliest, latest) = (HOUR + MOST_APART, time);
        assert_eq!(of_store(1), Now { earliest, latest });
        let (earliest, latest) = (time, 100 * HOUR + MOST_APART);
        assert_eq!(of_store(100), Now { earliest, latest });
    }
}
