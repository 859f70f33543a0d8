//! The owner's side: what its backups must have before it answers, and what is sent to them.
//!
//! ```text
//!  change, under the lock of a stripe ─▶ lanes (one for each backup) ─▶ frame ─▶ acknowledgement
//!  answer ─▶ Owner::settled ◀────────────────────────────────────────────────────────┘
//! ```
//! One lock over guards and streams, never across an await and never under a stripe's lock. A frame takes what has
//! gathered under it, and an entry about a slot is appended under it: so no user's entry of a slot overtakes the one with
//! which the slot begins.

mod choosing;
mod giving_up;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use readstates_ring::{
    BySlot, Epoch, Incarnation, Slot, SlotConfig,
    replication::{Answer, Guard, Opening, Outbox, Streams, Tickets},
};
use tokio::{
    sync::Notify,
    time::{Instant as Deadline, timeout_at},
};

use super::{
    lane::Lane,
    rests::Rests,
    time::Time,
    wire::{self, Changed, Head, OfSlot, Said},
};

/// Backups of one owner at once: a bit of a word for each.
const MOST_LANES: usize = 64;
/// Bytes that wait for frames of one backup at most, but for one change of each caller.
const MOST_PENDING: usize = 8 << 20;

/// What is known of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The backups have what it rests on, and permit it.
    Backed,
    /// The slot has no backup.
    Alone,
    /// They have not, or do not, by the deadline.
    Late,
}

/// What one member does for the slots that it owns.
#[derive(Debug)]
pub(crate) struct Owner {
    me: Incarnation,
    time: Time,
    desk: Mutex<Desk>,
    /// For each slot the lanes that its entries go to, as bits.
    audiences: BySlot<AtomicU64>,
    /// Whether answers about a slot need a backup.
    guarded: BySlot<AtomicBool>,
    /// Whether changes of a slot are refused: its backup has to go, and what it holds is written first.
    held: BySlot<AtomicBool>,
    /// The epoch at which each slot is owned.
    epochs: BySlot<AtomicI64>,
    lanes: Box<[ArcSwapOption<Lane>]>,
    /// Something was acknowledged, or a config was learned.
    landed: Notify,
    /// Answers that wait for that.
    waiting: AtomicUsize,
}

/// An answer that waits, while it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(all: &'a AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(all)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Desk {
    streams: Streams,
    guards: BySlot<Guard>,
    /// The slots that this member owns.
    owned: BySlot<bool>,
    /// Which processes may be seeded, and what lateness of theirs is borne.
    rests: Rests,
    /// Rests that have begun and were not told yet, with how long they last.
    begun: Vec<(Incarnation, Duration)>,
    /// The number of streams to processes that there are none to: higher than that of any stream that was forgotten.
    next_stream: u32,
}

/// A frame as it leaves; it is sent as it is until it is acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) stream: u32,
    pub(crate) number: u64,
    /// When it left.
    pub(crate) sent: Duration,
    pub(crate) bytes: Vec<u8>,
}

impl Owner {
    pub(crate) fn new(me: Incarnation, time: Time) -> Self {
        Self {
            me,
            time,
            desk: Mutex::new(Desk {
                streams: Streams::new(),
                guards: BySlot::of(Guard::new),
                owned: BySlot::of(|_| false),
                rests: Rests::new(me),
                begun: Vec::new(),
                next_stream: 0,
            }),
            audiences: BySlot::of(|_| AtomicU64::new(0)),
            guarded: BySlot::of(|_| AtomicBool::new(false)),
            held: BySlot::of(|_| AtomicBool::new(false)),
            epochs: BySlot::of(|_| AtomicI64::new(0)),
            lanes: (0..MOST_LANES).map(|_| ArcSwapOption::empty()).collect(),
            landed: Notify::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Times of streams.
    pub(crate) fn now(&self) -> Duration {
        self.time.now()
    }

    fn lane_of(&self, to: Incarnation) -> Option<(usize, Arc<Lane>)> {
        let lanes = self.lanes.iter().enumerate();
        let mut lanes = lanes.filter_map(|(place, lane)| Some((place, lane.load_full()?)));
        lanes.find(|(_, lane)| lane.to() == to)
    }

    /// A lane for each stream there is, if there is room for one more. Under the lock.
    fn open_lane(&self, stream: &Outbox) -> Option<Arc<Lane>> {
        if let Some((_, lane)) = self.lane_of(stream.to()) {
            return Some(lane);
        }
        let free = self.lanes.iter().find(|lane| lane.load().is_none())?;
        let lane = Lane::new(stream.to(), stream.stream(), stream.next_number());
        let lane = Arc::new(lane);
        free.store(Some(Arc::clone(&lane)));
        Some(lane)
    }

    /// Says which lanes a slot's entries go to from now on. Under the lock.
    fn publish(&self, desk: &Desk, slot: Slot) {
        let guard = &desk.guards[slot];
        let carried = |to: &Incarnation| {
            let stream = desk.streams.get(to);
            stream.is_some_and(|stream| stream.carries(slot))
        };
        let audience = guard.audience();
        let lanes = audience.iter().filter(|to| carried(to));
        let places = lanes.filter_map(|&to| Some(self.lane_of(to)?.0));
        let bits = places.fold(0, |bits, place| bits | 1 << place);
        self.audiences[slot].store(bits, Ordering::Release);
        let guarded = &self.guarded[slot];
        guarded.store(guard.is_needed(), Ordering::SeqCst);
    }

    /// Whether anything of a user is sent to any process.
    pub(crate) fn is_backed(&self, user: u64) -> bool {
        self.audiences[Slot::of_user(user)].load(Ordering::Acquire) != 0
    }

    /// This member owns a slot by a later config; `goes_on`: it did before, without a break.
    pub(crate) fn learned(&self, slot: Slot, config: &SlotConfig, goes_on: bool) {
        let mut desk = self.desk.lock();
        if goes_on {
            self.leaves(&mut desk, slot, config);
        }
        let Desk {
            streams,
            guards,
            owned,
            rests: _,
            begun: _,
            next_stream,
        } = &mut *desk;
        owned[slot] = true;
        let guard = &mut guards[slot];
        let epoch = config.epoch();
        self.epochs[slot].store(epoch.number(), Ordering::Release);
        let opening = guard.learned(config, goes_on, streams);
        match opening {
            Opening::Continue { backup, sealed } => {
                let stream = streams.entry(backup);
                let stream = stream.or_insert_with(|| Outbox::numbered(backup, *next_stream));
                stream.begin(slot);
                let continues = OfSlot::Continue { sealed };
                self.say_of_slot(stream, slot, epoch, continues);
            }
            Opening::Nothing => {
                let backup = config.backup().and_then(|backup| streams.get_mut(&backup));
                if let Some(stream) = backup.filter(|stream| stream.carries(slot)) {
                    self.say_of_slot(stream, slot, epoch, OfSlot::Serves);
                }
            }
        }
        self.publish(&desk, slot);
        drop(desk);
        self.landed.notify_waiters();
    }

    fn say_of_slot(&self, stream: &mut Outbox, slot: Slot, epoch: Epoch, what: OfSlot) {
        if let Some(lane) = self.open_lane(stream) {
            stream.gather();
            lane.append_of_slot(|out| wire::put_of_slot(out, slot, epoch, what));
        } else {
            // Without a lane the backup is as good as one that refuses: see [`Owner::to_drop`].
            stream.end(slot);
        }
    }

    /// This member does not own a slot any more.
    pub(crate) fn lost(&self, slot: Slot) {
        let mut desk = self.desk.lock();
        let Desk {
            streams,
            guards,
            owned,
            ..
        } = &mut *desk;
        owned[slot] = false;
        guards[slot].lost(streams);
        self.publish(&desk, slot);
        drop(desk);
        self.landed.notify_waiters();
    }

    fn epoch(&self, slot: Slot) -> Option<Epoch> {
        Epoch::new(self.epochs[slot].load(Ordering::Acquire))
    }

    /// Appends to the lanes of a user's slot, while the lock of the user's stripe is held.
    fn append(&self, user: u64, put: impl Fn(&mut Vec<u8>, Epoch)) {
        let slot = Slot::of_user(user);
        let mut bits = self.audiences[slot].load(Ordering::Acquire);
        while bits != 0 {
            let place = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let lane = self.lanes[place].load();
            if let (Some(lane), Some(epoch)) = (&*lane, self.epoch(slot)) {
                lane.append(slot, |out| put(out, epoch));
            }
        }
    }

    /// A block that was the owner's own has changed.
    pub(crate) fn changed(&self, change: &Changed<'_>) {
        self.append(change.user, |out, epoch| {
            wire::put_change(out, epoch, change)
        });
    }

    /// A block is to be had whole: of a seed, or the first that an answer of this ownership rests on.
    pub(crate) fn image(&self, user: u64, version: u64, block: &[u8]) {
        self.append(user, |out, epoch| {
            wire::put_image(out, epoch, user, version, block)
        });
    }

    /// The database has a user at this version, by a write of this ownership.
    pub(crate) fn written(&self, user: u64, version: u64) {
        self.append(user, |out, epoch| wire::put_trim(out, epoch, user, version));
    }

    /// Whether changes of a slot may be made: its backups take them, and no more wait than they can take.
    pub(crate) fn takes_changes(&self, slot: Slot) -> bool {
        if self.held[slot].load(Ordering::Acquire) {
            return false;
        }
        let mut bits = self.audiences[slot].load(Ordering::Acquire);
        while bits != 0 {
            let place = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let lane = self.lanes[place].load();
            if lane
                .as_ref()
                .is_some_and(|lane| lane.pending() >= MOST_PENDING)
            {
                return false;
            }
        }
        true
    }

    /// Whether answers about a slot need a backup, so that it has one or is about to.
    pub(crate) fn is_guarded(&self, slot: Slot) -> bool {
        self.guarded[slot].load(Ordering::SeqCst)
    }

    /// Waits until the backups have what an answer about a user rests on, and permit it, at most until the deadline.
    /// Ask once the work is done. `is_dirty`: the database lacks something of the user.
    ///
    /// Cancel-safe: it only looks.
    pub(crate) async fn settled(
        &self,
        user: u64,
        answer: Answer,
        is_dirty: bool,
        deadline: Deadline,
    ) -> Settled {
        let slot = Slot::of_user(user);
        if !self.is_guarded(slot) {
            return Settled::Alone;
        }
        let tickets = match is_dirty {
            true => tickets(&self.open_lanes(), slot),
            false => Tickets::default(),
        };
        self.landed(slot, answer, &tickets, deadline).await
    }

    /// The same of changes in several slots, which were all made: the slots that have no backup; `None` when any is late.
    ///
    /// Which frames are waited for is settled before the first wait. What others change meanwhile is not waited for:
    /// looked up one after another, each slot could wait for one more frame.
    ///
    /// Cancel-safe: it only looks.
    pub(crate) async fn settled_all(
        &self,
        slots: &[Slot],
        answer: Answer,
        deadline: Deadline,
    ) -> Option<Vec<Slot>> {
        let lanes = self.open_lanes();
        let waited_for: Vec<_> = slots.iter().map(|&slot| tickets(&lanes, slot)).collect();
        drop(lanes);
        let mut alone = Vec::new();
        for (&slot, tickets) in slots.iter().zip(&waited_for) {
            let settled = match self.is_guarded(slot) {
                true => self.landed(slot, answer, tickets, deadline).await,
                false => Settled::Alone,
            };
            match settled {
                Settled::Backed => {}
                Settled::Alone => alone.push(slot),
                Settled::Late => return None,
            }
        }
        Some(alone)
    }

    /// Waits for these frames.
    async fn landed(
        &self,
        slot: Slot,
        answer: Answer,
        tickets: &Tickets,
        deadline: Deadline,
    ) -> Settled {
        let _waiting = Waiting::begin(&self.waiting);
        loop {
            let landed = self.landed.notified();
            tokio::pin!(landed);
            landed.as_mut().enable();
            let is_late = Deadline::now() >= deadline;
            match self.look(slot, answer, tickets) {
                Settled::Late if is_late => return Settled::Late,
                // Too late or landed: it is looked at once more.
                Settled::Late => {
                    let _ = timeout_at(deadline, landed).await;
                }
                settled @ (Settled::Backed | Settled::Alone) => return settled,
            }
        }
    }

    fn open_lanes(&self) -> Vec<Arc<Lane>> {
        let lanes = self.lanes.iter();
        lanes.filter_map(ArcSwapOption::load_full).collect()
    }

    fn look(&self, slot: Slot, answer: Answer, tickets: &Tickets) -> Settled {
        let desk = self.desk.lock();
        let guard = &desk.guards[slot];
        let backed = guard.backed(answer, tickets, (&desk.streams, self.now()));
        match (backed, guard.is_needed()) {
            (Ok(()), true) => Settled::Backed,
            (Ok(()), false) => Settled::Alone,
            (Err(_), _) => Settled::Late,
        }
    }

    /// The next frame to a process takes everything that has gathered; without anything it is a heartbeat. One at a time.
    pub(crate) fn leave(&self, to: Incarnation) -> Option<Leaving> {
        let mut desk = self.desk.lock();
        let (_, lane) = self.lane_of(to)?;
        let (stream, now) = (desk.streams.get_mut(&to)?, self.now());
        let (of, number) = (stream.stream(), stream.leave(now));
        let mut bytes = Vec::with_capacity(wire::HEAD + lane.pending());
        let head = Head {
            from: self.me,
            to,
            stream: of,
            number,
        };
        wire::put_head(&mut bytes, head);
        lane.take((of, number), &mut bytes);
        Some(Leaving {
            stream: of,
            number,
            sent: now,
            bytes,
        })
    }

    /// Waits until there is something for a process that no frame has taken.
    pub(crate) async fn gathered(&self, to: Incarnation) {
        match self.lane_of(to) {
            // Cancel-safe: the next frame takes it in any case.
            Some((_, lane)) => lane.news.notified().await,
            None => std::future::pending().await,
        }
    }

    /// A backup has answered; returns whether that frame is acknowledged, or of a stream that was given up.
    pub(crate) fn acknowledged(&self, to: Incarnation, of: &Leaving, said: Option<&Said>) -> bool {
        let mut desk = self.desk.lock();
        let now = self.now();
        if said.is_some() {
            let took = now.saturating_sub(of.sent);
            desk.rests.answered(to, took, now);
        }
        let Some(stream) = desk.streams.get_mut(&to) else {
            return true;
        };
        if let Some(said) = said {
            stream.acknowledged(&said.acknowledgement, now);
        }
        let is_over = stream.stream() != of.stream || stream.under_way() == 0;
        drop(desk);
        self.landed.notify_waiters();
        is_over
    }
}

/// The frames with the last entries of a slot.
fn tickets(lanes: &[Arc<Lane>], slot: Slot) -> Tickets {
    let lanes = lanes.iter();
    lanes.map(|lane| (lane.to(), lane.last(slot))).collect()
}
