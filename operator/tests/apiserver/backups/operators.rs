//! Operators that make backups: at work by themselves, and dying between any two writes.

use kube::ResourceExt;

use super::*;

#[test]
fn an_operator_that_dies_between_any_two_writes_makes_one_backup_and_one_schedule() {
    with_world(async |world| {
        running(&world, 1).await;
        world
            .make::<ReadStateBackup>(backup(volume()))
            .await
            .unwrap();
        let spec = json!({ "verifySchedule": "@weekly" });
        world
            .make::<ReadStateBackupSchedule>(schedule(spec))
            .await
            .unwrap();
        let gate = Gate::open_wide();
        let operator = world.operator_behind(&gate);
        let mut uids = std::collections::BTreeSet::new();
        for ends in [false, true] {
            for writes in 0..12 {
                gate.allow(writes);
                let backup = world.backup_by(&operator).await;
                gate.allow(writes);
                let schedule = world.schedule_by(&operator).await;
                let job = world
                    .api::<Job>()
                    .get_opt("before-upgrade-backup")
                    .await
                    .unwrap();
                uids.extend(job.and_then(|job| job.uid()));
                if backup.is_ok() && schedule.is_ok() {
                    break;
                }
            }
            if !ends {
                let job: Job = world.get("before-upgrade-backup").await;
                world.pod_ends(&job, &[], &[("create", 0, REPORT)]).await;
                world.finish_jobs().await;
            }
        }
        assert_eq!(uids.len(), 1, "one Job was made, once");
        let backup: ReadStateBackup = world.get("before-upgrade").await;
        assert_eq!(backup.status.unwrap().phase, BackupPhase::Complete);
        assert_eq!(
            names::<CronJob>(&world).await,
            ["nightly-create", "nightly-verify"]
        );
        let schedule: ReadStateBackupSchedule = world.get("nightly").await;
        let status = schedule.status.unwrap();
        assert!(said(&status.conditions, "Scheduled").starts_with("True "));
    });
}

/// Waits until it is so.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let patience = Duration::from_secs(60);
    let looks = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(patience, looks).await;
    waited.unwrap_or_else(|_| panic!("{what}: not within {patience:?}"));
}

#[test]
fn an_operator_at_work_makes_backups_by_itself_and_hears_of_their_jobs() {
    with_world(async |world| {
        running(&world, 1).await;
        let operator = world.operator_behind(&Gate::open_wide());
        let (schedules, never) = (Schedules::default(), CancellationToken::new());
        let work = controllers(&operator, &schedules, Some(&world.namespace), never);
        let user = async {
            world
                .make::<ReadStateBackup>(backup(volume()))
                .await
                .unwrap();
            let nightly = schedule(json!({ "maxAge": "5m" }));
            world
                .make::<ReadStateBackupSchedule>(nightly)
                .await
                .unwrap();
            until("a Job is made", async || {
                let jobs = world.api::<Job>();
                jobs.get_opt("before-upgrade-backup")
                    .await
                    .unwrap()
                    .is_some()
            })
            .await;
            until("a CronJob is made", async || {
                let cron_jobs = world.api::<CronJob>();
                cron_jobs.get_opt("nightly-create").await.unwrap().is_some()
            })
            .await;
            let job: Job = world.get("before-upgrade-backup").await;
            world.pod_ends(&job, &[], &[("create", 0, REPORT)]).await;
            let job = world.it_is_time("nightly-create", "nightly-create-1").await;
            world.pod_ends(&job, &[], &[("create", 0, REPORT)]).await;
            world.finish_jobs().await;
            until("both are told", async || {
                let backup: ReadStateBackup = world.get("before-upgrade").await;
                let schedule: ReadStateBackupSchedule = world.get("nightly").await;
                let made = schedule.status.and_then(|status| status.last_backup);
                made.is_some()
                    && backup
                        .status
                        .is_some_and(|s| s.phase == BackupPhase::Complete)
            })
            .await;
            // The report is of a backup of the first second of the year.
            let schedule: ReadStateBackupSchedule = world.get("nightly").await;
            let told = said(&schedule.status.unwrap().conditions, "Degraded");
            assert!(told.starts_with("True BackupOverdue: "), "{told}");
            let gauges = schedules.render(jiff::Timestamp::now());
            assert!(
                gauges.contains(r#"name="nightly",cluster="chat"} 1"#),
                "{gauges}"
            );
            let all = world.api::<ReadStateBackupSchedule>();
            all.delete("nightly", &DeleteParams::default())
                .await
                .unwrap();
            until("a schedule that is gone has no gauges", async || {
                !schedules.render(jiff::Timestamp::now()).contains("nightly")
            })
            .await;
        };
        tokio::select! {
            () = work => panic!("it ended"),
            () = user => {}
        }
    });
}
