//! Makes a backup: several ranges side by side, each a sequence of rows that is cut into chunks.
//!
//! In memory are two chunks of each range at work, and the names of all chunks that are stored. One that is killed
//! leaves chunks behind, which the next one finds and does not store again.

use std::{collections::HashMap, fmt, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use readstates_ring::Stamp;

use super::{
    BackupError, BackupId, Progress, Repository,
    chunk::{Chunk, Chunker, Cut},
    list,
    manifest::{ChunkEntry, FORMAT, Manifest},
    marker::{Marker, Work},
    progress::size,
    report::CreateReport,
    seal::SealError,
};
use crate::store::Scan;

/// How a backup is made.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) source: String,
    pub(super) cut: Cut,
    /// Ranges at once.
    pub(super) parallel: usize,
}

/// What was made.
#[derive(Debug)]
pub(super) struct Created {
    pub(super) manifest: Manifest,
    /// Chunks that were not there before, and the bytes of their objects.
    pub(super) new_chunks: usize,
    pub(super) new_bytes: u64,
}

impl Created {
    pub(super) fn report(&self) -> CreateReport {
        let Self {
            manifest,
            new_chunks,
            new_bytes,
        } = self;
        CreateReport {
            backup: list::of(manifest),
            new_chunks: *new_chunks,
            new_stored_bytes: *new_bytes,
        }
    }
}

impl fmt::Display for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            manifest,
            new_chunks,
            new_bytes,
        } = self;
        write!(
            f,
            "backup {}: {} users in {} chunks, {}; {new_chunks} chunks were new, {}",
            manifest.id,
            manifest.users,
            manifest.chunks.len(),
            size(manifest.stored()),
            size(*new_bytes),
        )
    }
}

/// Makes a backup.
pub(super) async fn run(
    repository: &Repository,
    scan: &dyn Scan,
    plan: &Plan,
    progress: &Progress,
) -> Result<Created, BackupError> {
    let id = BackupId::new(Timestamp::now()).map_err(|_| BackupError::Random)?;
    let marker = Marker::begin(repository, Work::Create, &id).await?;
    let creating = async {
        same_key(repository).await?;
        let create = Create {
            repository,
            scan,
            marker: &marker,
            cut: plan.cut,
            there: Arc::new(repository.chunks().await?),
            progress,
        };
        create.all(id, plan).await
    };
    let created = creating.await;
    let ended = marker.end().await;
    let created = created?;
    ended?;
    Ok(created)
}

/// Whether the backups that are there have this key, or none as this one: those of several keys cannot be listed or pruned
/// together. One that can be read says so; what is damaged says nothing.
async fn same_key(repository: &Repository) -> Result<(), BackupError> {
    let mut refusal = Ok(());
    for id in repository.backups().await?.iter().rev() {
        match repository.manifest_of(id).await {
            Ok(_) => return Ok(()),
            Err(BackupError::Sealed {
                object,
                source:
                    source @ (SealError::NoKey | SealError::NotEncrypted | SealError::Decryption),
            }) => refusal = Err(BackupError::OtherKey { object, source }),
            Err(BackupError::Sealed { .. } | BackupError::Manifest { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    refusal
}

struct Create<'a> {
    repository: &'a Repository,
    scan: &'a dyn Scan,
    marker: &'a Marker<'a>,
    cut: Cut,
    /// The lengths of the objects of chunks that were stored before.
    there: Arc<HashMap<String, u64>>,
    progress: &'a Progress,
}

/// A chunk that is stored now.
struct Kept {
    entry: ChunkEntry,
    is_new: bool,
    highest: Stamp,
}

impl Create<'_> {
    async fn all(&self, id: BackupId, plan: &Plan) -> Result<Created, BackupError> {
        // In the order of the ranges, so that of two backups of the same rows also the manifests are the same.
        let ranges: Vec<Vec<Kept>> = stream::iter(0..self.scan.ranges())
            .map(|range| self.range(range))
            .buffered(plan.parallel)
            .try_collect()
            .await?;
        let kept: Vec<Kept> = ranges.into_iter().flatten().collect();
        let new = || kept.iter().filter(|chunk| chunk.is_new);
        let (new_chunks, new_bytes) = (new().count(), new().map(|chunk| chunk.entry.stored).sum());
        let manifest = Manifest {
            format: FORMAT,
            id,
            source: plan.source.clone(),
            finished: Timestamp::now(),
            users: kept.iter().map(|chunk| chunk.entry.users).sum(),
            highest_stamp: kept.iter().map(|chunk| chunk.highest.as_database()).max(),
            chunks: kept.into_iter().map(|chunk| chunk.entry).collect(),
        };
        // A pruning may have begun while this process was suspended: see `marker`.
        self.marker.confirm().await?;
        self.repository.put_manifest(&manifest).await?;
        Ok(Created {
            manifest,
            new_chunks,
            new_bytes,
        })
    }

    async fn range(&self, range: usize) -> Result<Vec<Kept>, BackupError> {
        let mut pages = self.scan.scan(range);
        let mut chunker = Chunker::new(self.cut);
        let mut kept = Vec::new();
        while let Some(page) = pages.try_next().await? {
            let mut bytes = 0;
            for row in &page {
                bytes += row.stored.bytes.len() as u64;
                if let Some(chunk) = chunker.push(row) {
                    kept.push(self.keep(chunk).await?);
                }
            }
            self.progress.add(page.len() as u64, bytes, None);
        }
        if let Some(chunk) = chunker.finish() {
            kept.push(self.keep(chunk).await?);
        }
        Ok(kept)
    }

    async fn keep(&self, chunk: Chunk) -> Result<Kept, BackupError> {
        self.marker.renew().await?;
        let (users, bytes, highest) = (chunk.users, chunk.rows.len() as u64, chunk.highest);
        let there = Arc::clone(&self.there);
        let is_there = move |name: &str| there.contains_key(name);
        let (name, object) = self.repository.pack(chunk, is_there).await?;
        let is_new = object.is_some();
        let stored = match object {
            Some(object) => {
                let stored = object.len() as u64;
                self.repository.put_chunk(&name, object).await?;
                stored
            }
            None => self.there.get(&name).copied().unwrap_or_default(),
        };
        let entry = ChunkEntry {
            name,
            users,
            bytes,
            stored,
        };
        Ok(Kept {
            entry,
            is_new,
            highest,
        })
    }
}
