//! The protocol of an owner with a backup: what one member acknowledged, another has, until the database has it.
//!
//! Comes in: what an owner did to a block, frames and acknowledgements between two members, configs of the ring, and the
//! time. Goes out: what to send, whether an answer may be given, who may be promoted, and what a promoted owner begins
//! with. Never here: IO, a clock, a task; blocks and operations are type parameters. Times are durations since any fixed
//! moment on the monotonic clock of the member that looks at them; those of two members are never compared.
//!
//! ```text
//!   owner                                               backup
//!   Guard (a slot) ─▶ Outbox (a stream) ── Frame ──▶ Backup (a member): Inbox (a stream), Journal (a slot)
//!     ▲ backed            ▲                               │                  │
//!     └───────────────────┴────── Acknowledgement ◀───────┘                  └─▶ promoted owner: Journal::replay
//! ```
//! A stream goes from one process to one other, and has the frames of all slots that the one owns and the other backs.
//! Frames are numbered; a backup accepts them in order, without a gap. Each change of a slot is an entry in the stream to
//! its backup. A [`Tickets`] says which frame takes it, and an answer waits for the acknowledgement of that frame.
//!
//! | rule | where it is kept |
//! |---|---|
//! | R11 no answer before the backup in force has what it rests on, and permits it | [`Guard::backed`] |
//! | R12 a backup that missed something is out by swap before the next answer | [`Guard::must_drop`] |
//! | R13 only a complete backup succeeds without loss; others when owner and backup are gone | [`Backup::may_promote`], [`may_take`] |
//! | R14 a record stands on a base that cannot change | [`crate::fence::base`], [`crate::fence::needs`] |
//!
//! **Permission.** An acknowledgement permits the owner to answer until [`PERMISSION`] after it *sent* the frame. A
//! backup asks to be promoted when it has heard nothing for [`SILENCE`], which is longer, or when the owner's lease has run
//! out, and accepts nothing more from before it asks; promoted, it waits until [`SILENCE`] is over. So the owner before gives no answer of any kind when a promoted one does, and no two clocks are
//! compared. The lease (R1) is demanded besides: others may take a slot from an owner and a backup whose leases have
//! run out.
//!
//! **A swap that names a backup** is asked for when that one has everything. From then on, until the ring has said what
//! came of it, both the old and the new one are needed: the ring may name the new one, which may be promoted.
//!
//! **A promoted owner** answers nothing until [`SILENCE`] after the last frame that it accepted, and waits for nobody else:
//! it need not know that every living member has seen the swap (R15), as one that takes a slot over must. It takes in its
//! journal above what it loads, and neither names a backup nor hands the slot on before all of that is in the database.
//!
//! The model (`model::backed`, in tests and with the feature `model`) searches all of it, with frames and acknowledgements that come late, twice, in any order or
//! never. Not in it: stores of the ring that are restored while slots have backups (R16 does not hold for such slots).

mod backup;
mod guard;
mod inbox;
mod journal;
mod outbox;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use backup::{Backup, Inherited, NotPromoted, Owned, Received};
pub use guard::{Answer, Guard, Opening, Streams, Tickets, Waits};
pub use journal::{Change, Journal, Mismatch};
pub use outbox::Outbox;

use crate::{
    Epoch, Incarnation, SlotConfig,
    mutant::{self, Shortcut},
    slot::Slot,
};

/// How long after sending a frame its acknowledgement permits answers. Less than [`SILENCE`] by more than the clocks of
/// two members drift apart in that time.
pub const PERMISSION: Duration = Duration::from_millis(1_500);
/// How long a backup has heard nothing before it asks to be promoted.
pub const SILENCE: Duration = Duration::from_millis(2_500);
/// A frame that is acknowledged later than this makes an owner ask for another backup, or none, unless it was told to bear
/// more ([`Outbox::bear`]).
pub const SLOW: Duration = Duration::from_millis(200);

/// What a stream says of one slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry<O, B> {
    /// The slot.
    pub slot: Slot,
    /// The epoch at which the sender owns it.
    pub epoch: Epoch,
    /// What it says.
    pub what: What<O, B>,
}

/// What an [`Entry`] says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What<O, B> {
    /// What follows, up to [`What::Seeded`], is everything that the database lacks. What the receiver has of the slot is
    /// dropped.
    Seed,
    /// The receiver has everything that the database lacks.
    Seeded,
    /// What follows continues what the receiver itself sealed and handed over at this epoch.
    Continue {
        /// The epoch that was sealed.
        sealed: Epoch,
    },
    /// The sender serves the slot with the receiver as its backup. Said once for each epoch; silence counts from then on.
    Serves,
    /// A user was changed.
    Change {
        /// Who.
        user: u64,
        /// How.
        change: Change<O>,
    },
    /// A whole block: of a seed, or the first that an answer of this ownership rests on.
    Image {
        /// Whose.
        user: u64,
        /// Its version.
        version: u64,
        /// The block.
        block: B,
    },
    /// The database has a user at this version: a write of the sender, in this ownership, has landed.
    Trim {
        /// Who.
        user: u64,
        /// At which version.
        version: u64,
    },
}

/// Entries that are acknowledged together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame<O, B> {
    /// The owner's process.
    pub from: Incarnation,
    /// The backup's.
    pub to: Incarnation,
    /// Which stream between the two; a later one replaces the one before.
    pub stream: u32,
    /// Its place in the stream, from 0 on.
    pub number: u64,
    /// In order. None at all is a heartbeat.
    pub entries: Vec<Entry<O, B>>,
}

/// What a backup says when a frame has come.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Acknowledgement {
    /// The backup's process.
    pub from: Incarnation,
    /// The owner's.
    pub to: Incarnation,
    /// Of this stream.
    pub stream: u32,
    /// The frames below this number are accepted.
    pub next: u64,
    /// Of all slots but these, with the epochs that are known of them: nothing of them is accepted from this stream,
    /// until it seeds them anew.
    pub refused: Vec<(Slot, Epoch)>,
}

/// Whether a third member may take a slot: its owner is dead, and so is its backup, or that one has said of this very
/// config that it is incomplete ([`Backup::is_incomplete`]): nobody would take the slot otherwise.
#[must_use]
pub fn may_take(
    config: &SlotConfig,
    dead: impl Fn(Incarnation) -> bool,
    incomplete: impl Fn(Incarnation) -> bool,
) -> bool {
    let succeeds = |backup| !dead(backup) && !incomplete(backup);
    let has_successor = config.backup().is_some_and(succeeds);
    dead(config.owner()) && (!has_successor || mutant::takes(Shortcut::TakesFromLivingBackup))
}

/// The backup to name with a swap of this owner, if it names one: a slot that is handed on is backed by who had it, which
/// has everything until then; one that is kept keeps its backup.
#[must_use]
pub fn backup_after(config: &SlotConfig, next_owner: Incarnation) -> Option<Incarnation> {
    match next_owner == config.owner() {
        true => config.backup(),
        false => Some(config.owner()),
    }
}

/// What an owner wants to do that only an owner without unfinished business may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handing {
    /// Name a backup.
    Seed,
    /// Hand the slot on, or be drained of it.
    Move,
}

/// Whether an owner may do that: one that was promoted has worked off its journal first. Users that nobody has asked
/// for since are in no other place.
#[must_use]
pub fn may_hand_on<O, B>(inherited: Option<&Journal<O, B>>, handing: Handing) -> bool {
    let shortcut = match handing {
        Handing::Seed => Shortcut::SeedsUnreplayed,
        Handing::Move => Shortcut::MovesUnreplayed,
    };
    inherited.is_none_or(Journal::is_empty) || mutant::takes(shortcut)
}
