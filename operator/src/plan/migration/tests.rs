mod adversary;
mod handing;
mod others;

use readstates_operator_api::ExternalSpec;
use serde_json::{Value, json};

use super::*;
use crate::{
    fixtures::{EXTERNAL, images},
    names::{COPY, VERIFY},
    spec::Identity,
    validate::validate_migration,
    world::{Counted, MemberStores, OtherMove, PassTold, Run, Said, SecretSeen, SecretsSeen, Told},
};

const SOURCE: &str = "cql://db-1.example,db-2.example:9042/readstates";
const TARGET: &str = "cql://new-1,new-2:9042/readstates";

/// A move, its cluster and what its status has on record.
struct Move {
    spec: ReadStateMigrationSpec,
    cluster: Value,
    seen: MigrationSeen,
    before: Option<ReadStateMigrationStatus>,
    verifies: Option<bool>,
}

fn both(name: &str) -> MemberStores {
    MemberStores {
        name: name.to_owned(),
        store: Some(SOURCE.to_owned()),
        moving_to: Some(TARGET.to_owned()),
    }
}

fn only(name: &str, store: &str) -> MemberStores {
    MemberStores {
        moving_to: None,
        store: Some(store.to_owned()),
        ..both(name)
    }
}

fn moving(members: &str) -> Move {
    let spec = json!({
        "cluster": "chat", "members": members, "checkpoints": { "claimName": "moves" },
        "target": { "external": {
            "contactPoints": ["new-1", "new-2"], "localDatacenter": "east", "replicationFactor": 3,
        } },
    });
    let cluster = json!({
        "metadata": { "name": "chat", "namespace": "talk", "uid": "uid-of-chat", "generation": 7 },
        "spec": serde_yaml_ng::from_str::<Value>(EXTERNAL).unwrap(),
        "status": { "schema": { "store": SOURCE, "since": "2026-01-01T00:00:00Z" } },
    });
    let complete = || SecretsSeen {
        login: Some(SecretSeen::Complete),
        certificates: None,
    };
    Move {
        spec: serde_json::from_value(spec).unwrap(),
        cluster,
        seen: MigrationSeen {
            source: complete(),
            target: SecretsSeen::default(),
            pods: vec![only("chat-0", SOURCE), only("chat-1", SOURCE)],
            template: Some(only("chat", SOURCE)),
            has_claim: true,
            ..MigrationSeen::default()
        },
        before: None,
        verifies: None,
    }
}

/// Whose members write both databases.
fn serving() -> Move {
    let mut m = moving("Serve");
    m.cluster["spec"]["cache"]["podTemplate"]["env"] =
        json!([{ "name": "READSTATES_MOVING_TO", "value": TARGET }]);
    m.seen.pods = vec![both("chat-0"), both("chat-1")];
    m.seen.template = Some(both("chat"));
    m
}

/// Whose members were stopped in order.
fn stopped() -> Move {
    let mut m = moving("Stop");
    m.cluster["spec"]["stopped"] = json!(true);
    m.cluster["status"]["conditions"] = json!([{
        "type": "Stopped", "status": "True", "reason": "StoppedInOrder", "message": "nothing runs",
        "observedGeneration": 7, "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    m.seen.pods.clear();
    m
}

fn job(name: &str, outcome: JobOutcome, said: Vec<(&str, Said)>) -> MoveJob {
    let said = said.into_iter().map(|(name, said)| (name.to_owned(), said));
    MoveJob {
        uid: format!("uid-of-{name}"),
        run: Run {
            job: name.to_owned(),
            begun: "2026-01-02T03:00:00Z".parse().unwrap(),
            finished: None,
            outcome,
            said: said.collect(),
        },
        suspended: false,
        ip: None,
    }
}

fn running() -> JobOutcome {
    JobOutcome::Running { trouble: None }
}

fn failed() -> JobOutcome {
    JobOutcome::Failed {
        at: "2026-01-02T04:00:00Z".parse().unwrap(),
        message: "too many attempts".to_owned(),
    }
}

fn verified() -> Verification {
    Verification {
        finished: Time("2026-01-02T05:00:00Z".parse().unwrap()),
        users: Some(4000),
    }
}

impl Move {
    fn plan(&self) -> MigrationPlan {
        let owner = BackupOwner {
            id: Identity {
                name: "away".to_owned(),
                ..crate::fixtures::id()
            },
            kind: "ReadStateMigration".to_owned(),
            label: readstates_operator_api::labels::MIGRATION,
        };
        let mut seen = self.seen.clone();
        seen.cluster = Some(serde_json::from_value(self.cluster.clone()).unwrap());
        migration(MoveInput {
            owner: &owner,
            created: Some("2026-01-02T00:00:00Z".parse().unwrap()),
            spec: &self.spec,
            valid: &validate_migration(&self.spec).unwrap(),
            seen: &seen,
            before: self.before.as_ref(),
            images: &images(),
            verifies: self.verifies,
        })
    }

    /// Members were last seen as copying needs them at this generation of the cluster.
    fn since(mut self, generation: i64) -> Self {
        self.before = Some(ReadStateMigrationStatus {
            source: Some(SOURCE.to_owned()),
            target: Some(TARGET.to_owned()),
            members_generation: Some(generation),
            ..ReadStateMigrationStatus::default()
        });
        self
    }

    fn verified(self) -> Self {
        let mut m = self.since(7);
        m.before.as_mut().unwrap().verified = Some(verified());
        m
    }

    fn changed(mut self, generation: i64) -> Self {
        self.cluster["metadata"]["generation"] = json!(generation);
        self
    }

    /// The cluster names the target from now on.
    fn switched(mut self) -> Self {
        let target = serde_json::to_value(&self.spec.target.external).unwrap();
        self.cluster["spec"]["database"]["external"] = target;
        self.cluster["spec"]["cache"] = json!({});
        self.changed(8)
    }

    fn job(mut self, job: MoveJob) -> Self {
        self.seen.jobs.moving = Some(job);
        self
    }

    fn suspended(mut self) -> Self {
        self.spec.suspend = true;
        self
    }

    fn external(&mut self) -> &mut ExternalSpec {
        self.spec.target.external.as_mut().unwrap()
    }
}

fn phase(m: &Move) -> (MigrationPhase, Reason) {
    let plan = m.plan();
    (plan.phase, plan.reason)
}

const PREPARING: (MigrationPhase, Reason) = (MigrationPhase::Preparing, Reason::AwaitingMembers);
const COPYING: (MigrationPhase, Reason) = (MigrationPhase::Copying, Reason::MigrationCopying);
const BROKEN: (MigrationPhase, Reason) = (MigrationPhase::Preparing, Reason::MembersChanged);

fn makes(plan: &MigrationPlan) -> Option<bool> {
    match &plan.action {
        MigrationAction::Make { ends: _, ahead } => Some(*ahead),
        MigrationAction::Wait
        | MigrationAction::Record
        | MigrationAction::Suspend { .. }
        | MigrationAction::Delete { .. } => None,
    }
}

#[test]
fn nothing_is_copied_before_every_member_writes_both() {
    let plan = moving("Serve").plan();
    assert_eq!((plan.phase, plan.reason), PREPARING);
    assert!(
        plan.next
            .contains(&format!("READSTATES_MOVING_TO={TARGET}")),
        "{}",
        plan.next
    );
    assert_eq!(plan.action, MigrationAction::Wait);

    let mut one_behind = serving();
    one_behind.seen.pods[1] = only("chat-1", SOURCE);
    let plan = one_behind.plan();
    assert_eq!((plan.phase, plan.reason), PREPARING);
    assert!(plan.words.ends_with(": chat-1"), "{}", plan.words);

    let mut later_ones = serving();
    later_ones.seen.template = Some(only("chat", SOURCE));
    assert_eq!(phase(&later_ones), PREPARING);

    let mut elsewhere = serving();
    elsewhere.cluster["spec"]["cache"]["podTemplate"]["env"][0]["value"] =
        json!("cql://x/readstates");
    assert!(
        elsewhere
            .plan()
            .words
            .contains("is cql://x/readstates, not the target")
    );
}

#[test]
fn that_members_write_both_goes_on_record_before_the_job_is_made() {
    let plan = serving().plan();
    assert_eq!(plan.action, MigrationAction::Record);
    assert_eq!(plan.record.members_generation, Some(7));
    assert_eq!(plan.record.source.as_deref(), Some(SOURCE));
    let plan = serving().since(7).plan();
    assert_eq!((plan.phase, plan.reason), COPYING);
    assert_eq!(makes(&plan), Some(false));
}

#[test]
fn what_was_compared_counts_only_while_members_wrote_both_all_the_time() {
    let at_work = || serving().since(7).job(job("away-move", running(), vec![]));
    assert_eq!(phase(&at_work()), COPYING);
    // Another number of cache pods, for one.
    let plan = at_work().changed(8).plan();
    assert_eq!((plan.phase, plan.reason), COPYING);
    assert_eq!(plan.record.members_generation, Some(8));
    // Away and back between two looks, perhaps.
    let delete = MigrationAction::Delete {
        job: "away-move".to_owned(),
        uid: "uid-of-away-move".to_owned(),
    };
    let plan = at_work().changed(9).plan();
    assert_eq!((plan.phase, plan.reason), BROKEN);
    assert_eq!(
        (plan.action, plan.record.members_generation),
        (delete.clone(), None)
    );
    // The variable was removed.
    let mut removed = at_work().changed(8);
    removed.cluster["spec"]["cache"] = json!({});
    assert_eq!(removed.plan().action, delete);
    // A pod from before.
    let mut pod = at_work();
    pod.seen.pods.push(only("chat-2", SOURCE));
    assert_eq!(pod.plan().action, delete);
    // A Job of which nothing is on record.
    let unknown = serving().job(job("away-move", running(), vec![]));
    assert_eq!(unknown.plan().action, delete);

    let mut late = serving().verified().changed(8);
    late.cluster["spec"]["cache"] = json!({});
    let plan = late.plan();
    assert_eq!((plan.phase, plan.reason), BROKEN);
    assert!(plan.is_bad);
    assert_eq!(plan.record.verified, None);
}

#[test]
fn success_is_said_by_a_job_that_has_verified_and_then_the_switch_is_the_next_step() {
    let told = Told {
        passes: vec![PassTold {
            ended: verified().finished.0,
            tally: Counted { users: 4000 },
        }],
        ..Told::default()
    };
    let said = vec![(VERIFY, Said::Done(Some(told)))];
    let m = serving()
        .since(7)
        .job(job("away-move", JobOutcome::Succeeded, said));
    let plan = m.plan();
    assert_eq!(plan.phase, MigrationPhase::Verified);
    assert_eq!(plan.record.verified, Some(verified()));
    assert!(
        plan.next.contains("spec.database.external"),
        "{}",
        plan.next
    );
    assert!(
        plan.words.starts_with("all 4000 users were compared"),
        "{}",
        plan.words
    );
    // Its Job may go; the verification stays on record.
    assert_eq!(serving().verified().plan().phase, MigrationPhase::Verified);
}

#[test]
fn the_pass_that_is_under_way_is_told() {
    let copied = vec![(COPY, Said::Done(None))];
    let mut m = serving().since(7).job(job("away-move", running(), copied));
    assert_eq!(m.plan().phase, MigrationPhase::Verifying);
    // Another pod, which copies again.
    m.verifies = Some(false);
    assert_eq!(m.plan().phase, MigrationPhase::Copying);
}

#[test]
fn it_is_complete_when_all_members_use_the_target_alone() {
    let mut m = serving().verified().switched();
    let plan = m.plan();
    assert_eq!(plan.phase, MigrationPhase::Switching);
    assert!(
        plan.words.starts_with("2 of 2 cache pods"),
        "{}",
        plan.words
    );
    m.seen.pods = vec![only("chat-0", TARGET), both("chat-1")];
    m.seen.template = Some(only("chat", TARGET));
    assert_eq!(m.plan().phase, MigrationPhase::Switching);
    m.seen.pods[1] = only("chat-1", TARGET);
    let plan = m.plan();
    assert_eq!(
        (plan.phase, plan.reason),
        (MigrationPhase::Complete, Reason::Moved)
    );
    assert!(
        plan.next.contains("--take-over-claim uid-of-chat"),
        "{}",
        plan.next
    );
}

#[test]
fn a_switch_without_a_verification_is_told_at_once_with_the_way_back() {
    for m in [serving().since(7).switched(), stopped().since(7).switched()] {
        let plan = m.plan();
        assert_eq!(plan.reason, Reason::SwitchedTooEarly);
        assert!(plan.is_bad);
        assert!(
            plan.next.contains(&format!("back to {SOURCE}")),
            "{}",
            plan.next
        );
        assert_eq!(plan.record.members_generation, None);
    }
    let mut one_alone = serving().verified().switched();
    one_alone.seen.pods[0] = only("chat-0", SOURCE);
    assert_eq!(one_alone.plan().reason, Reason::SwitchedTooEarly);
}

#[test]
fn with_a_pause_it_is_copied_ahead_and_counts_only_after_an_orderly_stop() {
    let plan = moving("Stop").plan();
    assert_eq!(
        (makes(&plan), plan.record.members_generation),
        (Some(true), None)
    );
    let mut m = moving("Stop");
    m.seen.jobs.ahead = Some(job("away-copy", JobOutcome::Succeeded, vec![]));
    let plan = m.plan();
    assert_eq!((plan.phase, plan.reason), PREPARING);
    assert!(
        plan.next
            .contains("set spec.stopped of ReadStateCluster chat to true")
    );

    assert_eq!(stopped().plan().record.members_generation, Some(7));
    let plan = stopped().since(7).plan();
    assert_eq!(makes(&plan), Some(false));
    // One checkpoint, one Job.
    let mut early = stopped().since(7);
    early.seen.jobs.ahead = Some(job("away-copy", running(), vec![]));
    assert_eq!(makes(&early.plan()), None);
    assert_eq!(phase(&early), COPYING);

    let mut lost = stopped();
    lost.cluster["status"]["conditions"][0]["reason"] = json!("StopTimedOut");
    let plan = lost.plan();
    assert_eq!((plan.phase, plan.reason), PREPARING);
    assert!(
        plan.words.contains("was not stopped in order"),
        "{}",
        plan.words
    );
    let mut stopping = stopped();
    stopping.seen.pods = vec![only("chat-0", SOURCE)];
    assert!(stopping.plan().words.ends_with(": chat-0"));
    // The status of the cluster is of the generation before: not yet, and no reason to begin again.
    assert_eq!(phase(&stopped().changed(8)), PREPARING);
    let going_on = stopped().since(7).changed(8).plan();
    assert_eq!(makes(&going_on), Some(false));

    let mut started = stopped()
        .since(7)
        .changed(8)
        .job(job("away-move", running(), vec![]));
    started.cluster["spec"]["stopped"] = json!(false);
    assert_eq!(phase(&started), BROKEN);
}

#[test]
fn a_move_that_failed_says_why_and_begins_again_after_suspend() {
    let words = vec![(
        VERIFY,
        Said::Failed("3 problems: user 7: no row".to_owned()),
    )];
    let m = || {
        serving()
            .since(7)
            .job(job("away-move", failed(), words.clone()))
    };
    let plan = m().plan();
    assert_eq!(plan.phase, MigrationPhase::Failed);
    assert!(plan.is_bad);
    assert_eq!(plan.failure.as_deref(), Some("3 problems: user 7: no row"));
    assert_eq!(plan.record.verified, None);
    let plan = m().suspended().plan();
    assert_eq!(plan.phase, MigrationPhase::Suspended);
    assert!(matches!(plan.action, MigrationAction::Delete { .. }));
    assert_eq!(makes(&serving().since(7).suspended().plan()), None);
}

#[test]
fn suspend_ends_the_pods_of_the_job_and_taking_it_back_makes_others() {
    let toggle = |suspend| MigrationAction::Suspend {
        job: "away-move".to_owned(),
        suspend,
    };
    let at_work = || serving().since(7).job(job("away-move", running(), vec![]));
    let plan = at_work().suspended().plan();
    assert_eq!(
        (plan.phase, plan.action),
        (MigrationPhase::Suspended, toggle(true))
    );
    let mut rests = at_work();
    rests.seen.jobs.moving.as_mut().unwrap().suspended = true;
    let plan = rests.plan();
    assert_eq!(
        (plan.phase, plan.action),
        (MigrationPhase::Copying, toggle(false))
    );
    assert_eq!(rests.suspended().plan().action, MigrationAction::Wait);
}

#[test]
fn what_cannot_be_moved_is_refused_and_changes_nothing() {
    let refused = |m: &Move, reason: Reason| {
        let plan = m.plan();
        assert_eq!(
            (plan.phase, plan.reason),
            (MigrationPhase::Refused, reason),
            "{}",
            plan.words
        );
        assert_eq!(plan.action, MigrationAction::Wait);
    };
    let mut managed = serving();
    managed.cluster["spec"]["replicas"] = json!(1);
    managed.cluster["spec"]["database"] = json!({ "embedded": {} });
    refused(&managed, Reason::MigrationUnsupported);

    let mut same = serving();
    same.external().contact_points = vec!["db-2.example".to_owned(), "db-1.example".to_owned()];
    refused(&same, Reason::SameDatabase);

    let mut keyspace = serving();
    keyspace.external().keyspace = "other".to_owned();
    refused(&keyspace, Reason::InvalidSpec);

    let mut third = serving().since(7);
    third.cluster["spec"]["database"]["external"]["contactPoints"] = json!(["third"]);
    refused(&third, Reason::SourceChanged);
}

#[test]
fn a_secret_that_is_missing_is_waited_for_before_anything_is_copied() {
    let mut m = serving();
    m.seen.source.login = Some(SecretSeen::Absent);
    let plan = m.plan();
    assert_eq!(
        (plan.phase, plan.reason),
        (MigrationPhase::Waiting, Reason::SecretMissing)
    );
    assert_eq!(plan.words, "Secret login does not exist");
    let mut target = serving().since(7);
    target.spec.target.tls_secret_name = Some("new-ca".to_owned());
    target.seen.target.certificates = Some(crate::world::CertificatesSeen::Absent { words: None });
    assert_eq!(target.plan().words, "Secret new-ca does not exist");
    let mut gone = serving();
    gone.cluster["status"] = json!({});
    assert_eq!(gone.plan().reason, Reason::ClusterNotReady);
}
