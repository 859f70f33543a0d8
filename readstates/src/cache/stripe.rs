//! One lock partition: its users, their blocks, and which of them are not written.

use std::{
    collections::{BTreeMap, HashSet},
    hint::black_box,
    sync::atomic::Ordering,
    time::Instant,
};

use readstates_ring::{
    Stamp,
    fence::{self, Base, Needs, Stored},
};

use super::{
    Refused, Touch, VERSION_GAP,
    accounts::{Booked, Shared, move_by, tail},
    dirty::DirtySet,
    outcomes::Outcomes,
    slab::{Place, Slab, SlabRoom},
    table::{Bucket, Hash, MOST_HEAT, Record, Stage, Tables},
};
use crate::{
    block::{self, BlockRef, EMPTY, MAX_READ_STATES, Operation, Outcome, Room, TooManyReadStates},
    codec::Decoded,
    journal::{self, Entry},
    mixed::BuildMixed,
    replication::{Changed, NotAdmitted},
};

/// A user's distance to the store is looked at when its version passes a multiple of this: looking
/// is a search among the dirty users, and a change of one who is dirty already needs no other.
const LOOKED_AT_EVERY: u64 = 1 << 10;

/// Bytes of blocks moved in the slab for each byte that a change or an insertion appends: with a
/// sixteenth dead, and more than that in the sparsest regions, eight or so have to move for one that
/// is won.
const TIDIED_PER_BYTE: usize = 12;
/// Bytes moved in one go at most: some microseconds.
const MOST_TIDIED: usize = 1 << 14;
/// Blocks that are moved together.
const TIDIED_TOGETHER: usize = 8;

/// Bytes of memory for a user whose stamp is remembered.
const BYTES_PER_STAMP: usize = 24;

/// One lock partition.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    pub(super) tables: Tables,
    pub(super) slab: Slab,
    pub(super) dirty: DirtySet,
    /// The last write of users whose last stamp is ahead of our own: empty, unless a clock went back.
    /// Every other user's next stamp is above the last one by itself.
    ahead: BTreeMap<u64, Stamp>,
    /// Users of slots that are being sent away who have changed since they were sent.
    pub(super) changed: HashSet<u64, BuildMixed>,
    /// Bytes of the blocks' tails.
    pub(super) tails: usize,
    /// What [`Shared`] knows of this stripe.
    published_bytes: u64,
    published_buckets: u64,
}

impl Stripe {
    pub(super) fn find(&self, user: u64, hash: Hash) -> Option<Bucket> {
        self.tables
            .find(hash, |place| self.slab.user(place) == user)
    }

    pub(super) fn block(&self, bucket: Bucket) -> BlockRef<'_> {
        BlockRef::trusted(self.slab.block(self.tables.at(bucket).place()))
    }

    pub(super) fn touch(&mut self, bucket: Bucket, touch: Touch) {
        let record = self.tables.at_mut(bucket);
        let heat = match touch {
            Touch::Online => (record.heat() + 1).min(MOST_HEAT),
            Touch::Mention => record.heat().max(1),
        };
        record.put_heat(heat);
    }

    /// Takes in a user who is not here, as it was loaded.
    pub(super) fn insert(
        &mut self,
        user: u64,
        hash: Hash,
        loaded: Option<(Decoded<'_>, Stamp)>,
        shared: &Shared,
    ) -> Bucket {
        let block = loaded.as_ref().map(|(decoded, _)| decoded.block.bytes());
        let stored = loaded.as_ref().map(|&(Decoded { writer, .. }, stamp)| {
            let is_own = writer == shared.process.incarnation;
            Stored { stamp, is_own }
        });
        let first = shared.slots.first_stamp(hash);
        let base = first.map_or(Base::Foreign, |first| fence::base(stored, first));
        let appended = self.slab.appended();
        let mut place = self.slab.put(user, block.unwrap_or(&EMPTY));
        if base == Base::Foreign {
            let mut room = self.room(place);
            block::take_over(&mut room);
            place = room.place;
        }
        let bucket = self.tables.insert(hash, place);
        shared.slots.came(hash);
        if let Some((_, stamp)) = loaded {
            self.remember(user, stamp, shared);
        }
        let block = self.block(bucket);
        let tail = tail(block);
        shared.book(None, Some(Booked::new(block, false)));
        self.tails += tail;
        self.tidy_since(appended);
        self.publish(shared);
        bucket
    }

    /// Lets a clean user go; returns its states.
    pub(super) fn remove(&mut self, bucket: Bucket, shared: &Shared) -> u64 {
        let place = self.tables.at(bucket).place();
        let user = self.slab.user(place);
        let block = self.block(bucket);
        let (booked, tail) = (Booked::new(block, false), tail(block));
        shared.book(Some(booked), None);
        shared.evictions.fetch_add(1, Ordering::Relaxed);
        self.leave(user, bucket, place, tail, shared);
        booked.states()
    }

    /// A user who was booked out goes.
    pub(super) fn leave(
        &mut self,
        user: u64,
        bucket: Bucket,
        place: Place,
        tail: usize,
        shared: &Shared,
    ) {
        self.tails -= tail;
        self.tables.remove(bucket);
        self.slab.remove(place);
        shared.slots.went(Hash::of(user));
        if !self.ahead.is_empty() {
            self.ahead.remove(&user);
        }
    }

    /// Applies operations to a user, all or none.
    pub(super) fn apply(
        &mut self,
        hash: Hash,
        bucket: Bucket,
        operations: &[Operation],
        now: Instant,
        shared: &Shared,
    ) -> Result<Outcomes, Refused> {
        let user = hash.user();
        let first_version = shared.slots.first_version(hash).ok_or(Refused::NotHere)?;
        let record = self.tables.at(bucket);
        self.slab.warm(record.place());
        let block = self.block(bucket);
        admit(user, block, record.stage(), operations, shared)?;
        let written_version = block.next_version(first_version) - 1;
        let bring_forward = match self.distance(user, record, operations.len() as u64) {
            Distance::Near => false,
            Distance::Far => true,
            Distance::TooFar => {
                self.bring_forward(user, shared.moment(now));
                return Err(Refused::UserTooBusy);
            }
        };
        let before = Booked::new(block, record.stage() != Stage::Clean);
        let tail_before = tail(block);
        let (old, base) = (block.version(), block.base());
        let journaled = match base {
            Base::Own => journal::Before::Ours,
            Base::Foreign => journal::Before::Others { version: old },
        };
        let appended = self.slab.appended();
        let (outcomes, place, needs) = self.work(record.place(), operations, first_version)?;
        if needs == Needs::Nothing {
            return Ok(outcomes);
        }
        self.tables.at_mut(bucket).put_place(place);
        let block = self.block(bucket);
        shared.book(Some(before), Some(Booked::new(block, true)));
        let version = block.version();
        self.tails = self.tails + tail(block) - tail_before;
        if let Some(journal) = &shared.journal {
            let entry = Entry {
                user,
                first_version,
                version,
                before: journaled,
                operations,
            };
            journal.append(hash.stripe(), &entry);
        }
        if let Some(replicas) = shared.replicas.get() {
            let changed = Changed {
                user,
                before: old,
                version,
                first_version,
                operations,
            };
            self.replicate(&changed, needs, bucket, replicas, shared);
        }
        self.note(user, bucket, written_version, now, shared);
        self.note_for_sender(user, hash, shared);
        if bring_forward {
            self.bring_forward(user, shared.moment(now));
        }
        self.tidy_since(appended);
        self.publish(shared);
        Ok(outcomes)
    }

    /// Returns the outcomes, the block's place now, and what they need: the block changed unless that is nothing.
    fn work(
        &mut self,
        place: Place,
        operations: &[Operation],
        first_version: u64,
    ) -> Result<(Outcomes, Place, Needs), Refused> {
        let mut outcomes = Outcomes::of(operations.len());
        let mut room = self.room(place);
        let before = BlockRef::trusted(room.bytes());
        let (base, version) = (before.base(), before.version());
        // `admit` has seen that there is room for all of them.
        let tell = |outcome| outcomes.push(outcome);
        block::apply_all(&mut room, operations, first_version, tell)?;
        let applied = outcomes.as_slice().contains(&Outcome::Applied);
        let needs = fence::needs(base, version, applied);
        if needs == Needs::Image && !applied {
            block::renew(&mut room, first_version);
        }
        Ok((outcomes, room.place, needs))
    }

    pub(super) fn room(&mut self, place: Place) -> SlabRoom<'_> {
        SlabRoom {
            slab: &mut self.slab,
            place,
        }
    }

    /// How far this many changes would take a user from what is written.
    fn distance(&self, user: u64, record: Record, changes: u64) -> Distance {
        let version = BlockRef::trusted(self.slab.block(record.place())).version();
        if record.stage() == Stage::Clean
            || version / LOOKED_AT_EVERY == (version + changes) / LOOKED_AT_EVERY
        {
            return Distance::Near;
        }
        let Some(dirty) = self.dirty.get(user) else {
            return Distance::Near;
        };
        // Until the next look it can go on by as much again.
        let ahead = version.saturating_sub(dirty.written_version) + changes + LOOKED_AT_EVERY;
        if ahead >= VERSION_GAP {
            Distance::TooFar
        } else if ahead > VERSION_GAP / 2 {
            Distance::Far
        } else {
            Distance::Near
        }
    }

    /// Notes that a user has changed.
    fn note(&mut self, user: u64, bucket: Bucket, version: u64, now: Instant, shared: &Shared) {
        let now = shared.moment(now);
        let record = self.tables.at_mut(bucket);
        match record.stage() {
            Stage::Noted => return,
            Stage::Clean => {
                let due = now.after(shared.delay(user));
                self.dirty.became_dirty(user, now, due, version);
            }
            Stage::InFlight => self.dirty.changed_in_flight(user, now),
        }
        record.put_stage(Stage::Noted);
    }

    /// The last write of a user that is known.
    pub(super) fn last_stamp(&self, user: u64) -> Option<Stamp> {
        self.ahead.get(&user).copied()
    }

    /// Remembers the last write of a user where that is needed: our next stamp has to be above it.
    pub(super) fn remember(&mut self, user: u64, stamp: Stamp, shared: &Shared) {
        if !shared.slots.is_above(Hash::of(user), stamp) {
            self.ahead.insert(user, stamp);
        } else if !self.ahead.is_empty() {
            self.ahead.remove(&user);
        }
    }

    /// Tidies up for what was appended since.
    pub(super) fn tidy_since(&mut self, appended: u64) {
        // Below 2^63 for as long as a process runs.
        let taken = (self.slab.appended() - appended) as usize;
        if taken > 0 {
            self.tidy((taken * TIDIED_PER_BYTE).min(MOST_TIDIED));
        }
    }

    /// Moves blocks out of sparse regions, of about this many bytes; returns whether there is more to
    /// move.
    pub(super) fn tidy(&mut self, bytes: usize) -> bool {
        let mut left = bytes;
        while left > 0 {
            let mut named = [None; TIDIED_TOGETHER];
            for one in &mut named {
                *one = self.slab.next_to_move();
            }
            // They wait for the memory of their records together.
            let named = named.iter().flatten();
            let homes = named
                .clone()
                .map(|&(_, user, _)| self.tables.home(Hash::of(user)));
            black_box(homes.fold(0, u64::wrapping_add));
            let (mut none, mut moved) = (true, 0);
            for &(place, user, size) in named {
                none = false;
                moved += size;
                // A block that no record points to is dead.
                let holds = |candidate| candidate == place;
                if let Some(bucket) = self.tables.find(Hash::of(user), holds) {
                    let place = self.slab.move_out(place);
                    self.tables.at_mut(bucket).put_place(place);
                }
            }
            if none {
                return false;
            }
            left = left.saturating_sub(moved);
        }
        true
    }

    /// Bytes that are needed: see [`Shared::bytes`].
    pub(super) fn bytes(&self) -> usize {
        self.slab.live() + self.beside()
    }

    /// Bytes beside the slab.
    pub(super) fn beside(&self) -> usize {
        self.tables.bytes() + self.dirty.bytes() + self.ahead.len() * BYTES_PER_STAMP
    }

    /// Brings what all stripes share up to date.
    pub(super) fn publish(&mut self, shared: &Shared) {
        let bytes = self.bytes() as u64;
        move_by(&shared.bytes, self.published_bytes, bytes);
        self.published_bytes = bytes;
        let buckets = self.tables.buckets() as u64;
        move_by(&shared.buckets, self.published_buckets, buckets);
        self.published_buckets = buckets;
    }
}

/// How far a user is ahead of the store.
enum Distance {
    Near,
    /// It should be written soon.
    Far,
    /// It must be written first.
    TooFar,
}

/// Whether operations may be applied to a user now.
fn admit(
    user: u64,
    block: BlockRef<'_>,
    stage: Stage,
    operations: &[Operation],
    shared: &Shared,
) -> Result<(), Refused> {
    if shared.sealed.load(Ordering::Acquire) {
        return Err(Refused::Sealed);
    }
    let journal = shared.journal.as_ref();
    if journal.is_some_and(|journal| !journal.takes_changes()) {
        return Err(Refused::JournalBehind);
    }
    let replicas = shared.replicas.get();
    match replicas.map_or(Ok(()), |replicas| replicas.admits(user)) {
        Ok(()) => {}
        Err(NotAdmitted::Behind) => return Err(Refused::BackupBehind),
        Err(NotAdmitted::NoBackup) => return Err(Refused::NoBackup),
    }
    let creating = operations.iter().filter(|it| it.creates()).count();
    if block.len() + creating > MAX_READ_STATES
        && block.len() + new_channels(block, operations) > MAX_READ_STATES
    {
        return Err(TooManyReadStates.into());
    }
    let refused = Err(Refused::TooManyUnwritten);
    if shared.too_many_unwritten_states()
        && (stage == Stage::Clean || new_channels(block, operations) > 0)
    {
        return refused;
    }
    // Any operation may make a tail longer, except that a deletion takes more than it leaves.
    if shared.too_many_unwritten_bytes() && (stage == Stage::Clean || creating > 0) {
        return refused;
    }
    Ok(())
}

/// How many read states the operations would make.
fn new_channels(block: BlockRef<'_>, operations: &[Operation]) -> usize {
    let creating = operations.iter().filter(|operation| operation.creates());
    let mut channels: Vec<u64> = creating
        .filter_map(Operation::channel)
        .filter(|&channel| block.state(channel).is_none())
        .collect();
    channels.sort_unstable();
    channels.dedup();
    channels.len()
}
