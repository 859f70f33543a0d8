//! The super-disks of database pods: how far each pod has come, and what the agent says where one runs. In: pods.
//! Out: plain values. An agent that does not answer is unknown, and no error.

use std::collections::BTreeMap;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::nodes::Asked;
use crate::{
    names,
    super_disk::SuperDiskSeen,
    world::{DiskStage, PodSeen},
};

/// `None` for a pod without a super-disk.
pub(super) fn stage(pod: &Pod) -> Option<DiskStage> {
    let containers = pod.spec.as_ref()?.init_containers.iter().flatten();
    containers
        .into_iter()
        .find(|c| c.name == names::DISK_AGENT)?;
    let status = |name: &str| {
        let all = pod.status.as_ref()?.init_container_statuses.as_ref()?;
        all.iter().find(|c| c.name == name)
    };
    let (disk, agent) = (status(names::DISK), status(names::DISK_AGENT));
    let ran = |container: &ContainerStatus| {
        container
            .state
            .as_ref()
            .is_some_and(|s| s.running.is_some())
    };
    Some(match (agent, disk) {
        (Some(agent), _) if ran(agent) => DiskStage::AgentRuns,
        (Some(agent), Some(disk)) => ended(agent)
            .or_else(|| ended(disk))
            .unwrap_or_else(|| put_together(disk)),
        (None, Some(disk)) => ended(disk).unwrap_or_else(|| put_together(disk)),
        (Some(_) | None, None) => DiskStage::Before,
    })
}

/// Between its start and that of the agent.
fn put_together(disk: &ContainerStatus) -> DiskStage {
    let begun = disk.state.as_ref().is_some_and(|s| s.waiting.is_none());
    if begun {
        DiskStage::Assembling
    } else {
        DiskStage::Before
    }
}

/// How a container ended, if it did and should not have.
fn ended(container: &ContainerStatus) -> Option<DiskStage> {
    let state = container.state.as_ref()?;
    if state.running.is_some() {
        return None;
    }
    let last = container.last_state.as_ref();
    let end = state
        .terminated
        .as_ref()
        .or_else(|| last?.terminated.as_ref())?;
    (end.exit_code != 0).then(|| DiskStage::Ended {
        status: end.exit_code,
        said: end.message.clone().unwrap_or_default(),
    })
}

/// Asks the agents that run.
pub(super) async fn super_disks(
    asked: &Asked<'_>,
    pods: &[PodSeen],
) -> BTreeMap<String, SuperDiskSeen> {
    let seen = pods.iter().filter_map(|pod| {
        let stage = pod.disk.clone()?;
        Some(async move { (pod.name.clone(), one(asked, pod, stage).await) })
    });
    join_all(seen).await.into_iter().collect()
}

async fn one(asked: &Asked<'_>, pod: &PodSeen, stage: DiskStage) -> SuperDiskSeen {
    match stage {
        DiskStage::Before => SuperDiskSeen::Before(pod.trouble.clone()),
        DiskStage::Assembling => SuperDiskSeen::Assembling,
        DiskStage::Ended { status, said } => SuperDiskSeen::Ended { status, said },
        DiskStage::AgentRuns => match asked.agents.super_disk(asked.clients, pod).await {
            Ok(answer) => SuperDiskSeen::Answered(answer),
            Err(why) => SuperDiskSeen::Silent(why),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A pod whose disk containers are so.
    fn pod(statuses: Value) -> Pod {
        serde_json::from_value(json!({
            "spec": { "containers": [], "initContainers": [
                { "name": "identify" }, { "name": "disk" }, { "name": "disk-agent" },
            ] },
            "status": { "initContainerStatuses": statuses },
        }))
        .unwrap()
    }

    fn container(name: &str, state: Value, last: Value) -> Value {
        json!({
            "name": name, "state": state, "lastState": last, "image": "", "imageID": "", "ready": false,
            "restartCount": 0,
        })
    }

    #[test]
    fn how_far_a_pod_has_come_is_read_from_its_containers() {
        let waiting = || json!({ "waiting": { "reason": "PodInitializing" } });
        let running = || json!({ "running": {} });
        let done = || json!({ "terminated": { "exitCode": 0 } });
        let refused =
            || json!({ "terminated": { "exitCode": 3, "message": "E_PD_LOST It is gone." } });
        let ended = DiskStage::Ended {
            status: 3,
            said: "E_PD_LOST It is gone.".to_owned(),
        };
        let none = || json!({});
        for (disk, disk_before, agent, agent_before, expected) in [
            (waiting(), none(), waiting(), none(), DiskStage::Before),
            (running(), none(), waiting(), none(), DiskStage::Assembling),
            (
                running(),
                refused(),
                waiting(),
                none(),
                DiskStage::Assembling,
            ),
            (refused(), none(), waiting(), none(), ended.clone()),
            (waiting(), refused(), waiting(), none(), ended.clone()),
            (done(), refused(), waiting(), none(), DiskStage::Assembling),
            (done(), none(), running(), none(), DiskStage::AgentRuns),
            (done(), none(), running(), refused(), DiskStage::AgentRuns),
            (done(), none(), waiting(), refused(), ended.clone()),
        ] {
            let statuses = json!([
                container("disk", disk.clone(), disk_before),
                container("disk-agent", agent.clone(), agent_before),
            ]);
            assert_eq!(stage(&pod(statuses)), Some(expected), "{disk} {agent}");
        }
        assert_eq!(stage(&pod(json!([]))), Some(DiskStage::Before));
        assert_eq!(stage(&Pod::default()), None);
    }
}
