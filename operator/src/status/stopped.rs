//! Conditions of a cluster that is to be stopped: that it does not serve is no failure.

use readstates_operator_api::conditions::{
    Condition,
    ConditionStatus::{False, True},
    ConditionType, Reason,
};

use super::{Report, reason_and_words};
use crate::{
    plan::{StopStage, stop_stage},
    spec::Store,
};

/// Conditions that are not true because the cluster is stopped say so, and one tells how far the stop is.
pub(super) fn tell(conditions: &mut Vec<Condition>, report: &Report<'_>) {
    let Some(decided) = report.spec.as_ref().ok().filter(|d| !d.cluster.paused) else {
        return;
    };
    let stage = match stop_stage(decided.cluster, report.world, report.now) {
        StopStage::Runs => return,
        stage => stage,
    };
    for condition in conditions.iter_mut() {
        let concerned = match condition.type_ {
            ConditionType::Available
            | ConditionType::CacheReady
            | ConditionType::Replicated
            | ConditionType::RingStable
            | ConditionType::Repaired
            | ConditionType::SuperDisksHealthy => true,
            ConditionType::DatabaseReady => match decided.cluster.store {
                Store::Managed(_) => true,
                Store::External(_) | Store::Embedded(_) => false,
            },
            ConditionType::Progressing => condition.reason == Reason::Reconciled,
            ConditionType::Degraded
            | ConditionType::RequiresUpdate
            | ConditionType::RollingOut
            | ConditionType::TakenOver
            | ConditionType::ApiOpen
            | ConditionType::CertificatesExpiring
            | ConditionType::Stopped
            | ConditionType::Complete
            | ConditionType::Restored
            | ConditionType::Scheduled
            | ConditionType::Verified => false,
        };
        if concerned && condition.status != True {
            condition.status = False;
            condition.reason = Reason::Stopped;
            condition.message = format!("spec.stopped is true: {}", condition.message);
        }
    }
    conditions.push(how_far(report, &stage));
}

fn how_far(report: &Report<'_>, stage: &StopStage) -> Condition {
    let of = |status, reason, message: String| {
        Condition::new(ConditionType::Stopped, status, reason, message)
    };
    match stage {
        StopStage::Stopped { overdue } if overdue.is_empty() => of(
            True,
            Reason::StoppedInOrder,
            "nothing runs, every change was written, and the volumes are kept".to_owned(),
        ),
        StopStage::Stopped { overdue } => of(
            True,
            Reason::StopTimedOut,
            format!(
                "nothing runs but perhaps {}, whose machines do not answer: what cache pods among them had not written \
                 may be lost",
                overdue.join(", ")
            ),
        ),
        StopStage::Runs | StopStage::Cache | StopStage::Writers | StopStage::Database => {
            let waiting = report.waiting();
            let (reason, message) = waiting.as_ref().map_or_else(
                || (Reason::Stopped, "pods are to stop".to_owned()),
                reason_and_words,
            );
            of(False, reason, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use readstates_operator_api::ReadStateClusterStatus;

    use crate::{
        apply::CarriedOut,
        fixtures::{CASSANDRA, Scene, id, now, scene},
        status::{Decided, Report, status},
    };

    fn told(scene: &Scene) -> ReadStateClusterStatus {
        let plan = scene.plan();
        let decided = Decided {
            cluster: &scene.cluster,
            plan: &plan,
            done: &CarriedOut::default(),
        };
        status(&Report {
            id: &id(),
            before: None,
            world: &scene.world,
            spec: Ok(decided),
            ending: None,
            now: now(),
        })
    }

    fn said(scene: &Scene) -> Vec<String> {
        let conditions = told(scene).conditions;
        let words = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            format!("{}={} {}", c.type_, c.status, c.reason)
        };
        conditions.iter().map(words).collect()
    }

    /// A cluster that was stopped, and has no pods any more.
    fn stopped() -> Scene {
        let spec = CASSANDRA.replace("replicas: 3", "replicas: 3\nstopped: true");
        let mut scene = scene(&spec).ready_for_cache().running(2).set(0);
        for set in scene.world.racks.values_mut() {
            (set.replicas, set.existing, set.ready) = (0, 0, 0);
        }
        let set = scene.world.cache.as_mut().unwrap();
        (set.existing, set.ready) = (0, 0);
        scene.gone("chat-0").gone("chat-1")
    }

    #[test]
    fn a_cluster_that_is_stopped_says_so_wherever_it_does_not_serve_and_is_not_degraded() {
        let scene = stopped();
        assert_eq!(
            said(&scene),
            [
                "Available=False Stopped",
                "Progressing=False Stopped",
                "Degraded=False AsExpected",
                "CacheReady=False Stopped",
                "DatabaseReady=False Stopped",
                "RingStable=False Stopped",
                "RequiresUpdate=False UpToDate",
                "RollingOut=False AsExpected",
                "TakenOver=False AsExpected",
                "ApiOpen=True NoAccessConfigured",
                "CertificatesExpiring=False AsExpected",
                "Repaired=True Repaired",
                "Stopped=True StoppedInOrder",
            ]
        );
        let status = told(&scene);
        assert_eq!(
            (status.cache.as_str(), status.database.as_str()),
            ("stopped", "stopped")
        );
        assert_eq!(status.waiting_on, None);
    }

    #[test]
    fn a_cluster_that_stops_says_how_far_it_is() {
        let spec = CASSANDRA.replace("replicas: 3", "replicas: 3\nstopped: true");
        let scene = scene(&spec).ready_for_cache().running(2);
        let said = said(&scene);
        assert_eq!(said[0], "Available=True Serving");
        assert_eq!(said[1], "Progressing=True CacheStopping");
        assert_eq!(said.last().unwrap(), "Stopped=False CacheStopping");
        assert_eq!(told(&scene).cache, "2/0");
    }

    #[test]
    fn a_cluster_that_is_paused_is_not_said_to_stop() {
        let spec = CASSANDRA.replace("replicas: 3", "replicas: 3\nstopped: true\npaused: true");
        let scene = scene(&spec).ready_for_cache().running(2);
        let said = said(&scene);
        assert!(!said.iter().any(|c| c.starts_with("Stopped=")), "{said:?}");
    }
}
