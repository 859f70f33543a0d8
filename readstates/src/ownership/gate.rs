//! Admission of operations to slots: one gate for each slot, with a count of those inside.
//!
//! An operation that finds the gate open goes in, works, and asks on its way out whether it may be
//! acknowledged: the gate may have closed behind it, or the lease have run out. While a gate is
//! closed, new operations wait in front of it, bounded in number and time.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use readstates_ring::{
    BySlot, Epoch, Slot,
    fence::{self, InForce},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::lease::Lease;
use crate::limit::{Limit, Permit};

/// Set while a gate is open; below it the number of those inside.
const OPEN: u64 = 1 << 63;
/// No epoch at which anything is acknowledged.
const NONE: i64 = i64::MIN;

#[derive(Debug)]
struct SlotGate {
    inside: AtomicU64,
    /// The last epoch whose operations may be acknowledged: what the slot's state machine says is in force.
    current: AtomicI64,
    /// The first one.
    since: AtomicI64,
    /// Something about the slot is different now.
    changed: Notify,
}

/// The gates of all slots.
#[derive(Debug)]
pub(super) struct Gate {
    slots: BySlot<SlotGate>,
    lease: Arc<Lease>,
    /// Operations that wait in front of closed gates.
    pub(super) queue: Limit,
}

/// The right to work on the users of a slot. Those inside are counted until it is dropped.
pub struct Pass<'a> {
    gate: &'a Gate,
    slot: Slot,
    epoch: i64,
}

impl Gate {
    pub(super) fn new(lease: Arc<Lease>, most_queued: usize) -> Self {
        let slot = |_| SlotGate {
            inside: AtomicU64::new(0),
            current: AtomicI64::new(NONE),
            since: AtomicI64::new(NONE),
            changed: Notify::new(),
        };
        Self {
            slots: BySlot::of(slot),
            lease,
            queue: Limit::new(most_queued),
        }
    }

    fn of(&self, slot: Slot) -> &SlotGate {
        &self.slots[slot]
    }

    /// Goes in, if the gate is open.
    pub(super) fn enter(&self, slot: Slot) -> Option<Pass<'_>> {
        let gate = self.of(slot);
        // An operation that finds the gate closed must leave no trace: leaving wakes those that wait, and they look
        // again.
        if gate.inside.load(Ordering::Acquire) & OPEN == 0 {
            return None;
        }
        let before = gate.inside.fetch_add(1, Ordering::AcqRel);
        // Counted from here on: waiting for the slot to be left includes this operation.
        let pass = Pass {
            gate: self,
            slot,
            epoch: gate.current.load(Ordering::Acquire),
        };
        (before & OPEN != 0).then_some(pass)
    }

    /// Operations of these epochs may be acknowledged from now on; those of other epochs may not.
    pub(super) fn put_in_force(&self, slot: Slot, in_force: Option<InForce>) {
        let gate = self.of(slot);
        if let Some(InForce { since, .. }) = in_force {
            gate.since.store(since.number(), Ordering::Release);
        }
        let current = in_force.map_or(NONE, |it| it.current.number());
        gate.current.store(current, Ordering::Release);
    }

    /// Opens a gate, for the operations of these epochs.
    pub(super) fn open(&self, slot: Slot, in_force: Option<InForce>) {
        self.put_in_force(slot, in_force);
        let gate = self.of(slot);
        gate.inside.fetch_or(OPEN, Ordering::AcqRel);
        gate.changed.notify_waiters();
    }

    /// Closes a gate; those inside may be acknowledged if they are of these epochs.
    pub(super) fn close(&self, slot: Slot, in_force: Option<InForce>) {
        let gate = self.of(slot);
        gate.inside.fetch_and(!OPEN, Ordering::AcqRel);
        // Afterwards: an operation that goes in must be one that can be acknowledged.
        self.put_in_force(slot, in_force);
        gate.changed.notify_waiters();
    }

    /// Wakes the operations that wait, so that they look again.
    pub(super) fn look_again(&self, slot: Slot) {
        self.of(slot).changed.notify_waiters();
    }

    /// Waits until no operation is behind a closed gate.
    pub(super) async fn left(&self, slot: Slot) {
        let gate = self.of(slot);
        loop {
            let changed = gate.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if gate.inside.load(Ordering::Acquire) & !OPEN == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Waits in front of a gate, unless `now` holds already, until something is different or it is too
    /// late; returns whether it is not too late.
    pub(super) async fn wait(
        &self,
        slot: Slot,
        deadline: Instant,
        now: impl FnOnce() -> bool,
    ) -> bool {
        let changed = self.of(slot).changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        // Cancel-safe: a caller that misses the notification looks again by itself.
        now() || timeout_at(deadline, changed).await.is_ok()
    }

    /// Whether anything may be acknowledged now.
    pub(super) fn has_lease(&self) -> bool {
        self.lease.is_valid()
    }

    /// Whether a gate is open.
    pub(super) fn is_open(&self, slot: Slot) -> bool {
        self.of(slot).inside.load(Ordering::Acquire) & OPEN != 0
    }

    /// A place in the queue, if there is one.
    pub(super) fn queue(&self) -> Option<Permit<&Limit>> {
        Permit::take(&self.queue, 1)
    }
}

impl Pass<'_> {
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The epoch at which the operation went in.
    #[must_use]
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Whether what was done may be acknowledged. Ask after the work is done: the process may have been
    /// stopped between any two instructions.
    #[must_use]
    pub fn may_acknowledge(&self) -> bool {
        let gate = self.gate.of(self.slot);
        // In this order: an ownership that begins meanwhile has a later `since`.
        let current = Epoch::new(gate.current.load(Ordering::Acquire));
        let since = Epoch::new(gate.since.load(Ordering::Acquire));
        let in_force = since.zip(current);
        let in_force = in_force.map(|(since, current)| InForce { since, current });
        let lease_valid = self.gate.lease.is_valid();
        Epoch::new(self.epoch)
            .is_some_and(|admitted| fence::may_acknowledge(admitted, in_force, lease_valid))
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let gate = self.gate.of(self.slot);
        if gate.inside.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The last one out of a closed gate.
            gate.changed.notify_waiters();
        }
    }
}

impl fmt::Debug for Pass<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass")
            .field("slot", &self.slot)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::lease::LeaseClock, *};

    fn gate() -> (Gate, Slot, Epoch) {
        let lease = Arc::new(Lease::new(LeaseClock::Runtime));
        lease.extend(lease.now(), Duration::from_secs(10));
        let slot = Slot::new(7).unwrap();
        (Gate::new(lease, 2), slot, Epoch::mint(None, 1 << 50))
    }

    fn from_to(since: Epoch, current: Epoch) -> Option<InForce> {
        Some(InForce { since, current })
    }

    #[tokio::test(start_paused = true)]
    async fn who_went_in_before_a_gate_closed_is_waited_for_and_acknowledged() {
        let (gate, slot, epoch) = gate();
        assert!(gate.enter(slot).is_none());
        gate.left(slot).await;
        gate.open(slot, from_to(epoch, epoch));
        let pass = gate.enter(slot).unwrap();
        gate.close(slot, from_to(epoch, epoch));
        assert!(gate.enter(slot).is_none());
        assert!(pass.may_acknowledge());
        let still = tokio::time::timeout(Duration::from_secs(1), gate.left(slot)).await;
        assert!(still.is_err());
        drop(pass);
        gate.left(slot).await;
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_acknowledged_without_a_lease_or_at_another_epoch() {
        let (gate, slot, epoch) = gate();
        gate.open(slot, from_to(epoch, epoch));
        let pass = gate.enter(slot).unwrap();
        gate.close(slot, None);
        assert!(!pass.may_acknowledge());
        let later = Epoch::mint(Some(epoch), 0);
        gate.open(slot, from_to(later, later));
        assert!(!pass.may_acknowledge(), "it went in at the epoch before");
        let next = gate.enter(slot).unwrap();
        assert!(next.may_acknowledge());
        // Another backup, and no other owner.
        let same = Epoch::mint(Some(later), 0);
        gate.open(slot, from_to(later, same));
        assert!(next.may_acknowledge());
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(!next.may_acknowledge());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_goes_in_when_the_gate_opens_or_leaves_when_it_is_too_late() {
        let (gate, slot, epoch) = gate();
        let deadline = Instant::now() + Duration::from_secs(2);
        let waited = gate.wait(slot, deadline, || gate.is_open(slot));
        let opened = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            gate.open(slot, from_to(epoch, epoch));
        };
        assert!(tokio::join!(waited, opened).0);
        gate.close(slot, from_to(epoch, epoch));
        let deadline = Instant::now() + Duration::from_secs(2);
        assert!(!gate.wait(slot, deadline, || gate.is_open(slot)).await);
        let places: Vec<_> = (0..3).map(|_| gate.queue()).collect();
        assert!(places[1].is_some() && places[2].is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn those_in_front_of_a_closed_gate_do_not_wake_each_other() {
        let (gate, slot, _) = gate();
        let deadline = Instant::now() + Duration::from_secs(2);
        let waits = gate.wait(slot, deadline, || gate.is_open(slot));
        let mut waits = std::pin::pin!(waits);
        assert!(futures::poll!(waits.as_mut()).is_pending());
        assert!(gate.enter(slot).is_none());
        assert!(futures::poll!(waits.as_mut()).is_pending());
    }
}
