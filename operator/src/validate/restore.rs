//! `spec.restoreFrom` as a value. In: the spec. Out: what a new cluster begins with, or each field that is wrong.

use readstates_operator_api::{BackupStorage, RestoreFrom, VolumeSnapshotsOf};

use super::Checker;
use crate::spec::{RestoreSource, RestoreWish, Store};

/// The backup that was begun last.
const LATEST: &str = "latest";

/// What a spec asks for; none: it asks for nothing that could be meant.
#[must_use]
pub fn restore_wish(spec: &RestoreFrom) -> Option<RestoreWish> {
    let mut check = Checker::default();
    let wish = check.restore(spec, None);
    wish.filter(|_| check.problems.is_empty())
}

impl Checker {
    /// What it begins with, or `None` once a problem is on the list. `store`: where its read states are kept, if that is
    /// known.
    pub(super) fn restore(
        &mut self,
        spec: &RestoreFrom,
        store: Option<&Store>,
    ) -> Option<RestoreWish> {
        const FIELD: &str = "spec.restoreFrom";
        let RestoreFrom {
            backup,
            repository,
            volume_snapshots,
            migration,
            snapshot,
        } = spec;
        if let Some(Store::Embedded(_)) = store {
            self.wrong(
                FIELD,
                "is not possible with database.embedded, whose volume belongs to its one process: create the cluster \
                 without it, set stopped, and run `readstates backup restore --store embedded:FOLDER` in a pod with the \
                 cluster's volume claim",
            );
        }
        if snapshot.is_some() && repository.is_none() {
            let words = "goes with repository: a ReadStateBackup is one backup";
            self.wrong(format!("{FIELD}.snapshot"), words);
        }
        match (backup, repository, volume_snapshots, migration) {
            (Some(backup), None, None, None) => {
                self.named(&format!("{FIELD}.backup.name"), &backup.name);
                Some(RestoreWish::Backup(backup.name.clone()))
            }
            (None, Some(repository), None, None) => self.source(repository, snapshot.as_ref()),
            (None, None, Some(VolumeSnapshotsOf { backup }), None) => {
                self.named(&format!("{FIELD}.volumeSnapshots.backup"), backup);
                if let Some(Store::External(_)) = store {
                    self.wrong(
                        format!("{FIELD}.volumeSnapshots"),
                        "goes with database.racks: the operator does not know the volumes of another database",
                    );
                }
                Some(RestoreWish::Volumes(backup.clone()))
            }
            (None, None, None, Some(migration)) => {
                self.named(&format!("{FIELD}.migration.name"), &migration.name);
                Some(RestoreWish::Move(migration.name.clone()))
            }
            _ => {
                let words =
                    "exactly one of backup, repository, volumeSnapshots and migration must be set";
                self.wrong(FIELD, words);
                None
            }
        }
    }

    fn named(&mut self, field: &str, name: &str) {
        if name.is_empty() {
            self.wrong(field, "must not be empty");
        }
    }

    fn source(
        &mut self,
        repository: &BackupStorage,
        snapshot: Option<&String>,
    ) -> Option<RestoreWish> {
        let place = self.place("spec.restoreFrom.repository", repository)?;
        let snapshot = snapshot.map_or(LATEST, String::as_str).to_owned();
        let source = RestoreSource { place, snapshot };
        Some(RestoreWish::Place(Box::new(source)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, cluster, try_cluster},
        spec::{BackupPlace, BackupsAt},
    };

    fn with(spec: &str, restore: &str) -> String {
        match spec.strip_prefix('{') {
            Some(flow) => format!("{{ restoreFrom: {restore}, {flow}"),
            None => format!("{spec}restoreFrom: {restore}\n"),
        }
    }

    #[test]
    fn a_new_cluster_begins_with_a_backup_by_its_name_or_its_place() {
        let named = cluster(&with(CASSANDRA, "{ backup: { name: nightly } }"));
        assert_eq!(
            named.restore,
            Some(RestoreWish::Backup("nightly".to_owned()))
        );
        let moved = cluster(&with(CASSANDRA, "{ migration: { name: away } }"));
        assert_eq!(moved.restore, Some(RestoreWish::Move("away".to_owned())));
        let claim = "{ repository: { volumeClaim: { claimName: backups } } }";
        let source = RestoreSource {
            place: BackupPlace {
                at: BackupsAt::Volume {
                    claim: "backups".to_owned(),
                    path: None,
                },
                encryption: None,
            },
            snapshot: "latest".to_owned(),
        };
        let placed = cluster(&with(CASSANDRA, claim));
        assert_eq!(placed.restore, Some(RestoreWish::Place(Box::new(source))));
        let copied = cluster(&with(CASSANDRA, "{ volumeSnapshots: { backup: nightly } }"));
        let wish = RestoreWish::Volumes("nightly".to_owned());
        assert_eq!(copied.restore, Some(wish));
    }

    #[test]
    fn what_cannot_be_restored_is_told_by_its_field() {
        let claim = "volumeClaim: { claimName: b }";
        for (spec, restore, words) in [
            (
                CASSANDRA,
                "{}".to_owned(),
                "spec.restoreFrom: exactly one of",
            ),
            (
                CASSANDRA,
                format!("{{ backup: {{ name: b }}, repository: {{ {claim} }} }}"),
                "spec.restoreFrom: exactly one of",
            ),
            (
                CASSANDRA,
                "{ backup: { name: b }, migration: { name: m } }".to_owned(),
                "spec.restoreFrom: exactly one of",
            ),
            (
                CASSANDRA,
                "{ migration: { name: '' } }".to_owned(),
                "spec.restoreFrom.migration.name: must not be empty",
            ),
            (
                CASSANDRA,
                "{ backup: { name: b }, snapshot: latest }".to_owned(),
                "spec.restoreFrom.snapshot: goes with repository",
            ),
            (
                CASSANDRA,
                "{ repository: { s3: { url: 's3://b', endpoint: minio } } }".to_owned(),
                "spec.restoreFrom.repository.s3.endpoint: must begin with",
            ),
            (
                CASSANDRA,
                "{ backup: { name: b }, volumeSnapshots: { backup: b } }".to_owned(),
                "spec.restoreFrom: exactly one of",
            ),
            (
                EXTERNAL,
                "{ volumeSnapshots: { backup: b } }".to_owned(),
                "spec.restoreFrom.volumeSnapshots: goes with database.racks",
            ),
            (
                EMBEDDED,
                "{ backup: { name: b } }".to_owned(),
                "run `readstates backup restore --store embedded:",
            ),
        ] {
            let said = try_cluster(&with(spec, &restore)).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
    }
}
