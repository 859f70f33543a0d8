//! The backup's side: frames of many owners come in, and of each slot there is a journal.

use std::{collections::BTreeMap, time::Duration};

use super::{Acknowledgement, Entry, Frame, Journal, SILENCE, What, inbox::Inbox};
use crate::{
    Epoch, Incarnation, SlotConfig,
    mutant::{self, Shortcut},
    slot::Slot,
};

/// What one member holds as a backup.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Backup<O, B> {
    me: Incarnation,
    /// By the owner that sends.
    streams: BTreeMap<Incarnation, Inbox>,
    slots: BTreeMap<Slot, Held<O, B>>,
}

/// One slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Held<O, B> {
    /// The newest that is known.
    config: SlotConfig,
    /// Silence of the slot counts from then, until the owner has said that it serves.
    learned: Duration,
    /// The owner has said that it serves at this epoch, with this member as its backup.
    said: Option<Epoch>,
    /// This member has asked to be promoted at this epoch: nothing of it, or from before, is accepted any more.
    promised: Option<Epoch>,
    journal: Option<Journal<O, B>>,
}

/// What comes of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// To be sent back. The frame is accepted, but for slots that are refused; or it had been, or lacks one before it.
    Acknowledge(Acknowledgement),
    /// The sender knows a later epoch of this slot than this member, which must read the ring first. Nothing is
    /// accepted; the frame will come again.
    LearnFirst(Slot, Epoch),
    /// It is for another process, or of a stream that has been replaced.
    Ignored,
}

/// What a member had of a slot as its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned<B> {
    /// The epoch at which it owned it, which is sealed or over.
    pub epoch: Epoch,
    /// Blocks that the database may lack: user, version, block.
    pub dirty: Vec<(u64, u64, B)>,
}

impl<B: Clone> Owned<B> {
    fn images(&self) -> Vec<(u64, u64, B)> {
        match mutant::takes(Shortcut::FreesHandedImages) {
            true => Vec::new(),
            false => self.dirty.clone(),
        }
    }
}

/// What a promoted owner begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherited<O, B> {
    /// What the database may lack.
    pub journal: Journal<O, B>,
    /// It answers nothing before: the owner before may be answering until then.
    pub serves_from: Duration,
}

/// Why a backup does not ask to be promoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotPromoted {
    /// The ring does not name this process.
    #[error("this process is not the backup of the slot")]
    NotBackup,
    /// It has not all that was acknowledged.
    #[error("this backup is not complete: it was never seeded to the end by the owner")]
    Incomplete,
    /// The owner is not silent for long enough, and has its lease.
    #[error("the owner is not silent for long enough, and has its lease")]
    NotSilent,
}

impl<O, B: Clone> Backup<O, B> {
    /// A process that has nothing yet.
    #[must_use]
    pub fn new(me: Incarnation) -> Self {
        Self {
            me,
            streams: BTreeMap::new(),
            slots: BTreeMap::new(),
        }
    }

    /// A config of a slot, from the ring. `owned`: this member owned the slot until now; if the config names it as the
    /// backup, what it had is what the journal begins with. Returns what this member begins with if the config promotes it.
    ///
    /// What this member has as a backup is dropped when it is a backup no more. What its owner seeds it with is kept while
    /// that one may still ask the ring to name it.
    pub fn learned(
        &mut self,
        slot: Slot,
        config: SlotConfig,
        owned: Option<Owned<B>>,
        now: Duration,
    ) -> Option<Inherited<O, B>> {
        let before = match self.slots.get_mut(&slot) {
            Some(held) if held.config.epoch() >= config.epoch() => return None,
            Some(held) => {
                held.learned = now;
                Some(std::mem::replace(&mut held.config, config))
            }
            None => {
                self.slots.insert(slot, Held::new(config, now));
                None
            }
        };
        let (me, owner) = (self.me, config.owner());
        let is_backup = config.backup() == Some(me);
        let held = self.slots.get_mut(&slot)?;
        let of = held.journal.as_ref().map(Journal::of);
        let deposed = before.map(|before| before.owner());
        let deposed = deposed.filter(|&it| it != owner && of == Some(it));
        let inherited = match (owner == me, before, &owned) {
            // It is the backup of an owner that it handed the slot to, and has accepted nothing of that one.
            (true, _, Some(owned)) if config.inherits().is_some_and(|it| it != owned.epoch) => {
                Some(Journal::handed_to(me, owned.epoch, owned.images()))
            }
            (true, Some(before), _) => held.inherit(&before, &config),
            (true, None, _) | (false, _, _) => None,
        };
        if let Some(owned) = owned.filter(|_| is_backup) {
            held.journal = Some(Journal::handed_to(owner, owned.epoch, owned.images()));
        }
        held.release(me, before);
        if let Some(deposed) = deposed
            && !mutant::takes(Shortcut::AcceptsAfterPromotion)
        {
            self.refuse(deposed, slot, config.epoch());
        }
        let at_once =
            mutant::takes(Shortcut::AnswersAtOnce) || mutant::takes(Shortcut::AcceptsUntilPromoted);
        inherited.map(|journal| Inherited {
            serves_from: match at_once {
                true => Duration::ZERO,
                false => self.heard(journal.of(), slot) + SILENCE,
            },
            journal,
        })
    }

    /// When the last frame was accepted that permitted an owner to answer about a slot.
    fn heard(&self, from: Incarnation, slot: Slot) -> Duration {
        let inbox = self.streams.get(&from);
        inbox
            .and_then(|inbox| inbox.heard_of(slot))
            .unwrap_or_default()
    }

    fn refuse(&mut self, from: Incarnation, slot: Slot, epoch: Epoch) {
        if let Some(inbox) = self.streams.get_mut(&from) {
            inbox.refuse(slot, epoch);
        }
    }

    /// A frame has come.
    pub fn receive(&mut self, frame: Frame<O, B>, now: Duration) -> Received {
        let Frame {
            from,
            to,
            stream,
            number,
            entries,
        } = frame;
        let begun = self.streams.get(&from).map(|inbox| inbox.stream);
        if to != self.me || begun.is_some_and(|begun| begun > stream) {
            return Received::Ignored;
        }
        let ahead = |entry: &&Entry<O, B>| {
            let known = self.slots.get(&entry.slot).map(|held| held.config.epoch());
            known.is_none_or(|known| known < entry.epoch)
        };
        if let Some(entry) = entries.iter().find(ahead) {
            return Received::LearnFirst(entry.slot, entry.epoch);
        }
        let inbox = self.streams.entry(from);
        let inbox = inbox.or_insert_with(|| Inbox::new(stream));
        if inbox.stream < stream {
            // What the stream before said of slots ends here: they are seeded anew, or refused.
            *inbox = Inbox {
                heard: inbox.heard,
                ..Inbox::new(stream)
            };
            for (slot, held) in &self.slots {
                if held.journal.as_ref().is_some_and(|it| it.of() == from) {
                    inbox.refuse(*slot, held.config.epoch());
                }
            }
        }
        let accepts_gap = mutant::takes(Shortcut::AcceptsGaps) && number > inbox.next;
        if number == inbox.next || accepts_gap {
            inbox.next = number + 1;
            inbox.heard = Some(now);
            for entry in entries {
                self.take_in(from, entry);
            }
        }
        self.acknowledgement(from)
    }

    fn acknowledgement(&self, to: Incarnation) -> Received {
        let Some(inbox) = self.streams.get(&to) else {
            return Received::Ignored;
        };
        let refused = inbox.refusing.iter();
        Received::Acknowledge(Acknowledgement {
            from: self.me,
            to,
            stream: inbox.stream,
            next: inbox.next,
            refused: refused.map(|(&slot, it)| (slot, it.epoch)).collect(),
        })
    }

    /// Takes in an entry of a frame that is accepted, unless its slot is refused.
    fn take_in(&mut self, from: Incarnation, entry: Entry<O, B>) {
        let Entry { slot, epoch, what } = entry;
        let (Some(held), Some(inbox)) = (self.slots.get_mut(&slot), self.streams.get_mut(&from))
        else {
            return;
        };
        let begins = match &what {
            What::Seed => true,
            What::Continue { sealed } => {
                let journal = held.journal.as_ref();
                journal.is_some_and(|it| it.continues(from, *sealed))
            }
            What::Seeded
            | What::Serves
            | What::Change { .. }
            | What::Image { .. }
            | What::Trim { .. } => false,
        };
        let is_over = held.config.owner() != from || held.promised >= Some(epoch);
        let is_lost = inbox.refusing.contains_key(&slot) && !begins;
        let is_strange = !begins && held.journal.as_ref().is_none_or(|it| it.of() != from);
        let accepts_all = mutant::takes(Shortcut::AcceptsAfterPromotion);
        let takes_trim =
            matches!(what, What::Trim { .. }) && mutant::takes(Shortcut::TrimsAfterPromise);
        if (is_over || is_lost || is_strange) && !accepts_all && !takes_trim {
            inbox.refuse(slot, held.config.epoch());
            return;
        }
        if begins {
            inbox.refusing.remove(&slot);
        }
        held.take_in(from, epoch, what);
    }

    /// Whether to ask the ring now to promote this member, and from which epoch. `is_dead` says which processes have no
    /// lease any more: one that answers nothing need not be silent, for its frames may go on while it cannot renew its
    /// lease.
    ///
    /// # Errors
    /// Why not.
    pub fn may_promote(
        &self,
        slot: Slot,
        now: Duration,
        is_dead: impl Fn(Incarnation) -> bool,
    ) -> Result<Epoch, NotPromoted> {
        let held = self.slots.get(&slot).ok_or(NotPromoted::NotBackup)?;
        let config = held.config;
        if config.backup() != Some(self.me) || config.owner() == self.me {
            return Err(NotPromoted::NotBackup);
        }
        if self.is_incomplete(slot) && !mutant::takes(Shortcut::PromotesIncomplete) {
            return Err(NotPromoted::Incomplete);
        }
        let is_silent = now >= self.silent_from(slot, held) + SILENCE;
        if !is_silent && !is_dead(config.owner()) {
            return Err(NotPromoted::NotSilent);
        }
        Ok(config.epoch())
    }

    /// The users of whom this member may be the last to have something that the database lacks: it may be promoted for
    /// their slots, which have silent or dead owners.
    pub fn entrusted(
        &self,
        now: Duration,
        is_dead: impl Fn(Incarnation) -> bool,
    ) -> impl Iterator<Item = u64> {
        let slots = self.slots.iter();
        slots
            .filter(move |&(slot, _)| self.may_promote(*slot, now, &is_dead).is_ok())
            .filter_map(|(_, held)| held.journal.as_ref())
            .flat_map(|journal| journal.users())
    }

    /// When the owner of a slot was heard of last: frames count only once it has said that it serves the slot with this
    /// backup at an epoch that this member knows. They may flow for other slots while it has not learned of this one.
    fn silent_from(&self, slot: Slot, held: &Held<O, B>) -> Duration {
        let serves = held.said == Some(held.config.epoch());
        let heard = match serves {
            true => self.heard(held.config.owner(), slot),
            false => Duration::ZERO,
        };
        held.learned.max(heard)
    }

    /// This member asks the ring to promote it: call this before. Nothing of the owner's epoch or from before is
    /// accepted any more, whatever comes of the swap.
    pub fn promise(&mut self, slot: Slot) {
        let Some(held) = self.slots.get_mut(&slot) else {
            return;
        };
        let late = mutant::takes(Shortcut::AcceptsUntilPromoted)
            || mutant::takes(Shortcut::AcceptsAfterPromotion);
        if late {
            return;
        }
        held.promised = held.promised.max(Some(held.config.epoch()));
        let (owner, epoch) = (held.config.owner(), held.config.epoch());
        self.refuse(owner, slot, epoch);
    }

    /// Whether this member has promised at this epoch: only from there may the ring be asked to promote it.
    #[must_use]
    pub fn has_promised(&self, slot: Slot, epoch: Epoch) -> bool {
        let held = self.slots.get(&slot);
        held.is_some_and(|held| held.promised >= Some(epoch))
    }

    /// Whether the ring names this member as the backup of a slot, and it has not all that was acknowledged: it says so
    /// to others, which may take the slot when the owner is dead.
    #[must_use]
    pub fn is_incomplete(&self, slot: Slot) -> bool {
        self.slots.get(&slot).is_some_and(|held| {
            let journal = held.journal.as_ref();
            let named = held.config.backup() == Some(self.me);
            named && !journal.is_some_and(|it| is_complete(self.me, &held.config, it))
        })
    }

    /// The slots that the ring names this member for as their backup, and of which it has all that was acknowledged.
    pub fn backs(&self) -> impl Iterator<Item = Slot> + '_ {
        let held = self.slots.iter();
        held.filter(|(slot, held)| {
            let (owner, backup) = (held.config.owner(), held.config.backup());
            backup == Some(self.me) && owner != self.me && !self.is_incomplete(**slot)
        })
        .map(|(slot, _)| *slot)
    }

    /// The slots that the ring names this member for as their backup without its having all that was acknowledged, each
    /// at the epoch of that config.
    pub fn incomplete(&self) -> impl Iterator<Item = (Slot, Epoch)> + '_ {
        let held = self.slots.iter();
        held.filter(|(slot, held)| held.config.owner() != self.me && self.is_incomplete(**slot))
            .map(|(slot, held)| (*slot, held.config.epoch()))
    }

    /// The slots of which this member holds something, as the backup of others or as one that is seeded.
    pub fn holds(&self) -> impl Iterator<Item = Slot> + '_ {
        let held = self.slots.iter();
        held.filter(|(_, held)| held.journal.is_some())
            .map(|(slot, _)| *slot)
    }

    /// Drops what is known of the streams of processes that `is_over` says have ended for long, unless one owns a slot or
    /// something of it is held. What one of them sends late all the same is refused, for it owns nothing.
    pub fn forget(&mut self, is_over: impl Fn(Incarnation) -> bool) {
        let slots = &self.slots;
        let is_needed = |of: Incarnation| {
            slots.values().any(|held| {
                let journal = held.journal.as_ref();
                held.config.owner() == of || journal.is_some_and(|it| it.of() == of)
            })
        };
        self.streams
            .retain(|&from, _| !is_over(from) || is_needed(from));
    }

    /// How many processes have sent to this member and are not forgotten.
    #[must_use]
    pub fn senders(&self) -> usize {
        self.streams.len()
    }
}

/// Whether a journal has everything that was acknowledged under a config which names `me` as the backup. It is judged by
/// the stream, and not by epochs: an owner may swap twice before its backup looks.
fn is_complete<O, B>(me: Incarnation, config: &SlotConfig, journal: &Journal<O, B>) -> bool {
    config.backup() == Some(me) && journal.of() == config.owner() && journal.is_complete()
}

impl<O, B> Held<O, B> {
    fn new(config: SlotConfig, learned: Duration) -> Self {
        Self {
            config,
            learned,
            said: None,
            promised: None,
            journal: None,
        }
    }

    /// Drops the journal unless the config names this member, or the owner may be seeding it and come to name it. An owner's
    /// own swaps leave that seed as it is, but for one that names another backup: see [`super::Guard::learned`].
    fn release(&mut self, me: Incarnation, before: Option<SlotConfig>) {
        let (config, before) = (&self.config, before.and_then(|before| before.backup()));
        let is_named = [Some(config.owner()), config.backup()].contains(&Some(me));
        let may_be_named =
            before != Some(me) && (config.backup().is_none() || config.backup() == before);
        let owner = config.owner();
        let is_seeded = |journal: &Journal<O, B>| may_be_named && journal.of() == owner;
        self.journal = self.journal.take().filter(|it| is_named || is_seeded(it));
    }

    /// The journal, for this member that the config promotes: the ring promotes the backup that it names, and it names
    /// one that is seeded, or was the owner before. So what is complete here is what the last owner had, even if that one
    /// has swapped since without being noticed.
    fn inherit(&mut self, before: &SlotConfig, config: &SlotConfig) -> Option<Journal<O, B>> {
        let journal = self.journal.take()?;
        let is_last = config.inherits().is_some() && journal.of() == before.owner();
        (is_last && journal.is_complete()).then_some(journal)
    }

    fn take_in(&mut self, from: Incarnation, epoch: Epoch, what: What<O, B>) {
        match what {
            What::Seed => self.journal = Some(Journal::seeded_by(from)),
            What::Serves | What::Continue { .. } => self.said = Some(epoch),
            What::Seeded => {
                if let Some(journal) = &mut self.journal {
                    journal.seeded();
                }
            }
            What::Change { user, change } => {
                if let Some(journal) = &mut self.journal {
                    journal.append(user, change);
                }
            }
            What::Image {
                user,
                version,
                block,
            } => {
                if let Some(journal) = &mut self.journal {
                    journal.image(user, version, block);
                }
            }
            What::Trim { user, version } => {
                if let Some(journal) = &mut self.journal {
                    journal.trim(user, version);
                }
            }
        }
    }
}
