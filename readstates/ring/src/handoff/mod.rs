//! The hand-off of one slot, as one member sees it: data in, data out.
//!
//! Comes in: [`Event`]s (what the member learned, was asked, or was answered). Goes out: [`Action`]s
//! for the shell to carry out. Never here: IO, a clock, blocks; the shell moves the blocks and
//! reports. The shell may be slow, may be killed between any two actions, and may carry out an old one
//! late: the rules below hold all the same, because ownership changes only by the swap.
//!
//! ```text
//!           Offered          Final            Learned (e', me)
//!   Away ───────────▶ Receiving ───▶ Ready ────────────────────▶ Owner (e') ◀──────────────┐
//!    ▲                    │            │                           │  CaughtUp, LeaseLost  │ Learned
//!    │   Learned (e', another member)  │                           ▼                       │ (e'', me)
//!    └────────────────────┴────────────┴───────────────────────  Sealed ───────────────────┘
//! ```
//! A receiving member goes back to `Away` by itself when the owner is silent for long. One that is `Ready` never
//! does: it has confirmed, and the ring may name it at any time.
//!
//! A process may take a slot for itself: from a dead process, or from itself after a lost lease or a failed move. It
//! serves the slot only when every living member has said that it has seen the take: the store may have been restored,
//! and another member may be serving at an epoch that the store has forgotten. Until then the slot is `Taking`:
//! ```text
//!   Away, Sealed ── Learned (e', me), by a swap of its own ──▶ Taking (e') ── Agreed ──▶ Owner (e')
//! ```
//! A process that has asked the ring to name another, or that was without its lease, cannot know whether another
//! process served meanwhile in a ring that the store has forgotten. If it has asked, or if a dead process has seen what
//! the ring has not (`Doubted`), it writes what it has, drops it, and takes the slot as from a dead process, above
//! every epoch that dead processes have said.
//!
//! A member that serves, and has done so without a break since its epoch began, does not accept a config that it has
//! not asked for itself: no other member can have taken the slot. It keeps the slot, under an epoch above what the
//! store says. So does one that has sealed the slot and has asked the ring to name no other: its move has failed, and it
//! holds what no other process has. Not so with a slot that has a backup, or may have one by now: that one is promoted without asking
//! ([`crate::replication`]).
//!
//! A seal is final: no event leads from `Sealed` to `Owner` of the same epoch. When the destination
//! does not answer, the owner goes forward: it swaps itself in under a new epoch.
//!
//! | rule | where it is kept |
//! |---|---|
//! | R1 only the owner of the epoch, with its lease, acknowledges | [`SlotAtMember::in_force`], [`fence::may_acknowledge`] |
//! | R2 an older epoch's message is refused, a newer one's is learned first | `offered`, `last_part` |
//! | R3 the next owner is the current one, or confirmed the sealed state, or takes over | `confirmed` |
//! | R4 a seal is final | `stream_failed` |
//! | R5 a process acts only as the exact incarnation named | `learned` |
//! | R9 memory is freed only when the new epoch was seen | `learned` |
//! | R15 a taken slot is served once every living member has seen the take | `learned`, `agreed` |
//! | R16 a member that was never out of service keeps its slots | `learned`, [`SlotAtMember::unbroken`] |
//! | R17 a slot that another process may have served is loaded from the database | `is_cold`, `doubted` |
//!
//! R6 is in [`SlotAtMember::flushes`], R7 and R8 are in [`crate::fence`], R10 is in [`crate::SlotConfig::swap`]. R18 (what
//! was handed on is kept until the new owner serves it, or until it is written) is the member's;
//! [`SlotAtMember::has_asked`] says of which slots.

mod step;
#[cfg(test)]
mod tests;

use crate::{
    Epoch, Incarnation, SlotConfig, Succession,
    fence::{self, InForce},
    mutant::{self, Rule},
};

/// Where one member stands with one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not this member's.
    Away,
    /// `origin` streams the blocks it holds as the owner at `epoch`.
    Receiving {
        /// The owner.
        origin: Incarnation,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Everything that `origin` sealed at `epoch` is here.
    Ready {
        /// The owner.
        origin: Incarnation,
        /// Its epoch.
        epoch: Epoch,
        /// The lease of this member has run out since: others may have taken the slot from it before it knows that it
        /// owns it.
        lapsed: bool,
    },
    /// This member's by the ring, but not every living member has seen that yet: nothing is admitted.
    Taking {
        /// Since this epoch. What is in memory is what it begins with.
        epoch: Epoch,
        /// The ring was asked to name another before: what is in memory is written and dropped first.
        cold: bool,
    },
    /// This member's.
    Owner {
        /// Since this epoch.
        epoch: Epoch,
        /// To whom blocks are streamed, when they are.
        streaming_to: Option<Incarnation>,
    },
    /// This member's, and nothing more is admitted at this epoch.
    Sealed {
        /// The epoch that ends.
        epoch: Epoch,
        /// How far it is.
        stage: Stage,
    },
}

/// How far a sealed slot is on its way to the next epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Operations that were admitted before the seal come to their end.
    Finishing {
        /// Who is to be next.
        destination: Incarnation,
    },
    /// The last part is on its way to the destination.
    Sent {
        /// Who is to be next.
        destination: Incarnation,
    },
    /// The destination has it all; the ring is asked to name it.
    Handing {
        /// Who is to be next.
        destination: Incarnation,
    },
    /// The ring is asked to name this member again.
    Retaking {
        /// Another process may have served meanwhile: what is in memory is written and dropped.
        cold: bool,
        /// None can have: the ring was asked to name no other, and the lease has been valid all the time.
        unbroken: bool,
    },
    /// The lease has run out: nothing is asked until it is renewed.
    WithoutLease {
        /// As with [`Stage::Retaking`].
        cold: bool,
    },
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A config of the slot, from the ring itself or from a member that read it there.
    Learned(SlotConfig),
    /// The operator would like the slot to move. A hint: it is checked against what is known.
    MoveAsked {
        /// The epoch that the operator knows.
        epoch: Epoch,
        /// Where to.
        destination: Incarnation,
    },
    /// The destination lacks little.
    CaughtUp,
    /// The destination cannot be reached, refuses, or takes too long.
    StreamFailed,
    /// No operation that was admitted before the seal is under way any more.
    Finished,
    /// The owner begins to stream the slot's blocks here.
    Offered {
        /// Who.
        origin: Incarnation,
        /// As the owner at this epoch.
        epoch: Epoch,
    },
    /// A transfer has made no progress for long: its origin may have given up, and need not say so.
    OriginSilent,
    /// The last part has come, and the digest of the whole is right.
    LastPart {
        /// From whom.
        origin: Incarnation,
        /// Sealed at this epoch.
        epoch: Epoch,
    },
    /// The destination has everything that was sealed.
    Confirmed {
        /// Who.
        destination: Incarnation,
        /// Sealed at this epoch.
        epoch: Epoch,
    },
    /// Every living member has seen that this member took the slot at this epoch, and the ring names it.
    Agreed {
        /// The epoch.
        epoch: Epoch,
    },
    /// A dead process has seen what the ring has forgotten, or has said an epoch that is no lower than the one at which
    /// this member took the slot.
    Doubted {
        /// The epoch.
        epoch: Epoch,
    },
    /// The lease of this member has run out.
    LeaseLost,
    /// It is renewed.
    LeaseRenewed,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send the destination the blocks of the slot, then each change.
    Stream {
        /// To whom.
        destination: Incarnation,
    },
    /// Admit no more operations; let arrivals wait, bounded in number and time. Report
    /// [`Event::Finished`] when none is under way.
    Seal,
    /// Send the last changes and the digest of everything.
    SendLastPart {
        /// To whom.
        destination: Incarnation,
        /// The epoch that was sealed.
        epoch: Epoch,
    },
    /// Tell the origin that everything is here.
    Confirm {
        /// To whom.
        origin: Incarnation,
        /// The epoch that was sealed.
        epoch: Epoch,
    },
    /// Ask the ring to name `owner`, if it still has the config of `expected`; and ask again until that is known. What
    /// the ring says then is [`Event::Learned`].
    Swap {
        /// The epoch that must be in force.
        expected: Epoch,
        /// The next owner.
        owner: Incarnation,
        /// [`Succession::TakenOver`] by this member itself: only when everything that it has of the slot is written,
        /// and above every epoch that any process has said.
        how: Succession,
    },
    /// Ask the ring (the store itself, not a watch) until it answers.
    AskRing,
    /// Ask whether every living member has seen that this member took the slot, and serve nothing until
    /// [`Event::Agreed`].
    Agree {
        /// With the blocks that are here; otherwise they are dropped now.
        warm: bool,
    },
    /// Swap this member in at an epoch above the ring's, as the one that goes on from the epoch it holds: see
    /// [`SlotConfig::kept`].
    Keep {
        /// The epoch at which it serves.
        held: Epoch,
    },
    /// Serve at this epoch.
    Serve {
        /// The new epoch.
        epoch: Epoch,
        /// With the blocks that are here; otherwise they are dropped first.
        warm: bool,
    },
    /// Free the blocks and pass what waits on to the owner.
    Release {
        /// The owner.
        owner: Incarnation,
    },
    /// Free what was received.
    DropReceived,
    /// Answer the sender with what is known here: it is behind.
    Refuse {
        /// The config.
        config: SlotConfig,
    },
}

/// One slot at one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotAtMember {
    me: Incarnation,
    config: SlotConfig,
    state: State,
    /// The first epoch of the ownership: with a backup, the owner's own swaps do not end it.
    since: Epoch,
    /// A backup may be promoted without asking this member.
    backed: bool,
}

impl SlotAtMember {
    /// The slot at a process that has just started and has read this config: it owns nothing, even
    /// where the config names its pod, for it is another process than the one named.
    #[must_use]
    pub fn at_start(me: Incarnation, config: SlotConfig) -> Self {
        let state = if config.owner() == me && mutant::drops(Rule::R5) {
            State::Owner {
                epoch: config.epoch(),
                streaming_to: None,
            }
        } else {
            State::Away
        };
        Self {
            me,
            config,
            state,
            since: config.epoch(),
            backed: config.backup().is_some(),
        }
    }

    /// The member.
    #[must_use]
    pub fn me(&self) -> Incarnation {
        self.me
    }

    /// The newest config that is known here.
    #[must_use]
    pub fn config(&self) -> SlotConfig {
        self.config
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The epoch at which operations are admitted now, if any are.
    #[must_use]
    pub fn admits(&self) -> Option<Epoch> {
        match self.state {
            State::Owner { epoch, .. } => Some(epoch),
            State::Away
            | State::Receiving { .. }
            | State::Ready { .. }
            | State::Taking { .. }
            | State::Sealed { .. } => None,
        }
    }

    /// The ring is asked to name a backup. Until the next epoch is learned it may do so, and the backup may take the
    /// slot over.
    pub fn backup_asked(&mut self) {
        self.backed = true;
    }

    /// The epoch since which this member has been the owner without a break, provided that its lease is valid now: then
    /// no other member can have taken the slot, and it has not asked the ring to name another. Never known of a
    /// slot with a backup, which takes the slot over without asking.
    #[must_use]
    pub fn unbroken(&self) -> Option<Epoch> {
        if self.backed {
            return None;
        }
        match self.state {
            State::Sealed {
                epoch,
                stage: Stage::Retaking { unbroken: true, .. },
            } => Some(epoch),
            State::Away
            | State::Receiving { .. }
            | State::Ready { .. }
            | State::Taking { .. }
            | State::Owner { .. }
            | State::Sealed { .. } => self.in_service(),
        }
    }

    /// The epoch at which this member serves as the owner, and has asked for no other.
    fn in_service(&self) -> Option<Epoch> {
        match self.state {
            State::Owner { epoch, .. }
            | State::Sealed {
                epoch,
                stage: Stage::Finishing { .. } | Stage::Sent { .. },
            } => Some(epoch),
            // The ring may have taken the swap that was asked for, and others since.
            State::Sealed {
                stage: Stage::Handing { .. } | Stage::Retaking { .. } | Stage::WithoutLease { .. },
                ..
            }
            | State::Away
            | State::Receiving { .. }
            | State::Ready { .. }
            | State::Taking { .. } => None,
        }
    }

    /// Whether this member has asked the ring to name another, and does not know what came of it: the ring may do so at
    /// any time, and what is here may be all that there is of what was acknowledged (R18).
    #[must_use]
    pub fn has_asked(&self) -> bool {
        matches!(
            self.state,
            State::Sealed {
                stage: Stage::Handing { .. }
                    | Stage::Retaking { cold: true, .. }
                    | Stage::WithoutLease { cold: true },
                ..
            }
        )
    }

    /// The epoch at which this member serves, if a config contradicts that while the lease is valid: the member has not
    /// asked for another owner, so the store was restored. A config at a lower epoch is corrected in the store anyway.
    #[must_use]
    pub fn keeps(&self, config: SlotConfig) -> Option<Epoch> {
        let held = self.unbroken()?;
        let is_other = config.epoch() >= held && config != self.config;
        let is_own = config.owner() == self.me && config.inherits() == Some(held);
        let keeps = is_other && !is_own && !mutant::drops(Rule::R16);
        keeps.then_some(held)
    }

    /// The epochs whose operations may be acknowledged now, for [`fence::may_acknowledge`]. The owner's own swaps from
    /// one backup to another leave an operation in force; those that a seal came before do not.
    #[must_use]
    pub fn in_force(&self) -> Option<InForce> {
        let current = match self.state {
            State::Owner { epoch, .. } => epoch,
            State::Sealed {
                epoch,
                stage: Stage::Finishing { .. },
            } => epoch,
            State::Sealed { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Ready { .. }
            | State::Taking { .. } => return None,
        };
        let since = self.since;
        Some(InForce { since, current })
    }

    /// Whether an operation that was admitted at `epoch` and has been applied may be acknowledged: see
    /// [`fence::may_acknowledge`].
    #[must_use]
    pub fn may_acknowledge(&self, epoch: Epoch, lease_valid: bool) -> bool {
        fence::may_acknowledge(epoch, self.in_force(), lease_valid)
    }

    /// The epoch whose blocks are in memory here as the owner's: what a flush is stamped with (R6).
    #[must_use]
    pub fn flushes(&self) -> Option<Epoch> {
        match self.state {
            State::Owner { epoch, .. }
            | State::Sealed { epoch, .. }
            | State::Taking { epoch, .. } => Some(epoch),
            State::Away | State::Receiving { .. } | State::Ready { .. } => None,
        }
    }
}
