//! What each node does in a stage of an upgrade, one after another: take a snapshot, write its data anew, remove the
//! snapshot. In: the stage, the records, the words of agents. Out: at most one order, and how far it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_agent::wire::{Upgrade, UpgradeStep};
use readstates_operator_api::{
    DatabaseNode, DatabaseUpgrade, DatabaseUpgradeStage, NodeUpgrade, PendingJob, labels,
};

use crate::plan::database::{
    DatabaseTrouble, DatabaseWait, NodesStep, Order, Sight, attempts, health,
    jobs::{self, Stage},
    on_its_way,
};

/// Whether every member has done what it had to in this stage.
pub(super) fn all_done(nodes: &NodesStep, stage: DatabaseUpgradeStage) -> bool {
    health::members(&nodes.records).all(|record| is_done(record, stage))
}

fn is_done(record: &DatabaseNode, stage: DatabaseUpgradeStage) -> bool {
    let own = record.upgrade.as_ref().filter(|own| own.stage == stage);
    own.is_some_and(|own| own.job.is_none())
}

/// Puts on record what agents say that they have done.
pub(super) fn settle(sight: &Sight<'_>, nodes: &mut NodesStep, stage: DatabaseUpgradeStage) {
    for record in nodes.records.iter_mut().filter(|r| r.is_member()) {
        let own = record.upgrade.as_mut().filter(|own| own.stage == stage);
        let Some(own) = own else { continue };
        let (Some(job), Ok(view)) = (&own.job, health::last_view(sight, &record.name)) else {
            continue;
        };
        let seen = view.upgrade.as_deref();
        if let Stage::Done = jobs::stage_of(&request(stage, job), job, seen, "", sight.now) {
            own.job = None;
        }
    }
}

/// Forgets what members did after their snapshots.
pub(super) fn keep_snapshots(nodes: &mut NodesStep) {
    let owns = nodes.records.iter_mut().filter_map(|r| r.upgrade.as_mut());
    for own in owns {
        (own.stage, own.job) = (DatabaseUpgradeStage::Snapshotting, None);
    }
}

/// Gives every member what it has to do, and goes on with the first that has not done it.
pub(super) fn next(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    upgrade: &DatabaseUpgrade,
) -> Option<DatabaseWait> {
    let stage = upgrade.stage;
    for record in nodes.records.iter_mut().filter(|r| r.is_member()) {
        if record.upgrade.as_ref().is_none_or(|own| own.stage != stage) {
            let job = Some(PendingJob::since(Time(sight.now)));
            record.upgrade = Some(NodeUpgrade { stage, job });
        }
    }
    let pending = |record: &DatabaseNode| Some((record.clone(), record.upgrade.clone()?.job?));
    let (record, job) = health::members(&nodes.records).find_map(pending)?;
    let step = step(sight, nodes, upgrade, (&record, &job));
    let all = health::members(&nodes.records).count();
    let done = health::members(&nodes.records).filter(|r| is_done(r, stage));
    let mut progress = format!(
        "{step} ({} of {all} nodes {})",
        done.count(),
        are_done(stage)
    );
    if stage == DatabaseUpgradeStage::Snapshotting {
        progress += &format!(
            "; to go on without snapshots, set the annotation {}={}",
            labels::UPGRADE_WITHOUT_SNAPSHOT,
            upgrade.to
        );
    }
    Some(DatabaseWait::Upgrading {
        pod: record.name,
        progress,
    })
}

/// Takes the next step of a member, and says which, or why it cannot.
fn step(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    upgrade: &DatabaseUpgrade,
    (record, job): (&DatabaseNode, &PendingJob),
) -> String {
    let stage = upgrade.stage;
    let view = match health::last_view(sight, &record.name) {
        Ok(view) if view.upgrades => view,
        Ok(_) => {
            return "its agent is of an earlier release, which cannot: ask for the former image, and for this one when \
                    the pods are as the condition RequiresUpdate wants them"
                .to_owned();
        }
        Err(why) => return format!("it cannot be asked: {why}"),
    };
    let request = request(stage, job);
    let does = does(stage);
    let doing = format!("it has begun to {does}");
    match jobs::stage_of(&request, job, view.upgrade.as_deref(), &doing, sight.now) {
        Stage::Done => "it is done".to_owned(),
        Stage::Runs(progress) => progress,
        Stage::Told => format!("it has been told to {does}"),
        Stage::Failed(error) => {
            failed(nodes, record, job, stage, &error);
            attempts::failed(job.attempts, Some(&error))
        }
        Stage::Due => {
            if let Some(moving) = on_its_way(&nodes.records) {
                return format!("{} is on its way in or out", moving.name);
            }
            match jobs::may_tell(sight, nodes, record) {
                Err(why) => why,
                Ok((pod, pod_uid, host_id)) => {
                    let order = Upgrade {
                        pod_uid,
                        host_id,
                        request,
                        step: of(stage, &upgrade.snapshot),
                    };
                    nodes.orders.push(Order::Upgrade { pod, order });
                    change_job(nodes, &record.name, |job| jobs::told(job, sight.now));
                    format!("it is told to {does}")
                }
            }
        }
    }
}

fn failed(
    nodes: &mut NodesStep,
    record: &DatabaseNode,
    pending: &PendingJob,
    stage: DatabaseUpgradeStage,
    error: &str,
) {
    if pending.attempts >= attempts::BOUND {
        nodes.trouble.get_or_insert(DatabaseTrouble::UpgradeFailed {
            pod: record.name.clone(),
            step: does(stage),
            attempts: pending.attempts,
            error: error.to_owned(),
        });
    }
    change_job(nodes, &record.name, |job| {
        job.error = Some(error.to_owned());
    });
}

/// Names a job to the agent: the same one told again begins no second one.
fn request(stage: DatabaseUpgradeStage, pending: &PendingJob) -> String {
    format!("{stage:?} {}", jobs::request(pending))
}

fn of(stage: DatabaseUpgradeStage, snapshot: &str) -> UpgradeStep {
    match stage {
        DatabaseUpgradeStage::Snapshotting => UpgradeStep::Snapshot(snapshot.to_owned()),
        DatabaseUpgradeStage::Restarting | DatabaseUpgradeStage::Rewriting => UpgradeStep::Rewrite,
        DatabaseUpgradeStage::Releasing | DatabaseUpgradeStage::WentBack => {
            UpgradeStep::Release(snapshot.to_owned())
        }
    }
}

fn does(stage: DatabaseUpgradeStage) -> &'static str {
    match stage {
        DatabaseUpgradeStage::Snapshotting => "take a snapshot",
        DatabaseUpgradeStage::Restarting | DatabaseUpgradeStage::Rewriting => {
            "write its data in the format of its release"
        }
        DatabaseUpgradeStage::Releasing | DatabaseUpgradeStage::WentBack => "remove its snapshot",
    }
}

fn are_done(stage: DatabaseUpgradeStage) -> &'static str {
    match stage {
        DatabaseUpgradeStage::Snapshotting => "have a snapshot",
        DatabaseUpgradeStage::Restarting | DatabaseUpgradeStage::Rewriting => {
            "have written their data"
        }
        DatabaseUpgradeStage::Releasing | DatabaseUpgradeStage::WentBack => {
            "have removed their snapshots"
        }
    }
}

fn change_job(nodes: &mut NodesStep, name: &str, change: impl FnOnce(&mut PendingJob)) {
    let mut records = nodes.records.iter_mut();
    let own = records.find(|r| r.name == name);
    if let Some(job) = own.and_then(|r| r.upgrade.as_mut()?.job.as_mut()) {
        change(job);
    }
}
