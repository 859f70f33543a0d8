//! Backups and their schedules as values. In: their specs. Out: what can be carried out, or each field that is wrong.

use std::time::Duration;

use readstates_operator_api::{
    BackupRetention, BackupStorage, CaSecretRef, DEFAULT_CA_KEY, DEFAULT_ENCRYPTION_KEY,
    EncryptionKeyRef, ReadStateBackupScheduleSpec, ReadStateBackupSpec, S3Storage,
    VolumeClaimStorage, VolumeSnapshots,
};

use super::{Checker, InvalidSpec, duration};
use crate::spec::{BackupMethod, BackupPlace, BackupsAt, Retention, Times, ValidatedSchedule};

/// Times are in this zone when the spec names none.
const DEFAULT_TIME_ZONE: &str = "Etc/UTC";
/// The field with the place of backups.
const STORAGE: &str = "spec.storage";
/// Bounds of the age from which a backup is too old.
const AGES: (Duration, Duration) = (Duration::from_mins(5), Duration::from_hours(400 * 24));

/// Parses how a backup is made.
///
/// # Errors
/// Every problem found, each with its field.
pub fn validate_backup(spec: &ReadStateBackupSpec) -> Result<BackupMethod, InvalidSpec> {
    let ReadStateBackupSpec {
        cluster: _,
        storage,
        volume_snapshots,
    } = spec;
    let mut check = Checker::default();
    let method = check.method(storage.as_ref(), volume_snapshots.as_ref());
    check.done(method)
}

/// Parses a schedule.
///
/// # Errors
/// Every problem found, each with its field.
pub fn validate_schedule(
    spec: &ReadStateBackupScheduleSpec,
) -> Result<ValidatedSchedule, InvalidSpec> {
    let ReadStateBackupScheduleSpec {
        cluster,
        schedule,
        time_zone,
        suspend,
        storage,
        volume_snapshots,
        retention,
        verify_schedule,
        max_age,
    } = spec;
    let mut check = Checker::default();
    check.times("spec.schedule", Some(schedule));
    check.times("spec.verifySchedule", verify_schedule.as_ref());
    let method = check.method(storage.as_ref(), volume_snapshots.as_ref());
    let zone = time_zone.as_deref().unwrap_or(DEFAULT_TIME_ZONE);
    if let Some(BackupMethod::Volumes(_)) = method {
        // What Kubernetes checks where it is given a CronJob.
        if let Err(why) = Times::parse(schedule, zone) {
            check.wrong("spec.schedule", why);
        }
        if verify_schedule.is_some() {
            let words = "goes with storage: a snapshot of volumes is checked by restoring it";
            check.wrong("spec.verifySchedule", words);
        }
    }
    let retention = retention.as_ref().map(|r| check.retention(r));
    let max_age = max_age.as_ref().and_then(|text| {
        let age = duration::within(text, AGES);
        if age.is_none() {
            let words = format!("{text:?} is not a duration from 5m to 400d");
            check.wrong("spec.maxAge", words);
        }
        age
    });
    let valid = method.map(|method| ValidatedSchedule {
        cluster: cluster.clone(),
        method,
        schedule: schedule.clone(),
        time_zone: zone.to_owned(),
        suspend: *suspend,
        retention,
        verify: verify_schedule.clone(),
        max_age,
    });
    check.done(valid)
}

impl Checker {
    fn done<T>(self, value: Option<T>) -> Result<T, InvalidSpec> {
        let Self { problems } = self;
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            Some(_) | None => Err(InvalidSpec { problems }),
        }
    }

    /// How backups are made.
    fn method(
        &mut self,
        storage: Option<&BackupStorage>,
        volume_snapshots: Option<&VolumeSnapshots>,
    ) -> Option<BackupMethod> {
        match (storage, volume_snapshots) {
            (Some(storage), None) => self.place(STORAGE, storage).map(BackupMethod::Job),
            (None, Some(snapshots)) => {
                let VolumeSnapshots {
                    volume_snapshot_class_name,
                } = snapshots;
                let class = volume_snapshot_class_name.clone();
                Some(BackupMethod::Volumes(class))
            }
            (Some(_), Some(_)) | (None, None) => {
                let words = "exactly one of storage and volumeSnapshots must be set";
                self.wrong("spec", words);
                None
            }
        }
    }

    /// Five fields or a word: what the numbers in them mean, the API server checks when it is given the CronJob.
    fn times(&mut self, field: &str, text: Option<&String>) {
        let Some(text) = text else {
            return;
        };
        let fields = text.split_whitespace().count();
        let is_word = text.starts_with('@') && fields == 1;
        if !is_word && fields != 5 {
            let words = format!("{text:?} is no schedule of five fields, such as `0 3 * * *`");
            self.wrong(field, words);
        }
    }

    /// Where backups are, by this field.
    pub(super) fn place(&mut self, field: &str, storage: &BackupStorage) -> Option<BackupPlace> {
        let BackupStorage {
            s3,
            volume_claim,
            encryption_key_secret_ref,
        } = storage;
        let at = match (s3, volume_claim) {
            (Some(s3), None) => self.bucket(field, s3),
            (None, Some(VolumeClaimStorage { claim_name, path })) => {
                let parts = path.iter().flat_map(|path| path.split('/'));
                if parts
                    .clone()
                    .any(|part| part.starts_with('.') || part.is_empty())
                {
                    self.wrong(
                        format!("{field}.volumeClaim.path"),
                        "must be folders below the root, such as chat/daily",
                    );
                }
                Some(BackupsAt::Volume {
                    claim: claim_name.clone(),
                    path: path.clone(),
                })
            }
            (Some(_), Some(_)) | (None, None) => {
                self.wrong(field, "exactly one of s3 and volumeClaim must be set");
                None
            }
        }?;
        let encryption = encryption_key_secret_ref.as_ref();
        Some(BackupPlace {
            at,
            encryption: encryption.map(|EncryptionKeyRef { name, key }| {
                let key = key.as_deref().unwrap_or(DEFAULT_ENCRYPTION_KEY);
                (name.clone(), key.to_owned())
            }),
        })
    }

    fn bucket(&mut self, field: &str, s3: &S3Storage) -> Option<BackupsAt> {
        let S3Storage {
            url,
            region,
            endpoint,
            ca_secret_ref,
            credentials_secret_ref,
            service_account_name,
        } = s3;
        let bucket = url.strip_prefix("s3://").unwrap_or_default();
        if bucket.is_empty() || bucket.starts_with('/') {
            let words = format!("{url:?} is no bucket, such as s3://backups/chat");
            self.wrong(format!("{field}.s3.url"), words);
        }
        let has_scheme = |url: &String| url.starts_with("https://") || url.starts_with("http://");
        if endpoint.as_ref().is_some_and(|url| !has_scheme(url)) {
            self.wrong(
                format!("{field}.s3.endpoint"),
                "must begin with https:// or http://",
            );
        }
        let over_tls = |url: &String| url.starts_with("https://");
        if ca_secret_ref.is_some() && !endpoint.as_ref().is_some_and(over_tls) {
            self.wrong(
                format!("{field}.s3.caSecretRef"),
                "goes with an endpoint that begins with https://",
            );
        }
        if credentials_secret_ref.is_some() && service_account_name.is_some() {
            self.wrong(
                format!("{field}.s3"),
                "at most one of credentialsSecretRef and serviceAccountName may be set",
            );
        }
        Some(BackupsAt::Bucket {
            url: url.clone(),
            region: region.clone(),
            endpoint: endpoint.clone(),
            ca: ca_secret_ref.as_ref().map(|CaSecretRef { name, key }| {
                let key = key.as_deref().unwrap_or(DEFAULT_CA_KEY);
                (name.clone(), key.to_owned())
            }),
            credentials: credentials_secret_ref.as_ref().map(|r| r.name.clone()),
            account: service_account_name.clone(),
        })
    }

    fn retention(&mut self, spec: &BackupRetention) -> Retention {
        let BackupRetention {
            keep_last,
            keep_days,
        } = *spec;
        let named = [("keepLast", keep_last), ("keepDays", keep_days)];
        for (field, number) in named {
            if number.is_some_and(|number| number < 1) {
                self.wrong(format!("spec.retention.{field}"), "must be at least 1");
            }
        }
        if keep_last.is_none() && keep_days.is_none() {
            self.wrong(
                "spec.retention",
                "at least one of keepLast and keepDays must be set",
            );
        }
        Retention {
            last: keep_last,
            days: keep_days,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn schedule(change: Value) -> Result<ValidatedSchedule, String> {
        let mut spec = json!({
            "cluster": "chat", "schedule": "0 3 * * *",
            "storage": { "volumeClaim": { "claimName": "backups" } },
        });
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let spec = serde_json::from_value(spec).unwrap();
        validate_schedule(&spec).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn snapshots_are_made_at_times_that_are_checked_here() {
        let of = |change: Value| {
            let mut spec =
                json!({ "cluster": "chat", "schedule": "0 3 * * *", "volumeSnapshots": {} });
            for (key, value) in change.as_object().unwrap() {
                spec[key] = value.clone();
            }
            validate_schedule(&serde_json::from_value(spec).unwrap()).map_err(|e| e.to_string())
        };
        assert_eq!(of(json!({})).unwrap().method, BackupMethod::Volumes(None));
        for (change, field) in [
            (json!({ "schedule": "0 25 * * *" }), "spec.schedule"),
            (json!({ "timeZone": "Europe/Atlantis" }), "spec.schedule"),
            (
                json!({ "verifySchedule": "@weekly" }),
                "spec.verifySchedule",
            ),
            (
                json!({ "storage": { "volumeClaim": { "claimName": "b" } } }),
                "exactly one of",
            ),
        ] {
            let said = of(change).unwrap_err();
            assert!(said.contains(field), "{said}");
        }
    }

    #[test]
    fn a_schedule_says_when_in_which_zone_and_what_is_kept() {
        let valid = schedule(json!({
            "retention": { "keepLast": 7, "keepDays": 14 }, "maxAge": "26h",
            "verifySchedule": "@weekly", "timeZone": "Europe/Berlin",
        }));
        let valid = valid.unwrap();
        assert_eq!(valid.time_zone, "Europe/Berlin");
        assert_eq!(valid.max_age, Some(Duration::from_hours(26)));
        let kept = Retention {
            last: Some(7),
            days: Some(14),
        };
        assert_eq!(valid.retention, Some(kept));
        let plain = schedule(json!({})).unwrap();
        assert_eq!(
            (plain.time_zone.as_str(), plain.retention),
            ("Etc/UTC", None)
        );
    }

    #[test]
    fn a_backup_goes_to_a_place_or_is_made_of_snapshots() {
        let method = |spec: Value| {
            let mut all = json!({ "cluster": "chat" });
            for (key, value) in spec.as_object().unwrap() {
                all[key] = value.clone();
            }
            let spec = serde_json::from_value(all).unwrap();
            validate_backup(&spec).map_err(|invalid| invalid.to_string())
        };
        let place = json!({ "volumeClaim": { "claimName": "backups" } });
        let class = json!({ "volumeSnapshotClassName": "kept" });
        assert!(matches!(
            method(json!({ "storage": place })),
            Ok(BackupMethod::Job(_))
        ));
        assert_eq!(
            method(json!({ "volumeSnapshots": class })),
            Ok(BackupMethod::Volumes(Some("kept".to_owned())))
        );
        assert_eq!(
            method(json!({ "volumeSnapshots": {} })),
            Ok(BackupMethod::Volumes(None))
        );
        for both in [
            json!({}),
            json!({ "storage": place, "volumeSnapshots": class }),
        ] {
            assert!(method(both).unwrap_err().contains("exactly one of"));
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        let s3 = |s3: Value| json!({ "storage": { "s3": s3 } });
        for (change, field) in [
            (json!({ "schedule": "3 o'clock" }), "spec.schedule"),
            (json!({ "verifySchedule": "weekly" }), "spec.verifySchedule"),
            (json!({ "maxAge": "1m" }), "spec.maxAge"),
            (json!({ "retention": {} }), "spec.retention"),
            (
                json!({ "retention": { "keepLast": 0 } }),
                "spec.retention.keepLast",
            ),
            (json!({ "storage": {} }), "spec.storage"),
            (s3(json!({ "url": "s3:///x" })), "spec.storage.s3.url"),
            (
                s3(json!({ "url": "s3://b", "endpoint": "minio" })),
                "spec.storage.s3.endpoint",
            ),
            (
                s3(json!({ "url": "s3://b", "caSecretRef": { "name": "ca" } })),
                "spec.storage.s3.caSecretRef",
            ),
            (
                json!({ "storage": { "volumeClaim": { "claimName": "b", "path": "../x" } } }),
                "spec.storage.volumeClaim.path",
            ),
        ] {
            let said = schedule(change).unwrap_err();
            assert!(said.starts_with(&format!("{field}: ")), "{said}");
        }
    }
}
