//! Kubernetes objects into the few values that matter.

use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec},
        batch::v1::Job,
        core::v1::{ContainerStatus, Pod, PodSpec, PodStatus},
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
use readstates_agent::words::last_telling_line;
use readstates_operator_api::labels;

use super::{growth, super_disks};
use crate::{
    names, templates,
    world::{JobOutcome, JobSeen, PodSeen, StatefulSetSeen},
};

/// The label in which a StatefulSet's pod says which template it was made from.
const REVISION: &str = "controller-revision-hash";

pub(super) fn stateful_set(set: &StatefulSet) -> StatefulSetSeen {
    let spec = set.spec.as_ref();
    let status = set.status.clone().unwrap_or_default();
    let replicas = spec.and_then(|s| s.replicas).unwrap_or_default();
    let updated = status.updated_replicas.unwrap_or_default();
    let observed = status.observed_generation == set.metadata.generation;
    let rolling = spec
        .and_then(|s| s.update_strategy.as_ref())
        .and_then(|u| u.rolling_update.as_ref());
    StatefulSetSeen {
        replicas,
        existing: status.replicas,
        ready: status.ready_replicas.unwrap_or_default(),
        settled: observed
            && status.replicas == replicas
            && (updated == replicas || status.current_revision == status.update_revision),
        applied_hash: set.annotations().get(labels::APPLIED_HASH).cloned(),
        observed,
        partition: rolling.and_then(|r| r.partition).unwrap_or_default(),
        update_revision: status.update_revision.clone(),
        revised: observed && status.current_revision == status.update_revision,
        template_hash: set.annotations().get(labels::TEMPLATE_HASH).cloned(),
        spec_hash: set.annotations().get(labels::SPEC_HASH).cloned(),
        access_modes: spec.and_then(access_modes).unwrap_or_default(),
        claim_size: spec.and_then(claim_size),
        template: spec.map(|s| Box::new(s.template.clone())),
        parallel: spec.is_some_and(|s| s.pod_management_policy.as_deref() == Some("Parallel")),
        version: set.resource_version(),
    }
}

/// Of the claims of its pods; each has one at most.
fn access_modes(spec: &StatefulSetSpec) -> Option<Vec<String>> {
    let claim = spec.volume_claim_templates.as_ref()?.first()?;
    claim.spec.as_ref()?.access_modes.clone()
}

fn claim_size(spec: &StatefulSetSpec) -> Option<Quantity> {
    let claim = spec.volume_claim_templates.as_ref()?.first()?;
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    resources.requests.as_ref()?.get("storage").cloned()
}

/// Whether it was made with an identity: the volume with the certificates is there.
fn has_identity(pod: &PodSpec) -> bool {
    let mut volumes = pod.volumes.iter().flatten();
    volumes.any(|v| v.name == names::IDENTITY)
}

fn has_agent(pod: &PodSpec) -> bool {
    let mut first = pod.init_containers.iter().flatten();
    first.any(|c| c.name == names::AGENT)
}

pub(super) fn pod(pod: &Pod) -> PodSeen {
    let status = pod.status.clone().unwrap_or_default();
    let ready = condition(&status, "Ready") == Some("True");
    PodSeen {
        name: pod.name_any(),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        ready,
        ip: status.pod_ip.clone(),
        uid: pod.uid(),
        revision: pod.labels().get(REVISION).cloned(),
        scheduled: pod.spec.as_ref().is_some_and(|s| s.node_name.is_some()),
        zone: pod.labels().get(labels::ZONE).cloned(),
        has_agent: pod.spec.as_ref().is_some_and(has_agent),
        mutual_tls: pod.spec.as_ref().is_some_and(has_identity),
        disk: super_disks::stage(pod),
        running: ready || ours(&status).any(runs),
        created: pod.creation_timestamp().map(|t| t.0),
        deadline: pod.metadata.deletion_timestamp.as_ref().map(|t| t.0),
        trouble: if ready { None } else { trouble(&status) },
        replace_hash: pod.annotations().get(labels::REPLACE_HASH).cloned(),
        restarted: pod.annotations().get(labels::RESTARTED).cloned(),
        memory: memory(pod),
        growth: None,
    }
}

fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.container_statuses.iter().flatten()
}

/// The main container of a cache or database pod: others are the user's, or a webhook's.
fn ours(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    containers(status).filter(|c| names::MAIN_CONTAINERS.contains(&c.name.as_str()))
}

/// What its node has set aside for it. A kubelet that does not say, or that has not begun, has given what the pod was made
/// with; whether it has given what was asked for later is not known.
fn memory(pod: &Pod) -> Option<u64> {
    let given = pod.status.as_ref().and_then(|status| {
        let own = containers(status).find(|c| c.name == names::CACHE)?;
        templates::memory_of(own.resources.as_ref()?)
    });
    given.or_else(|| {
        let as_made = growth::since(pod).is_none();
        pod.spec
            .as_ref()
            .filter(|_| as_made)
            .and_then(templates::cache_memory)
    })
}

fn runs(container: &ContainerStatus) -> bool {
    let state = container.state.as_ref();
    state.is_some_and(|s| s.running.is_some())
}

fn condition<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a str> {
    let conditions = status.conditions.as_ref()?;
    conditions
        .iter()
        .find(|c| c.type_ == type_)
        .map(|c| c.status.as_str())
}

/// What a person would look for in `kubectl describe pod`: why it is not scheduled, not pulled, not
/// up.
fn trouble(status: &PodStatus) -> Option<String> {
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .find(|c| c.type_ == "PodScheduled" && c.status == "False")
        .map(|c| {
            c.message
                .clone()
                .unwrap_or_else(|| "not scheduled".to_owned())
        });
    let containers = || {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(containers(status))
    };
    unscheduled
        .or_else(|| containers().find_map(container_trouble))
        .or_else(|| {
            containers()
                .any(|c| runs(c) && !c.ready)
                .then(|| "running, not ready yet".to_owned())
        })
}

fn container_trouble(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|r| {
        // What every pod goes through is no trouble.
        !matches!(*r, "ContainerCreating" | "PodInitializing")
    })?;
    let last = container
        .last_state
        .as_ref()
        .and_then(|s| s.terminated.as_ref());
    let detail = last
        .map(|t| {
            let said = t.message.as_deref().map(str::trim).unwrap_or_default();
            format!("exit code {} {said}", t.exit_code)
        })
        .or_else(|| waiting.message.clone())
        .unwrap_or_default();
    Some(
        format!("{}: {reason} {}", container.name, last_words(&detail))
            .trim_end()
            .to_owned(),
    )
}

/// `None` for a Job the API server has not given a UID yet, which no stored one lacks.
pub(super) fn job(job: &Job, pods: &[Pod]) -> Option<JobSeen> {
    let uid = job.metadata.uid.clone()?;
    let conditions = || {
        job.status
            .iter()
            .flat_map(|s| s.conditions.iter().flatten())
    };
    let holds = |type_: &str| conditions().find(|c| c.type_ == type_ && c.status == "True");
    let outcome = if job.metadata.deletion_timestamp.is_some() {
        JobOutcome::Going
    } else if holds("Complete").is_some() {
        JobOutcome::Succeeded
    } else if let Some(failed) = holds("Failed") {
        let own = failed
            .message
            .clone()
            .unwrap_or_else(|| "the Job failed".to_owned());
        JobOutcome::Failed {
            at: failed
                .last_transition_time
                .as_ref()
                .map(|t| t.0)
                .unwrap_or_default(),
            message: said_by_pods(pods, &uid).unwrap_or(own),
        }
    } else {
        let stuck = of_job(pods, &uid)
            .iter()
            .find_map(|p| trouble(p.status.as_ref()?));
        JobOutcome::Running { trouble: stuck }
    };
    Some(JobSeen {
        uid,
        outcome,
        makes: templates::made_by_job(job),
    })
}

/// The termination message of the Job's newest pod that left one.
fn said_by_pods(pods: &[Pod], job_uid: &str) -> Option<String> {
    of_job(pods, job_uid).iter().find_map(|p| {
        let statuses = p.status.as_ref()?.container_statuses.as_ref()?;
        let said = statuses.iter().find_map(|c| {
            let ended = |s: &Option<k8s_openapi::api::core::v1::ContainerState>| {
                s.as_ref()?.terminated.as_ref()?.message.clone()
            };
            ended(&c.state).or_else(|| ended(&c.last_state))
        })?;
        Some(last_words(&said))
    })
}

/// The Job's pods, newest first.
pub(super) fn of_job<'a>(pods: &'a [Pod], job_uid: &str) -> Vec<&'a Pod> {
    let owned = |p: &&Pod| {
        p.owner_references()
            .iter()
            .any(|owner| owner.uid == job_uid)
    };
    let mut ours: Vec<_> = pods.iter().filter(owned).collect();
    ours.sort_by_key(|p| std::cmp::Reverse(p.creation_timestamp().map(|t| t.0)));
    ours
}

/// The last line that says something, short enough for a condition.
fn last_words(text: &str) -> String {
    const LONGEST: usize = 400;
    let line = last_telling_line(text).unwrap_or_default();
    line.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_the_last_line_with_text() {
        assert_eq!(
            last_words("starting\nno host answers\n\n"),
            "no host answers"
        );
        assert_eq!(last_words(""), "");
    }

    #[test]
    fn a_pod_has_the_memory_that_its_node_has_given_it_and_what_it_asks_for_where_that_is_not_said()
    {
        let memory = |given: serde_json::Value, wrote: serde_json::Value| {
            let asked = serde_json::json!({ "requests": { "memory": "2Mi" } });
            let status = serde_json::json!({
                "name": "readstates", "image": "", "imageID": "", "ready": true, "restartCount": 0, "resources": given,
            });
            let json = serde_json::json!({
                "metadata": { "name": "chat-0", "managedFields": wrote },
                "spec": { "containers": [{ "name": "readstates", "resources": asked }] },
                "status": { "containerStatuses": [status] },
            });
            pod(&serde_json::from_value(json).unwrap()).memory
        };
        let given = serde_json::json!({ "requests": { "memory": "1Mi" } });
        let nothing = serde_json::Value::Null;
        assert_eq!(memory(given.clone(), nothing.clone()), Some(1 << 20));
        assert_eq!(memory(nothing.clone(), nothing.clone()), Some(2 << 20));
        // A kubelet before Kubernetes 1.33 does not tell that it has done nothing.
        let resized = serde_json::json!([{
            "manager": "any", "operation": "Update", "subresource": "resize", "time": "2026-03-15T12:00:00Z",
        }]);
        assert_eq!(memory(given, resized.clone()), Some(1 << 20));
        assert_eq!(memory(nothing, resized), None);
    }

    #[test]
    fn a_pod_in_which_only_a_container_of_the_users_runs_does_not_run() {
        let seen = |running: &str| {
            let state = |name: &str| {
                let key = if name == running {
                    "running"
                } else {
                    "waiting"
                };
                serde_json::json!({
                    "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": { key: {} },
                })
            };
            let statuses = [state("readstates"), state("shipper")];
            let json = serde_json::json!({
                "metadata": { "name": "chat-0" }, "status": { "containerStatuses": statuses },
            });
            pod(&serde_json::from_value(json).unwrap()).running
        };
        assert!(seen("readstates"));
        assert!(!seen("shipper"));
    }
}
