//! The backup's side: frames of owners come in, and what they say is kept in memory, bounded in bytes.
//!
//! Over the bound nothing is dropped: frames with changes are not accepted until there is room, which their owner notices
//! within 200 ms. It then goes on with another backup, or without one. From half of it on, every acknowledgement asks
//! owners to write what the database lacks.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use readstates_ring::{
    Epoch, Incarnation, Slot, SlotConfig,
    replication::{Backup, Entry, Inherited, Owned, Received, What},
};

use super::{
    room::Account,
    time::Time,
    wire::{self, Done, Image, Malformed, Said},
};

/// What this member holds of others.
#[derive(Debug)]
pub(crate) struct Holding {
    time: Time,
    account: Arc<Account>,
    most: usize,
    backup: Mutex<Backup<Done, Arc<Image>>>,
}

/// What a promoted owner begins with.
type OfUsers = Inherited<Done, Arc<Image>>;

/// What comes of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// To be sent back.
    Say(Said),
    /// The owner knows a later epoch of this slot: the ring is to be read first, and the frame comes again.
    LearnFirst(Slot, Epoch),
    /// There is no room for it now: it comes again.
    Full,
    /// It is for another process, or of a stream that was replaced.
    Ignored,
}

impl Holding {
    /// With room for this many bytes.
    pub(crate) fn new(me: Incarnation, most: usize, time: Time) -> Self {
        Self {
            time,
            account: Arc::default(),
            most,
            backup: Mutex::new(Backup::new(me)),
        }
    }

    /// Bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.account.bytes()
    }

    /// A frame has come.
    ///
    /// # Errors
    /// When the bytes are no frame, or the owner's operations have another meaning here.
    pub(crate) fn receive(&self, bytes: &[u8]) -> Result<Heard, Malformed> {
        let frame = wire::decode(bytes, &self.account)?;
        let takes_room = |entry: &Entry<_, _>| match entry.what {
            What::Change { .. } | What::Image { .. } => true,
            What::Seed
            | What::Seeded
            | What::Continue { .. }
            | What::Serves
            | What::Trim { .. } => false,
        };
        // With what the frame itself takes.
        if self.account.bytes() > self.most && frame.entries.iter().any(takes_room) {
            return Ok(Heard::Full);
        }
        let received = self.backup.lock().receive(frame, self.time.now());
        Ok(match received {
            Received::Acknowledge(acknowledgement) => Heard::Say(Said {
                acknowledgement,
                has_little_room: self.account.bytes() > self.most / 2,
            }),
            Received::LearnFirst(slot, epoch) => Heard::LearnFirst(slot, epoch),
            Received::Ignored => Heard::Ignored,
        })
    }

    /// What this member had of a slot as its owner: it takes room like what comes in frames.
    pub(crate) fn owned(&self, epoch: Epoch, dirty: Vec<(u64, u64, Vec<u8>)>) -> Owned<Arc<Image>> {
        let image = |(user, version, packed): (u64, u64, Vec<u8>)| {
            let image = Image::new(packed.into(), &self.account);
            (user, version, Arc::new(image))
        };
        let dirty = dirty.into_iter().map(image).collect();
        Owned { epoch, dirty }
    }

    /// A config of a slot, from the ring: see [`Backup::learned`]. Returns what this member begins with if it is
    /// promoted, and how long it answers nothing.
    pub(crate) fn learned(
        &self,
        slot: Slot,
        config: SlotConfig,
        owned: Option<Owned<Arc<Image>>>,
    ) -> Option<(OfUsers, Duration)> {
        let now = self.time.now();
        let inherited = self.backup.lock().learned(slot, config, owned, now)?;
        let wait = inherited.serves_from.saturating_sub(now);
        Some((inherited, wait))
    }

    /// The slots for which to ask the ring now to promote this member: their owners are silent or dead. Nothing from before
    /// is accepted any more, whatever comes of it.
    pub(crate) fn promise(&self, is_dead: impl Fn(Incarnation) -> bool) -> Vec<Slot> {
        let (mut backup, now) = (self.backup.lock(), self.time.now());
        let may_promote = |slot: &Slot| backup.may_promote(*slot, now, &is_dead).is_ok();
        let due: Vec<Slot> = backup.holds().filter(may_promote).collect();
        due.iter().for_each(|&slot| backup.promise(slot));
        due
    }

    /// How many users have silent or dead owners, and something here that the database may lack.
    pub(crate) fn entrusted_users(&self, is_dead: impl Fn(Incarnation) -> bool) -> u64 {
        let (backup, now) = (self.backup.lock(), self.time.now());
        backup.entrusted(now, is_dead).count() as u64
    }

    /// Whether that was promised of a slot at this epoch.
    pub(crate) fn has_promised(&self, slot: Slot, epoch: Epoch) -> bool {
        self.backup.lock().has_promised(slot, epoch)
    }

    /// How many slots have this member as their backup, which has everything of them.
    pub(crate) fn backing(&self) -> u16 {
        self.backup.lock().backs().count() as u16
    }

    /// The slots that name this member as their backup though it lacks some of what was acknowledged, with the epochs at
    /// which they do: when their owners are dead, nobody is promoted.
    pub(crate) fn incomplete(&self) -> BTreeSet<(Slot, Epoch)> {
        self.backup.lock().incomplete().collect()
    }

    /// Frees what is known of the streams of processes that have ended.
    pub(crate) fn forget(&self, is_over: impl Fn(Incarnation) -> bool) {
        self.backup.lock().forget(is_over);
    }

    /// How many owners' streams are known.
    #[cfg(test)]
    pub(crate) fn senders(&self) -> usize {
        self.backup.lock().senders()
    }

    /// The slots of which it holds something.
    #[cfg(test)]
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.backup.lock().holds().collect()
    }
}
