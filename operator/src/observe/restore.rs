//! What a restore into a new cluster needs and what became of its Jobs, or of a move into it. In: names. Out: plain values. A cluster that has
//! had cache pods, or was restored, is not looked at for it any more.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Api, Client, api::ListParams};
use readstates_operator_api::{BackupPhase, ReadStateBackup, ReadStateCluster};

use super::{
    backups,
    children::{self, of_job},
    moves,
};
use crate::{
    error::Error,
    names::RESTORE,
    spec::{BackupMethod, Identity, RestoreSource, RestoreWish},
    templates,
    validate::{restore_wish, validate_backup},
    world::{RestoreJob, RestoreSeen, RingSeen},
};

/// Exit codes after which another attempt ends the same: wrong usage, refused, damaged.
const FINAL: [i32; 3] = [2, 3, 4];

/// Reads what a restore needs, if one is still to be done.
///
/// # Errors
/// When the API server cannot be read.
pub(super) async fn observe(
    client: &Client,
    id: &Identity,
    cluster: &ReadStateCluster,
    ring: &RingSeen,
) -> Result<RestoreSeen, Error> {
    let status = cluster.status.as_ref();
    let mut seen = RestoreSeen {
        record: status.and_then(|s| s.restore.as_deref().cloned()),
        ..RestoreSeen::default()
    };
    let had_ring = *ring != RingSeen::Absent || status.is_some_and(|s| s.ring_number.is_some());
    let wish = cluster.spec.restore_from.as_deref().and_then(restore_wish);
    let Some(wish) = wish.filter(|_| !had_ring && !seen.is_done()) else {
        return Ok(seen);
    };
    let source = match wish {
        RestoreWish::Place(source) => Ok(*source),
        RestoreWish::Backup(name) => named(client, id, &name).await?,
        RestoreWish::Volumes(backup) => {
            let found = backups::snapshots(client, &id.namespace, &backup).await?;
            seen.snapshots = Some(found);
            return Ok(seen);
        }
        RestoreWish::Move(name) => {
            seen.moving = Some(moves::move_in(client, id, &name).await?);
            return Ok(seen);
        }
    };
    if let Ok(source) = &source {
        seen.lacking = backups::lacking(client, id, &source.place).await?;
    }
    seen.source = Some(source);
    seen.jobs = jobs(client, id).await?;
    Ok(seen)
}

/// The backup of a `ReadStateBackup`, or why there is none.
async fn named(
    client: &Client,
    id: &Identity,
    name: &str,
) -> Result<Result<RestoreSource, String>, Error> {
    let found = backups::owner::<ReadStateBackup>(client, &id.namespace, name).await?;
    Ok(found
        .ok_or_else(|| format!("there is no ReadStateBackup {name} in this namespace"))
        .and_then(|backup| made(&backup, name)))
}

fn of_volumes(name: &str) -> String {
    format!(
        "ReadStateBackup {name} is made of VolumeSnapshots: set spec.restoreFrom.volumeSnapshots.backup in place of backup"
    )
}

fn made(backup: &ReadStateBackup, name: &str) -> Result<RestoreSource, String> {
    if backup.spec.volume_snapshots.is_some() {
        return Err(of_volumes(name));
    }
    let status = backup.status.as_ref();
    match status.map(|s| s.phase).unwrap_or_default() {
        BackupPhase::Complete => {}
        BackupPhase::Failed => {
            return Err(format!(
                "ReadStateBackup {name} has failed: name another one"
            ));
        }
        BackupPhase::Waiting | BackupPhase::Running | BackupPhase::Refused => {
            return Err(format!("ReadStateBackup {name} is not complete yet"));
        }
    }
    let snapshot = status.and_then(|s| s.backup.as_ref()?.id.clone());
    let snapshot = snapshot.ok_or_else(|| {
        format!(
            "ReadStateBackup {name} is complete, and its id is not known any more: find it with `readstates backup \
             list`, and set spec.restoreFrom.repository and snapshot"
        )
    })?;
    let method = validate_backup(&backup.spec);
    match method.map_err(|invalid| format!("ReadStateBackup {name}: {invalid}"))? {
        BackupMethod::Job(place) => Ok(RestoreSource { place, snapshot }),
        BackupMethod::Volumes(_) => Err(of_volumes(name)),
    }
}

async fn jobs(client: &Client, id: &Identity) -> Result<Vec<RestoreJob>, Error> {
    let ours = ListParams::default().labels(&templates::restore_selector(id));
    let failed = |source| Error::Read {
        what: format!("the Jobs that restore {}", id.name),
        source,
    };
    let jobs: Api<Job> = Api::namespaced(client.clone(), &id.namespace);
    let found = jobs.list(&ours).await.map_err(failed)?;
    if found.items.is_empty() {
        return Ok(Vec::new());
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), &id.namespace);
    let pods = pods.list(&ours).await.map_err(failed)?.items;
    let own = found.items.iter().filter(|job| id.owns(&job.metadata));
    let mut jobs: Vec<_> = own.filter_map(|job| seen(job, &pods)).collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.run.begun));
    Ok(jobs)
}

fn seen(job: &Job, pods: &[Pod]) -> Option<RestoreJob> {
    let uid = children::job(job, pods)?.uid;
    let failed = job.status.as_ref().and_then(|s| s.failed);
    Some(RestoreJob {
        run: backups::run(job, pods)?,
        attempts: failed.unwrap_or_default() + 1,
        is_final: exit_code(pods, &uid).is_some_and(|code| FINAL.contains(&code)),
        uid,
    })
}

/// The exit code of the newest pod that has ended.
fn exit_code(pods: &[Pod], job_uid: &str) -> Option<i32> {
    of_job(pods, job_uid).iter().find_map(|pod| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        let restore = statuses.iter().find(|status| status.name == RESTORE)?;
        let ended = restore.state.as_ref()?.terminated.as_ref()?;
        Some(ended.exit_code)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn backup(status: Value) -> Result<RestoreSource, String> {
        let backup = json!({
            "metadata": { "name": "b" }, "status": status,
            "spec": { "cluster": "chat", "storage": { "volumeClaim": { "claimName": "backups" } } },
        });
        made(&serde_json::from_value(backup).unwrap(), "b")
    }

    #[test]
    fn a_backup_that_is_named_is_waited_for_and_then_this_very_one() {
        let finished = "2026-01-01T00:00:00Z";
        let id = "20260101T000000.000Z-00000001";
        let complete = json!({ "phase": "Complete", "backup": { "finished": finished, "id": id } });
        assert_eq!(backup(complete).unwrap().snapshot, id);
        for (status, words) in [
            (Value::Null, "is not complete yet"),
            (json!({ "phase": "Running" }), "is not complete yet"),
            (json!({ "phase": "Failed" }), "name another one"),
            (
                json!({ "phase": "Complete", "backup": { "finished": finished } }),
                "its id is not known any more",
            ),
        ] {
            let said = backup(status).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn a_refusal_of_the_newest_attempt_is_final() {
        let job: Job = serde_json::from_value(json!({
            "metadata": { "name": "j", "uid": "uid-of-j", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "status": { "failed": 2 },
        }))
        .unwrap();
        let pod = |made: &str, code: i32| -> Pod {
            let pod = json!({
                "metadata": {
                    "name": made, "creationTimestamp": made,
                    "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-of-j" }],
                },
                "status": { "containerStatuses": [{
                    "name": "restore", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "terminated": { "exitCode": code } },
                }] },
            });
            serde_json::from_value(pod).unwrap()
        };
        let (early, late) = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z");
        let is_final = |codes: [i32; 2]| {
            let pods = [pod(early, codes[0]), pod(late, codes[1])];
            let seen = seen(&job, &pods).unwrap();
            assert_eq!(seen.attempts, 3);
            seen.is_final
        };
        assert!(is_final([1, 3]));
        assert!(!is_final([3, 1]), "what it was refused for is no more");
    }
}
