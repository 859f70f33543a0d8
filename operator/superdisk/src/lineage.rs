//! Our own header on both legs: which volume this is, and how far its history goes. Pure.
//!
//! md cannot tell that a durable leg has gone back in time (a snapshot put back): the fast leg that stayed has
//! the same event count, and a re-add would mix old and new blocks. So each start of a super-disk is a
//! *generation* with a random session, and while it runs a *beat* counts up. Both are written to the durable
//! leg first, then to the fast leg: in an honest history the fast leg is never newer. A snapshot gets a generation of
//! its own, between those of before and after it ([`crate::snapshot`]).
//!
//! ```text
//!   sector 0     8            …                data_offset - 16  - 8   data_offset
//!     │ nothing │ superblock, bitmap │ unused gap │ slot 0 │ slot 1 │ data …
//! ```
//!
//! Two slots of 4 KiB, written in turn as long as both can be written: a write torn by a power cut leaves the header
//! before. md raid1 never writes into the gap, and a plain open of a member is allowed while md runs.

mod extension;
mod relation;
mod slots;
mod snapshot_id;

pub use relation::{Relation, relation};
pub use slots::{BrokenSlots, REGION_BYTES, SLOT_BYTES, Slots, read, region_at};
pub use snapshot_id::{BadSnapshotId, SnapshotId};

use crate::{spec::VolumeUid, superblock::Uuid};

/// What a leg remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub volume: VolumeUid,
    /// Whether it is in use, and whether it was ever formatted.
    pub state: State,
    /// This point of its history.
    pub point: Point,
    /// The last point of the generation before, as the durable leg had it.
    pub previous: Point,
    /// UUID of the stripe that was admitted as the fast leg in this generation; zero for none. A stripe that is
    /// recreated from the same devices has a different UUID, whatever is left inside.
    pub fast: Uuid,
    /// The boot in which it was written.
    pub boot: Uuid,
    /// The snapshot that is taken of the durable leg in this generation. On a disk that nothing has in use it says that
    /// the disk is that snapshot's, or that the power went while it was taken.
    pub snapshot: Option<SnapshotId>,
    /// Stripes whose devices this volume has taken for another stripe, oldest first, at most [`Header::MAX_REPLACED`]. A
    /// part of one that comes back is useless: the rest of the stripe is gone.
    pub replaced: Vec<Uuid>,
    /// Where a fast leg was admitted last.
    pub machine: Option<Machine>,
}

/// A machine that tells itself from others, with its local devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// A hash of the UUID that its firmware gives it: the same after a restart, and after its local disks were lost.
    pub id: u64,
    /// The most local devices that were seen there.
    pub devices: u32,
}

impl Machine {
    /// The same machine, seen again: devices that it had before, it may have still.
    fn seen_again(self, before: Option<Self>) -> Self {
        let before = before.filter(|before| before.id == self.id);
        let devices = before.map_or(0, |before| before.devices);
        Self {
            devices: self.devices.max(devices),
            ..self
        }
    }
}

/// A point in a super-disk's history. Orders by generation, then by beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Point {
    /// Grows with each start, and before and after each snapshot.
    pub generation: u64,
    /// Grows with each header that is written, and never starts over.
    pub beat: u64,
    /// Random, one for each start: two histories that begin at one snapshot differ in it.
    pub session: Uuid,
}

/// What the super-disk was doing when the header was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The durable leg is being formatted: there is no data yet.
    Creating,
    /// Assembled, perhaps mounted.
    InUse,
    /// Stopped in order.
    Clean,
}

impl Header {
    /// How many replaced stripes are remembered: the oldest are forgotten first.
    pub const MAX_REPLACED: usize = 8;

    /// The header of a volume that has no history.
    #[must_use]
    pub fn first(volume: VolumeUid, session: Uuid, boot: Uuid) -> Self {
        let point = Point {
            generation: 1,
            beat: 0,
            session,
        };
        Self {
            volume,
            state: State::Creating,
            point,
            previous: Point::default(),
            fast: Uuid::default(),
            boot,
            snapshot: None,
            replaced: Vec::new(),
            machine: None,
        }
    }

    /// The first header of the next generation, with no fast leg admitted.
    #[must_use]
    pub fn opened(&self, session: Uuid, boot: Uuid) -> Self {
        let Self {
            volume,
            state: _,
            point,
            previous: _,
            fast: _,
            boot: _,
            snapshot: _,
            replaced,
            machine,
        } = self;
        Self {
            volume: volume.clone(),
            state: State::InUse,
            point: Point {
                generation: point.generation + 1,
                beat: point.beat + 1,
                session,
            },
            previous: *point,
            fast: Uuid::default(),
            boot,
            snapshot: None,
            replaced: replaced.clone(),
            machine: *machine,
        }
    }

    /// The first header of a volume whose disk is a copy of this one's: no fast leg can be related to it.
    #[must_use]
    pub fn copied(&self, volume: VolumeUid, session: Uuid, boot: Uuid) -> Self {
        let state = match self.state {
            State::Creating => State::Creating,
            State::InUse | State::Clean => State::Clean,
        };
        Self {
            volume,
            state,
            previous: Point::default(),
            // On the node of the other volume.
            replaced: Vec::new(),
            machine: None,
            ..self.opened(session, boot)
        }
    }

    /// The first header of a generation that no fast leg of before can be related to: what one has missed or taken
    /// since, no bitmap tells, or its owner has given up.
    #[must_use]
    pub fn forgetting(&self, session: Uuid, boot: Uuid) -> Self {
        Self {
            previous: Point::default(),
            // What it had, nobody waits for any more.
            machine: None,
            ..self.opened(session, boot)
        }
    }

    /// The next header of this generation.
    #[must_use]
    pub fn next(&self) -> Self {
        let mut next = self.clone();
        next.point.beat += 1;
        next
    }

    /// The next header, in another state.
    #[must_use]
    pub fn next_in(&self, state: State) -> Self {
        Self {
            state,
            ..self.next()
        }
    }

    /// The header right before a snapshot of the durable leg is taken. A generation of its own: a durable leg that is put
    /// back to it is older than any fast leg that went on.
    #[must_use]
    pub fn marked(&self, snapshot: SnapshotId) -> Self {
        Self {
            snapshot: Some(snapshot),
            ..self.unmarked()
        }
    }

    /// The first header after a snapshot of the durable leg was taken: again a generation of its own. The start is the
    /// same, and so are its session and its fast leg.
    #[must_use]
    pub fn unmarked(&self) -> Self {
        let mut next = self.next();
        next.point.generation += 1;
        next.snapshot = None;
        next
    }

    /// What the durable leg's header is taken to have been, by the fast leg's copy of it. In the same history, and in a
    /// generation that no header had: the durable leg may have been one ahead, for a snapshot is written to it first.
    #[must_use]
    pub fn in_place_of_lost(&self) -> Self {
        self.unmarked().unmarked()
    }

    /// The next header, with this stripe admitted as the fast leg. A stripe that was to be replaced, and was not, is not
    /// listed as replaced any more.
    #[must_use]
    pub fn admitting(&self, fast: Uuid) -> Self {
        let mut next = self.next();
        next.replaced.retain(|stripe| *stripe != fast);
        next.fast = fast;
        next
    }

    /// The next header, with this stripe admitted as the fast leg on this machine. A stripe that replaces another one in the
    /// middle of a generation begins a new generation, to which no earlier fast leg is related: while the new stripe is filled,
    /// md forgets what the old one has missed. A snapshot that is being taken keeps its generation, which its maker was told;
    /// the next one begins at its end.
    #[must_use]
    pub fn taking(&self, fast: Uuid, session: Uuid, machine: Option<Machine>) -> Self {
        let mut next = self.admitting(fast);
        next.machine = machine.map(|machine| machine.seen_again(self.machine));
        if self.fast != Uuid::default() && self.fast != fast {
            next.point.session = session;
            next.point.generation += u64::from(self.snapshot.is_none());
            next.previous = Point::default();
        }
        next
    }

    /// The header of a durable leg that is about to be filled from the fast leg that has this one, in place of its `own`:
    /// of the same history, later than both, and with no relation to any other leg.
    #[must_use]
    pub fn for_durable(&self, own: Option<&Self>) -> Self {
        let own = own.map_or(self.point, |own| own.point);
        Self {
            state: State::InUse,
            point: Point {
                generation: self.point.generation.max(own.generation),
                beat: self.point.beat.max(own.beat) + 1,
                session: self.point.session,
            },
            previous: Point::default(),
            snapshot: None,
            ..self.clone()
        }
    }

    /// Whether this stripe is the fast leg, and nothing else is said of it.
    #[must_use]
    pub fn admits(&self, fast: Uuid) -> bool {
        self.fast == fast && !self.replaced.contains(&fast)
    }

    /// The next header, before devices of these stripes are taken for another stripe; `None` when it knows them all.
    #[must_use]
    pub fn replacing(&self, stripes: &[Uuid]) -> Option<Self> {
        let mut next = self.next();
        let new = stripes
            .iter()
            .filter(|stripe| !self.replaced.contains(stripe));
        next.replaced.extend(new);
        let too_many = next.replaced.len().saturating_sub(Self::MAX_REPLACED);
        next.replaced.drain(..too_many);
        (next.replaced != self.replaced).then_some(next)
    }

    /// Which of the two slots it is written to: not the one that holds the header before it, as long as both can be
    /// written.
    #[must_use]
    pub fn slot(&self) -> usize {
        usize::from(!self.point.beat.is_multiple_of(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn header() -> Header {
        Header::first("pvc-1".parse().unwrap(), Uuid([1; 16]), Uuid([0xb0; 16]))
    }

    #[test]
    fn a_stripe_that_takes_anothers_place_leaves_it_no_relation_in_this_start_or_a_later_one() {
        let (session, boot) = (Uuid([9; 16]), Uuid([0xb0; 16]));
        let [first, second] = [7, 8].map(|byte| Uuid([byte; 16]));
        let before = header().opened(Uuid([2; 16]), boot);
        let take = |header: &Header, fast| header.taking(fast, session, None);
        let with_first = take(&before, first);
        assert_eq!(with_first, before.admitting(first), "nothing was there");
        assert_eq!(take(&with_first, first), with_first.next());
        let with_second = take(&with_first, second);
        let again = with_second.opened(Uuid([3; 16]), boot);
        for durable in [&with_second, &again, &take(&again, second)] {
            assert_eq!(relation(durable, &with_first), Relation::Apart);
            assert_eq!(relation(durable, &before), Relation::Apart);
        }
        assert_eq!(relation(&again, &with_second), Relation::Parent);
        // A slot of its own, as any header that follows.
        assert_ne!(with_second.slot(), with_first.slot());
        let [was, is] = [&with_first, &with_second].map(|header| header.point.generation);
        assert_eq!(is, was + 1);
        // A durable leg that is put back to before is older than the new leg.
        assert_eq!(relation(&with_first, &with_second), Relation::FastIsNewer);
        let held = with_first.marked("nightly".parse().unwrap());
        let taken = take(&held, second);
        assert_eq!(taken.point.generation, held.point.generation);
        assert_eq!(taken.snapshot, held.snapshot);
        assert_eq!(relation(&taken, &held), Relation::Apart);
    }

    #[test]
    fn a_durable_leg_that_is_filled_from_a_fast_leg_belongs_to_no_other_one() {
        let boot = Uuid([0xb0; 16]);
        let stripe = Uuid([7; 16]);
        let snapshot = header().opened(Uuid([2; 16]), boot).admitting(stripe);
        let fast = snapshot
            .next()
            .opened(Uuid([3; 16]), boot)
            .admitting(stripe);
        let elsewhere = snapshot.opened(Uuid([4; 16]), boot);
        let later = elsewhere.opened(Uuid([5; 16]), boot);
        for own in [None, Some(&snapshot), Some(&elsewhere), Some(&later)] {
            let named = fast.for_durable(own);
            assert_eq!(relation(&named, &fast), Relation::Same);
            assert!(named.admits(stripe));
            assert!(own.is_none_or(|own| own.point < named.point));
            for other in [&snapshot, &elsewhere] {
                assert_eq!(relation(&named, other), Relation::Apart);
            }
        }
    }

    #[test]
    fn a_machine_is_known_with_the_most_devices_that_it_had_until_its_fast_legs_are_forgotten() {
        let (session, boot) = (Uuid([9; 16]), Uuid([0xb0; 16]));
        let machine = |id, devices| Some(Machine { id, devices });
        let take = |header: &Header, fast, machine| {
            let opened = header.opened(session, boot);
            opened.taking(Uuid([fast; 16]), session, machine)
        };
        let four = take(&header(), 7, machine(1, 4));
        assert_eq!(take(&four, 8, machine(1, 2)).machine, machine(1, 4));
        assert_eq!(take(&four, 8, machine(1, 5)).machine, machine(1, 5));
        assert_eq!(take(&four, 8, machine(2, 2)).machine, machine(2, 2));
        assert_eq!(take(&four, 8, None).machine, None);
        assert_eq!(four.forgetting(session, boot).machine, None);
    }
}
