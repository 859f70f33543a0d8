//! Deletes backups that are not kept any more, and then the chunks that no backup names.
//!
//! A chunk that is younger than the grace is kept: it may be of a backup that was interrupted and is made again soon.

use std::{collections::HashSet, fmt, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;

use super::{
    BackupError, BackupId, Repository,
    marker::{Marker, Work},
    progress::size,
    report::PruneReport,
    repository::Listed,
};

/// Deletions at once, and how many before the mark is looked at.
const PARALLEL: usize = 16;
const BATCH: usize = 1000;

const DAY: Duration = Duration::from_hours(24);

/// What is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// So many backups.
    pub(super) keep_last: usize,
    /// Also all that were begun within so many days.
    pub(super) keep_days: Option<u32>,
    /// Chunks younger than this.
    pub(super) grace: Duration,
}

/// What was deleted, or would be.
#[derive(Debug)]
pub(super) struct Pruned {
    pub(super) backups: Vec<BackupId>,
    pub(super) kept: usize,
    pub(super) chunks: usize,
    bytes: u64,
    dry_run: bool,
}

impl Pruned {
    pub(super) fn report(&self) -> PruneReport {
        let Self {
            backups,
            kept,
            chunks,
            bytes,
            dry_run,
        } = self;
        PruneReport {
            dry_run: *dry_run,
            deleted_backups: backups.len(),
            deleted_chunks: *chunks,
            deleted_stored_bytes: *bytes,
            kept_backups: *kept,
        }
    }
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            backups,
            kept,
            chunks,
            bytes,
            dry_run,
        } = self;
        let did = if *dry_run { "would delete" } else { "deleted" };
        for id in backups {
            writeln!(f, "{did} backup {id}")?;
        }
        let (deleted, bytes) = (backups.len(), size(*bytes));
        write!(
            f,
            "{did} {deleted} backups and {chunks} chunks, {bytes}; {kept} backups are kept"
        )
    }
}

/// Deletes what is not kept.
pub(super) async fn run(
    repository: &Repository,
    rule: &Rule,
    dry_run: bool,
) -> Result<Pruned, BackupError> {
    if dry_run {
        return pruned(repository, rule, None).await;
    }
    let id = BackupId::new(Timestamp::now()).map_err(|_| BackupError::Random)?;
    let marker = Marker::begin(repository, Work::Prune, &id).await?;
    let pruned = pruned(repository, rule, Some(&marker)).await;
    let ended = marker.end().await;
    let pruned = pruned?;
    ended?;
    Ok(pruned)
}

/// Without a mark, nothing is deleted.
async fn pruned(
    repository: &Repository,
    rule: &Rule,
    marker: Option<&Marker<'_>>,
) -> Result<Pruned, BackupError> {
    let now = marker.map_or_else(Timestamp::now, |marker| marker.begun);
    let all = repository.backups().await?;
    let (kept, expired) = divide(all, rule, now);
    let mut named = HashSet::new();
    for id in &kept {
        // One that cannot be read ends it: what it names is not known.
        let manifest = repository.manifest_of(id).await?;
        named.extend(manifest.chunks.into_iter().map(|chunk| chunk.name));
    }
    let chunks = repository.list_chunks().await?;
    let garbage = garbage(chunks, &named, rule.grace, now);
    if let Some(marker) = marker {
        for id in &expired {
            marker.renew().await?;
            repository.delete_manifest(id).await?;
        }
        for batch in garbage.chunks(BATCH) {
            marker.confirm().await?;
            let deletions = stream::iter(batch).map(|chunk| repository.delete(&chunk.name));
            let mut deletions = deletions.buffer_unordered(PARALLEL);
            while deletions.try_next().await?.is_some() {}
        }
    }
    Ok(Pruned {
        backups: expired,
        kept: kept.len(),
        chunks: garbage.len(),
        bytes: garbage.iter().map(|chunk| chunk.size).sum(),
        dry_run: marker.is_none(),
    })
}

/// The backups that are kept, and the others. The newest is kept however old it is.
fn divide(mut all: Vec<BackupId>, rule: &Rule, now: Timestamp) -> (Vec<BackupId>, Vec<BackupId>) {
    all.sort_unstable();
    let first_kept = all.len().saturating_sub(rule.keep_last.max(1));
    let is_young = |id: &BackupId| {
        let days = rule.keep_days.unwrap_or(0);
        let age = now.duration_since(id.begun()).as_secs();
        days > 0 && age <= i64::from(days) * DAY.as_secs() as i64
    };
    let mut place = 0..;
    all.into_iter()
        .partition(|id| place.next().is_some_and(|place| place >= first_kept) || is_young(id))
}

/// The chunks that no kept backup names and that are old enough.
fn garbage(
    chunks: Vec<(String, Listed)>,
    named: &HashSet<String>,
    grace: Duration,
    now: Timestamp,
) -> Vec<Listed> {
    let is_old = |listed: &Listed| {
        let age = now.duration_since(listed.written);
        Duration::try_from(age).is_ok_and(|age| age >= grace)
    };
    let unnamed = chunks.into_iter().filter(|(name, _)| !named.contains(name));
    unnamed.map(|(_, listed)| listed).filter(is_old).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_795_000_000;

    fn at(seconds_ago: i64) -> Timestamp {
        Timestamp::from_second(NOW - seconds_ago).unwrap()
    }

    proptest! {
        #[test]
        fn what_a_kept_backup_names_is_never_deleted(
            backups in proptest::collection::vec((0_i64..40 * 86_400, proptest::collection::hash_set(0_u8..30, 0..9)), 0..9),
            ages in proptest::collection::vec(0_i64..4 * 86_400, 30),
            keep_last in 0_usize..5,
            keep_days in proptest::option::of(0_u32..30),
        ) {
            let rule = Rule { keep_last, keep_days, grace: DAY };
            let backups: Vec<(BackupId, HashSet<u8>)> = backups
                .into_iter()
                .map(|(age, names)| (BackupId::new(at(age)).unwrap(), names))
                .collect();
            let ids: Vec<BackupId> = backups.iter().map(|(id, _)| id.clone()).collect();
            let (kept, expired) = divide(ids, &rule, at(0));
            prop_assert_eq!(kept.len() + expired.len(), backups.len());
            prop_assert!(kept.len() >= keep_last.max(1).min(backups.len()));
            for id in &expired {
                prop_assert!(kept.len() >= keep_last && kept.iter().rev().take(keep_last).all(|kept| kept > id));
                let days = at(0).duration_since(id.begun()).as_secs() / 86_400;
                prop_assert!(days >= i64::from(keep_days.unwrap_or(0)));
            }
            let names = |ids: &[BackupId]| -> HashSet<String> {
                let of = backups.iter().filter(|(id, _)| ids.contains(id));
                of.flat_map(|(_, names)| names).map(u8::to_string).collect()
            };
            let named = names(&kept);
            let listed = |name: u8| {
                let (name, written) = (name.to_string(), at(ages[usize::from(name)]));
                (name.clone(), Listed { name, size: 1, written })
            };
            let deleted = garbage((0..30).map(listed).collect(), &named, DAY, at(0));
            for name in 0..30_u8 {
                let is_deleted = deleted.iter().any(|chunk| chunk.name == name.to_string());
                let is_old = ages[usize::from(name)] >= 86_400;
                prop_assert_eq!(is_deleted, is_old && !named.contains(&name.to_string()));
            }
        }
    }
}
