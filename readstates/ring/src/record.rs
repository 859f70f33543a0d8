//! The ring as it is kept: which member owns which slot, at which epoch.
//!
//! Comes in: the record (JSON), or a [`RingTable`] and a swap to apply to it. Goes out: a checked table,
//! or the next one. Never here: where the record is kept, and who may ask for what.
//!
//! ```json
//! { "number": 12,
//!   "members": [ { "name": "chat-0", "incarnation": "0123456789abcdef", "url": "http://chat-0:7400", "zone": "a" } ],
//!   "epochs": [ 106420993, 0, … ], "owners": [ 0, -1, … ], "inherits": [ 106420992, -1, … ],
//!   "line": "5eed5eed5eed5eed", "lines": [ "0123456789abcdef", … ] }
//! ```
//! The lists have an entry for each slot; `owners` are indexes into `members`. A member is listed as long
//! as it owns a slot, or backs one: then there is a list `backups` of indexes, too. A slot that was never owned has epoch 0 and -1 elsewhere; once a slot has an owner
//! it always has one, and its epoch only grows. `number` grows with each change and serves readers that
//! cached an older table; safety rests on the epochs, and on the [`Line`] where the store may be restored.
//!
//! A release may add fields to the record and to its members. Older ones keep what they do not know and write it
//! back; one that must not do that is kept out by `reader`, the lowest version that may read the record, which is
//! not written as long as it is 1. A field is put to use when all members read it: a release reads what the next one
//! writes, and writes it once all are of that release. Records with `backups` have reader 2.

mod mend;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

pub use wire::{BACKED, MAX_MEMBERS, MemberRecord, READS, RecordError, RingRecord, Unknown};

use crate::{
    BySlot, Epoch, Incarnation, Line, MOST_LINES, Now, Slot, SlotConfig, Succession, SwapRefused,
    replication::backup_after,
};

/// A process that owns slots, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RingMember {
    name: String,
    incarnation: Incarnation,
    url: String,
    zone: Option<String>,
    /// What a later release says of it.
    more: Unknown,
}

impl RingMember {
    /// A member; its name need not be its own, its incarnation is.
    ///
    /// # Errors
    /// When the name, the URL or the zone is malformed.
    pub fn new(
        name: impl Into<String>,
        incarnation: Incarnation,
        url: impl Into<String>,
        zone: Option<String>,
    ) -> Result<Self, RecordError> {
        let (name, url) = (name.into(), url.into());
        wire::check_member(&name, &url, zone.as_deref())?;
        Ok(Self {
            name,
            incarnation,
            url,
            zone,
            more: Unknown::new(),
        })
    }

    /// Its name, such as a pod's.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process behind the name.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Where clients and other members reach it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The zone it runs in, where known.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }
}

/// A ring that was checked: every owner is a member, and no two members are one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingTable {
    number: u64,
    members: Vec<RingMember>,
    /// `None` for a slot that was never owned.
    slots: BySlot<Option<SlotConfig>>,
    line: Line,
    /// Those before it, the latest first.
    lines: Vec<Line>,
    /// Fields of a later release.
    more: Unknown,
}

/// Why a table is not followed by another. Nothing changed, for none of the slots asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSwapped {
    /// Another swap came first, or the caller has an old table.
    #[error("slot {slot} is at {}, not at {}", at(*.current), at(*.expected))]
    Conflict {
        /// The first such slot.
        slot: Slot,
        /// What was expected; `None`: that it was never owned.
        expected: Option<Epoch>,
        /// What is.
        current: Option<Epoch>,
    },
    /// See [`crate::MOST_AHEAD_MICROS`] and [`crate::MOST_AHEAD_IN_NEED_MICROS`].
    #[error("slot {slot} at epoch {next} would be too far ahead of the clock")]
    TooFarAhead {
        /// The first such slot.
        slot: Slot,
        /// The epoch that was not minted.
        next: Epoch,
    },
}

fn at(epoch: Option<Epoch>) -> String {
    epoch.map_or_else(|| "no epoch".to_owned(), |epoch| format!("epoch {epoch}"))
}

impl Default for RingTable {
    /// The table before the first: number 0, no slot has an owner. It is never kept.
    fn default() -> Self {
        Self {
            number: 0,
            members: Vec::new(),
            slots: BySlot::of(|_| None),
            line: Line::NONE,
            lines: Vec::new(),
            more: Unknown::new(),
        }
    }
}

impl RingTable {
    /// Grows with each change; the first is 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Which takes it has seen: see [`Line`].
    #[must_use]
    pub fn line(&self) -> Line {
        self.line
    }

    /// The same table with another line.
    #[must_use]
    pub fn on_line(mut self, line: Line) -> Self {
        if self.line != Line::NONE {
            self.lines.insert(0, self.line);
            self.lines.truncate(MOST_LINES - 1);
        }
        Self { line, ..self }
    }

    /// Whether this table follows from one of that line, as far as is known: one that was on more than [`MOST_LINES`]
    /// since does not say.
    #[must_use]
    pub fn was_on(&self, line: Line) -> bool {
        self.line == line || self.lines.contains(&line)
    }

    /// The table of this number without any owner, as it is written when a ring is created.
    #[must_use]
    pub fn empty(number: u64) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// The members that own a slot or back one.
    #[must_use]
    pub fn members(&self) -> &[RingMember] {
        &self.members
    }

    /// The member that is this process, when it is listed.
    #[must_use]
    pub fn member(&self, incarnation: Incarnation) -> Option<&RingMember> {
        self.members
            .iter()
            .find(|member| member.incarnation == incarnation)
    }

    /// The config of a slot; `None` when it was never owned.
    #[must_use]
    pub fn config(&self, slot: Slot) -> Option<SlotConfig> {
        self.slots[slot]
    }

    /// The owner of a slot; `None` when it was never owned.
    #[must_use]
    pub fn owner(&self, slot: Slot) -> Option<&RingMember> {
        self.member(self.config(slot)?.owner())
    }

    /// Every slot that has a config, in order.
    pub fn configs(&self) -> impl Iterator<Item = (Slot, SlotConfig)> + '_ {
        Slot::all().filter_map(|slot| Some((slot, self.config(slot)?)))
    }

    /// The highest epoch of all slots, if any has one.
    #[must_use]
    pub fn highest_epoch(&self) -> Option<Epoch> {
        self.configs().map(|(_, config)| config.epoch()).max()
    }

    /// The slots that a process owns, in order, with their epochs.
    pub fn owned_by(&self, owner: Incarnation) -> impl Iterator<Item = (Slot, Epoch)> + '_ {
        self.configs()
            .filter(move |(_, config)| config.owner() == owner)
            .map(|(slot, config)| (slot, config.epoch()))
    }

    /// For each slot, in order: the index of its owner in [`RingTable::members`].
    #[must_use]
    pub fn owners(&self) -> Vec<Option<u16>> {
        let places = self.places();
        let place = |config: &SlotConfig| places.get(&config.owner()).copied();
        let owners = self.slots.values();
        owners
            .map(|config| config.as_ref().and_then(place))
            .collect()
    }

    /// The place of each process in the list of members, which is never longer than the slots.
    fn places(&self) -> HashMap<Incarnation, u16> {
        let incarnations = self.members.iter().map(RingMember::incarnation);
        incarnations.zip(0..).collect()
    }

    /// The table in which `owner` owns the slots asked for, each of which must be at the epoch given
    /// with it (`None`: it was never owned). All of them or none. Its number is higher by one; the new
    /// owner is listed, and members that own nothing any more are not. When no slot is asked for, it is
    /// this table.
    ///
    /// # Errors
    /// When a slot is at another epoch, or the clock (Unix time in microseconds) forbids the next one.
    pub fn swap(
        &self,
        asked: &[(Slot, Option<Epoch>)],
        owner: &RingMember,
        succession: Succession,
        now: impl Into<Now>,
    ) -> Result<Self, NotSwapped> {
        self.swap_backed(asked, owner, None, succession, now)
    }

    /// As [`RingTable::swap`], with a backup for all of the slots, which is listed, too.
    ///
    /// # Errors
    /// As with [`RingTable::swap`].
    pub fn swap_backed(
        &self,
        asked: &[(Slot, Option<Epoch>)],
        owner: &RingMember,
        backup: Option<&RingMember>,
        succession: Succession,
        now: impl Into<Now>,
    ) -> Result<Self, NotSwapped> {
        let named = backup.map(RingMember::incarnation);
        let mut next = self.swap_each(asked, owner, |_| named, succession, now.into())?;
        if let Some(backup) = backup.filter(|_| !asked.is_empty()) {
            next.list(backup);
        }
        Ok(next)
    }

    /// As [`RingTable::swap`] for slots that their owners keep, or hand on to `owner` and back from then on: see
    /// [`backup_after`].
    ///
    /// # Errors
    /// As with [`RingTable::swap`].
    pub fn swap_handed(
        &self,
        asked: &[(Slot, Option<Epoch>)],
        owner: &RingMember,
        now: impl Into<Now>,
    ) -> Result<Self, NotSwapped> {
        let backup_of = |slot| backup_after(&self.config(slot)?, owner.incarnation);
        let how = Succession::Handed;
        self.swap_each(asked, owner, backup_of, how, now.into())
    }

    /// The backups are listed already, or by the caller.
    fn swap_each(
        &self,
        asked: &[(Slot, Option<Epoch>)],
        owner: &RingMember,
        backup_of: impl Fn(Slot) -> Option<Incarnation>,
        succession: Succession,
        now: Now,
    ) -> Result<Self, NotSwapped> {
        let mut next = self.clone();
        if asked.is_empty() {
            return Ok(next);
        }
        for &(slot, expected) in asked {
            let who = (owner.incarnation, backup_of(slot));
            // A slot that is asked for twice is at its next epoch by then.
            let swapped = next.swap_one(slot, expected, who, succession, now)?;
            next.slots[slot] = Some(swapped);
        }
        next.list(owner);
        next.number += 1;
        Ok(next)
    }

    /// Of the slots asked for: those that [`RingTable::swap`] would take if it were asked for each alone, and why it
    /// would not take the others.
    #[must_use]
    pub fn swappable(
        &self,
        asked: &[(Slot, Option<Epoch>)],
        owner: Incarnation,
        succession: Succession,
        now: impl Into<Now>,
    ) -> (Vec<(Slot, Option<Epoch>)>, Vec<NotSwapped>) {
        let now = now.into();
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for &(slot, expected) in asked {
            match self.swap_one(slot, expected, (owner, None), succession, now) {
                Ok(_) => taken.push((slot, expected)),
                Err(why) => refused.push(why),
            }
        }
        (taken, refused)
    }

    /// The config after a slot's, which must be at the epoch given. A slot that was never owned has no backup at first.
    fn swap_one(
        &self,
        slot: Slot,
        expected: Option<Epoch>,
        (owner, backup): (Incarnation, Option<Incarnation>),
        succession: Succession,
        now: Now,
    ) -> Result<SlotConfig, NotSwapped> {
        match (self.config(slot), expected) {
            (None, None) => Ok(SlotConfig::first(owner, now)),
            (Some(current), Some(expected)) => current
                .swap_backed(expected, owner, backup, succession, now)
                .map_err(|refused| NotSwapped::of(slot, refused)),
            (current, expected) => Err(NotSwapped::Conflict {
                slot,
                expected,
                current: current.map(|config| config.epoch()),
            }),
        }
    }

    /// Whether the table names a backup of any slot.
    #[must_use]
    pub fn has_backups(&self) -> bool {
        let mut configs = self.slots.values().flatten();
        configs.any(|config| config.backup().is_some())
    }

    /// Lists the members that own or back a slot, `member` as it is now, and no others.
    fn list(&mut self, member: &RingMember) {
        let known = |listed: &&mut RingMember| listed.incarnation == member.incarnation;
        match self.members.iter_mut().find(known) {
            Some(listed) => {
                let more = std::mem::take(&mut listed.more);
                listed.clone_from(member);
                listed.more = more;
            }
            None => self.members.push(member.clone()),
        }
        self.drop_who_is_not_named();
    }

    fn drop_who_is_not_named(&mut self) {
        let configs = self.slots.values().flatten();
        let named: HashSet<Incarnation> = configs
            .flat_map(|config| [Some(config.owner()), config.backup()])
            .flatten()
            .collect();
        self.members
            .retain(|member| named.contains(&member.incarnation));
    }
}

impl NotSwapped {
    fn of(slot: Slot, refused: SwapRefused) -> Self {
        match refused {
            SwapRefused::Conflict { expected, current } => Self::Conflict {
                slot,
                expected: Some(expected),
                current: Some(current),
            },
            SwapRefused::TooFarAhead { next } => Self::TooFarAhead { slot, next },
        }
    }
}
