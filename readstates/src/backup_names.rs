//! Names of backups: the place where they lie, and the id of each.

use std::{fmt, path::PathBuf, str::FromStr};

use aws_lc_rs::error::Unspecified;
use jiff::Timestamp;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

/// How the time is written in an id: so that ids sort by it.
const TIME: &str = "%Y%m%dT%H%M%S%.3fZ";

/// A folder, or a bucket and what the names of objects in it begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupPlace {
    Folder(PathBuf),
    /// In a bucket.
    S3 {
        bucket: String,
        /// Without a slash at the end; may be empty.
        prefix: String,
    },
}

impl FromStr for BackupPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write a folder, file:///FOLDER or s3://BUCKET[/PREFIX]";
        if let Some(rest) = text.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.trim_matches('/');
            if bucket.is_empty() || Path::parse(prefix).is_err() {
                return Err(format!("{text:?} names no bucket and prefix; {FORM}"));
            }
            let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
            return Ok(Self::S3 { bucket, prefix });
        }
        match text.strip_prefix("file://").unwrap_or(text) {
            "" => Err(format!("the folder is missing; {FORM}")),
            other if other.contains("://") => Err(format!("{other:?} is not supported; {FORM}")),
            folder => Ok(Self::Folder(folder.into())),
        }
    }
}

impl fmt::Display for BackupPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// When a backup was begun, and a random part: `20261126T040000.000Z-9f2c01ab`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BackupId(String);

impl BackupId {
    /// An error means that the system gives no random bytes.
    pub(crate) fn new(begun: Timestamp) -> Result<Self, Unspecified> {
        let mut random = [0; 4];
        aws_lc_rs::rand::fill(&mut random)?;
        let random = u32::from_be_bytes(random);
        Ok(Self(format!("{}-{random:08x}", begun.strftime(TIME))))
    }

    /// When it was begun.
    pub(crate) fn begun(&self) -> Timestamp {
        begun(&self.0).unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_folder_or_a_bucket() {
        let s3 = |bucket: &str, prefix: &str| BackupPlace::S3 {
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        for (text, place) in [
            ("backups", BackupPlace::Folder("backups".into())),
            ("file:///var/b", BackupPlace::Folder("/var/b".into())),
            ("s3://chat", s3("chat", "")),
            ("s3://chat/read/states/", s3("chat", "read/states")),
        ] {
            assert_eq!(text.parse(), Ok(place), "{text}");
        }
        for text in ["", "s3://", "s3:///x", "ftp://x/y", "file://"] {
            assert!(text.parse::<BackupPlace>().is_err(), "{text}");
        }
    }

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
