//! Schedules of backups as a user has them: made, verified, pruned, suspended, told when they fail.

use super::*;

#[test]
fn a_schedule_makes_verifies_and_prunes_backups_and_is_suspended() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 1).await;
        let spec = json!({ "retention": { "keepLast": 7 }, "verifySchedule": "@weekly" });
        world
            .make::<ReadStateBackupSchedule>(schedule(spec))
            .await
            .unwrap();
        let status = world.schedule().await;
        let told = said(&status.conditions, "Scheduled");
        assert_eq!(told, "True Scheduled: CronJob nightly-create makes backups");
        let cron_job: CronJob = world.get("nightly-create").await;
        let spec = cron_job.spec;
        assert_eq!(
            (spec.schedule.as_str(), spec.suspend),
            ("0 3 * * *", Some(false))
        );
        assert_eq!(spec.concurrency_policy.as_deref(), Some("Forbid"));
        world.get::<NetworkPolicy>("nightly-backups").await;

        let job = world.it_is_time("nightly-create", "nightly-create-1").await;
        let pruned = r#"{"dry_run":false,"deleted_backups":1,"kept_backups":7}"#;
        let first = [("create", 0, REPORT)];
        world.pod_ends(&job, &first, &[("prune", 0, pruned)]).await;
        let job = world.it_is_time("nightly-verify", "nightly-verify-1").await;
        let sound = r#"{"id":"20260101T000000.000Z-00000001","users":7,"chunks":1,"bytes":100}"#;
        world.pod_ends(&job, &[], &[("verify", 0, sound)]).await;
        world.finish_jobs().await;
        let status = world.schedule().await;
        assert_eq!(status.last_backup.unwrap().users, Some(7));
        assert_eq!(status.last_verified.unwrap().verification.users, Some(7));
        let pruned = status.last_pruned.unwrap();
        assert_eq!((pruned.deleted, pruned.kept), (Some(1), Some(7)));
        assert_eq!(
            said(&status.conditions, "Degraded"),
            "False AsExpected: nothing is wrong"
        );

        let change = json!({ "spec": { "suspend": true, "verifySchedule": null } });
        world
            .change::<ReadStateBackupSchedule>("nightly", change)
            .await
            .unwrap();
        let status = world.schedule().await;
        assert!(said(&status.conditions, "Scheduled").starts_with("False Suspended: "));
        let cron_job: CronJob = world.get("nightly-create").await;
        assert_eq!(cron_job.spec.suspend, Some(true));
        assert_eq!(names::<CronJob>(&world).await, ["nightly-create"]);
        let kept = world.schedule().await.last_verified;
        assert_eq!(
            kept.unwrap().verification.users,
            Some(7),
            "what was found stays on record"
        );
    });
}

#[test]
fn a_scheduled_backup_that_fails_or_prunes_nothing_is_told_until_one_succeeds() {
    with_world(async |world| {
        running(&world, 1).await;
        let spec = json!({ "retention": { "keepDays": 14 } });
        world
            .make::<ReadStateBackupSchedule>(schedule(spec))
            .await
            .unwrap();
        world.schedule().await;
        let job = world.it_is_time("nightly-create", "nightly-create-1").await;
        let busy = "readstates: running/create-x is at work on these backups";
        let first = [("create", 0, REPORT)];
        world.pod_ends(&job, &first, &[("prune", 3, busy)]).await;
        world.fail_jobs("a container failed").await;
        let status = world.schedule().await;
        let told = said(&status.conditions, "Degraded");
        assert!(
            told.starts_with("True PruneFailed: ") && told.contains(busy),
            "{told}"
        );
        assert_eq!(status.last_backup.unwrap().users, Some(7));

        // Job times are whole seconds, and the newest Job counts.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let job = world.it_is_time("nightly-create", "nightly-create-2").await;
        let failed = [("create", 1, "readstates: no host answers")];
        world.pod_ends(&job, &failed, &[]).await;
        world.fail_jobs("a container failed").await;
        let told = said(&world.schedule().await.conditions, "Degraded");
        assert!(
            told.starts_with("True BackupFailed: the last backup failed (Job nightly-create-2)"),
            "{told}"
        );

        tokio::time::sleep(Duration::from_millis(1100)).await;
        let job = world.it_is_time("nightly-create", "nightly-create-3").await;
        let pruned = r#"{"deleted_backups":0,"kept_backups":2}"#;
        world.pod_ends(&job, &first, &[("prune", 0, pruned)]).await;
        world.finish_jobs().await;
        let told = said(&world.schedule().await.conditions, "Degraded");
        assert_eq!(told, "False AsExpected: nothing is wrong");
    });
}

#[test]
fn times_that_kubernetes_does_not_understand_are_told_and_change_nothing() {
    with_world(async |world| {
        running(&world, 1).await;
        world
            .make::<ReadStateBackupSchedule>(schedule(json!({})))
            .await
            .unwrap();
        world.schedule().await;
        for spec in [
            json!({ "schedule": "61 3 * * *" }),
            json!({ "timeZone": "Middle/Earth" }),
        ] {
            let back = json!({ "spec": { "schedule": "0 3 * * *", "timeZone": null } });
            let change = json!({ "spec": spec });
            world
                .change::<ReadStateBackupSchedule>("nightly", change)
                .await
                .unwrap();
            let status = world.schedule().await;
            let told = said(&status.conditions, "Degraded");
            assert!(
                told.starts_with("True ApplyRejected: the API server refused CronJob"),
                "{told}"
            );
            let cron_job: CronJob = world.get("nightly-create").await;
            assert_eq!(cron_job.spec.schedule, "0 3 * * *");
            world
                .change::<ReadStateBackupSchedule>("nightly", back)
                .await
                .unwrap();
        }
        let status = world.schedule().await;
        assert!(said(&status.conditions, "Scheduled").starts_with("True "));
    });
}

#[test]
fn a_cluster_that_stops_or_goes_begins_no_more_backups_and_ends_none() {
    with_world(async |world| {
        running(&world, 1).await;
        world
            .make::<ReadStateBackupSchedule>(schedule(json!({})))
            .await
            .unwrap();
        world
            .make::<ReadStateBackup>(backup(volume()))
            .await
            .unwrap();
        world.schedule().await;
        world.backup().await;
        let suspended = async || {
            let cron_job: CronJob = world.get("nightly-create").await;
            cron_job.spec.suspend.unwrap()
        };
        let stopped = |stopped: bool| json!({ "spec": { "stopped": stopped } });
        world
            .change::<ReadStateCluster>("chat", stopped(true))
            .await
            .unwrap();
        let told = said(&world.schedule().await.conditions, "Scheduled");
        assert!(told.starts_with("False ClusterNotReady: "), "{told}");
        assert!(suspended().await);
        world
            .change::<ReadStateCluster>("chat", stopped(false))
            .await
            .unwrap();
        world.schedule().await;
        assert!(!suspended().await);

        // It is deleted while a backup is at work: what the Job comes to is told.
        let free = json!({ "metadata": { "finalizers": null } });
        world
            .change::<ReadStateCluster>("chat", free)
            .await
            .unwrap();
        let clusters = world.api::<ReadStateCluster>();
        clusters
            .delete("chat", &DeleteParams::default())
            .await
            .unwrap();
        let told = said(&world.schedule().await.conditions, "Scheduled");
        assert!(told.starts_with("False ClusterNotFound: "), "{told}");
        assert!(suspended().await);
        assert_eq!(world.backup().await.phase, BackupPhase::Running);
        let job: Job = world.get("before-upgrade-backup").await;
        world.pod_ends(&job, &[], &[("create", 0, REPORT)]).await;
        world.finish_jobs().await;
        assert_eq!(world.backup().await.phase, BackupPhase::Complete);
    });
}

#[test]
fn a_schedule_of_snapshots_makes_backups_and_deletes_those_that_it_does_not_keep() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 1).await;
        world
            .make::<ReadStateBackupSchedule>(schedule(json!({ "verifySchedule": "@weekly" })))
            .await
            .unwrap();
        world.schedule().await;
        world.get::<CronJob>("nightly-verify").await;
        let snapshots = json!({ "spec": {
            "storage": null, "volumeSnapshots": { "volumeSnapshotClassName": "kept" }, "schedule": "* * * * *",
            "retention": { "keepLast": 1 },
        } });
        let refused = world.change::<ReadStateBackupSchedule>("nightly", snapshots.clone());
        let words = refused.await.unwrap_err();
        assert!(
            words.contains("verifySchedule goes with storage"),
            "{words}"
        );
        let mut snapshots = snapshots;
        snapshots["spec"]["verifySchedule"] = Value::Null;
        world
            .change::<ReadStateBackupSchedule>("nightly", snapshots)
            .await
            .unwrap();
        // What an earlier one has made is kept or deleted like its own.
        for (name, phase) in [("nightly-1", "Complete"), ("nightly-2", "Failed")] {
            let mut old = backup(volume());
            old["metadata"] = json!({
                "name": name, "labels": { "readstates.dev/backup-schedule": "nightly" },
            });
            world.make::<ReadStateBackup>(old).await.unwrap();
            let made = json!({ "finished": "2026-01-01T00:00:00Z" });
            let status = json!({ "status": {
                "phase": phase, "conditions": [], "backup": if phase == "Complete" { made } else { Value::Null },
            } });
            let backups = world.api::<ReadStateBackup>();
            let params = PatchParams::default();
            let patch = Patch::Merge(status);
            backups.patch_status(name, &params, &patch).await.unwrap();
        }

        // Whatever the time is, the next minute comes.
        let mut status = world.schedule().await;
        assert!(names::<CronJob>(&world).await.is_empty());
        let told = said(&status.conditions, "Scheduled");
        assert_eq!(told, "True Scheduled: the operator makes backups");
        let mut all = names::<ReadStateBackup>(&world).await;
        for _ in 0..700 {
            if all.len() > 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            status = world.schedule().await;
            all = names::<ReadStateBackup>(&world).await;
        }
        let said_of_it = said(&status.conditions, "Degraded");
        let old = ["nightly-1", "nightly-2"];
        let new: Vec<_> = all
            .iter()
            .filter(|name| !old.contains(&name.as_str()))
            .collect();
        assert_eq!(new.len(), 1, "{all:?}: {said_of_it}");
        let made: ReadStateBackup = world.get(new[0]).await;
        let class = made
            .spec
            .volume_snapshots
            .unwrap()
            .volume_snapshot_class_name;
        assert_eq!(class.as_deref(), Some("kept"));
        // It goes on, so there is no other; once it is complete, the one before and the failure are not kept.
        world.schedule().await;
        assert_eq!(names::<ReadStateBackup>(&world).await.len(), 3);
        let done = json!({ "status": {
            "phase": "Complete", "conditions": [], "backup": { "finished": "2026-01-02T00:00:00Z" },
        } });
        let backups = world.api::<ReadStateBackup>();
        let params = PatchParams::default();
        let patch = Patch::Merge(done);
        backups.patch_status(new[0], &params, &patch).await.unwrap();
        let status = world.schedule().await;
        let left = names::<ReadStateBackup>(&world).await;
        assert!(left.contains(new[0]) && !left.iter().any(|name| old.contains(&name.as_str())));
        assert_eq!(status.last_pruned.unwrap().deleted, Some(2));
        let last = status.last_backup.unwrap().finished.0;
        assert_eq!(last.to_string(), "2026-01-02T00:00:00Z");
    });
}
