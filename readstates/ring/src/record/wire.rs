//! The record as JSON, and the door through which it becomes a table.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{RingMember, RingTable};
use crate::{Epoch, Incarnation, MAX_MEMBERS, SlotConfig, ring::is_name, slot::Slot};

/// The longest URL of a member, in bytes.
const MAX_URL_LENGTH: usize = 253;
/// The longest name of a zone, in bytes.
const MAX_ZONE_LENGTH: usize = 253;

/// The ring, field by field, unchecked. Fields that it does not have are refused: whoever does not
/// know a field must not write the record anew without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingRecord {
    /// See [`RingTable::number`].
    pub number: u64,
    /// Who is referred to by index.
    pub members: Vec<MemberRecord>,
    /// By the number of the slot, in decimal.
    pub slots: BTreeMap<String, SlotRecord>,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
}

/// One slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotRecord {
    /// Its epoch.
    pub epoch: i64,
    /// Its owner: an index into the members.
    pub owner: u16,
    /// See [`SlotConfig::inherits`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherits: Option<i64>,
    /// See [`SlotConfig::backup`]: an index into the members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<u16>,
}

/// Why a record is no ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is not JSON of this form.
    #[error("this is no ring: {0}")]
    Malformed(String),
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
    #[error("url: {0:?} is not http://HOST[:PORT]")]
    BadUrl(String),
    /// A zone is empty, too long, or has control characters.
    #[error("zone: {0:?} is no zone; use 1 to 253 printable characters")]
    BadZone(String),
    /// Two members are one process.
    #[error("members: {0} is listed twice")]
    DuplicateIncarnation(Incarnation),
    /// A key is no slot.
    #[error("slots: {0:?} is no slot; they are \"0\" to \"1023\"")]
    BadSlot(String),
    /// An index is out of range.
    #[error("slots.{slot}: member {index} is not among the {members} members")]
    NoSuchMember {
        /// Where.
        slot: Slot,
        /// The index.
        index: u16,
        /// How many there are.
        members: usize,
    },
    /// An epoch that no clock has reached.
    #[error("slots.{slot}: {epoch} is no epoch; they are from 0 to {}", Epoch::MAX)]
    BadEpoch {
        /// Where.
        slot: Slot,
        /// The number.
        epoch: i64,
    },
    /// A slot that inherits from its own future.
    #[error("slots.{slot}: epoch {epoch} cannot inherit from epoch {inherits}")]
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
    let host = url.strip_prefix("http://").unwrap_or_default();
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

    /// The table as compact JSON: some 50 bytes a slot.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Strings and numbers under string keys: there is nothing in it that JSON cannot say.
        serde_json::to_vec(&RingRecord::from(self)).unwrap_or_default()
    }
}

impl TryFrom<RingRecord> for RingTable {
    type Error = RecordError;

    fn try_from(record: RingRecord) -> Result<Self, RecordError> {
        let RingRecord {
            number,
            members,
            slots,
        } = record;
        if number == 0 {
            return Err(RecordError::Number);
        }
        let members = check_members(members)?;
        let mut table = Self {
            number,
            members,
            ..Self::default()
        };
        for (key, record) in slots {
            let slot = parse_slot(&key).ok_or(RecordError::BadSlot(key))?;
            let config = check_slot(slot, &record, &table.members)?;
            table.slots[usize::from(slot.number())] = Some(config);
        }
        Ok(table)
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
        } = record;
        if !seen.insert(incarnation) {
            return Err(RecordError::DuplicateIncarnation(incarnation));
        }
        RingMember::new(name, incarnation, url, zone)
    };
    records.into_iter().map(check).collect()
}

/// One key for each slot: no sign, no zeros in front.
fn parse_slot(key: &str) -> Option<Slot> {
    let number: u16 = key.parse().ok()?;
    let slot = Slot::new(number)?;
    (key == number.to_string()).then_some(slot)
}

fn check_slot(
    slot: Slot,
    record: &SlotRecord,
    members: &[RingMember],
) -> Result<SlotConfig, RecordError> {
    let &SlotRecord {
        epoch,
        owner,
        inherits,
        backup,
    } = record;
    let member = |index: u16| {
        let member = members.get(usize::from(index)).map(RingMember::incarnation);
        member.ok_or(RecordError::NoSuchMember {
            slot,
            index,
            members: members.len(),
        })
    };
    let parse = |epoch| Epoch::new(epoch).ok_or(RecordError::BadEpoch { slot, epoch });
    let epoch = parse(epoch)?;
    let inherits = inherits.map(parse).transpose()?;
    if let Some(inherits) = inherits
        && inherits >= epoch
    {
        return Err(RecordError::Inherits {
            slot,
            epoch,
            inherits,
        });
    }
    let backup = backup.map(member).transpose()?;
    Ok(SlotConfig::from_parts(
        epoch,
        member(owner)?,
        backup,
        inherits,
    ))
}

impl From<&RingTable> for RingRecord {
    fn from(table: &RingTable) -> Self {
        let RingTable {
            number,
            members,
            slots: _,
        } = table;
        let places = table.places();
        let place = |incarnation| places.get(&incarnation).copied();
        let slot = |(slot, config): (Slot, SlotConfig)| {
            // Every owner is listed: that is what makes a table.
            let owner = place(config.owner())?;
            let record = SlotRecord {
                epoch: config.epoch().number(),
                owner,
                inherits: config.inherits().map(Epoch::number),
                backup: config.backup().and_then(place),
            };
            Some((slot.to_string(), record))
        };
        Self {
            number: *number,
            members: members.iter().map(MemberRecord::from).collect(),
            slots: table.configs().filter_map(slot).collect(),
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
        } = member.clone();
        Self {
            name,
            incarnation,
            url,
            zone,
        }
    }
}
