//! Reads all of a backup and checks it: every checksum, every block, every count.

use std::fmt;

use futures::{StreamExt, TryStreamExt, stream};
use readstates_ring::Stamp;

use super::{
    BackupError, BackupId, Progress, Repository,
    chunk::{Record, records},
    error::Damage,
    manifest::{ChunkEntry, Manifest},
    report::VerifyReport,
};
use crate::{codec, store::chain};

/// Chunks at once; each may take 64 MiB for a moment.
const PARALLEL: usize = 4;

/// What was found.
#[derive(Debug)]
pub(super) struct Report {
    id: BackupId,
    chunks: usize,
    pub(super) seen: Seen,
    pub(super) damage: Damage,
}

/// What there is in chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) users: u64,
    pub(super) bytes: u64,
    pub(super) highest: Option<Stamp>,
}

impl Report {
    /// For programs, of a backup that is sound.
    pub(super) fn report(&self) -> VerifyReport<'_> {
        let Self {
            id,
            chunks,
            seen,
            damage: _,
        } = self;
        VerifyReport {
            id,
            users: seen.users,
            chunks: *chunks,
            bytes: seen.bytes,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            chunks,
            seen,
            damage,
        } = self;
        let verdict = if damage.problems == 0 {
            "sound"
        } else {
            "DAMAGED"
        };
        write!(
            f,
            "backup {id}: {verdict}; {} users read in {chunks} chunks",
            seen.users
        )
    }
}

/// Checks a backup.
pub(super) async fn run(
    repository: &Repository,
    manifest: &Manifest,
    progress: &Progress,
) -> Result<Report, BackupError> {
    let (mut seen, mut damage) = (Seen::default(), Damage::default());
    let mut checks = stream::iter(&manifest.chunks)
        .map(|entry| async move {
            match repository.chunk(entry).await {
                // On this thread: a chunk of 8 MiB takes some milliseconds.
                Ok(rows) => Ok(check(entry, &rows)),
                // The place is away, and says nothing about the backup.
                Err(error @ BackupError::Objects { .. }) => Err(error),
                Err(error) => {
                    let mut damage = Damage::default();
                    damage.add(|| chain(&error));
                    Ok((Seen::default(), damage))
                }
            }
        })
        .buffer_unordered(PARALLEL);
    while let Some((of_chunk, damage_of_chunk)) = checks.try_next().await? {
        progress.add(of_chunk.users, of_chunk.bytes, Some(manifest.users));
        seen.users += of_chunk.users;
        seen.bytes += of_chunk.bytes;
        seen.highest = seen.highest.max(of_chunk.highest);
        damage.merge(damage_of_chunk);
    }
    drop(checks);
    if damage.problems == 0 {
        whole(manifest, seen, &mut damage);
    }
    Ok(Report {
        id: manifest.id.clone(),
        chunks: manifest.chunks.len(),
        seen,
        damage,
    })
}

/// What all chunks together must have.
fn whole(manifest: &Manifest, seen: Seen, damage: &mut Damage) {
    if seen.users != manifest.users {
        damage.add(|| {
            format!(
                "the manifest says {} users, and {} are there",
                manifest.users, seen.users
            )
        });
    }
    if seen.highest != manifest.highest() {
        damage.add(|| "the highest stamp is another one than the manifest says".into());
    }
}

/// The rows of a chunk against its entry, and each block by itself.
pub(super) fn check(entry: &ChunkEntry, rows: &[u8]) -> (Seen, Damage) {
    let mut seen = Seen {
        bytes: rows.len() as u64,
        ..Seen::default()
    };
    let (mut damage, chunk) = (Damage::default(), &entry.name);
    for record in records(rows) {
        match record {
            Ok(Record { user, stamp, block }) => {
                seen.users += 1;
                seen.highest = seen.highest.max(Some(stamp));
                if let Err(error) = codec::decode(block) {
                    damage.add(|| format!("chunk {chunk}: the block of user {user}: {error}"));
                }
            }
            Err(error) => damage.add(|| format!("chunk {chunk}: {error}")),
        }
    }
    if (seen.users, seen.bytes) != (entry.users, entry.bytes) {
        damage.add(|| format!("chunk {chunk}: other counts than the manifest says"));
    }
    (seen, damage)
}
