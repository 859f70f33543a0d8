//! Backups and their schedules as values, and the names of what belongs to one.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use readstates_operator_api::labels;

use super::Identity;
use crate::error::Error;

/// A `ReadStateBackup` or `ReadStateBackupSchedule`, as the owner of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupOwner {
    /// Its name, namespace and UID.
    pub id: Identity,
    pub kind: String,
    /// The label of its pods; the value is its name.
    pub label: &'static str,
}

impl BackupOwner {
    /// Reads it from an object of the API server. `label`: the one of its pods.
    ///
    /// # Errors
    /// When the object was never stored.
    pub fn of<K: Resource<DynamicType = ()>>(
        object: &K,
        label: &'static str,
    ) -> Result<Self, Error> {
        let need = |value: Option<String>, field| value.ok_or(Error::Nameless { field });
        Ok(Self {
            id: Identity {
                namespace: need(object.namespace(), "namespace")?,
                name: object.name_any(),
                uid: need(object.uid(), "uid")?,
                generation: object.meta().generation.unwrap_or_default(),
                adopts: false,
            },
            kind: K::kind(&()).into_owned(),
            label,
        })
    }

    /// Makes a child go when it goes.
    #[must_use]
    pub fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            kind: self.kind.clone(),
            ..self.id.owner_reference()
        }
    }

    /// Selects its Jobs and pods.
    #[must_use]
    pub fn selector_text(&self) -> String {
        let (backup, name) = (labels::Component::Backup, &self.id.name);
        format!("{}={backup},{}={name}", labels::COMPONENT, self.label)
    }

    /// Job and NetworkPolicy of a backup.
    #[must_use]
    pub fn job(&self) -> String {
        format!("{}-backup", self.id.name)
    }

    /// CronJob that makes backups.
    #[must_use]
    pub fn create(&self) -> String {
        format!("{}-create", self.id.name)
    }

    /// CronJob that verifies them.
    #[must_use]
    pub fn verify(&self) -> String {
        format!("{}-verify", self.id.name)
    }

    /// VolumeSnapshot of a node.
    #[must_use]
    pub fn snapshot(&self, rack: &str, ordinal: i32) -> String {
        format!("{}-{rack}-{ordinal}", self.id.name)
    }

    /// `ReadStateBackup` that a schedule makes at this time, by the minute as Kubernetes names the Jobs of a CronJob.
    #[must_use]
    pub fn at(&self, time: Timestamp) -> String {
        format!("{}-{}", self.id.name, time.as_second() / 60)
    }

    /// NetworkPolicy of a schedule.
    #[must_use]
    pub fn policy(&self) -> String {
        format!("{}-backups", self.id.name)
    }
}

/// How a backup is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupMethod {
    /// By a Job that writes to this place.
    Job(BackupPlace),
    /// As VolumeSnapshots of this class; none: the default one of the volumes' driver.
    Volumes(Option<String>),
}

/// Where backups are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupPlace {
    /// The bucket or the volume.
    pub at: BackupsAt,
    /// Secret and its key with the encryption key; none: nothing is encrypted.
    pub encryption: Option<(String, String)>,
}

/// A bucket or a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupsAt {
    Bucket {
        /// `s3://bucket/prefix`.
        url: String,
        /// Its region; none: the default one.
        region: Option<String>,
        /// The store; none: Amazon's.
        endpoint: Option<String>,
        /// Secret and its key with the CAs of the store; none: those of the image.
        ca: Option<(String, String)>,
        /// Secret with the credentials; none: a role gives them.
        credentials: Option<String>,
        /// ServiceAccount that has the role; none: the default one.
        account: Option<String>,
    },
    Volume {
        claim: String,
        /// Folder below its root; none: the root.
        path: Option<String>,
    },
}

/// A schedule that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatedSchedule {
    /// The `ReadStateCluster`.
    pub cluster: String,
    /// How backups are made.
    pub method: BackupMethod,
    /// When they are made, as a CronJob takes it.
    pub schedule: String,
    /// In which time zone that is.
    pub time_zone: String,
    /// Whether nothing is begun.
    pub suspend: bool,
    /// What is kept; none: everything.
    pub retention: Option<Retention>,
    /// When the latest one is verified; none: never.
    pub verify: Option<String>,
    /// The age from which the last good one is too old.
    pub max_age: Option<Duration>,
}

/// What is kept; at least one of the two is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// So many.
    pub last: Option<i32>,
    /// All of the last so many days.
    pub days: Option<i32>,
}

impl BackupOwner {
    /// Job that copies while members serve on the source alone.
    #[must_use]
    pub fn ahead(&self) -> String {
        format!("{}-copy", self.id.name)
    }

    /// Job that copies and compares, and the NetworkPolicy of both.
    #[must_use]
    pub fn moving(&self) -> String {
        format!("{}-move", self.id.name)
    }
}
