//! Giving up backups that are slow, and what follows for them: see [`rests`](super::super::rests).

use std::time::Duration;

use readstates_ring::{
    Incarnation, Slot, SlotConfig,
    replication::{Guard, Outbox, SLOW},
};

use super::{Desk, Owner};

impl Owner {
    /// The slots whose backup has to go before the next answer (R12).
    pub(crate) fn to_drop(&self) -> Vec<Slot> {
        let (mut desk, now) = (self.desk.lock(), self.now());
        desk.bear(now);
        let must = desk
            .guards
            .iter()
            .filter(|(_, guard)| guard.must_drop(&desk.streams, now));
        must.map(|(slot, _)| slot).collect()
    }

    /// The ring is asked to drop the backups of these slots. Those that are slow rest from now on: when the ring has
    /// answered, so may they, and nothing would show any more that they were slow.
    pub(crate) fn give_up(&self, slots: &[Slot]) {
        let (mut desk, now) = (self.desk.lock(), self.now());
        let guards = slots.iter().map(|&slot| &desk.guards[slot]);
        let needed = |to: &Incarnation| guards.clone().any(|guard| guard.needs(*to));
        let due: Vec<Incarnation> = desk.streams.keys().copied().filter(needed).collect();
        due.into_iter().for_each(|to| desk.give_up(to, now));
    }

    /// Gives up the frames of streams that are slow and that no answer needs.
    pub(crate) fn give_up_slow(&self) {
        let slow: Vec<Incarnation> = {
            let (desk, now) = (self.desk.lock(), self.now());
            let is_needed = |to: Incarnation| desk.guards.values().any(|guard| guard.needs(to));
            let slow = desk.streams.values().filter(|stream| stream.is_slow(now));
            slow.map(Outbox::to).filter(|&to| !is_needed(to)).collect()
        };
        slow.into_iter().for_each(|to| self.reopen(to));
    }

    /// Gives up what a process has not acknowledged. It backs nothing of this owner any more, by this stream.
    pub(crate) fn reopen(&self, to: Incarnation) {
        let mut desk = self.desk.lock();
        let now = self.now();
        if desk.streams.get(&to).is_some_and(|it| !it.is_idle()) {
            desk.give_up(to, now);
        }
        desk.rests.silent(to, now);
        let Some(stream) = desk.streams.get_mut(&to) else {
            return;
        };
        stream.reopen();
        if let Some((_, lane)) = self.lane_of(to) {
            lane.begin_again(stream.stream());
        }
        for slot in Slot::all() {
            self.publish(&desk, slot);
        }
        drop(desk);
        self.landed.notify_waiters();
    }

    /// Nothing is sent any more to a process that is silent for long, once no slot has it as a backup. It may come back:
    /// the next stream to it has a later number than all before, or it would take that one's frames for repetitions.
    pub(crate) fn forget(&self, to: Incarnation) -> bool {
        let mut desk = self.desk.lock();
        let is_needed = |guard: &Guard| guard.audience().contains(&to);
        if desk.guards.values().any(is_needed) {
            return false;
        }
        if let Some(stream) = desk.streams.remove(&to) {
            desk.next_stream = desk.next_stream.max(stream.stream() + 1);
        }
        desk.rests.forget_old(self.now());
        if let Some((place, _)) = self.lane_of(to) {
            self.lanes[place].store(None);
        }
        true
    }

    /// A slot that this member keeps gets another backup, or none. Under the lock.
    pub(super) fn leaves(&self, desk: &mut Desk, slot: Slot, config: &SlotConfig) {
        let before = desk.guards[slot].backup();
        if let Some(before) = before.filter(|&it| Some(it) != config.backup()) {
            desk.give_up(before, self.now());
        }
    }

    /// How many processes rest of those that anything is sent to, and for how long until none of them does.
    pub(crate) fn resting(&self) -> (usize, Duration) {
        let (desk, now) = (self.desk.lock(), self.now());
        let all = desk.streams.keys();
        let left = all.map(|&to| desk.rests.left(to, now));
        let resting = left.filter(|left| !left.is_zero());
        resting.fold((0, Duration::ZERO), |(count, most), left| {
            (count + 1, most.max(left))
        })
    }

    /// The longest that a frame under way is waited for.
    pub(crate) fn patience(&self) -> Duration {
        let (desk, now) = (self.desk.lock(), self.now());
        let all = desk.streams.keys();
        let all = all.map(|&to| desk.rests.patience(to, now));
        all.max().unwrap_or(SLOW)
    }

    /// The rests that have begun since the last call, with how long they last.
    pub(crate) fn begun_rests(&self) -> Vec<(Incarnation, Duration)> {
        std::mem::take(&mut self.desk.lock().begun)
    }
}

impl Desk {
    /// If a process is slow, it rests from now on.
    pub(super) fn give_up(&mut self, to: Incarnation, now: Duration) {
        let stream = self.streams.get(&to).filter(|stream| stream.is_slow(now));
        let Some(stream) = stream else { return };
        let frame = (stream.stream(), stream.first_under_way());
        if let Some(rest) = self.rests.given_up(to, frame, now) {
            self.begun.push((to, rest));
        }
    }

    /// From each what it has taken lately.
    fn bear(&mut self, now: Duration) {
        for (&to, stream) in &mut self.streams {
            stream.bear(self.rests.patience(to, now));
        }
    }
}
