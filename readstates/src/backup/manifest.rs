//! A backup: when it was made, of what, and its chunks.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use readstates_ring::Stamp;
use serde::{Deserialize, Serialize};

use super::BackupError;

/// The only format there is.
pub(super) const FORMAT: u32 = 1;

/// How the time is written in an id: so that ids sort by it.
const TIME: &str = "%Y%m%dT%H%M%S%.3fZ";

/// When a backup was begun, and a random part: `20261126T040000.000Z-9f2c01ab`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BackupId(String);

impl BackupId {
    pub(super) fn new(begun: Timestamp) -> Result<Self, BackupError> {
        let mut random = [0; 4];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| BackupError::Random)?;
        let random = u32::from_be_bytes(random);
        Ok(Self(format!("{}-{random:08x}", begun.strftime(TIME))))
    }

    /// When it was begun.
    pub(super) fn begun(&self) -> Timestamp {
        begun(&self.0).unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn begun(id: &str) -> Option<Timestamp> {
    let (time, random) = id.split_once('-')?;
    let is_random = random.len() == 8 && random.bytes().all(|b| b.is_ascii_hexdigit());
    let time = jiff::civil::DateTime::strptime(TIME, time).ok()?;
    let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    is_random.then(|| time.timestamp())
}

impl FromStr for BackupId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match begun(text) {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err(format!(
                "{text:?} is no backup; give an id as `backup list` prints it"
            )),
        }
    }
}

impl TryFrom<String> for BackupId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<BackupId> for String {
    fn from(id: BackupId) -> Self {
        id.0
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A backup that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichBackup {
    /// The one begun last.
    Latest,
    /// This one.
    Id(BackupId),
}

impl FromStr for WhichBackup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "latest" => Ok(Self::Latest),
            id => id.parse().map(Self::Id),
        }
    }
}

/// A backup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Always [`FORMAT`].
    pub(super) format: u32,
    pub(super) id: BackupId,
    /// The store: hosts and keyspace, or a folder.
    pub(super) source: String,
    pub(super) finished: Timestamp,
    pub(super) users: u64,
    /// The highest stamp of a row, as the database has it; absent when there are no rows.
    pub(super) highest_stamp: Option<i64>,
    /// In the order of ranges, and of rows within each.
    pub(super) chunks: Vec<ChunkEntry>,
}

/// A chunk of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChunkEntry {
    /// The SHA-256 of its rows, keyed where there is a key.
    pub(super) name: String,
    pub(super) users: u64,
    /// Length of its rows.
    pub(super) bytes: u64,
    /// Length of the object.
    pub(super) stored: u64,
}

impl Manifest {
    pub(super) fn highest(&self) -> Option<Stamp> {
        self.highest_stamp.map(Stamp::from_database)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }

    pub(super) fn stored(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.stored).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_tell_it() {
        let at = |milli| Timestamp::from_millisecond(milli).unwrap();
        let ids = [9_999, 10_000, 10_001].map(|milli| BackupId::new(at(milli)).unwrap());
        assert!(ids.is_sorted() && ids[1].begun() == at(10_000), "{ids:?}");
        assert!(
            ids[1].as_str().starts_with("19700101T000010.000Z-"),
            "{ids:?}"
        );
        let [first, ..] = ids;
        assert_eq!(first.to_string().parse(), Ok(first));
        for bad in [
            "",
            "latest",
            "19700101T000010.000Z",
            "19700101T000010.000Z-../../xx",
            "x-12345678",
        ] {
            assert!(bad.parse::<BackupId>().is_err(), "{bad}");
        }
    }
}
