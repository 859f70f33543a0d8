use std::time::Duration;

use readstates_operator_api::{ReadStateClusterStatus, RestorePhase, conditions::Reason};

use super::*;
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, Scene, now, scene},
    plan::{Plan, backup_source},
    spec::{BackupPlace, BackupsAt},
    templates,
    world::{PodSeen, Run, SourceSeen},
};

fn source() -> RestoreSource {
    RestoreSource {
        place: BackupPlace {
            at: BackupsAt::Volume {
                claim: "backups".to_owned(),
                path: None,
            },
            encryption: None,
        },
        snapshot: "latest".to_owned(),
    }
}

fn with_restore(spec: &str) -> String {
    format!("{spec}restoreFrom: {{ repository: {{ volumeClaim: {{ claimName: backups }} }} }}\n")
}

/// A new cluster that is to begin with a backup.
fn new(spec: &str) -> Scene {
    let mut scene = scene(&with_restore(spec));
    scene.world.restore.source = Some(Ok(source()));
    scene
}

/// The same, with everything there that the restore needs.
fn ready() -> Scene {
    new(CASSANDRA).ready_for_cache()
}

impl Scene {
    /// There is a Job that restores, with this outcome.
    fn restoring(self, outcome: JobOutcome) -> Self {
        let name = templates::restore_job_name(&self.cluster, &source());
        self.restoring_by(&name, outcome)
    }

    fn restoring_by(mut self, name: &str, outcome: JobOutcome) -> Self {
        let told = Told {
            id: Some("b1".to_owned()),
            users: Some(7),
            source: Some("cql://old/readstates".to_owned()),
            finished: Some(now() - Duration::from_hours(2)),
            restored: Some(now()),
            ..Told::default()
        };
        let said = match &outcome {
            JobOutcome::Succeeded => vec![(RESTORE.to_owned(), Said::Done(Some(told)))],
            JobOutcome::Failed { .. } => {
                let words = "no host answers".to_owned();
                vec![(RESTORE.to_owned(), Said::Failed(words))]
            }
            JobOutcome::Running { .. } | JobOutcome::Going => Vec::new(),
        };
        self.world.restore.jobs.push(RestoreJob {
            uid: format!("uid-of-{name}"),
            run: Run {
                job: name.to_owned(),
                begun: now() - Duration::from_hours(1),
                outcome,
                finished: None,
                said,
            },
            attempts: 1,
            is_final: false,
        });
        self
    }

    fn recorded(mut self, phase: RestorePhase) -> Self {
        self.world.restore.record = Some(RestoreStatus {
            phase,
            ..RestoreStatus::default()
        });
        self
    }
}

const RUNNING: JobOutcome = JobOutcome::Running { trouble: None };

fn failed(ago: Duration) -> JobOutcome {
    JobOutcome::Failed {
        at: now() - ago,
        message: "too many attempts".to_owned(),
    }
}

fn waits(plan: &Plan) -> (Reason, String) {
    let waiting = plan.waiting.as_ref().unwrap();
    (waiting.reason(), waiting.to_string())
}

/// Neither a ring nor cache pods are made.
fn serves(plan: &Plan) -> bool {
    plan.cache.is_some()
}

#[test]
fn a_restore_comes_after_the_keyspace_and_before_the_first_cache_pod() {
    for scene in [
        new(CASSANDRA),
        new(CASSANDRA).rack("a", 1),
        new(CASSANDRA).database_ready(),
    ] {
        let plan = scene.plan();
        assert!(plan.restore.make.is_none() && !serves(&plan));
        assert!(!matches!(plan.waiting, Some(WaitingOn::Restore { .. })));
    }
    let plan = ready().plan();
    assert_eq!(plan.restore.make.as_deref(), Some(&source()));
    assert!(!serves(&plan));
    assert_eq!(waits(&plan).0, Reason::RestoreRunning);
    let plan = new(EXTERNAL).schema(JobOutcome::Succeeded).plan();
    assert_eq!(
        plan.restore.make.as_deref(),
        Some(&source()),
        "an external one, too"
    );
}

#[test]
fn cache_pods_start_when_the_restore_is_done_and_on_record() {
    let running = ready().restoring(RUNNING);
    let plan = running.plan();
    assert!(plan.restore.make.is_none() && !serves(&plan));
    let (reason, words) = waits(&plan);
    assert_eq!(reason, Reason::RestoreRunning);
    assert!(words.contains("kubectl logs job/chat-restore-"), "{words}");

    let done = ready().restoring(JobOutcome::Succeeded);
    let plan = done.plan();
    assert!(!serves(&plan), "it is not on record yet");
    let RestoreState::Done(made) = plan.restore.state else {
        panic!("{plan:?}");
    };
    assert_eq!((made.backup.as_deref(), made.users), (Some("b1"), Some(7)));
    assert_eq!(made.backed_up, Some(Time(now() - Duration::from_hours(2))));

    let plan = ready().recorded(RestorePhase::Restored).plan();
    assert!(serves(&plan) && plan.restore.make.is_none());
    // Removing it afterwards changes nothing.
    let mut removed = scene(CASSANDRA).ready_for_cache();
    removed.world.restore.record = Some(made);
    let plan = removed.plan();
    assert!(serves(&plan) && matches!(plan.restore.state, RestoreState::Recorded(_)));
}

#[test]
fn a_cluster_that_has_had_cache_pods_is_never_restored_and_never_held_up() {
    let ring = ready().running(3);
    let set = ready().set(3);
    let mut number = ready();
    number.world.last_ring_number = Some(4);
    for scene in [ring, set, number] {
        for scene in [
            Scene {
                world: scene.world.clone(),
                cluster: scene.cluster.clone(),
            },
            scene.recorded(RestorePhase::Waiting),
        ] {
            let plan = scene.plan();
            assert_eq!(plan.restore.state, RestoreState::Skipped);
            assert!(serves(&plan) && plan.restore.make.is_none());
        }
    }
}

#[test]
fn a_pod_that_nobody_made_is_not_taken_for_none() {
    let mut scene = ready();
    scene.world.cache_pods.push(PodSeen {
        name: "chat-0".to_owned(),
        ..PodSeen::default()
    });
    let plan = scene.plan();
    assert!(plan.restore.make.is_none() && !serves(&plan));
    assert!(waits(&plan).1.starts_with("pod chat-0 has the labels"));
}

#[test]
fn what_is_missing_is_named() {
    let mut scene = ready();
    scene.world.restore.lacking = vec!["Secret keys does not exist".to_owned()];
    let plan = scene.plan();
    assert_eq!(
        waits(&plan),
        (
            Reason::SecretMissing,
            "Secret keys does not exist".to_owned()
        )
    );
    scene.world.restore.source = Some(Err("ReadStateBackup b is not complete yet".to_owned()));
    let plan = scene.plan();
    assert_eq!(waits(&plan).0, Reason::RestoreWaiting);
    assert!(plan.restore.make.is_none() && !serves(&plan));
}

#[test]
fn a_failed_restore_is_told_and_tried_again_unless_that_would_end_the_same() {
    let fresh = ready().restoring(failed(Duration::from_secs(60))).plan();
    let (reason, words) = waits(&fresh);
    assert_eq!(reason, Reason::RestoreFailed);
    assert!(
        words.contains("failed: no host answers. It is tried again"),
        "{words}"
    );
    assert!(fresh.jobs_to_delete.is_empty() && !serves(&fresh));

    let due = ready().restoring(failed(Duration::from_secs(301)));
    assert_eq!(due.plan().jobs_to_delete.len(), 1);

    let mut refused = due;
    refused.world.restore.jobs[0].is_final = true;
    let plan = refused.plan();
    assert!(plan.jobs_to_delete.is_empty() && plan.restore.make.is_none());
    assert!(waits(&plan).1.contains("not tried again by itself"));
}

#[test]
fn a_job_for_another_wish_goes_before_there_is_one_for_this_one() {
    let scene = ready().restoring_by("chat-restore-old", failed(Duration::ZERO));
    let plan = scene.plan();
    assert_eq!(plan.jobs_to_delete[0].name, "chat-restore-old");
    assert!(plan.restore.make.is_none());
    let plan = ready()
        .restoring_by("chat-restore-old", JobOutcome::Going)
        .plan();
    assert!(plan.restore.make.is_none() && plan.jobs_to_delete.is_empty());
    // One that is at work goes on, whatever this operator would make in its place.
    let plan = ready().restoring_by("chat-restore-old", RUNNING).plan();
    assert!(plan.jobs_to_delete.is_empty() && plan.restore.make.is_none());
}

#[test]
fn nothing_is_restored_while_the_cluster_is_paused_or_stopped() {
    for field in ["paused", "stopped"] {
        let spec = format!("{CASSANDRA}{field}: true\n");
        let plan = new(&spec).ready_for_cache().plan();
        assert_eq!(plan.restore.make, None, "{field}");
    }
}

#[test]
fn half_of_a_restore_is_not_backed_up() {
    let spec = serde_yaml_ng::from_str(&with_restore(CASSANDRA)).unwrap();
    let mut cluster = readstates_operator_api::ReadStateCluster::new("chat", spec);
    cluster.metadata.namespace = Some("talk".to_owned());
    cluster.metadata.uid = Some("uid-of-chat".to_owned());
    let scene = ready();
    let store = templates::wanted_store(&scene.cluster).unwrap();
    let mut status = ReadStateClusterStatus {
        schema: Some(readstates_operator_api::SchemaStatus {
            store,
            since: Time(now()),
        }),
        ..ReadStateClusterStatus::default()
    };
    let mut backed_up = |status: &ReadStateClusterStatus| {
        cluster.status = Some(status.clone());
        let seen = SourceSeen {
            cluster: Some(cluster.clone()),
            ..SourceSeen::default()
        };
        backup_source("chat", &seen, &crate::fixtures::images())
    };
    let refused = backed_up(&status).unwrap_err();
    assert!(
        refused.away && refused.words.contains("is being restored"),
        "{refused:?}"
    );
    status.ring_number = Some(1);
    assert!(backed_up(&status).is_ok());
}

#[test]
fn a_new_cluster_waits_for_the_table_that_moves_here_and_lets_its_writers_in_meanwhile() {
    let with = |stage: MoveInStage| {
        let spec = format!("{CASSANDRA}restoreFrom: {{ migration: {{ name: away }} }}\n");
        let mut scene = scene(&spec).ready_for_cache();
        let from = Some("old".to_owned());
        scene.world.restore.moving = Some(MoveIn { from, stage });
        scene
    };
    let admits = |plan: &Plan| plan.restore.admits.clone();
    for stage in [
        MoveInStage::Waiting("w".to_owned()),
        MoveInStage::Begun("w".to_owned()),
    ] {
        let plan = with(stage.clone()).plan();
        assert!(!serves(&plan) && plan.restore.make.is_none(), "{stage:?}");
        assert_eq!(admits(&plan).as_deref(), Some("old"));
        let reason = match stage {
            MoveInStage::Waiting(_) => Reason::RestoreWaiting,
            // So that the API server keeps the wish from being taken away.
            MoveInStage::Begun(_) | MoveInStage::Over(_) => Reason::RestoreRunning,
        };
        assert_eq!(waits(&plan), (reason, "w".to_owned()));
    }
    let made = RestoreStatus {
        phase: RestorePhase::Restored,
        migration: Some("away".to_owned()),
        users: Some(7),
        ..RestoreStatus::default()
    };
    let over = with(MoveInStage::Over(Box::new(made.clone())));
    let plan = over.plan();
    assert_eq!(plan.restore.state, RestoreState::Done(made.clone()));
    assert!(!serves(&plan), "it is not on record yet");
    let mut recorded = over;
    recorded.world.restore.record = Some(made);
    let plan = recorded.plan();
    assert!(serves(&plan));
    assert_eq!(
        admits(&plan),
        None,
        "nobody else has to do with it any more"
    );
    assert!(
        plan.restore
            .state
            .to_string()
            .starts_with("by ReadStateMigration away, the table")
    );
}
