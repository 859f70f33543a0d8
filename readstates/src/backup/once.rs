//! A restore for a new cluster: done once, into a keyspace from which no member has ever served, and recorded there.
//!
//! ```text
//! record ─┬─ done, for this cluster ───────────────────────────────▶ report it, change nothing
//!         ├─ half done, for this cluster ──▶ go on with that backup ─┐
//!         ├─ none ─▶ verify the backup ─▶ keyspace empty ─▶ begin ───┴▶ chunks in order ─▶ all rows there ─▶ finish
//!         └─ members have served, or another's restore ────────────▶ refused
//! ```
//! It may be killed between any two steps, and run twice at once: both write the same rows, and before the end each
//! reads all of them back and finds rows of another backup, if there are any. Why the record can be trusted is in
//! [`crate::store::RestoreRecords`].

use jiff::Timestamp;

use super::{
    BackupError, BackupId, Opened, Progress, Repository, WhichBackup,
    manifest::Manifest,
    report::RestoreReport,
    restore::{in_order, look, writer},
    stamp::{Found, decide},
    verify,
};
use crate::store::{BegunRestore, ClaimName, RestoreRecord, RestoreRecords};

/// Chunks, of some 10 MiB each, after which the record says how far it is.
const RECORD_EVERY: usize = 16;

/// Why nothing may be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OnceRefusal {
    /// Members have served.
    #[error(
        "members serve or have served from this keyspace (since {since}), and nothing is restored over what they may \
         have written. To serve what is there, ask for no restore (in Kubernetes: remove spec.restoreFrom); to restore, \
         give an empty keyspace"
    )]
    Served {
        /// When one first began.
        since: Timestamp,
    },
    /// Something was restored before.
    #[error(
        "backup {backup} was restored into this keyspace at {at}, for the cluster {claim}. To serve what is there, ask \
         for no restore (in Kubernetes: remove spec.restoreFrom); to restore, give an empty keyspace"
    )]
    Before {
        /// What was restored.
        backup: String,
        claim: String,
        /// When it was done.
        at: Timestamp,
    },
    /// Another restore has not come to its end.
    #[error(
        "backup {backup} is being restored into this keyspace since {since}, for the cluster {claim}, and that has not \
         come to its end: ask for that backup to go on with it, or give an empty keyspace"
    )]
    Half {
        /// What is being restored.
        backup: String,
        claim: String,
        /// When it was begun.
        since: Timestamp,
    },
    /// There are rows.
    #[error(
        "the keyspace is not empty: {rows} rows were seen, {others} of them not from this backup. To serve what is there, \
         ask for no restore (in Kubernetes: remove spec.restoreFrom); to restore, give an empty keyspace"
    )]
    Rows {
        /// Rows seen.
        rows: u64,
        /// Those that this restore has not written.
        others: u64,
    },
}

/// What is to be restored, for whom, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) backup: &'a WhichBackup,
    pub(super) claim: &'a ClaimName,
    pub(super) now: Timestamp,
}

/// What was restored.
#[derive(Debug)]
pub(super) struct Once {
    id: BackupId,
    /// None: it was restored before, and is not there any more.
    manifest: Option<Manifest>,
    restored: Timestamp,
}

impl Once {
    /// For programs.
    pub(super) fn report(&self) -> RestoreReport<'_> {
        let manifest = self.manifest.as_ref();
        RestoreReport {
            id: &self.id,
            source: manifest.map(|m| m.source.as_str()),
            finished: manifest.map(|m| m.finished),
            users: manifest.map(|m| m.users),
            restored: self.restored,
            dry_run: false,
        }
    }
}

impl std::fmt::Display for Once {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            id,
            manifest,
            restored,
        } = self;
        match manifest {
            Some(Manifest { users, .. }) => {
                write!(
                    f,
                    "backup {id} with {users} users was restored at {restored:.0}"
                )
            }
            None => write!(f, "backup {id} was restored at {restored:.0}"),
        }
    }
}

/// Restores, unless that is done.
pub(super) async fn run(
    repository: &Repository,
    into: &Opened,
    records: &dyn RestoreRecords,
    wish: Wish<'_>,
    progress: &Progress,
) -> Result<Once, BackupError> {
    let record = records.read().await?;
    let (manifest, first) = match judge(&record, wish)? {
        Next::Done { backup, at } => {
            let id = parsed(backup)?;
            let manifest = repository.manifest(&WhichBackup::Id(id.clone())).await;
            return Ok(Once {
                id,
                manifest: manifest.ok(),
                restored: at,
            });
        }
        Next::GoOn { backup, chunks } => {
            let id = WhichBackup::Id(parsed(backup)?);
            (repository.manifest(&id).await?, chunks)
        }
        Next::Begin => {
            let manifest = repository.manifest(wish.backup).await?;
            let checked = verify::run(repository, &manifest, progress).await?;
            checked.damage.result()?;
            (manifest, 0)
        }
    };
    let found = alone(into, &manifest).await?;
    let now_micros = wish.now.as_microsecond();
    let stamp = decide(found, manifest.highest(), false, now_micros)?;
    if record.begun.is_none() {
        begin(records, &manifest, wish).await?;
    }
    in_order(
        repository,
        &manifest,
        into,
        (stamp, first),
        progress,
        async |written| match written % RECORD_EVERY {
            0 => Ok(records.reached(written as u64).await?),
            _ => Ok(()),
        },
    )
    .await?;
    let found = alone(into, &manifest).await?;
    if found.rows != manifest.users {
        records.reached(0).await?;
        return Err(BackupError::Incomplete {
            wanted: manifest.users,
            rows: found.rows,
        });
    }
    let restored = Timestamp::now();
    records.finish(restored).await?;
    Ok(Once {
        id: manifest.id.clone(),
        manifest: Some(manifest),
        restored,
    })
}

/// What is next, by the record.
#[derive(Debug, PartialEq, Eq)]
enum Next<'a> {
    Begin,
    /// It was begun with this backup, and all chunks before this one are written.
    GoOn {
        backup: &'a str,
        chunks: usize,
    },
    Done {
        backup: &'a str,
        at: Timestamp,
    },
}

fn judge<'a>(record: &'a RestoreRecord, wish: Wish<'_>) -> Result<Next<'a>, OnceRefusal> {
    let RestoreRecord { begun, served } = record;
    let served = served.map_or(Ok(()), |since| Err(OnceRefusal::Served { since }));
    let Some(begun) = begun else {
        return served.map(|()| Next::Begin);
    };
    let BegunRestore {
        claim,
        backup,
        since,
        chunks,
        finished,
    } = begun;
    let is_wanted = match wish.backup {
        WhichBackup::Latest => true,
        WhichBackup::Id(id) => id.as_str() == backup,
    };
    let is_ours = is_wanted && *claim == wish.claim.to_string();
    let (backup_of, claim_of) = (backup.clone(), claim.clone());
    match finished {
        Some(at) if is_ours => Ok(Next::Done { backup, at: *at }),
        Some(at) => Err(OnceRefusal::Before {
            backup: backup_of,
            claim: claim_of,
            at: *at,
        }),
        None if !is_ours => Err(OnceRefusal::Half {
            backup: backup_of,
            claim: claim_of,
            since: *since,
        }),
        None => served.map(|()| Next::GoOn {
            backup,
            chunks: usize::try_from(*chunks).unwrap_or(usize::MAX),
        }),
    }
}

/// Records that it begins; a member that has begun to serve meanwhile goes first.
async fn begin(
    records: &dyn RestoreRecords,
    manifest: &Manifest,
    wish: Wish<'_>,
) -> Result<(), BackupError> {
    let begun = BegunRestore {
        claim: wish.claim.to_string(),
        backup: manifest.id.to_string(),
        since: wish.now,
        chunks: 0,
        finished: None,
    };
    // The backup was being verified for a while, in which another process of this restore may have begun.
    if judge(&records.read().await?, wish)? != Next::Begin {
        return Err(BackupError::Suspended);
    }
    records.begin(&begun).await?;
    let seen = records.read().await?;
    if let Some(since) = seen.served {
        records.withdraw().await?;
        return Err(OnceRefusal::Served { since }.into());
    }
    let is_mine = |seen: BegunRestore| seen.claim == begun.claim && seen.backup == begun.backup;
    match seen.begun.is_some_and(is_mine) {
        true => Ok(()),
        false => Err(BackupError::Suspended),
    }
}

/// What is there, which must be of this backup alone.
async fn alone(into: &Opened, manifest: &Manifest) -> Result<Found, BackupError> {
    let found = look(&*into.scan, writer(&manifest.id), false).await?;
    let Found { rows, others, .. } = found;
    if others > 0 {
        return Err(OnceRefusal::Rows { rows, others }.into());
    }
    Ok(found)
}

fn parsed(backup: &str) -> Result<BackupId, BackupError> {
    let unknown = |_| BackupError::NoBackup(backup.to_owned());
    backup.parse().map_err(unknown)
}
