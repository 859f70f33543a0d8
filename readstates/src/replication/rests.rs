//! How long a process that was given up as a backup is left alone, and how late it may answer before it is given up.
//!
//! Comes in: answers and give-ups of other processes, each with the time. Goes out: who may be seeded now, and what
//! lateness to bear from whom. Never here: a clock, a lock, IO.
//!
//! ```text
//!   given up ─▶ rests 1 s ─▶ seeded ─ given up within two minutes ─▶ rests 2 s, 4 s … 128 s
//!                              └─ two minutes without: the next rest is half as long
//! ```
//! Others than the one that was given up are not affected: a slot goes to one of them at once.
//!
//! Each backup that is named and dropped takes two epochs of its slots, of some 17 seconds each. An owner has at most
//! three to choose from. In a time `t` a process is given up at most `8 + t / 120 s` times: eight steps up, and then one
//! for each step down, or for each of the longest rests. Of three that is `805 s + 0.84 t` of epochs: a slot never comes
//! as far ahead of the clock as [`SlotConfig::may_name`](readstates_ring::SlotConfig::may_name) forbids, 900 s.
//!
//! A process that rests still gets heartbeats. Where every one rests and changes are refused without a backup, one that
//! has answered all of them in time for [`PROVEN`] is tried before its rest ends, as long as the epoch of the slot is no
//! further ahead than half of those 900 s ([`SlotConfig::may_try`](readstates_ring::SlotConfig::may_try)): the first
//! thirteen times at once, and then as often as the clock allows, each half a minute.
//!
//! Rests do not help where every process is slow all the time, as on a machine that is overloaded. So what a process
//! has taken to answer lately is borne from it, up to [`MOST_BORNE`].

use std::{collections::BTreeMap, time::Duration};

use readstates_ring::{
    Incarnation,
    replication::{PERMISSION, SLOW},
    slot::mix64,
};

/// The first rest.
const FIRST: Duration = Duration::from_secs(1);
/// Doublings of it: 128 s.
const MOST_DOUBLINGS: u32 = 7;
/// Without a give-up for so long after a rest, the next one is half as long.
const QUIET: Duration = Duration::from_secs(120);
/// A process has answered everything in time for so long: twenty heartbeats.
const PROVEN: Duration = Duration::from_secs(5);
/// Answers are remembered for so long, and at most for twice as long.
const LATELY: Duration = Duration::from_secs(60);
/// A process gets so many times what it took at most to answer lately.
const MARGIN: u32 = 2;
/// The latest answer that is waited for: callers wait as long for what they have changed. Less than one attempt to send
/// a frame may take, and than permissions last.
const MOST_BORNE: Duration = Duration::from_millis(800);
const _: () = assert!(MOST_BORNE.as_millis() < PERMISSION.as_millis());

/// The processes that this one has sent anything to as its backups.
#[derive(Debug)]
pub(super) struct Rests {
    me: Incarnation,
    of: BTreeMap<Incarnation, Known>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Give-ups, less one for each [`QUIET`] between them.
    times: u32,
    /// The end of the last rest.
    until: Duration,
    /// The frame whose lateness was counted last: its stream and its number.
    counted: Option<(u32, u64)>,
    /// The slowest answers of this minute ([`LATELY`]) and of the one before.
    slowest: [Duration; 2],
    minute: u64,
    /// The first answer since which all were in time.
    prompt_since: Option<Duration>,
}

impl Rests {
    pub(super) fn new(me: Incarnation) -> Self {
        let of = BTreeMap::new();
        Self { me, of }
    }

    /// A process is given up that backed something, or was seeded: this frame was late. Each frame counts once. Returns
    /// how long it rests, unless that was counted before.
    pub(super) fn given_up(
        &mut self,
        to: Incarnation,
        frame: (u32, u64),
        now: Duration,
    ) -> Option<Duration> {
        let known = self.of.entry(to).or_default();
        if known.counted.replace(frame) == Some(frame) {
            return None;
        }
        known.times = known.times_at(now) + 1;
        let rest = known.rest(self.me, to);
        known.until = now + rest;
        known.prompt_since = None;
        Some(rest)
    }

    /// A frame to a process was given up: it is not seeded at once. That is no reason for a longer rest, for nothing was
    /// taken from it: one that is late every minute or two would never be a backup again.
    pub(super) fn silent(&mut self, to: Incarnation, now: Duration) {
        let known = self.of.entry(to).or_default();
        known.times = known.times_at(now);
        known.until = known.until.max(now + FIRST);
        known.prompt_since = None;
    }

    /// A process has acknowledged a frame this long after it was sent.
    pub(super) fn answered(&mut self, from: Incarnation, took: Duration, now: Duration) {
        let known = self.of.entry(from).or_default();
        known.slowest = known.slowest_at(now);
        known.minute = minute(now);
        known.slowest[0] = known.slowest[0].max(took);
        known.prompt_since = match took < SLOW {
            true => known.prompt_since.or(Some(now)),
            false => None,
        };
    }

    /// How long a frame to a process may be under way.
    pub(super) fn patience(&self, with: Incarnation, now: Duration) -> Duration {
        let known = self.of.get(&with);
        let [this, before] = known.map_or_else(Default::default, |it| it.slowest_at(now));
        (this.max(before) * MARGIN).clamp(SLOW, MOST_BORNE)
    }

    /// Whether a process may be seeded: it does not rest.
    pub(super) fn may_seed(&self, to: Incarnation, now: Duration) -> bool {
        self.of.get(&to).is_none_or(|known| now >= known.until)
    }

    /// Whether a process may be seeded where no other is left: it does not rest, or has answered in time for a while.
    pub(super) fn may_try(&self, to: Incarnation, now: Duration) -> bool {
        let since = self.of.get(&to).and_then(|known| known.prompt_since);
        self.may_seed(to, now) || since.is_some_and(|since| now >= since + PROVEN)
    }

    /// How long a process still rests.
    pub(super) fn left(&self, to: Incarnation, now: Duration) -> Duration {
        let known = self.of.get(&to);
        known.map_or(Duration::ZERO, |it| it.until.saturating_sub(now))
    }

    /// Forgets what makes no difference any more.
    pub(super) fn forget_old(&mut self, now: Duration) {
        self.of.retain(|_, known| {
            let is_slow = known.slowest_at(now).iter().any(|took| !took.is_zero());
            known.until > now || known.times_at(now) > 0 || is_slow
        });
    }
}

impl Known {
    /// Give-ups that count now.
    fn times_at(&self, now: Duration) -> u32 {
        let quiet = now.saturating_sub(self.until).as_secs() / QUIET.as_secs();
        let times = self.times.min(MOST_DOUBLINGS + 1);
        times.saturating_sub(u32::try_from(quiet).unwrap_or(u32::MAX))
    }

    /// Twice as long each time; and up to a quarter more, which differs: members that had one trouble do not all seed at
    /// the same time.
    fn rest(&self, me: Incarnation, to: Incarnation) -> Duration {
        let doublings = (self.times.max(1) - 1).min(MOST_DOUBLINGS);
        let rest = FIRST * (1 << doublings);
        let drawn = mix64(me.bits() ^ mix64(to.bits() ^ u64::from(self.times)));
        rest + rest / 4 * (drawn % 1024) as u32 / 1024
    }

    fn slowest_at(&self, now: Duration) -> [Duration; 2] {
        match minute(now).saturating_sub(self.minute) {
            0 => self.slowest,
            1 => [Duration::ZERO, self.slowest[0]],
            2.. => Default::default(),
        }
    }
}

fn minute(time: Duration) -> u64 {
    time.as_secs() / LATELY.as_secs()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use readstates_ring::{Epoch, SlotConfig};

    use super::*;

    const ME: Incarnation = Incarnation::new(1);
    const TO: Incarnation = Incarnation::new(2);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn unix(time: Duration) -> i64 {
        1_795_000_000_000_000 + time.as_micros() as i64
    }

    /// The rests of a process that is given up at these times, each frame being another; without what they are longer by.
    fn rests(times: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut rests = Rests::new(ME);
        let frames = times.into_iter().zip(0..);
        let given_up = |(at, frame)| rests.given_up(TO, (0, frame), seconds(at)).unwrap();
        let doublings = |rest: Duration| 1 << rest.as_secs().ilog2();
        frames.map(given_up).map(doublings).collect()
    }

    #[test]
    fn rests_double_up_to_two_minutes_while_give_ups_follow_one_another() {
        let (mut rests, mut now) = (Rests::new(ME), seconds(1000));
        for (frame, least) in (0..).zip([1, 2, 4, 8, 16, 32, 64, 128, 128, 128]) {
            assert!(rests.may_seed(TO, now));
            let rest = rests.given_up(TO, (0, frame), now).unwrap();
            let least = seconds(least);
            assert!(rest >= least && rest <= least * 5 / 4, "{frame}: {rest:?}");
            let nearly = now + rest - Duration::from_nanos(1);
            assert!(!rests.may_seed(TO, nearly));
            assert_eq!(rests.left(TO, now), rest);
            now += rest;
        }
        assert_eq!(rests.left(TO, now), Duration::ZERO);
    }

    #[test]
    fn a_backup_that_stays_for_two_minutes_rests_half_as_long_the_next_time() {
        assert_eq!(rests([0, 10, 20, 30]), [1, 2, 4, 8]);
        assert_eq!(rests([0, 10, 20, 144]), [1, 2, 4, 8], "not quite");
        assert_eq!(rests([0, 10, 20, 150]), [1, 2, 4, 4], "once");
        assert_eq!(rests([0, 10, 20, 270]), [1, 2, 4, 2], "twice");
        assert_eq!(rests([0, 10, 20, 4000]), [1, 2, 4, 1], "all is forgotten");
    }

    #[test]
    fn a_frame_is_counted_once_and_a_process_that_is_silent_meanwhile_rests_no_longer() {
        let mut rests = Rests::new(ME);
        assert!(rests.given_up(TO, (3, 7), seconds(0)).is_some());
        assert_eq!(rests.given_up(TO, (3, 7), seconds(30)), None);
        assert!(rests.may_seed(TO, seconds(30)), "it did not rest anew");
        let rest = rests.given_up(TO, (3, 8), seconds(30)).unwrap();
        rests.silent(TO, seconds(31));
        assert_eq!(rests.left(TO, seconds(31)), rest - seconds(1));
        // Not while it is silent.
        (32..=100).for_each(|at| rests.silent(TO, seconds(at)));
        assert!(!rests.may_seed(TO, seconds(100)));
        assert!(rests.may_seed(TO, seconds(101)));
        let next = rests.given_up(TO, (4, 0), seconds(101)).unwrap();
        assert!(next >= seconds(4) && next <= seconds(5), "{next:?}");
    }

    #[test]
    fn another_process_is_not_affected_and_rests_for_another_time() {
        let (mut rests, other) = (Rests::new(ME), Incarnation::new(3));
        let both = [TO, other].map(|to| rests.given_up(to, (0, 0), seconds(9)).unwrap());
        assert_ne!(both[0], both[1]);
        let mut rests = Rests::new(ME);
        rests.given_up(TO, (0, 0), seconds(9));
        assert!(rests.may_seed(other, seconds(9)));
    }

    #[test]
    fn lateness_that_is_usual_is_borne_for_a_minute_after() {
        let mut rests = Rests::new(ME);
        let millis = Duration::from_millis;
        assert_eq!(rests.patience(TO, seconds(0)), SLOW);
        rests.answered(TO, millis(3), seconds(60));
        assert_eq!(rests.patience(TO, seconds(60)), SLOW);
        rests.answered(TO, millis(250), seconds(61));
        rests.answered(TO, millis(5), seconds(62));
        for at in [61, 119, 120, 179] {
            assert_eq!(rests.patience(TO, seconds(at)), millis(500), "{at}");
        }
        assert_eq!(rests.patience(TO, seconds(180)), SLOW);
        rests.answered(TO, seconds(5), seconds(200));
        assert_eq!(rests.patience(TO, seconds(200)), MOST_BORNE);
        assert_eq!(rests.patience(ME, seconds(200)), SLOW, "of each its own");
    }

    #[test]
    fn one_that_rests_is_tried_where_no_other_is_left_once_it_has_answered_in_time_for_five_seconds()
     {
        let mut rests = Rests::new(ME);
        let millis = Duration::from_millis;
        assert!(rests.may_try(TO, seconds(0)), "it does not rest");
        for (frame, at) in (0..8).zip(1..) {
            rests.given_up(TO, (0, frame), seconds(at));
        }
        assert!(!rests.may_try(TO, seconds(60)), "it says nothing");
        rests.answered(TO, millis(199), seconds(60));
        rests.answered(TO, millis(199), seconds(62));
        assert!(!rests.may_try(TO, millis(64_999)));
        assert!(rests.may_try(TO, seconds(65)));
        assert!(!rests.may_seed(TO, seconds(65)));
        rests.answered(TO, SLOW, seconds(66));
        assert!(!rests.may_try(TO, seconds(66)), "an answer was late");
        rests.answered(TO, millis(1), seconds(67));
        rests.silent(TO, seconds(70));
        assert!(!rests.may_try(TO, seconds(72)), "there was none");
        rests.answered(TO, millis(1), seconds(72));
        rests.given_up(TO, (1, 0), seconds(77));
        assert!(!rests.may_try(TO, seconds(77)), "it was given up again");
    }

    #[test]
    fn what_is_forgotten_makes_no_difference() {
        let mut rests = Rests::new(ME);
        rests.given_up(TO, (0, 0), seconds(0));
        rests.answered(TO, SLOW, seconds(0));
        rests.forget_old(seconds(120));
        assert!(rests.of.contains_key(&TO), "the next rest is longer");
        rests.forget_old(seconds(300));
        assert!(rests.of.is_empty());
    }

    proptest! {
        /// A slot gets a backup as soon as rests allow it, or one that rests is tried, and loses it sooner or later; with
        /// as many to choose from as an owner has.
        #[test]
        fn backups_that_come_and_go_never_use_up_the_epochs_of_a_quarter_of_an_hour(
            rounds in (1_u64..150).prop_flat_map(|most| {
                prop::collection::vec((0..most, any::<bool>()), 1..150)
            }),
        ) {
            let backups = [2, 3, 4].map(Incarnation::new);
            let (mut rests, mut now) = (Rests::new(ME), seconds(0));
            let (mut epoch, mut frame) = (Epoch::mint(None, unix(now)), 0);
            for (stays, is_prompt) in rounds {
                // The slot goes to the first one that may be seeded.
                let to = loop {
                    let all = || backups.iter().copied();
                    let rested = all().find(|&to| rests.may_seed(to, now));
                    let tried = || all().find(|&to| rests.may_try(to, now));
                    let may_try = SlotConfig::may_try(epoch, unix(now));
                    match rested.or_else(|| tried().filter(|_| may_try)) {
                        Some(to) => break to,
                        None => now += Duration::from_millis(200),
                    }
                    for to in all().filter(|_| is_prompt) {
                        rests.answered(to, Duration::from_millis(3), now);
                    }
                };
                now += seconds(stays);
                prop_assert!(SlotConfig::may_name(epoch, unix(now)), "{epoch:?} at {now:?}");
                let named = Epoch::mint(Some(epoch), unix(now));
                epoch = Epoch::mint(Some(named), unix(now));
                rests.given_up(to, (0, frame), now);
                frame += 1;
            }
        }
    }
}
