//! Who is there, who is leaving, and who is dead, as one member sees it. Pure.
//!
//! A process is dead when it said so itself (`gone`), or when nothing new was heard of it for longer
//! than its lease can last, by the clock of whoever watches. Nothing that somebody else saw counts.
//!
//! Silence counts only while looking works. A store that is away, slow, or takes no renewals lets everybody be silent
//! and makes nobody dead: the time in which it was so moves everybody's last word forward.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use readstates_ring::{Epoch, Incarnation, Line, RingTable, moves::Live, planner::Candidate};

use super::{clocks::Others, store::Presence};

/// Up to so many processes everybody looks as often as it may.
const FEW: usize = 16;
/// With more of them looks are further apart, so that what the store is asked for grows with their number
/// and not with its square; up to so many times.
const MOST_SPREAD: f64 = 4.0;
/// Another member's clock is compared when it spoke since a look that is at most so long ago: by so much its clock
/// can look behind.
const LONGEST_COMPARED: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Watch {
    me: Incarnation,
    dead_after: Duration,
    /// When the last look was answered.
    looked: Option<Instant>,
    /// How long the next look was put off.
    pause: Duration,
    /// A look or a renewal has failed since the last look that was answered.
    blind: bool,
    /// For how long something has failed between each two looks.
    blind_for: Duration,
    /// The last renewal of this process has failed: those of others may fail as well.
    mute: bool,
    seen: HashMap<Incarnation, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// `None`: it is in the ring, and nowhere else.
    presence: Option<Presence>,
    /// When something new was heard of it.
    since: Instant,
    /// How far its clock is ahead of this process's, in microseconds, once it was heard twice.
    ahead: Option<i64>,
}

impl Watch {
    pub(super) fn new(me: Incarnation, dead_after: Duration) -> Self {
        Self {
            me,
            dead_after,
            looked: None,
            pause: Duration::ZERO,
            blind: false,
            blind_for: Duration::ZERO,
            mute: false,
            seen: HashMap::new(),
        }
    }

    /// A look has failed.
    pub(super) fn missed(&mut self) {
        self.blind = true;
    }

    /// A renewal of this process was heard, or not.
    pub(super) fn spoke(&mut self, heard: bool) {
        self.blind |= !heard;
        self.mute = !heard;
    }

    /// Takes in everybody's last word, and who owns slots. `unix_micros` is this process's Unix time.
    pub(super) fn observe(
        &mut self,
        presences: Vec<Presence>,
        table: &RingTable,
        now: Instant,
        unix_micros: i64,
    ) {
        let gap = self.forgive(now);
        let mut words: HashMap<Incarnation, Option<Presence>> = table
            .members()
            .iter()
            .map(|member| (member.incarnation(), None))
            .collect();
        for presence in presences {
            words.insert(presence.incarnation, Some(presence));
        }
        // A store that was restored has forgotten whoever came since: it lives as long as it would without that.
        let vanished = |seen: &Seen| {
            let since = now.saturating_duration_since(seen.since);
            seen.presence.is_some() && !seen.is_gone() && since < self.dead_after
        };
        self.seen
            .retain(|incarnation, seen| words.contains_key(incarnation) || vanished(seen));
        for (incarnation, presence) in words {
            let number = |presence: &Option<Presence>| presence.as_ref().map(|it| it.renewals);
            let seen = self.seen.entry(incarnation).or_insert_with(|| Seen {
                presence: presence.clone(),
                since: now,
                ahead: None,
            });
            if presence.is_none() && seen.presence.is_some() {
                continue;
            }
            if number(&seen.presence) != number(&presence) {
                seen.since = now;
                // It was said since the last look.
                let said = presence.as_ref().and_then(|presence| presence.unix_micros);
                if let Some(said) = said.filter(|_| gap <= LONGEST_COMPARED) {
                    seen.ahead = Some(said.saturating_sub(unix_micros));
                }
            }
            seen.presence = presence;
        }
    }

    /// Moves everybody's last word forward by the time since the last look, when something did not work meanwhile.
    /// After an outage whoever could not be heard has half of the time again: it has to find the store, too. Returns
    /// how long nothing was seen.
    fn forgive(&mut self, now: Instant) -> Duration {
        let Some(looked) = self.looked.replace(now) else {
            return Duration::ZERO;
        };
        let gap = now.saturating_duration_since(looked);
        // This process was stopped, or the store took its time.
        let slow = gap > self.pause + self.dead_after / 2;
        let blind = std::mem::take(&mut self.blind) || self.mute || slow;
        self.blind_for = if blind {
            self.blind_for + gap
        } else {
            Duration::ZERO
        };
        if blind {
            // One look that failed is no outage.
            let outage = self.blind_for > self.dead_after / 3;
            let most = if outage {
                self.dead_after / 2
            } else {
                Duration::MAX
            };
            for seen in self.seen.values_mut() {
                let silent = now.saturating_duration_since(seen.since + gap).min(most);
                seen.since = now.checked_sub(silent).unwrap_or(now);
            }
        }
        gap
    }

    /// How far the clocks of the other live members are ahead of this one's.
    pub(super) fn clocks(&self, now: Instant) -> Others {
        let mut others = Others::default();
        for (&incarnation, seen) in &self.seen {
            let told = seen.presence.as_ref().and_then(|it| it.unix_micros);
            if incarnation == self.me || told.is_none() || self.is_dead(incarnation, now) {
                continue;
            }
            match seen.ahead {
                Some(ahead) => others.members.push(ahead),
                None => others.unheard = true,
            }
        }
        others
    }

    /// Whether a process acknowledges nothing any more: proven, or silent for too long.
    pub(super) fn is_dead(&self, incarnation: Incarnation, now: Instant) -> bool {
        incarnation != self.me
            && self.seen.get(&incarnation).is_some_and(|seen| {
                seen.is_gone() || now.saturating_duration_since(seen.since) >= self.dead_after
            })
    }

    /// Whether a process said its last word: nothing of it is lost.
    pub(super) fn is_gone(&self, incarnation: Incarnation) -> bool {
        self.seen.get(&incarnation).is_some_and(Seen::is_gone)
    }

    /// The highest epoch that anybody has said it knows, also one that is over.
    pub(super) fn highest_epoch(&self) -> Option<Epoch> {
        let said = |seen: &Seen| Epoch::new(seen.presence.as_ref()?.epoch?);
        self.seen.values().filter_map(said).max()
    }

    /// Those that live, tell which takes they have seen, and have not said that they agree with this line.
    pub(super) fn not_on(&self, line: Line, now: Instant) -> Vec<Incarnation> {
        let says_otherwise = |seen: &Seen| match &seen.presence {
            // A release before tells nothing: it is not waited for.
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

    /// Who can be given slots, this member included unless it is draining or its clock is wrong.
    pub(super) fn live(&self, now: Instant) -> Vec<Live> {
        let mut presences: Vec<&Presence> = self
            .seen
            .iter()
            .filter(|&(&incarnation, _)| !self.is_dead(incarnation, now))
            .filter_map(|(_, seen)| seen.presence.as_ref())
            .filter(|presence| !presence.draining && !presence.gone && !presence.clock_wrong)
            .collect();
        presences.sort_unstable_by(|a, b| (&a.name, a.incarnation).cmp(&(&b.name, b.incarnation)));
        let live = |presence: &Presence| Live {
            incarnation: presence.incarnation,
            candidate: Candidate {
                name: presence.name.clone(),
                ordinal: presence.ordinal,
                zone: presence.zone.clone(),
            },
        };
        presences.into_iter().map(live).collect()
    }

    /// How long to wait with the next look when two should be `every` apart at least: longer the more
    /// processes there are, by a `share` from 0 to 1 that is drawn for each. Not when slots are to be
    /// taken, or somebody was silent for a third of what makes it dead.
    pub(super) fn next_look(
        &mut self,
        table: &RingTable,
        now: Instant,
        every: Duration,
        share: f64,
    ) -> Duration {
        let unsettled = self.seen.iter().any(|(&incarnation, seen)| {
            let silent = now.saturating_duration_since(seen.since) >= self.dead_after / 3;
            match self.is_dead(incarnation, now) {
                true => table.member(incarnation).is_some(),
                false => silent && incarnation != self.me,
            }
        });
        self.pause = if unsettled || self.seen.len() <= FEW {
            every
        } else {
            let spread = (self.seen.len() as f64 / FEW as f64).min(MOST_SPREAD);
            every.mul_f64((spread * (0.75 + 0.5 * share)).max(1.0))
        };
        self.pause
    }

    /// What a process says of itself.
    pub(super) fn presence(&self, incarnation: Incarnation) -> Option<&Presence> {
        self.seen.get(&incarnation)?.presence.as_ref()
    }

    /// Processes that are over, own nothing, and have been so for long: their presence is litter.
    pub(super) fn forgettable(&self, table: &RingTable, now: Instant) -> Vec<Incarnation> {
        let over = |&(&incarnation, seen): &(&Incarnation, &Seen)| {
            seen.presence.is_some()
                && self.is_dead(incarnation, now)
                && table.member(incarnation).is_none()
                && now.saturating_duration_since(seen.since) >= self.dead_after * 10
        };
        let over = self.seen.iter().filter(over);
        let mut over: Vec<Incarnation> = over.map(|(&incarnation, _)| incarnation).collect();
        over.sort_unstable();
        over
    }
}

impl Seen {
    fn is_gone(&self) -> bool {
        self.presence.as_ref().is_some_and(|presence| presence.gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD_AFTER: Duration = Duration::from_secs(13);

    fn says(name: &str, bits: u64, renewals: u64) -> Presence {
        Presence {
            name: name.into(),
            incarnation: Incarnation::new(bits),
            url: format!("http://{name}"),
            members: None,
            admin: None,
            zone: None,
            ordinal: None,
            draining: false,
            gone: false,
            renewals,
            unix_micros: None,
            line: None,
            epoch: None,
            clock_wrong: false,
        }
    }

    /// As a process does whose clock is the others', and that was not away before.
    fn observe(watch: &mut Watch, presences: Vec<Presence>, table: &RingTable, now: Instant) {
        watch.pause = watch.looked.map_or(Duration::ZERO, |looked| {
            now.saturating_duration_since(looked)
        });
        watch.observe(presences, table, now, 0);
    }

    #[test]
    fn who_is_silent_for_long_enough_is_dead_and_who_says_so_is_gone_at_once() {
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let (mut watch, start) = (Watch::new(a, DEAD_AFTER), Instant::now());
        let table = RingTable::default();
        observe(
            &mut watch,
            vec![says("a", 1, 1), says("b", 2, 1)],
            &table,
            start,
        );
        let later = start + Duration::from_secs(12);
        observe(
            &mut watch,
            vec![says("a", 1, 4), says("b", 2, 1)],
            &table,
            later,
        );
        assert!(!watch.is_dead(b, later));
        assert_eq!(watch.live(later).len(), 2);
        let late = start + DEAD_AFTER;
        assert!(watch.is_dead(b, late) && !watch.is_gone(b));
        assert!(!watch.is_dead(a, late), "nobody takes itself for dead");
        assert_eq!(watch.live(late).len(), 1);
        observe(&mut watch, vec![says("b", 2, 2)], &table, late);
        assert!(!watch.is_dead(b, late), "it was only slow");
        let gone = Presence {
            gone: true,
            ..says("b", 2, 3)
        };
        observe(&mut watch, vec![gone], &table, late);
        assert!(watch.is_dead(b, late) && watch.is_gone(b));
    }

    #[test]
    fn the_more_there_are_the_rarer_are_looks_unless_somebody_is_silent() {
        let (me, start, every) = (Incarnation::new(1), Instant::now(), Duration::from_secs(2));
        let table = RingTable::default();
        let says = |count: u64, renewals| {
            let each = (1..=count).map(|bits| says(&format!("chat-{bits}"), bits, renewals));
            each.collect::<Vec<_>>()
        };
        let next = |watch: &mut Watch, now| {
            [0.0, 0.5, 1.0].map(|share| watch.next_look(&table, now, every, share).as_millis())
        };
        let mut watch = Watch::new(me, DEAD_AFTER);
        observe(&mut watch, says(16, 1), &table, start);
        assert_eq!(next(&mut watch, start), [2000, 2000, 2000]);
        observe(&mut watch, says(64, 1), &table, start);
        assert_eq!(next(&mut watch, start), [6000, 8000, 10000]);
        observe(&mut watch, says(1000, 1), &table, start);
        assert_eq!(next(&mut watch, start), [6000, 8000, 10000]);
        let later = start + DEAD_AFTER / 3;
        assert_eq!(
            next(&mut watch, later),
            [2000, 2000, 2000],
            "all are silent"
        );
        observe(&mut watch, says(1000, 2), &table, later);
        assert_eq!(next(&mut watch, later), [6000, 8000, 10000]);
    }

    #[test]
    fn an_owner_that_never_said_a_word_is_dead_after_the_same_time() {
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let (mut watch, start) = (Watch::new(a, DEAD_AFTER), Instant::now());
        let owner = says("b", 2, 0).member().unwrap();
        let slots = [(readstates_ring::Slot::of_user(1), None)];
        let handed = readstates_ring::Succession::TakenOver;
        let table = RingTable::default().swap(&slots, &owner, handed, 1_i64 << 50);
        let table = table.unwrap();
        observe(&mut watch, vec![], &table, start);
        assert!(!watch.is_dead(b, start));
        observe(&mut watch, vec![], &table, start + DEAD_AFTER);
        assert!(watch.is_dead(b, start + DEAD_AFTER));
        assert!(watch.live(start).is_empty());
    }

    /// Two members of which the second one is looked at: told when it renews, when looking works, and whether this
    /// member's own renewals do. Returns when it is dead.
    fn dead_after(
        renews: impl Fn(u64) -> bool,
        looks: impl Fn(u64) -> bool,
        renewed: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let (me, other, start) = (Incarnation::new(1), Incarnation::new(2), Instant::now());
        let (mut watch, table) = (Watch::new(me, DEAD_AFTER), RingTable::default());
        let mut renewals = 0;
        for second in 0..120 {
            let now = start + Duration::from_secs(second);
            renewals += u64::from(second.is_multiple_of(3) && renews(second));
            if second.is_multiple_of(3) {
                watch.spoke(renewed(second));
            }
            if second.is_multiple_of(2) {
                if !looks(second) {
                    watch.missed();
                    continue;
                }
                let words = vec![says("a", 1, second), says("b", 2, renewals)];
                watch.observe(words, &table, now, 0);
                watch.next_look(&table, now, Duration::from_secs(2), 0.5);
                if watch.is_dead(other, now) {
                    return Some(second);
                }
            }
        }
        None
    }

    #[test]
    fn silence_counts_only_while_looking_works() {
        let died = |second| second < 20;
        assert_eq!(dead_after(died, |_| true, |_| true), Some(32));
        for away in [4, 8, 12, 14, 16, 20, 25, 30, 40, 60] {
            let there = |second: u64| !(20..20 + away).contains(&second);
            assert_eq!(dead_after(there, there, there), None, "away for {away} s");
            // Read, and not written: nobody can renew.
            let alive = dead_after(there, |_| true, there);
            assert_eq!(alive, None, "takes nothing for {away} s");
            // Written, and not read.
            assert_eq!(dead_after(|_| true, there, |_| true), None);
            // Whoever does die is dead all the same, some seconds later.
            let dead = dead_after(died, there, there).unwrap();
            assert!((32..=20 + away + 16).contains(&dead), "{dead}");
        }
    }

    #[test]
    fn a_store_that_fails_every_now_and_then_makes_nobody_immortal() {
        let often = |second: u64| !second.is_multiple_of(10);
        let dead = dead_after(|second| second < 20, often, |_| true).unwrap();
        assert!(dead <= 50, "{dead}");
    }

    #[test]
    fn whoever_was_stopped_itself_takes_nobody_for_dead() {
        let (me, other, start) = (Incarnation::new(1), Incarnation::new(2), Instant::now());
        let (mut watch, table) = (Watch::new(me, DEAD_AFTER), RingTable::default());
        for second in [0, 2, 4, 24, 26, 28] {
            let now = start + Duration::from_secs(second);
            watch.observe(vec![says("b", 2, 1)], &table, now, 0);
            watch.next_look(&table, now, Duration::from_secs(2), 0.5);
            assert!(!watch.is_dead(other, now), "after {second} s");
        }
    }

    #[test]
    fn whoever_a_restored_store_has_forgotten_lives_on_and_is_asked_what_it_has_seen() {
        let (me, start) = (Incarnation::new(1), Instant::now());
        let (mut watch, table) = (Watch::new(me, DEAD_AFTER), RingTable::default());
        let (line, other) = (Line::new(7), Incarnation::new(2));
        let on = |renewals, line| Presence {
            line,
            ..says("b", 2, renewals)
        };
        let old = says("c", 3, 1);
        let words = vec![on(1, Some(Line::NONE)), old.clone()];
        observe(&mut watch, words, &table, start);
        assert_eq!(
            watch.not_on(line, start),
            [other],
            "not of the release before"
        );
        let now = start + Duration::from_secs(2);
        observe(&mut watch, vec![old.clone()], &table, now);
        assert_eq!(
            watch.not_on(line, now),
            [other],
            "it was forgotten, and lives"
        );
        observe(&mut watch, vec![on(2, Some(line)), old], &table, now);
        assert_eq!(watch.not_on(line, now), []);
        let late = now + DEAD_AFTER;
        observe(&mut watch, vec![], &table, late);
        assert_eq!(watch.not_on(Line::new(8), late), [], "it is dead");
        assert!(watch.seen.is_empty());
    }

    #[test]
    fn clocks_are_compared_when_somebody_has_just_spoken() {
        let (me, start) = (Incarnation::new(1), Instant::now());
        let (mut watch, table) = (Watch::new(me, DEAD_AFTER), RingTable::default());
        let told = |bits, renewals, unix_micros| Presence {
            unix_micros,
            ..says("chat", bits, renewals)
        };
        let old = told(4, 1, None);
        let words = vec![told(2, 1, Some(0)), told(3, 1, Some(5_000)), old.clone()];
        watch.observe(words, &table, start, 100);
        assert!(watch.clocks(start).unheard, "it may have spoken long ago");
        let now = start + Duration::from_secs(2);
        let words = vec![told(2, 1, Some(0)), told(3, 2, Some(7_000)), old.clone()];
        watch.observe(words, &table, now, 2_000);
        let clocks = watch.clocks(now);
        assert_eq!((&*clocks.members, clocks.unheard), (&[5_000][..], true));
        // Nothing more is heard of 2.
        let mut later = now;
        for renewals in 3..10 {
            later += Duration::from_secs(2);
            let words = vec![
                told(2, 1, Some(0)),
                told(3, renewals, Some(14_000)),
                old.clone(),
            ];
            watch.observe(words, &table, later, 13_000);
        }
        let clocks = watch.clocks(later);
        assert_eq!((&*clocks.members, clocks.unheard), (&[1_000][..], false));
    }
}
