//! A schedule of backups by VolumeSnapshots, carried out: `ReadStateBackup`s are made and deleted.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
};
use readstates_operator_api::{
    ReadStateBackup, ReadStateBackupScheduleStatus, ReadStateBackupSpec, VolumeSnapshots,
    conditions::{ConditionType, Reason},
    labels,
};

use super::{api, work};
use crate::{
    context::Context,
    error::Error,
    observe,
    plan::{self, BackupResults, BackupSeen, Named, Obstacle, TimesStep},
    spec::{BackupOwner, ValidatedSchedule},
};

/// Makes the backup that is due, if one is, and deletes those that are not kept. What became of all, and what is in the
/// way.
pub(super) async fn go_on(
    ctx: &Context,
    owner: &BackupOwner,
    (schedule, class): (&ValidatedSchedule, Option<&String>),
    before: Option<&ReadStateBackupScheduleStatus>,
    created: Timestamp,
) -> Result<(BackupResults, Option<Obstacle>), Error> {
    let namespace = &owner.id.namespace;
    let backups: Api<ReadStateBackup> = api(ctx, Some(namespace));
    let ours = format!("{}={}", labels::BACKUP_SCHEDULE, owner.id.name);
    let ours = ListParams::default().labels(&ours);
    let found = observe::stored::<ReadStateBackup>(&ctx.client, namespace, &ours).await;
    let found = found.map_err(|source| Error::Read {
        what: format!("the ReadStateBackups of {}", owner.id.name),
        source,
    })?;
    let seen = found.iter().filter_map(seen).collect();
    let step = plan::times_step(schedule, created, seen, before, Timestamp::now());
    let TimesStep {
        make,
        delete,
        results,
    } = step;
    let mut obstacle = None;
    if let Some(due) = make {
        obstacle = make_one(&backups, owner, (schedule, class), due).await?;
    }
    for Named { name, uid } in &delete {
        let params = DeleteParams::background();
        work::delete::<ReadStateBackup>(ctx, owner, (name, uid), params).await?;
    }
    Ok((results, obstacle))
}

fn seen(stored: &DynamicObject) -> Option<BackupSeen> {
    if stored.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let created = stored.creation_timestamp()?.0;
    let (name, uid) = (stored.name_any(), stored.uid()?);
    let cluster = stored.data["spec"]["cluster"].as_str()?.to_owned();
    let status = match observe::read::<ReadStateBackup>(stored) {
        Ok(backup) => backup.status.unwrap_or_default(),
        Err(_) => {
            return Some(BackupSeen {
                name,
                uid,
                cluster,
                created,
                phase: None,
                made: None,
                words: String::new(),
            });
        }
    };
    let complete = ConditionType::Complete.as_str();
    let mut conditions = status.conditions.into_iter();
    let words = conditions.find(|c| c.type_ == complete).map(|c| c.message);
    Some(BackupSeen {
        name,
        uid,
        cluster,
        created,
        phase: Some(status.phase),
        made: status.backup,
        words: words.unwrap_or_default(),
    })
}

/// One of this name that is there already is the one that is due.
async fn make_one(
    backups: &Api<ReadStateBackup>,
    owner: &BackupOwner,
    (schedule, class): (&ValidatedSchedule, Option<&String>),
    due: Timestamp,
) -> Result<Option<Obstacle>, Error> {
    let name = owner.at(due);
    let mut own = labels::all(&schedule.cluster, labels::Component::Backup);
    own.insert(labels::BACKUP_SCHEDULE.to_owned(), owner.id.name.clone());
    let mut backup = ReadStateBackup::new(
        &name,
        ReadStateBackupSpec {
            cluster: schedule.cluster.clone(),
            storage: None,
            volume_snapshots: Some(VolumeSnapshots {
                volume_snapshot_class_name: class.cloned(),
            }),
        },
    );
    backup.metadata = ObjectMeta {
        labels: Some(own),
        ..backup.metadata
    };
    let params = PostParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PostParams::default()
    };
    match backups.create(&params, &backup).await {
        Ok(_) => {
            tracing::info!(backup = name, namespace = owner.id.namespace, "made");
            Ok(None)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            let words = format!(
                "the API server refused ReadStateBackup {name}: {}",
                status.message
            );
            Ok(Some(Obstacle::refuse(Reason::ApplyRejected, words)))
        }
        Err(source) => Err(Error::Write {
            what: format!("ReadStateBackup {name}"),
            source,
        }),
    }
}
