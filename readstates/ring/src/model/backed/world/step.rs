//! What may happen next.

use super::{BackedWorld, How, OPERATIONS, PODS, slot};
use crate::{
    handoff::{Stage, State},
    replication::{Handing, SILENCE, may_hand_on, may_take},
};

/// What may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackedStep {
    /// An operation arrives that is not acknowledged yet, and is done; one that waits for its answer is given up.
    Arrive { pod: usize, operation: u8 },
    /// The answer is given.
    Answer { pod: usize },
    /// A pod reads the database.
    Load { pod: usize },
    /// What it read goes into its memory.
    Loaded { pod: usize },
    /// It sends a write.
    Flush { pod: usize },
    /// A write lands, and its answer arrives or not.
    Land { write: usize, answered: bool },
    /// A write is given up by its sender; it may still land.
    GiveUp { pod: usize },
    /// A clean block is evicted.
    Evict { pod: usize },
    /// An owner sends a frame without entries.
    Beat { pod: usize },
    /// An owner begins to seed another pod.
    Seed { pod: usize, to: usize },
    /// It asks the ring to name the one that is seeded.
    Name { pod: usize },
    /// It asks the ring to name no backup.
    Drop { pod: usize },
    /// A backup asks the ring to promote it; time passes until it may.
    Promote { pod: usize },
    /// An operator asks the ring to promote the backup.
    Depose,
    /// Time passes until a promoted owner may answer.
    Wait { pod: usize },
    /// A pod sees owner and backup gone, and asks for the slot.
    TakeOver { pod: usize },
    /// A frame arrives.
    Deliver { frame: usize },
    /// An acknowledgement arrives.
    Accept { acknowledgement: usize },
    /// The ring carries out a swap. Nobody is told.
    Swap { asked: usize },
    /// A pod reads the ring.
    Learn { pod: usize },
    /// A pod that took the slot finds that every living pod has seen that.
    Agree { pod: usize },
    /// An owner seals the slot for another pod.
    Move { pod: usize, to: usize },
    /// Nothing that was admitted before the seal is under way any more.
    Finish { pod: usize },
    /// The destination takes too long.
    TimeOut { pod: usize },
    /// A message of a hand-off arrives.
    Receive { part: usize },
    /// A lease runs out.
    Lapse { pod: usize },
    /// It is renewed, after the pod has noticed.
    Renew { pod: usize },
    /// A process ends, and another starts in its place.
    Crash { pod: usize },
}

impl BackedWorld {
    /// Everything that may happen next.
    pub(super) fn possible(&self) -> Vec<BackedStep> {
        let mut steps = Vec::with_capacity(32);
        for pod in 0..PODS {
            self.of_pod(pod, &mut steps);
            self.of_owner(pod, &mut steps);
        }
        for write in 0..self.writes.len() {
            steps.extend([true, false].map(|answered| BackedStep::Land { write, answered }));
        }
        steps.extend((0..self.frames.len()).map(|frame| BackedStep::Deliver { frame }));
        let acknowledgements = 0..self.acknowledgements.len();
        steps
            .extend(acknowledgements.map(|acknowledgement| BackedStep::Accept { acknowledgement }));
        steps.extend((0..self.parts.len()).map(|part| BackedStep::Receive { part }));
        if self.left.deposals > 0 && self.ring.backup().is_some() {
            steps.push(BackedStep::Depose);
        }
        if self.left.swaps > 0 {
            let asked = (0..self.swaps.len()).filter(|&asked| self.may_carry_out(asked));
            steps.extend(asked.map(|asked| BackedStep::Swap { asked }));
        }
        steps
    }

    /// A member that takes the slot from itself as from a dead process has written everything before it asks.
    fn may_carry_out(&self, asked: usize) -> bool {
        let asked = self.swaps[asked];
        let own = asked.how == How::TakenOver && asked.owner == self.ring.owner();
        let by = self.place(asked.by);
        asked.expected == self.ring.epoch()
            && (!own || by.is_none_or(|at| self.pods[at].is_written()))
    }

    fn of_pod(&self, index: usize, steps: &mut Vec<BackedStep>) {
        let pod = &self.pods[index];
        let away = matches!(
            pod.slot.state(),
            State::Away | State::Receiving { .. } | State::Ready { .. }
        );
        // Time passes until it may.
        let in_time = self.now + SILENCE;
        let may_promote = pod
            .backup
            .may_promote(slot(), in_time, |it| self.is_dead(it));
        let promotes = may_promote.is_ok();
        let takes = self.ring.owner() != pod.me
            && pod.slot.state() == State::Away
            && may_take(
                &self.ring,
                |it| self.is_dead(it),
                |it| self.is_incomplete(it),
            )
            && !promotes;
        let swaps = self.left.swaps > 0;
        let may = [
            (pod.loading.is_some(), BackedStep::Loaded { pod: index }),
            (
                pod.serves_from > self.now && pod.is_open(),
                BackedStep::Wait { pod: index },
            ),
            (
                pod.may_flush() && self.left.writes > 0,
                BackedStep::Flush { pod: index },
            ),
            (pod.writing.is_some(), BackedStep::GiveUp { pod: index }),
            (
                swaps && away && pod.lease && promotes,
                BackedStep::Promote { pod: index },
            ),
            (
                swaps && pod.lease && takes,
                BackedStep::TakeOver { pod: index },
            ),
            (
                pod.slot.config() != self.ring,
                BackedStep::Learn { pod: index },
            ),
            (self.may_agree(index), BackedStep::Agree { pod: index }),
            (
                pod.lease && self.left.lapses > 0,
                BackedStep::Lapse { pod: index },
            ),
            (!pod.lease, BackedStep::Renew { pod: index }),
            (self.left.crashes > 0, BackedStep::Crash { pod: index }),
        ];
        steps.extend(
            may.into_iter()
                .filter(|(may, _)| *may)
                .map(|(_, step)| step),
        );
    }

    fn of_owner(&self, index: usize, steps: &mut Vec<BackedStep>) {
        let pod = &self.pods[index];
        match pod.stage() {
            Some(Stage::Finishing { .. }) => {
                steps.push(BackedStep::TimeOut { pod: index });
                if pod.pending.is_none() {
                    steps.push(BackedStep::Finish { pod: index });
                }
            }
            Some(Stage::Sent { .. } | Stage::Handing { .. }) => {
                steps.push(BackedStep::TimeOut { pod: index });
            }
            Some(Stage::Retaking { .. } | Stage::WithoutLease { .. }) | None => {}
        }
        if pod.pending.is_some() {
            steps.push(BackedStep::Answer { pod: index });
        }
        if !pod.is_open() {
            return;
        }
        match pod.block {
            Some(_) => {
                // No more than there are places for.
                let operations = 0..self.left.operations.min(OPERATIONS as u8);
                let open = operations.filter(|it| self.facts.acknowledged & (1 << it) == 0);
                steps.extend(open.map(|operation| BackedStep::Arrive {
                    pod: index,
                    operation,
                }));
            }
            None if pod.loading.is_none() => steps.push(BackedStep::Load { pod: index }),
            None => {}
        }
        if pod.may_evict() && self.left.evictions > 0 {
            steps.push(BackedStep::Evict { pod: index });
        }
        if self.left.beats > 0 && !pod.guard.audience().is_empty() {
            steps.push(BackedStep::Beat { pod: index });
        }
        if self.left.swaps == 0 {
            return;
        }
        let others = || (0..PODS).filter(move |&to| to != index);
        let inherited = pod.inherited.as_ref();
        if self.left.seedings > 0 && may_hand_on(inherited, Handing::Seed) {
            let to = others().filter(|&to| pod.guard.may_seed(self.pods[to].me));
            steps.extend(to.map(|to| BackedStep::Seed { pod: index, to }));
        }
        if pod.guard.may_name(&pod.streams).is_some() {
            steps.push(BackedStep::Name { pod: index });
        }
        if pod.guard.backup().is_some() {
            steps.push(BackedStep::Drop { pod: index });
        }
        if self.left.moves > 0 && !pod.is_streaming() && may_hand_on(inherited, Handing::Move) {
            steps.extend(others().map(|to| BackedStep::Move { pod: index, to }));
        }
    }
}
