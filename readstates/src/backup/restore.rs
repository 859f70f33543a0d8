//! Writes a backup into a store of any kind.
//!
//! Every row is written under one stamp: see [`super::stamp`].
//!
//! A restored block names the restore as its writer. No member takes it for a block of its own, which would go on
//! counting from a version that was handed out before; and a restore that is run again tells its own rows from others'.

use std::{fmt, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use readstates_ring::{Stamp, slot::mix64};

use super::{
    BackupError, BackupId, Opened, Progress, Repository,
    chunk::{Record, records},
    error::Damage,
    manifest::{ChunkEntry, Manifest},
    report::RestoreReport,
    stamp::{Found, above, decide},
};
use crate::{
    codec,
    store::{Scan, Store, StoreError, chain},
};

/// Chunks at once, and rows of each that are written at once. The embedded store commits 256 writes together.
const CHUNKS: usize = 2;
const ROWS: usize = 128;
/// Ranges of the destination that are looked at side by side.
const RANGES: usize = 8;
/// A write that fails is tried so many times more, each time after a longer pause.
const MOST_REPEATS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// What is to be restored, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// This user alone.
    pub(super) user: Option<u64>,
    /// Also over rows that are there.
    pub(super) overwrite: bool,
    /// Nothing is written.
    pub(super) dry_run: bool,
    /// Unix time.
    pub(super) now_micros: i64,
}

/// What was done.
#[derive(Debug)]
pub(super) struct Restored {
    id: BackupId,
    pub(super) stamp: Stamp,
    pub(super) users: u64,
    dry_run: bool,
    pub(super) damage: Damage,
}

impl Restored {
    /// For programs, when all of it is restored.
    pub(super) fn report<'a>(&'a self, manifest: &'a Manifest) -> RestoreReport<'a> {
        RestoreReport {
            id: &self.id,
            source: Some(&manifest.source),
            finished: Some(manifest.finished),
            users: Some(self.users),
            restored: Timestamp::now(),
            dry_run: self.dry_run,
        }
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            stamp,
            users,
            dry_run,
            damage,
        } = self;
        let did = if *dry_run {
            "would restore"
        } else {
            "restored"
        };
        write!(f, "{did} {users} users of backup {id} under stamp {stamp}")?;
        match damage.problems {
            0 => Ok(()),
            problems => write!(f, "; {problems} problems: NOT EVERYTHING is restored"),
        }
    }
}

/// Restores a backup.
pub(super) async fn run(
    repository: &Repository,
    manifest: &Manifest,
    into: &Opened,
    wish: Wish,
    progress: &Progress,
) -> Result<Restored, BackupError> {
    let writer = writer(&manifest.id);
    let stamp = match wish.user {
        Some(user) => {
            let there = into.store.load(user).await?.map(|stored| stored.stamp);
            above(manifest.highest().max(there), wish.now_micros)?
        }
        None => {
            let found = look(&*into.scan, writer, wish.overwrite).await?;
            decide(found, manifest.highest(), wish.overwrite, wish.now_micros)?
        }
    };
    let mut restored = Restored {
        id: manifest.id.clone(),
        stamp,
        users: 0,
        dry_run: wish.dry_run,
        damage: Damage::default(),
    };
    if wish.dry_run && wish.user.is_none() {
        restored.users = manifest.users;
        return Ok(restored);
    }
    let restore = Restore {
        repository,
        store: &*into.store,
        writer,
        stamp,
        wish,
        progress,
        of: manifest.users,
    };
    let mut chunks = stream::iter(&manifest.chunks)
        .map(|entry| restore.chunk(entry))
        .buffer_unordered(CHUNKS);
    while let Some((users, damage)) = chunks.try_next().await? {
        restored.users += users;
        restored.damage.merge(damage);
        if wish.user.is_some() && restored.users > 0 {
            break;
        }
    }
    if let (Some(user), 0, 0) = (wish.user, restored.users, restored.damage.problems) {
        let backup = manifest.id.clone();
        return Err(BackupError::NoUser { user, backup });
    }
    if !restored.dry_run {
        is_seen(into, wish.user, &restored).await?;
    }
    Ok(restored)
}

/// What was written must be read again: a row that was deleted a moment ago, or by a clock that is ahead, hides it.
async fn is_seen(into: &Opened, user: Option<u64>, restored: &Restored) -> Result<(), BackupError> {
    match user {
        Some(_) if restored.users == 0 => Ok(()),
        Some(user) => {
            let there = into.store.load(user).await?.map(|stored| stored.stamp);
            match there == Some(restored.stamp) {
                true => Ok(()),
                false => Err(BackupError::Hidden { user }),
            }
        }
        None => {
            let rows = look(&*into.scan, writer(&restored.id), true).await?.rows;
            match rows >= restored.users {
                true => Ok(()),
                false => Err(BackupError::Incomplete {
                    wanted: restored.users,
                    rows,
                }),
            }
        }
    }
}

/// Writes all chunks from `first` on, in their order, and tells after each how many are written. Damage ends it.
pub(super) async fn in_order(
    repository: &Repository,
    manifest: &Manifest,
    into: &Opened,
    (stamp, first): (Stamp, usize),
    progress: &Progress,
    mut reached: impl AsyncFnMut(usize) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let restore = Restore {
        repository,
        store: &*into.store,
        writer: writer(&manifest.id),
        stamp,
        wish: Wish {
            user: None,
            overwrite: false,
            dry_run: false,
            now_micros: 0,
        },
        progress,
        of: manifest.users,
    };
    let mut chunks = stream::iter(manifest.chunks.iter().skip(first))
        .map(|entry| restore.chunk(entry))
        .buffered(CHUNKS);
    let mut written = first;
    while let Some((_, damage)) = chunks.try_next().await? {
        damage.result()?;
        written += 1;
        reached(written).await?;
    }
    Ok(())
}

struct Restore<'a> {
    repository: &'a Repository,
    store: &'a dyn Store,
    writer: u64,
    stamp: Stamp,
    wish: Wish,
    progress: &'a Progress,
    /// Users in the backup.
    of: u64,
}

impl Restore<'_> {
    /// How many users were restored. What cannot be read is no error: the rest is restored all the same.
    async fn chunk(&self, entry: &ChunkEntry) -> Result<(u64, Damage), BackupError> {
        let mut damage = Damage::default();
        let rows = match self.repository.chunk(entry).await {
            Ok(rows) => rows,
            // The place is away, and may be back soon: to be run again.
            Err(error @ BackupError::Objects { .. }) => return Err(error),
            Err(error) => {
                damage.add(|| chain(&error));
                return Ok((0, damage));
            }
        };
        let mut ready = |record| match self.ready(record) {
            Ok(row) => row,
            Err(problem) => {
                damage.add(|| format!("chunk {}: {problem}", entry.name));
                None
            }
        };
        let rows = records(&rows).filter_map(&mut ready);
        let writes = stream::iter(rows)
            .map(|(user, bytes)| self.write(user, bytes))
            .buffer_unordered(ROWS);
        let users = writes.try_fold(0, async |users, ()| Ok(users + 1)).await?;
        Ok((users, damage))
    }

    /// What to write for a record, if it is asked for.
    fn ready(
        &self,
        record: Result<Record<'_>, super::chunk::Misplaced>,
    ) -> Result<Option<(u64, Vec<u8>)>, String> {
        let Record { user, block, .. } = record.map_err(|error| error.to_string())?;
        if self.wish.user.is_some_and(|wanted| wanted != user) {
            return Ok(None);
        }
        let decoded =
            codec::decode(block).map_err(|error| format!("the block of user {user}: {error}"))?;
        Ok(Some((user, codec::encode(decoded.block, self.writer))))
    }

    async fn write(&self, user: u64, bytes: Vec<u8>) -> Result<(), StoreError> {
        if self.wish.dry_run {
            return Ok(());
        }
        let length = bytes.len() as u64;
        self.save(user, bytes).await?;
        self.progress.add(1, length, Some(self.of));
        Ok(())
    }

    async fn save(&self, user: u64, bytes: Vec<u8>) -> Result<(), StoreError> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..MOST_REPEATS {
            match self.store.save(user, bytes.clone(), self.stamp).await {
                Ok(()) => return Ok(()),
                Err(error) => tracing::debug!(user, "written again: {}", chain(&error)),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.store.save(user, bytes, self.stamp).await
    }
}

/// What a restored block names as its writer: the same each time this backup is restored, and no member's incarnation.
pub(super) fn writer(backup: &BackupId) -> u64 {
    let bytes = backup.as_str().bytes();
    bytes.fold(0, |mixed, byte| {
        mix64(mixed ^ u64::from(byte).wrapping_add(1))
    })
}

/// Looks at the destination: all of it where that is written over, otherwise until there is a row of others.
pub(super) async fn look(scan: &dyn Scan, writer: u64, all: bool) -> Result<Found, BackupError> {
    let mut found = Found::default();
    let mut pages = stream::iter(0..scan.ranges())
        .map(|range| scan.scan(range))
        .flatten_unordered(RANGES);
    while let Some(page) = pages.try_next().await? {
        for row in page {
            found.rows += 1;
            found.others += u64::from(codec::writer(&row.stored.bytes) != Some(writer));
            found.highest = found.highest.max(Some(row.stored.stamp));
        }
        if found.others > 0 && !all {
            break;
        }
    }
    Ok(found)
}
