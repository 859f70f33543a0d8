//! What gathers for one backup until the next frame takes it.
//!
//! Several buffers, each for some of the slots: an entry is appended while the cache holds the lock of the user's stripe
//! anyway, so those of a user keep their order. Entries about whole slots have a buffer of their own, which a frame takes first.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use readstates_ring::{Incarnation, Slot};
use tokio::sync::Notify;

/// As many as the cache has stripes: changes of two users seldom wait for each other.
const BUFFERS: u16 = 64;

/// Bytes of memory that an empty buffer keeps.
const MOST_KEPT: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Lane {
    to: Incarnation,
    buffers: Box<[Mutex<Gathered>]>,
    of_slots: Mutex<Vec<u8>>,
    /// Bytes in all of them.
    pending: AtomicUsize,
    /// There is something to be sent.
    pub(super) news: Notify,
}

/// The entries of some slots that no frame has taken.
#[derive(Debug, Default)]
struct Gathered {
    records: Vec<u8>,
    /// The stream and the frame that take the next entry.
    next: (u32, u64),
    /// Those that took the last one.
    last: (u32, u64),
}

impl Lane {
    /// For a stream whose next frame has this number.
    pub(super) fn new(to: Incarnation, stream: u32, next: u64) -> Self {
        let gathered = || Gathered {
            next: (stream, next),
            ..Gathered::default()
        };
        Self {
            to,
            buffers: (0..BUFFERS).map(|_| Mutex::new(gathered())).collect(),
            of_slots: Mutex::default(),
            pending: AtomicUsize::new(0),
            news: Notify::new(),
        }
    }

    pub(super) fn to(&self) -> Incarnation {
        self.to
    }

    fn buffer(&self, slot: Slot) -> &Mutex<Gathered> {
        &self.buffers[usize::from(slot.number() % BUFFERS)]
    }

    /// Appends what `put` writes for a user of a slot, while the lock of the user's stripe is held.
    pub(super) fn append(&self, slot: Slot, put: impl FnOnce(&mut Vec<u8>)) {
        let mut gathered = self.buffer(slot).lock();
        let before = gathered.records.len();
        put(&mut gathered.records);
        let added = gathered.records.len() - before;
        gathered.last = gathered.next;
        // Before a frame can take it: never more is taken than was added.
        self.pending.fetch_add(added, Ordering::SeqCst);
        drop(gathered);
        self.news.notify_one();
    }

    /// Appends an entry about a whole slot. The caller lets no frame leave meanwhile.
    pub(super) fn append_of_slot(&self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut records = self.of_slots.lock();
        let before = records.len();
        put(&mut records);
        self.pending
            .fetch_add(records.len() - before, Ordering::SeqCst);
        drop(records);
        self.news.notify_one();
    }

    /// The frame that has the last entry so far of any slot that shares a buffer with this one.
    pub(super) fn last(&self, slot: Slot) -> (u32, u64) {
        self.buffer(slot).lock().last
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

    /// The frame of this number takes everything. The caller lets one frame leave at a time.
    pub(super) fn take(&self, (stream, number): (u32, u64), out: &mut Vec<u8>) {
        let before = out.len();
        out.append(&mut self.of_slots.lock());
        for buffer in &self.buffers {
            let mut gathered = buffer.lock();
            out.extend_from_slice(&gathered.records);
            gathered.records.clear();
            gathered.records.shrink_to(MOST_KEPT);
            gathered.next = (stream, number + 1);
        }
        self.pending.fetch_sub(out.len() - before, Ordering::SeqCst);
    }

    /// Drops everything: another stream has begun.
    pub(super) fn begin_again(&self, stream: u32) {
        let mut dropped = Vec::new();
        self.take((stream, 0), &mut dropped);
        for buffer in &self.buffers {
            buffer.lock().next = (stream, 0);
        }
    }
}
