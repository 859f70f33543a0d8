//! The transitions: [`SlotAtMember::step`] is the whole table, one function per event.

use super::{Action, Event, SlotAtMember, Stage, State};
use crate::{
    Epoch, Incarnation, SlotConfig, Succession,
    mutant::{self, Rule},
};

impl SlotAtMember {
    /// Takes in one event; returns what is to be done, in order.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Learned(config) => self.learned(config),
            Event::MoveAsked { epoch, destination } => self.move_asked(epoch, destination),
            Event::CaughtUp => self.caught_up(),
            Event::StreamFailed => self.stream_failed(),
            Event::Finished => self.finished(),
            Event::Offered { origin, epoch } => self.offered(origin, epoch),
            Event::OriginSilent => self.origin_silent(),
            Event::LastPart { origin, epoch } => self.last_part(origin, epoch),
            Event::Confirmed { destination, epoch } => self.confirmed(destination, epoch),
            Event::Agreed { epoch } => self.agreed(epoch),
            Event::Doubted { epoch } => self.doubted(epoch),
            Event::LeaseLost => self.lease_lost(),
            Event::LeaseRenewed => self.lease_renewed(),
        }
    }

    fn learned(&mut self, config: SlotConfig) -> Vec<Action> {
        if let Some(held) = self.keeps(config) {
            return vec![Action::Keep { held }];
        }
        // A restored store has given another member the epoch that this member took and has not served at.
        let given_twice = config.epoch() == self.config.epoch()
            && config.owner() != self.config.owner()
            && matches!(self.state, State::Taking { .. });
        if config.epoch() <= self.config.epoch() && !given_twice {
            return Vec::new();
        }
        let goes_on = self.goes_on_with(config);
        let is_own = goes_on && matches!(self.state, State::Owner { .. });
        let was_backed = std::mem::replace(&mut self.backed, config.backup().is_some());
        if !(is_own && (was_backed || self.backed)) {
            self.since = config.epoch();
        }
        self.config = config;
        // The epoch whose blocks are here, complete.
        let (held, received) = match self.state {
            State::Owner { epoch, .. }
            | State::Sealed { epoch, .. }
            | State::Taking { epoch, .. } => (Some(epoch), false),
            State::Ready { epoch, .. } => (Some(epoch), true),
            State::Receiving { .. } => (None, true),
            State::Away => (None, false),
        };
        if config.owner() == self.me {
            let epoch = config.epoch();
            // If another member owned the slot in between, what is here may be out of date.
            let warm = held.is_some() && config.inherits() == held;
            if !goes_on && !mutant::drops(Rule::R15) {
                let cold = warm && self.is_cold();
                self.state = State::Taking { epoch, cold };
                return vec![Action::Agree { warm }];
            }
            self.state = State::Owner {
                epoch,
                streaming_to: None,
            };
            return vec![Action::Serve { epoch, warm }];
        }
        self.state = State::Away;
        match (held, received) {
            (_, true) => vec![Action::DropReceived],
            (Some(_), false) => vec![Action::Release {
                owner: config.owner(),
            }],
            (None, false) => Vec::new(),
        }
    }

    /// Whether a config continues what is here without a break: this member was handed the slot, or kept it.
    pub(super) fn goes_on_with(&self, config: SlotConfig) -> bool {
        let held = match self.state {
            State::Ready {
                epoch,
                lapsed: false,
                ..
            } => Some(epoch),
            State::Ready { .. }
            | State::Owner { .. }
            | State::Sealed { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Taking { .. } => self.in_service(),
        };
        config.owner() == self.me && held.is_some() && config.inherits() == held
    }

    fn agreed(&mut self, agreed: Epoch) -> Vec<Action> {
        match self.state {
            State::Taking { epoch, cold: false } if epoch == agreed => {
                self.state = State::Owner {
                    epoch,
                    streaming_to: None,
                };
                // What was not to be kept was dropped before.
                vec![Action::Serve { epoch, warm: true }]
            }
            State::Taking { .. }
            | State::Owner { .. }
            | State::Sealed { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Ready { .. } => Vec::new(),
        }
    }

    fn doubted(&mut self, doubted: Epoch) -> Vec<Action> {
        match self.state {
            State::Taking { epoch, .. } if epoch == doubted => {
                self.state = State::Sealed {
                    epoch,
                    stage: Stage::Retaking {
                        cold: !mutant::drops(Rule::R17),
                        unbroken: false,
                    },
                };
                self.retake()
            }
            State::Taking { .. }
            | State::Owner { .. }
            | State::Sealed { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Ready { .. } => Vec::new(),
        }
    }

    /// Whether another process may have served what is here: the ring was asked to name it. A ring that names this
    /// member again proves nothing, since its store may have been restored.
    fn is_cold(&self) -> bool {
        let asked = match self.state {
            State::Sealed { stage, .. } => match stage {
                Stage::Handing { .. } => true,
                Stage::Retaking { cold, .. } | Stage::WithoutLease { cold } => cold,
                Stage::Finishing { .. } | Stage::Sent { .. } => false,
            },
            State::Taking { cold, .. } => cold,
            State::Owner { .. } | State::Away | State::Receiving { .. } | State::Ready { .. } => {
                false
            }
        };
        asked && !mutant::drops(Rule::R17)
    }

    fn move_asked(&mut self, asked: Epoch, destination: Incarnation) -> Vec<Action> {
        match &mut self.state {
            State::Owner {
                epoch,
                streaming_to: streaming_to @ None,
            } if *epoch == asked && destination != self.me => {
                *streaming_to = Some(destination);
                vec![Action::Stream { destination }]
            }
            State::Owner { .. }
            | State::Sealed { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Taking { .. }
            | State::Ready { .. } => Vec::new(),
        }
    }

    fn caught_up(&mut self) -> Vec<Action> {
        let State::Owner {
            epoch,
            streaming_to: Some(destination),
        } = self.state
        else {
            return Vec::new();
        };
        self.state = State::Sealed {
            epoch,
            stage: Stage::Finishing { destination },
        };
        vec![Action::Seal]
    }

    fn stream_failed(&mut self) -> Vec<Action> {
        match &mut self.state {
            State::Owner { streaming_to, .. } => {
                *streaming_to = None;
                Vec::new()
            }
            State::Sealed { .. } => self.go_forward(),
            State::Away | State::Receiving { .. } | State::Taking { .. } | State::Ready { .. } => {
                Vec::new()
            }
        }
    }

    fn finished(&mut self) -> Vec<Action> {
        let State::Sealed {
            epoch,
            stage: Stage::Finishing { destination },
        } = self.state
        else {
            return Vec::new();
        };
        if mutant::drops(Rule::R3) {
            return self.hand_to(epoch, destination);
        }
        self.state = State::Sealed {
            epoch,
            stage: Stage::Sent { destination },
        };
        vec![Action::SendLastPart { destination, epoch }]
    }

    fn offered(&mut self, origin: Incarnation, epoch: Epoch) -> Vec<Action> {
        if let Some(actions) = self.behind_or_ahead(origin, epoch) {
            return actions;
        }
        match self.state {
            // An offer that was delayed: everything it announced has come, and has been confirmed.
            State::Ready {
                origin: from,
                epoch: at,
                ..
            } if (from, at) == (origin, epoch) => Vec::new(),
            State::Away | State::Receiving { .. } | State::Ready { .. } => {
                self.state = State::Receiving { origin, epoch };
                vec![Action::DropReceived]
            }
            State::Owner { .. } | State::Sealed { .. } | State::Taking { .. } => {
                vec![Action::Refuse {
                    config: self.config,
                }]
            }
        }
    }

    fn origin_silent(&mut self) -> Vec<Action> {
        match self.state {
            State::Receiving { .. } => {
                self.state = State::Away;
                vec![Action::DropReceived]
            }
            // What was confirmed is what the next owner begins with.
            State::Ready { .. }
            | State::Away
            | State::Owner { .. }
            | State::Taking { .. }
            | State::Sealed { .. } => Vec::new(),
        }
    }

    fn last_part(&mut self, origin: Incarnation, sealed: Epoch) -> Vec<Action> {
        let epoch = if mutant::drops(Rule::R2) {
            self.config.epoch()
        } else {
            sealed
        };
        if let Some(actions) = self.behind_or_ahead(origin, epoch) {
            return actions;
        }
        match self.state {
            State::Receiving {
                origin: from,
                epoch: at,
            } if (from, at) == (origin, epoch) => {
                self.state = State::Ready {
                    origin,
                    epoch,
                    lapsed: false,
                };
                vec![Action::Confirm { origin, epoch }]
            }
            State::Ready {
                origin: from,
                epoch: at,
                ..
            } if (from, at) == (origin, epoch) => vec![Action::Confirm { origin, epoch }],
            State::Away
            | State::Receiving { .. }
            | State::Ready { .. }
            | State::Owner { .. }
            | State::Taking { .. }
            | State::Sealed { .. } => vec![Action::Refuse {
                config: self.config,
            }],
        }
    }

    /// What to do with a message about `epoch` when that is not the epoch known here.
    fn behind_or_ahead(&self, origin: Incarnation, epoch: Epoch) -> Option<Vec<Action>> {
        if epoch > self.config.epoch() {
            // The sender sends again.
            return Some(vec![Action::AskRing]);
        }
        if epoch < self.config.epoch() || origin != self.config.owner() {
            return Some(vec![Action::Refuse {
                config: self.config,
            }]);
        }
        None
    }

    fn confirmed(&mut self, by: Incarnation, confirmed: Epoch) -> Vec<Action> {
        match self.state {
            State::Sealed {
                epoch,
                stage: Stage::Sent { destination },
            } if (destination, epoch) == (by, confirmed) => self.hand_to(epoch, destination),
            State::Sealed { .. }
            | State::Owner { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Taking { .. }
            | State::Ready { .. } => Vec::new(),
        }
    }

    fn hand_to(&mut self, epoch: Epoch, destination: Incarnation) -> Vec<Action> {
        self.state = State::Sealed {
            epoch,
            stage: Stage::Handing { destination },
        };
        let swap = Action::Swap {
            expected: epoch,
            owner: destination,
            how: Succession::Handed,
        };
        if mutant::drops(Rule::R9) {
            let owner = destination;
            return vec![swap, Action::Release { owner }];
        }
        vec![swap]
    }

    /// The swap that takes the slot again, where that is the stage. Two of them under way do no harm: only one can find the
    /// epoch it expects.
    fn retake(&self) -> Vec<Action> {
        let State::Sealed {
            epoch: expected,
            stage: Stage::Retaking { cold, .. },
        } = self.state
        else {
            return Vec::new();
        };
        let how = match cold {
            false => Succession::Handed,
            true => Succession::TakenOver,
        };
        vec![Action::Swap {
            expected,
            owner: self.me,
            how,
        }]
    }

    /// The move has failed after the seal: this member takes the slot again, under a new epoch.
    fn go_forward(&mut self) -> Vec<Action> {
        let State::Sealed { epoch, stage } = self.state else {
            return Vec::new();
        };
        if mutant::drops(Rule::R4) {
            self.state = State::Owner {
                epoch,
                streaming_to: None,
            };
            return vec![Action::Serve { epoch, warm: true }];
        }
        match stage {
            Stage::Finishing { .. }
            | Stage::Sent { .. }
            | Stage::Handing { .. }
            | Stage::Retaking { .. } => {
                let cold = self.is_cold();
                let unbroken = self.unbroken().is_some();
                self.state = State::Sealed {
                    epoch,
                    stage: Stage::Retaking { cold, unbroken },
                };
                self.retake()
            }
            Stage::WithoutLease { .. } => Vec::new(),
        }
    }

    /// Another member may be about to take over: this epoch is over for this member, and the ring says who
    /// owns the next one.
    fn lease_lost(&mut self) -> Vec<Action> {
        match self.state {
            State::Owner { epoch, .. }
            | State::Sealed { epoch, .. }
            | State::Taking { epoch, .. } => {
                let cold = self.is_cold();
                self.state = State::Sealed {
                    epoch,
                    stage: Stage::WithoutLease { cold },
                };
                vec![Action::Seal]
            }
            State::Ready { ref mut lapsed, .. } => {
                *lapsed = true;
                Vec::new()
            }
            State::Away | State::Receiving { .. } => Vec::new(),
        }
    }

    fn lease_renewed(&mut self) -> Vec<Action> {
        match self.state {
            State::Sealed {
                epoch,
                stage: Stage::WithoutLease { cold },
            } => {
                let unbroken = false;
                self.state = State::Sealed {
                    epoch,
                    stage: Stage::Retaking { cold, unbroken },
                };
                self.retake()
            }
            State::Sealed { .. }
            | State::Owner { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Taking { .. }
            | State::Ready { .. } => Vec::new(),
        }
    }
}
