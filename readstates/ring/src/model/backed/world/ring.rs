//! Swaps of the ring, and what a pod does when it learns of one.

use super::{Asked, BackedWorld, NOW, OfHandOff, Part, USER, insert, slot};
use crate::{
    SlotConfig,
    handoff::{Action, Event, SlotAtMember, State},
    replication::{Opening, Owned, What, backup_after},
};

impl BackedWorld {
    pub(super) fn swap(&mut self, asked: usize) {
        let Asked {
            by: _,
            expected,
            owner,
            backup,
            how,
            proven,
        } = self.swaps.remove(asked);
        let next = self
            .ring
            .swap_backed(expected, owner, backup, how.into(), NOW);
        let Ok(next) = next else {
            return;
        };
        self.left.swaps -= 1;
        self.facts.taken |= proven;
        self.put(next);
    }

    fn put(&mut self, next: SlotConfig) {
        self.ring = next;
        // The others find another epoch than they expect.
        self.swaps.retain(|asked| asked.expected >= next.epoch());
    }

    /// Whether every living pod has seen that a pod took the slot (R15).
    pub(super) fn may_agree(&self, index: usize) -> bool {
        let pod = &self.pods[index];
        let taking = matches!(pod.slot.state(), State::Taking { .. });
        let mut living = self.pods.iter().filter(|pod| pod.lease);
        taking && pod.lease && living.all(|it| it.slot.config() == self.ring)
    }

    /// A pod that took the slot serves it; or takes it once more, from the database, if another may have served.
    pub(super) fn agree(&mut self, index: usize) -> Result<(), String> {
        let pod = &self.pods[index];
        let epoch = pod.slot.config().epoch();
        match pod.slot.state() {
            State::Taking { cold: true, .. } => self.hear(index, Event::Doubted { epoch }),
            State::Taking { cold: false, .. } => {
                if std::mem::take(&mut self.facts.taken) {
                    self.say_loss();
                }
                self.hear(index, Event::Agreed { epoch })
            }
            State::Owner { .. }
            | State::Sealed { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Ready { .. } => Ok(()),
        }
    }

    pub(super) fn learn(&mut self, index: usize) -> Result<(), String> {
        // It looks at its lease whenever it looks at the ring.
        if !self.pods[index].lease {
            self.hear(index, Event::LeaseLost)?;
        }
        self.hear(index, Event::Learned(self.ring))
    }

    pub(super) fn renew(&mut self, index: usize) -> Result<(), String> {
        self.hear(index, Event::LeaseLost)?;
        self.pods[index].lease = true;
        self.hear(index, Event::LeaseRenewed)
    }

    pub(super) fn hand_over(&mut self, index: usize, to: usize) -> Result<(), String> {
        self.left.moves -= 1;
        let epoch = self.pods[index].slot.config().epoch();
        let destination = self.pods[to].me;
        self.hear(index, Event::MoveAsked { epoch, destination })?;
        self.hear(index, Event::CaughtUp)
    }

    /// Lets a pod's state machine hear of an event, and carries out what it says.
    pub(super) fn hear(&mut self, index: usize, event: Event) -> Result<(), String> {
        if event == Event::Finished {
            // Clients are told nothing of what waits.
            self.pods[index].pending = None;
        }
        let before = self.pods[index].slot;
        let actions = self.pods[index].slot.step(event);
        let config = self.pods[index].slot.config();
        if config != before.config() {
            self.learned(index, before, config);
        }
        self.act(index, actions)
    }

    /// A pod has learned of another config.
    fn learned(&mut self, index: usize, before: SlotAtMember, config: SlotConfig) {
        let now = self.now;
        let pod = &mut self.pods[index];
        let held = before.flushes();
        let dirty = pod.block.filter(|block| block.dirty);
        let dirty = dirty.map(|block| (USER, block.version, block.content));
        let owned = held.map(|epoch| Owned {
            epoch,
            dirty: dirty.into_iter().collect(),
        });
        let promoted = pod.backup.learned(slot(), config, owned, now);
        let goes_on = held.is_some() && config.inherits() == held;
        if config.owner() != pod.me {
            pod.guard.lost(&mut pod.streams);
            pod.forget();
            return;
        }
        if !goes_on {
            pod.forget();
        }
        pod.promoted = promoted.is_some();
        if let Some(inherited) = promoted {
            pod.serves_from = inherited.serves_from;
            pod.inherited = Some(inherited.journal);
        }
        match pod.guard.learned(&config, goes_on, &mut pod.streams) {
            Opening::Continue { backup, sealed } => {
                self.open(index, backup, vec![What::Continue { sealed }]);
            }
            Opening::Nothing if config.backup().is_some() => {
                self.say(index, &What::Serves);
            }
            Opening::Nothing => {}
        }
    }

    pub(super) fn act(&mut self, index: usize, actions: Vec<Action>) -> Result<(), String> {
        for action in actions {
            self.carry_out_action(index, action)?;
        }
        Ok(())
    }

    fn carry_out_action(&mut self, index: usize, action: Action) -> Result<(), String> {
        let me = self.pods[index].me;
        let pod = &mut self.pods[index];
        match action {
            Action::Agree { warm } | Action::Serve { warm, .. } => {
                let received = pod.received.take();
                if !warm {
                    pod.block = None;
                } else if let Some(block) = received {
                    // It has all that the promoted owner would have to take in.
                    (pod.block, pod.inherited) = (block, None);
                }
                if let Action::Serve { epoch, .. } = action {
                    pod.term = Some(epoch);
                }
                // A promoted owner waits for nobody: see `agree` for the others.
                if pod.promoted && !warm {
                    self.agree(index)?;
                }
            }
            Action::Swap {
                expected,
                owner,
                how,
            } => {
                let asked = Asked {
                    by: me,
                    expected,
                    owner,
                    backup: backup_after(&pod.slot.config(), owner),
                    how: how.into(),
                    proven: false,
                };
                insert(&mut self.swaps, asked);
            }
            Action::SendLastPart { destination, epoch } => {
                let what = OfHandOff::All(pod.block);
                self.post(Part {
                    to: destination,
                    from: me,
                    epoch,
                    what,
                });
            }
            Action::Confirm { origin, epoch } => self.post(Part {
                to: origin,
                from: me,
                epoch,
                what: OfHandOff::Confirmed,
            }),
            Action::DropReceived => pod.received = None,
            Action::Keep { held } => {
                if let Ok(kept) = self.ring.kept(me, held, NOW) {
                    self.left.swaps = self.left.swaps.saturating_sub(1);
                    self.facts.taken = false;
                    self.put(kept);
                    return self.hear(index, Event::Learned(kept));
                }
            }
            // Streams and answers to those that are behind are left out; what is released is forgotten already.
            Action::Stream { .. }
            | Action::Seal
            | Action::AskRing
            | Action::Release { .. }
            | Action::Refuse { .. } => {}
        }
        Ok(())
    }

    fn post(&mut self, part: Part) {
        if self.place(part.to).is_some() {
            insert(&mut self.parts, part);
        }
    }
}
