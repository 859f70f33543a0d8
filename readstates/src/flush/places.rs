//! The places that writes take at the store, and which write gets the next one.
//!
//! Pure: comes in when writes begin and end; goes out how many more of each kind may begin. Three rules keep what
//! does not answer from holding up what does:
//!
//! - users whose last write failed take a quarter of the places at most;
//! - so do users who are written before their interval is over, while nothing is pressing;
//! - a write that has not ended long after others have gives its place up. It goes on without one; how many are
//!   under way in all, with a place and without, is bounded.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::Urgency;
use crate::{
    cache::{Room, Turn},
    store::Part,
};

/// Writes with and without a place: at most this many times the most places.
const MOST_FACTOR: usize = 8;
/// Retries and early writes may each take one in this many places.
const SHARE: usize = 4;
/// A write is stalled after this, and after [`STALL_FACTOR`] times what a write usually takes.
const LEAST_STALL: Duration = Duration::from_millis(100);
const STALL_FACTOR: u32 = 8;
/// Others go well when one of them ended well, and in less than a stall takes, this long ago at most.
const RECENT: Duration = Duration::from_millis(500);

/// Which write: numbered in the order in which they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// A write under way.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    since: Instant,
    part: Part,
    turn: Turn,
    bytes: usize,
    holds: bool,
}

/// How a write that has ended stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) part: Part,
    /// It had a place until then; otherwise its end says nothing of the database as a whole.
    pub(super) held: bool,
}

/// Writes under way, and the places they hold.
#[derive(Debug, Default)]
pub(super) struct Places {
    under_way: BTreeMap<Ticket, UnderWay>,
    next: u64,
    /// All before this one were found stalled, or have ended.
    looked: u64,
    /// By turn: all of them, with a place and without.
    turns: [usize; 3],
    /// Those that hold a place.
    held: usize,
    held_bytes: usize,
    bytes: usize,
    /// When a write last ended well, and in its time.
    went_well: Option<Instant>,
}

impl Places {
    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// How much more may begin, where `limit` writes hold places and there are never more than `ceiling` places;
    /// their blocks have `most_bytes`.
    pub(super) fn room(
        &self,
        limit: usize,
        ceiling: usize,
        most_bytes: usize,
        urgency: Urgency,
    ) -> Room {
        let share = (limit / SHARE).max(1);
        let all = limit
            .saturating_sub(self.held)
            .min((ceiling * MOST_FACTOR).saturating_sub(self.len()));
        let left = |turn: Turn| share.saturating_sub(self.turns[turn as usize]).min(all);
        Room {
            all,
            early: match urgency {
                Urgency::Calm => left(Turn::Early),
                Urgency::Urgent => all,
            },
            again: left(Turn::Again),
            bytes: most_bytes
                .saturating_sub(self.held_bytes)
                .min((2 * most_bytes).saturating_sub(self.bytes)),
        }
    }

    pub(super) fn begin(&mut self, part: Part, turn: Turn, bytes: usize, now: Instant) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        let write = UnderWay {
            since: now,
            part,
            turn,
            bytes,
            holds: true,
        };
        self.under_way.insert(ticket, write);
        self.turns[turn as usize] += 1;
        self.held += 1;
        self.held_bytes += bytes;
        self.bytes += bytes;
        ticket
    }

    /// `usual` is what a write usually takes.
    pub(super) fn ended(
        &mut self,
        ticket: Ticket,
        succeeded: bool,
        usual: Duration,
        now: Instant,
    ) -> Option<Ended> {
        let write = self.under_way.remove(&ticket)?;
        self.turns[write.turn as usize] -= 1;
        self.bytes -= write.bytes;
        if write.holds {
            self.held -= 1;
            self.held_bytes -= write.bytes;
        }
        if succeeded && now.saturating_duration_since(write.since) < stall(usual) {
            self.went_well = Some(now);
        }
        Some(Ended {
            part: write.part,
            held: write.holds,
        })
    }

    /// The parts of the writes that are stalled by now: from now on they hold no place. None is while nothing else
    /// goes well either: then the database is slow, and more at once would not help it.
    pub(super) fn stalled(&mut self, usual: Duration, now: Instant) -> Vec<Part> {
        let recent = |then: Instant| now.saturating_duration_since(then) < RECENT;
        if !self.went_well.is_some_and(recent) {
            return Vec::new();
        }
        let mut parts = Vec::new();
        // In the order in which they began: none is looked at twice, however many do not end.
        for (ticket, write) in self.under_way.range_mut(Ticket(self.looked)..) {
            if now.saturating_duration_since(write.since) < stall(usual) {
                break;
            }
            self.looked = ticket.0 + 1;
            write.holds = false;
            self.held -= 1;
            self.held_bytes -= write.bytes;
            parts.push(write.part);
        }
        parts
    }
}

fn stall(usual: Duration) -> Duration {
    (usual * STALL_FACTOR).max(LEAST_STALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 32;
    const CEILING: usize = 128;
    const BYTES: usize = 1000;
    const USUAL: Duration = Duration::from_millis(2);

    fn room(places: &Places) -> Room {
        places.room(LIMIT, CEILING, BYTES, Urgency::Calm)
    }

    fn begin(places: &mut Places, turn: Turn, count: usize, now: Instant) -> Vec<Ticket> {
        let begin = |_| places.begin(Part::new(7), turn, 1, now);
        (0..count).map(begin).collect()
    }

    #[test]
    fn retries_and_early_writes_have_a_quarter_each_and_the_others_the_rest() {
        let (mut places, now) = (Places::default(), Instant::now());
        let before = room(&places);
        assert_eq!((before.all, before.again, before.early), (32, 8, 8));
        begin(&mut places, Turn::Again, before.again, now);
        begin(&mut places, Turn::Early, before.early, now);
        let left = room(&places);
        assert_eq!((left.all, left.again, left.early), (16, 0, 0));
        let urgent = places.room(LIMIT, CEILING, BYTES, Urgency::Urgent);
        assert_eq!((urgent.again, urgent.early), (0, 16));
        begin(&mut places, Turn::Due, 16, now);
        assert_eq!(room(&places).all, 0);
    }

    #[test]
    fn what_is_stalled_gives_its_place_and_its_bytes_up_once() {
        let (mut places, start) = (Places::default(), Instant::now());
        let hang = begin(&mut places, Turn::Due, 31, start);
        let later = start + LEAST_STALL;
        let quick = begin(&mut places, Turn::Due, 1, later);
        assert_eq!(room(&places).all, 0);
        let end = places.ended(quick[0], true, USUAL, later + USUAL);
        assert_eq!(end.map(|end| end.held), Some(true));
        let parts = places.stalled(USUAL, later + USUAL);
        assert_eq!(parts, vec![Part::new(7); 31]);
        assert_eq!(places.stalled(USUAL, later + USUAL), []);
        assert_eq!(room(&places).all, LIMIT);
        assert_eq!(room(&places).bytes, BYTES);
        for ticket in hang {
            let end = places.ended(ticket, false, USUAL, later + USUAL);
            assert_eq!(end.map(|end| end.held), Some(false));
        }
        assert_eq!(places.len(), 0);
        assert_eq!(room(&places).all, LIMIT);
    }

    #[test]
    fn where_nothing_goes_well_everything_keeps_its_place() {
        let (mut places, start) = (Places::default(), Instant::now());
        let slow = begin(&mut places, Turn::Due, LIMIT, start);
        let later = start + LEAST_STALL * 4;
        assert_eq!(places.stalled(USUAL, later), []);
        // It ends well, and late: no sign that others are fast.
        places.ended(slow[0], true, USUAL, later);
        assert_eq!(places.stalled(USUAL, later), []);
        assert_eq!(room(&places).all, 1);
    }

    #[test]
    fn what_hangs_is_bounded_in_number_and_in_bytes() {
        let (mut places, mut now) = (Places::default(), Instant::now());
        loop {
            let room = places.room(LIMIT, CEILING, 1 << 20, Urgency::Calm);
            if room.all < 2 {
                break;
            }
            begin(&mut places, Turn::Due, room.all - 1, now);
            now += LEAST_STALL;
            let quick = begin(&mut places, Turn::Due, 1, now);
            places.ended(quick[0], true, USUAL, now);
            places.stalled(USUAL, now);
        }
        assert_eq!(places.len(), CEILING * MOST_FACTOR - 1);

        let mut places = Places::default();
        for _ in 0..3 {
            let bytes = room(&places).bytes;
            places.begin(Part::new(1), Turn::Due, bytes, now);
            now += LEAST_STALL;
            let quick = places.begin(Part::new(2), Turn::Due, 0, now);
            places.ended(quick, true, USUAL, now);
            places.stalled(USUAL, now);
        }
        assert_eq!((places.bytes, room(&places).bytes), (2 * BYTES, 0));
    }
}
