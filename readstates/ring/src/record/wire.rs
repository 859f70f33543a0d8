//! The record as JSON, and its checked conversion into a table.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{RingMember, RingTable};
use crate::{
    BySlot, Epoch, Incarnation, Line, MOST_LINES, SlotConfig,
    slot::{SLOTS, Slot},
};

/// The most members a ring can have: one for each slot.
pub const MAX_MEMBERS: usize = SLOTS as usize;

/// The longest name of a member, in bytes: that of a DNS name.
const MAX_NAME_LENGTH: usize = 253;
/// The longest URL of a member, in bytes.
const MAX_URL_LENGTH: usize = 253;
/// The longest name of a zone, in bytes.
const MAX_ZONE_LENGTH: usize = 253;

/// The version of the records that this release reads, and all below it.
pub const READS: u32 = 2;

/// The version of the records that name backups. A reader of an older version would keep a slot's backup when the slot
/// gets another owner, and take a slot over while its backup lives.
pub const BACKED: u32 = 2;

/// Fields of a record that this release does not know, by name. They are written back as they were read.
pub type Unknown = std::collections::BTreeMap<String, serde_json::Value>;

/// The ring, field by field, unchecked. Unknown fields are kept.
///
/// Slots are three lists of numbers, by slot: an API server takes 20 times as long to check and to store
/// a map of a thousand objects, and a slot is sealed for as long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingRecord {
    /// See [`RingTable::number`].
    pub number: u64,
    /// The members, which are referred to by index.
    pub members: Vec<MemberRecord>,
    /// The epoch of each slot; 0 where it was never owned.
    pub epochs: Vec<i64>,
    /// The owner of each slot, an index into the members; -1 where it was never owned.
    pub owners: Vec<i32>,
    /// See [`SlotConfig::inherits`]; -1 where it inherits from none.
    pub inherits: Vec<i64>,
    /// The backup of each slot, an index into the members; -1 where it has none. Not written while no slot has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backups: Vec<i32>,
    /// See [`Line`]. A release before it keeps it as it is.
    #[serde(default = "no_line", skip_serializing_if = "is_no_line")]
    pub line: Line,
    /// The lines before that one, the latest first; at most [`MOST_LINES`] with it. A release before them keeps them as
    /// they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// The lowest version that may read this: see [`READS`]. Not written while it is 1, which the release before
    /// would not read.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub reader: u32,
    /// Fields of a later release.
    #[serde(flatten)]
    pub more: Unknown,
}

fn no_line() -> Line {
    Line::NONE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_no_line(line: &Line) -> bool {
    *line == Line::NONE
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_one(reader: &u32) -> bool {
    *reader == 1
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Its name.
    pub name: String,
    /// The process: sixteen hexadecimal digits.
    pub incarnation: Incarnation,
    /// Where it is reached.
    pub url: String,
    /// Its zone, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Fields of a later release.
    #[serde(flatten)]
    pub more: Unknown,
}

/// In the place of an index or an epoch: there is none.
const NONE: i32 = -1;

/// Why a record is no ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is not JSON of this form.
    #[error("this is no ring: {0}")]
    Malformed(String),
    /// A later release wrote it for readers that know more.
    #[error(
        "reader: {0} is the lowest version that may read this ring, and this release reads {READS}; run a newer release"
    )]
    TooNew(u32),
    /// Numbers begin at 1.
    #[error("number: 0 is no ring's number; the first is 1")]
    Number,
    /// More members than slots.
    #[error("members: there are {0}, and at most {MAX_MEMBERS}, one for each slot")]
    TooManyMembers(usize),
    /// A name is empty, too long, or has a character that has no place in one.
    #[error("name: {0:?} is no member name; use 1 to 253 of a-z A-Z 0-9 . _ -")]
    BadName(String),
    /// A URL is none.
    #[error("url: {0:?} is not http://HOST[:PORT] or https://HOST[:PORT]")]
    BadUrl(String),
    /// A zone is empty, too long, or has control characters.
    #[error("zone: {0:?} is no zone; use 1 to 253 printable characters")]
    BadZone(String),
    /// Two members are one process.
    #[error("members: {0} is listed twice")]
    DuplicateIncarnation(Incarnation),
    /// More lines than are kept.
    #[error("lines: there are {0}, and must be fewer than {MOST_LINES}")]
    TooManyLines(usize),
    /// A list is not one entry for each slot.
    #[error("{list}: there are {found} entries, and must be {SLOTS}, one for each slot")]
    Length {
        /// Which.
        list: &'static str,
        /// How long it is.
        found: usize,
    },
    /// An index is out of range.
    #[error("{list}: {index} of slot {slot} is not among the {members} members")]
    NoSuchMember {
        /// In which list.
        list: &'static str,
        /// Where.
        slot: Slot,
        /// The index.
        index: i32,
        /// How many there are.
        members: usize,
    },
    /// A slot that was never owned has a past.
    #[error("slot {0} has no owner, and yet an epoch, a backup, or something to inherit")]
    Ownerless(Slot),
    /// A member backs itself.
    #[error("backups: the owner of slot {0} cannot be its backup")]
    OwnBackup(Slot),
    /// An epoch that no clock has reached.
    #[error("slot {slot}: {epoch} is no epoch; they are from 0 to {}", Epoch::MAX)]
    BadEpoch {
        /// Where.
        slot: Slot,
        /// The number.
        epoch: i64,
    },
    /// A slot that inherits from its own future.
    #[error("slot {slot}: epoch {epoch} cannot inherit from epoch {inherits}")]
    Inherits {
        /// Where.
        slot: Slot,
        /// The epoch of the slot.
        epoch: Epoch,
        /// The epoch it says it inherits from.
        inherits: Epoch,
    },
}

pub(super) fn check_member(name: &str, url: &str, zone: Option<&str>) -> Result<(), RecordError> {
    if !is_name(name) {
        return Err(RecordError::BadName(name.to_owned()));
    }
    let host = url.strip_prefix("http://");
    let host = host.or_else(|| url.strip_prefix("https://"));
    let host = host.unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"/?#@\"\\".contains(&byte);
    if host.is_empty() || url.len() > MAX_URL_LENGTH || !host.bytes().all(plain) {
        return Err(RecordError::BadUrl(url.to_owned()));
    }
    match zone {
        Some(zone)
            if !(1..=MAX_ZONE_LENGTH).contains(&zone.len()) || zone.contains(char::is_control) =>
        {
            Err(RecordError::BadZone(zone.to_owned()))
        }
        Some(_) | None => Ok(()),
    }
}

impl RingTable {
    /// The table of this JSON.
    ///
    /// # Errors
    /// When it is malformed, or the record contradicts itself; the text says where.
    pub fn from_json(json: &[u8]) -> Result<Self, RecordError> {
        let record: RingRecord = serde_json::from_slice(json)
            .map_err(|error| RecordError::Malformed(error.to_string()))?;
        Self::try_from(record)
    }

    /// The table as compact JSON: some 25 bytes a slot.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Strings and numbers: there is nothing in it that JSON cannot say.
        serde_json::to_vec(&RingRecord::from(self)).unwrap_or_default()
    }
}

impl TryFrom<RingRecord> for RingTable {
    type Error = RecordError;

    fn try_from(record: RingRecord) -> Result<Self, RecordError> {
        let RingRecord {
            number,
            members,
            epochs,
            owners,
            inherits,
            backups,
            line,
            lines,
            reader,
            more,
        } = record;
        if reader > READS {
            return Err(RecordError::TooNew(reader));
        }
        if number == 0 {
            return Err(RecordError::Number);
        }
        let lengths = [
            ("epochs", epochs.len()),
            ("owners", owners.len()),
            ("inherits", inherits.len()),
        ];
        for (list, found) in lengths {
            if found != usize::from(SLOTS) {
                return Err(RecordError::Length { list, found });
            }
        }
        if !backups.is_empty() && backups.len() != usize::from(SLOTS) {
            let (list, found) = ("backups", backups.len());
            return Err(RecordError::Length { list, found });
        }
        if lines.len() >= MOST_LINES {
            return Err(RecordError::TooManyLines(lines.len()));
        }
        let members = check_members(members)?;
        let backups = backups.into_iter().chain(std::iter::repeat(NONE));
        let configs = Slot::all().zip(epochs).zip(owners).zip(inherits);
        let mut slots = BySlot::of(|_| None);
        for ((((slot, epoch), owner), inherits), backup) in configs.zip(backups) {
            let config = check_slot(slot, epoch, owner, inherits, &members)?;
            slots[slot] = check_backup(slot, config, backup, &members)?;
        }
        Ok(Self {
            number,
            slots,
            members,
            line,
            lines,
            more,
        })
    }
}

fn check_members(records: Vec<MemberRecord>) -> Result<Vec<RingMember>, RecordError> {
    if records.len() > MAX_MEMBERS {
        return Err(RecordError::TooManyMembers(records.len()));
    }
    let mut seen = HashSet::new();
    let check = |record: MemberRecord| {
        let MemberRecord {
            name,
            incarnation,
            url,
            zone,
            more,
        } = record;
        if !seen.insert(incarnation) {
            return Err(RecordError::DuplicateIncarnation(incarnation));
        }
        let member = RingMember::new(name, incarnation, url, zone)?;
        Ok(RingMember { more, ..member })
    };
    records.into_iter().map(check).collect()
}

fn check_slot(
    slot: Slot,
    epoch: i64,
    owner: i32,
    inherits: i64,
    members: &[RingMember],
) -> Result<Option<SlotConfig>, RecordError> {
    let inherits = (inherits != i64::from(NONE)).then_some(inherits);
    if owner == NONE {
        return match (epoch, inherits) {
            (0, None) => Ok(None),
            (_, None | Some(_)) => Err(RecordError::Ownerless(slot)),
        };
    }
    let listed = usize::try_from(owner)
        .ok()
        .and_then(|owner| members.get(owner));
    let owner = listed.ok_or(RecordError::NoSuchMember {
        list: "owners",
        slot,
        index: owner,
        members: members.len(),
    })?;
    let parse = |epoch| Epoch::new(epoch).ok_or(RecordError::BadEpoch { slot, epoch });
    let epoch = parse(epoch)?;
    let inherits = inherits.map(parse).transpose()?;
    match inherits {
        Some(inherits) if inherits >= epoch => Err(RecordError::Inherits {
            slot,
            epoch,
            inherits,
        }),
        Some(_) | None => {
            let owner = owner.incarnation();
            Ok(Some(SlotConfig::from_parts(epoch, owner, None, inherits)))
        }
    }
}

/// The config with its backup.
fn check_backup(
    slot: Slot,
    config: Option<SlotConfig>,
    backup: i32,
    members: &[RingMember],
) -> Result<Option<SlotConfig>, RecordError> {
    if backup == NONE {
        return Ok(config);
    }
    let config = config.ok_or(RecordError::Ownerless(slot))?;
    let listed = usize::try_from(backup)
        .ok()
        .and_then(|backup| members.get(backup));
    let backup = listed.ok_or(RecordError::NoSuchMember {
        list: "backups",
        slot,
        index: backup,
        members: members.len(),
    })?;
    let backup = backup.incarnation();
    if backup == config.owner() {
        return Err(RecordError::OwnBackup(slot));
    }
    let (epoch, owner) = (config.epoch(), config.owner());
    let config = SlotConfig::from_parts(epoch, owner, Some(backup), config.inherits());
    Ok(Some(config))
}

impl From<&RingTable> for RingRecord {
    fn from(table: &RingTable) -> Self {
        let RingTable {
            number,
            members,
            slots,
            line,
            lines,
            more,
        } = table;
        let places = table.places();
        let owner = |config: SlotConfig| places.get(&config.owner()).map(|&place| place.into());
        let inherits = |config: SlotConfig| config.inherits().map(Epoch::number);
        let backup = |config: SlotConfig| places.get(&config.backup()?).map(|&place| place.into());
        let backups = slots
            .values()
            .map(|config| config.and_then(backup).unwrap_or(NONE));
        let backups: Vec<i32> = match table.has_backups() {
            true => backups.collect(),
            false => Vec::new(),
        };
        Self {
            number: *number,
            members: members.iter().map(MemberRecord::from).collect(),
            epochs: slots
                .values()
                .map(|config| config.map_or(0, |config| config.epoch().number()))
                .collect(),
            // Every owner is listed: that is what makes a table.
            owners: slots
                .values()
                .map(|config| config.and_then(owner).unwrap_or(NONE))
                .collect(),
            inherits: slots
                .values()
                .map(|config| config.and_then(inherits).unwrap_or(NONE.into()))
                .collect(),
            reader: if backups.is_empty() { 1 } else { BACKED },
            backups,
            line: *line,
            lines: lines.clone(),
            more: more.clone(),
        }
    }
}

impl From<&RingMember> for MemberRecord {
    fn from(member: &RingMember) -> Self {
        let RingMember {
            name,
            incarnation,
            url,
            zone,
            more,
        } = member.clone();
        Self {
            name,
            incarnation,
            url,
            zone,
            more,
        }
    }
}

/// Whether this is a member's name.
fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_LENGTH).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
