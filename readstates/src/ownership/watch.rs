//! Who is there, who is leaving, and who is dead, as one member sees it. Pure.
//!
//! A process is dead when it said so itself (`gone`), or when nothing new was heard of it for longer
//! than its lease can last, by the clock of whoever watches. Nothing that somebody else saw counts.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use readstates_ring::{Incarnation, RingTable, moves::Live, planner::Candidate};

use super::store::Presence;

/// Up to so many processes everybody looks as often as it may.
const FEW: usize = 16;
/// With more of them looks are further apart, so that what the store is asked for grows with their number
/// and not with its square; up to so many times.
const MOST_SPREAD: f64 = 4.0;

#[derive(Debug)]
pub(super) struct Watch {
    me: Incarnation,
    dead_after: Duration,
    seen: HashMap<Incarnation, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// `None`: it is in the ring, and nowhere else.
    presence: Option<Presence>,
    /// When something new was heard of it.
    since: Instant,
}

impl Watch {
    pub(super) fn new(me: Incarnation, dead_after: Duration) -> Self {
        Self {
            me,
            dead_after,
            seen: HashMap::new(),
        }
    }

    /// Takes in everybody's last word, and who owns slots.
    pub(super) fn observe(&mut self, presences: Vec<Presence>, table: &RingTable, now: Instant) {
        let mut words: HashMap<Incarnation, Option<Presence>> = table
            .members()
            .iter()
            .map(|member| (member.incarnation(), None))
            .collect();
        for presence in presences {
            words.insert(presence.incarnation, Some(presence));
        }
        self.seen
            .retain(|incarnation, _| words.contains_key(incarnation));
        for (incarnation, presence) in words {
            let number = |presence: &Option<Presence>| presence.as_ref().map(|it| it.renewals);
            let seen = self.seen.entry(incarnation).or_insert_with(|| Seen {
                presence: presence.clone(),
                since: now,
            });
            if number(&seen.presence) != number(&presence) {
                seen.since = now;
            }
            seen.presence = presence;
        }
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

    /// Who can be given slots, this member included unless it is draining.
    pub(super) fn live(&self, now: Instant) -> Vec<Live> {
        let mut presences: Vec<&Presence> = self
            .seen
            .iter()
            .filter(|&(&incarnation, _)| !self.is_dead(incarnation, now))
            .filter_map(|(_, seen)| seen.presence.as_ref())
            .filter(|presence| !presence.draining && !presence.gone)
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
        &self,
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
        if unsettled || self.seen.len() <= FEW {
            return every;
        }
        let spread = (self.seen.len() as f64 / FEW as f64).min(MOST_SPREAD);
        every.mul_f64((spread * (0.75 + 0.5 * share)).max(1.0))
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
        }
    }

    #[test]
    fn who_is_silent_for_long_enough_is_dead_and_who_says_so_is_gone_at_once() {
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let (mut watch, start) = (Watch::new(a, DEAD_AFTER), Instant::now());
        let table = RingTable::default();
        watch.observe(vec![says("a", 1, 1), says("b", 2, 1)], &table, start);
        let later = start + Duration::from_secs(12);
        watch.observe(vec![says("a", 1, 4), says("b", 2, 1)], &table, later);
        assert!(!watch.is_dead(b, later));
        assert_eq!(watch.live(later).len(), 2);
        let late = start + DEAD_AFTER;
        assert!(watch.is_dead(b, late) && !watch.is_gone(b));
        assert!(!watch.is_dead(a, late), "nobody takes itself for dead");
        assert_eq!(watch.live(late).len(), 1);
        watch.observe(vec![says("b", 2, 2)], &table, late);
        assert!(!watch.is_dead(b, late), "it was only slow");
        let gone = Presence {
            gone: true,
            ..says("b", 2, 3)
        };
        watch.observe(vec![gone], &table, late);
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
        let next = |watch: &Watch, now| {
            [0.0, 0.5, 1.0].map(|share| watch.next_look(&table, now, every, share).as_millis())
        };
        let mut watch = Watch::new(me, DEAD_AFTER);
        watch.observe(says(16, 1), &table, start);
        assert_eq!(next(&watch, start), [2000, 2000, 2000]);
        watch.observe(says(64, 1), &table, start);
        assert_eq!(next(&watch, start), [6000, 8000, 10000]);
        watch.observe(says(1000, 1), &table, start);
        assert_eq!(next(&watch, start), [6000, 8000, 10000]);
        let later = start + DEAD_AFTER / 3;
        assert_eq!(next(&watch, later), [2000, 2000, 2000], "all are silent");
        watch.observe(says(64, 2), &table, later);
        assert_eq!(next(&watch, later), [6000, 8000, 10000]);
    }

    #[test]
    fn an_owner_that_never_said_a_word_is_dead_after_the_same_time() {
        let (a, b) = (Incarnation::new(1), Incarnation::new(2));
        let (mut watch, start) = (Watch::new(a, DEAD_AFTER), Instant::now());
        let owner = says("b", 2, 0).member().unwrap();
        let slots = [(readstates_ring::Slot::of_user(1), None)];
        let handed = readstates_ring::Succession::TakenOver;
        let table = RingTable::default().swap(&slots, &owner, handed, 1 << 50);
        let table = table.unwrap();
        watch.observe(vec![], &table, start);
        assert!(!watch.is_dead(b, start));
        watch.observe(vec![], &table, start + DEAD_AFTER);
        assert!(watch.is_dead(b, start + DEAD_AFTER));
        assert!(watch.live(start).is_empty());
    }
}
