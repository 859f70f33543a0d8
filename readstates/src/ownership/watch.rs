//! Who is there, who is leaving, and who is dead, as one member sees it. Pure.
//!
//! A process is dead when it said so itself (`gone`), or when nothing new was heard of it for longer
//! than its lease can last, by the clock of the member that watches. What other members saw does not count.
//!
//! Silence counts only while looking works. While a store is away, slow, or takes no renewals, all processes seem
//! silent and none is taken for dead: the last word of each moves forward by that time.

mod said;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use readstates_ring::{Incarnation, RingTable, moves::Live, planner::Candidate};

use super::{clocks::Others, store::Presence};

/// With up to so many processes, each looks as often as it may.
const FEW: usize = 16;
/// With more of them looks are further apart, so that what the store is asked for grows with their number
/// and not with its square; up to so many times.
const MOST_SPREAD: f64 = 4.0;
/// Another member's clock is compared when it spoke since a look that is at most so long ago: by so much its clock
/// can look behind.
const LONGEST_COMPARED: Duration = Duration::from_secs(20);

/// The last word of a dead process is remembered for so many times the time after which it is taken for dead.
const REMEMBERED: u32 = 10;

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
    /// For how long something has failed between any two looks, without a break.
    blind_for: Duration,
    /// The last renewal of this process has failed: those of others may fail as well.
    mute: bool,
    seen: BTreeMap<Incarnation, Seen>,
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
            seen: BTreeMap::new(),
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

    /// Takes in all presences, and who owns slots. `unix_micros` is this process's Unix time.
    pub(super) fn observe(
        &mut self,
        presences: Vec<Presence>,
        table: &RingTable,
        now: Instant,
        unix_micros: i64,
    ) {
        let gap = self.forgive(now);
        let mut words: BTreeMap<Incarnation, Option<Presence>> = table
            .members()
            .iter()
            .map(|member| (member.incarnation(), None))
            .collect();
        for presence in presences {
            words.insert(presence.incarnation, Some(presence));
        }
        // A restored store has forgotten the processes that came since: they live as long as they would otherwise, and
        // what they said counts for longer.
        let vanished = |seen: &Seen| {
            let since = now.saturating_duration_since(seen.since);
            seen.presence.is_some() && since < self.dead_after * REMEMBERED
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

    /// Moves the last word of every process forward by the time since the last look, when something did not work
    /// meanwhile. After an outage each process has at least half of `dead_after` left: it has to find the store, too.
    /// Returns the time since the last look.
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

    /// Whether a process was dead when this one looked last. One that was stopped since does not know.
    pub(super) fn was_dead(&self, incarnation: Incarnation) -> bool {
        self.looked
            .is_some_and(|looked| self.is_dead(incarnation, looked))
    }

    /// Whether a process said its last word: nothing of it is lost.
    pub(super) fn is_gone(&self, incarnation: Incarnation) -> bool {
        self.seen.get(&incarnation).is_some_and(Seen::is_gone)
    }

    /// The members that can be given slots, including this one unless it is draining or its clock is wrong.
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
    /// processes there are, by a `share` from 0 to 1 that is drawn for each. Not longer when slots are to be
    /// taken, or a process was silent for a third of `dead_after`.
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

    /// The other live processes that can be backups, of owners whose operations have this meaning.
    pub(super) fn replicating(&self, semantics: u16, now: Instant) -> Vec<&Presence> {
        let can = |presence: &&Presence| {
            presence.replicates == Some(semantics)
                && !presence.draining
                && presence.incarnation != self.me
                && !self.is_dead(presence.incarnation, now)
        };
        let seen = self.seen.values().filter_map(|seen| seen.presence.as_ref());
        let mut all: Vec<&Presence> = seen.filter(can).collect();
        all.sort_unstable_by_key(|presence| presence.incarnation);
        all
    }

    /// Whether every other living process says that it reads rings of this version: one that does not would never hear
    /// of the ring again.
    pub(super) fn all_read(&self, version: u32, now: Instant) -> bool {
        self.seen.iter().all(|(&incarnation, seen)| {
            let reads = seen.presence.as_ref().and_then(|presence| presence.reads);
            incarnation == self.me
                || self.is_dead(incarnation, now)
                || reads.is_some_and(|reads| reads >= version)
        })
    }

    /// Whether a process has ended so long ago that nobody remembers it: the ring does not name it, and the store has no
    /// word of it.
    pub(super) fn is_forgotten(&self, incarnation: Incarnation) -> bool {
        self.looked.is_some() && incarnation != self.me && !self.seen.contains_key(&incarnation)
    }

    /// What a process says of itself.
    pub(super) fn presence(&self, incarnation: Incarnation) -> Option<&Presence> {
        self.seen.get(&incarnation)?.presence.as_ref()
    }

    /// Processes that have been dead for long and own nothing: their presences can be removed.
    pub(super) fn forgettable(&self, table: &RingTable, now: Instant) -> Vec<Incarnation> {
        let over = |&(&incarnation, seen): &(&Incarnation, &Seen)| {
            seen.presence.is_some()
                && self.is_dead(incarnation, now)
                && table.member(incarnation).is_none()
                && now.saturating_duration_since(seen.since) >= self.dead_after * REMEMBERED
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
