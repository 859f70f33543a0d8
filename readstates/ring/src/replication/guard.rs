//! What stands between an owner and its answers about one slot.

use std::{collections::BTreeMap, time::Duration};

use super::Outbox;
use crate::{
    Epoch, Incarnation, SlotConfig,
    mutant::{self, Shortcut},
    slot::Slot,
};

/// The streams of one member, by where they lead.
pub type Streams = BTreeMap<Incarnation, Outbox>;

/// The frames that an answer waits for, each in the stream to one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Tickets(Vec<(Incarnation, (u32, u64))>);

impl FromIterator<(Incarnation, (u32, u64))> for Tickets {
    /// Frames by the process they go to, each as its stream and its number: one for each process.
    fn from_iter<I: IntoIterator<Item = (Incarnation, (u32, u64))>>(frames: I) -> Self {
        Self(frames.into_iter().collect())
    }
}

impl Tickets {
    /// The frame in the stream to a process: the first one that ever was, if none is known.
    fn of(&self, to: Incarnation) -> (u32, u64) {
        let ticket = self.0.iter().find(|(of, _)| *of == to);
        ticket.map_or((0, 0), |(_, ticket)| *ticket)
    }
}

/// The kinds of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// An operation was applied, now or before: that rests on what others did, which may not be replicated yet.
    Change,
    /// What a user has read. It waits for what it shows.
    Read,
}

/// What an answer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Waits {
    /// This process must have what the answer rests on.
    Ticket(Incarnation),
    /// This process must have accepted a frame that was sent lately.
    Permission(Incarnation),
}

/// What opens the stream of a slot to the backup that a new config names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// It is open already, or there is no backup. The backup, if there is one, is told the new epoch.
    Nothing,
    /// The backup sealed the slot and handed it over: [`super::What::Continue`].
    Continue {
        /// The backup.
        backup: Incarnation,
        /// The epoch that it sealed.
        sealed: Epoch,
    },
}

/// The backups of one slot, as its owner sees them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guard {
    slot: Slot,
    /// That of the config in force.
    backup: Option<Incarnation>,
    /// Those that the ring was asked to name, and may name at any time.
    asked: Vec<Incarnation>,
    /// That which is to be named.
    seeding: Option<Incarnation>,
    /// Everything that the database lacks was sent to it.
    is_seeded: bool,
}

impl Guard {
    /// Of a slot without a backup.
    #[must_use]
    pub fn new(slot: Slot) -> Self {
        Self {
            slot,
            backup: None,
            asked: Vec::new(),
            seeding: None,
            is_seeded: false,
        }
    }

    /// The backup of the config in force.
    #[must_use]
    pub fn backup(&self) -> Option<Incarnation> {
        self.backup
    }

    /// The member that is being seeded.
    #[must_use]
    pub fn seeding(&self) -> Option<Incarnation> {
        self.seeding
    }

    /// This member owns the slot by a later config; `goes_on`: it did before, without a break.
    ///
    /// A seed ends when the ring names another backup, on both sides: one that is not named any more would keep what it was
    /// seeded with for as long as this member owns the slot, and nobody tells it.
    pub fn learned(
        &mut self,
        config: &SlotConfig,
        goes_on: bool,
        streams: &mut Streams,
    ) -> Opening {
        let Self {
            slot,
            backup,
            asked,
            seeding,
            is_seeded: _,
        } = self;
        let before = std::mem::replace(backup, config.backup());
        let is_another = backup.is_some() && *backup != before;
        asked.clear();
        *seeding = seeding.filter(|_| goes_on && !is_another);
        for (to, stream) in streams.iter_mut() {
            let is_needed = goes_on && (Some(*to) == *backup || Some(*to) == *seeding);
            if !is_needed {
                stream.end(*slot);
            }
        }
        let open = |backup| streams.get(&backup).is_some_and(|it| it.carries(*slot));
        match (*backup, config.inherits()) {
            (Some(backup), Some(sealed)) if !open(backup) && !goes_on => {
                Opening::Continue { backup, sealed }
            }
            (Some(_) | None, Some(_) | None) => Opening::Nothing,
        }
    }

    /// This member does not own the slot any more.
    pub fn lost(&mut self, streams: &mut Streams) {
        for stream in streams.values_mut() {
            stream.end(self.slot);
        }
        *self = Self::new(self.slot);
    }

    /// The processes whose word an answer needs.
    fn needed(&self) -> impl Iterator<Item = Incarnation> + '_ {
        let asked = match mutant::takes(Shortcut::NewBackupNotAsked) {
            true => &[],
            false => &self.asked[..],
        };
        let old = self.backup.into_iter();
        old.chain(asked.iter().copied().filter(|it| Some(*it) != self.backup))
    }

    /// Whether answers need the word of this process.
    #[must_use]
    pub fn needs(&self, process: Incarnation) -> bool {
        self.needed().any(|needed| needed == process)
    }

    /// Whether the ring was asked to name this process, and has not said yet what came of it. Look once more when the ring
    /// has been read for the swap: what was learned by that may have ended it.
    #[must_use]
    pub fn has_asked(&self, process: Incarnation) -> bool {
        self.asked.contains(&process)
    }

    /// Whether answers need the word of any process.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.needed().next().is_some()
    }

    /// The processes to which every change, image and trim is sent.
    #[must_use]
    pub fn audience(&self) -> Vec<Incarnation> {
        let all = self.backup.into_iter().chain(self.asked.iter().copied());
        let mut all: Vec<Incarnation> = all.chain(self.seeding).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Takes an entry into the frames that gather for the audience. A slot that a stream does not carry is left out.
    pub fn gather(&self, streams: &mut Streams) -> Tickets {
        let mut tickets = Vec::new();
        for to in self.audience() {
            if let Some(stream) = streams.get_mut(&to).filter(|it| it.carries(self.slot)) {
                tickets.push((to, (stream.stream(), stream.gather())));
            }
        }
        Tickets(tickets)
    }

    /// Whether the backups have what an answer rests on, for which these tickets stand, and permit it (R11). The time must
    /// have been looked at after the work. If there is a backup, every answer needs its permission: when a later owner
    /// answers, or says what is lost, this one is silent. The lease is demanded besides: see
    /// [`crate::fence::may_acknowledge`].
    ///
    /// # Errors
    /// What it waits for.
    pub fn backed(
        &self,
        answer: Answer,
        tickets: &Tickets,
        (streams, now): (&Streams, Duration),
    ) -> Result<(), Waits> {
        let (no_ticket, no_permission) = match answer {
            Answer::Change => (
                Shortcut::ChangeWithoutTicket,
                Shortcut::ChangeWithoutPermission,
            ),
            Answer::Read => (Shortcut::ReadWithoutTicket, Shortcut::ReadWithoutPermission),
        };
        for backup in self.needed() {
            if mutant::takes(Shortcut::DropsAlone) && self.has_to_go(backup, streams, now) {
                continue;
            }
            let Some(stream) = streams.get(&backup) else {
                return Err(Waits::Ticket(backup));
            };
            if !stream.has(self.slot, tickets.of(backup)) && !mutant::takes(no_ticket) {
                return Err(Waits::Ticket(backup));
            }
            if !stream.permits(self.slot, now) && !mutant::takes(no_permission) {
                return Err(Waits::Permission(backup));
            }
        }
        Ok(())
    }

    /// Whether a process may be seeded: not when the ring names it, or may come to name it, for a seed drops what it
    /// has. The owner must have finished its own journal: see [`super::may_hand_on`].
    #[must_use]
    pub fn may_seed(&self, to: Incarnation) -> bool {
        self.backup != Some(to) && !self.asked.contains(&to)
    }

    /// Begins to seed a process: the frame that gathers in the stream to it is the first. What follows are
    /// [`super::What::Seed`], an image of each user that is not in the database, and [`super::What::Seeded`].
    pub fn seed(&mut self, to: Incarnation, streams: &mut Streams) {
        if let Some(given_up) = self.seeding.replace(to).filter(|&it| it != to)
            && self.may_seed(given_up)
            && let Some(stream) = streams.get_mut(&given_up)
        {
            stream.end(self.slot);
        }
        let stream = streams.entry(to).or_insert_with(|| Outbox::new(to));
        stream.begin(self.slot);
        self.is_seeded = false;
    }

    /// [`super::What::Seeded`] is in the frame that gathers, or in one before. What a seed consists of may leave in many
    /// frames, each of which is acknowledged by itself.
    pub fn seeded(&mut self) {
        self.is_seeded = true;
    }

    /// The process that the ring may be asked to name now: it has everything.
    #[must_use]
    pub fn may_name(&self, streams: &Streams) -> Option<Incarnation> {
        let seeded = |to: &Incarnation| {
            let stream = streams.get(to);
            stream.is_some_and(|it| it.has_everything(self.slot))
        };
        self.seeding.filter(seeded).filter(|_| self.is_seeded)
    }

    /// The ring is asked to name it, from now on: tell the state machine as well
    /// ([`crate::handoff::SlotAtMember::backup_asked`]).
    pub fn name(&mut self, backup: Incarnation) {
        if !self.asked.contains(&backup) {
            self.asked.push(backup);
        }
    }

    /// Whether the backup, or one that the ring was asked to name, has to go (R12): it refuses the slot, or is slow. The
    /// ring is asked to name another or none, and no answer is given until it has.
    #[must_use]
    pub fn must_drop(&self, streams: &Streams, now: Duration) -> bool {
        self.needed()
            .any(|backup| self.has_to_go(backup, streams, now))
    }

    fn has_to_go(&self, backup: Incarnation, streams: &Streams, now: Duration) -> bool {
        let Some(stream) = streams.get(&backup) else {
            return true;
        };
        let lost = !stream.carries(self.slot) || stream.refused(self.slot).is_some();
        lost || stream.is_slow(now)
    }
}
