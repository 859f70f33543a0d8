//! Cache pods, and how the memory of those that run can grow. In: pods, and the StatefulSet with the template that they do
//! not have yet. Out: [`Growth`] of each that lacks nothing but memory. The API server is asked by a dry run, which changes
//! nothing: it says what no version and no right of the operator would tell for certain.

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::{Api, Client, ResourceExt};

use super::children;
use crate::{
    names,
    resize::{self, ResizeOutcome, Trial},
    spec::Identity,
    templates,
    world::{Growth, PodSeen, StatefulSetSeen},
};

/// What the kubelet says of a change that it has not made.
const PENDING: &str = "PodResizePending";
/// That it makes one, and in its message what keeps it.
const IN_PROGRESS: &str = "PodResizeInProgress";
/// The node can never do it.
const INFEASIBLE: &str = "Infeasible";

/// The pods; of each that has to grow, how it can.
pub(super) async fn observe(
    client: &Client,
    id: &Identity,
    set: Option<&StatefulSetSeen>,
    pods: &[Pod],
) -> Vec<PodSeen> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &id.namespace);
    let wanted = set.and_then(|set| Some((set, memory(set)?)));
    let each = pods.iter().map(async |pod| {
        let mut seen = children::pod(pod);
        if let Some((set, wanted)) = wanted
            && lacks_memory_alone(&seen, set, wanted)
        {
            seen.growth = growth(&api, pod, &seen, wanted).await;
        }
        seen
    });
    join_all(each).await
}

/// Bytes that the pods of its template ask for.
fn memory(set: &StatefulSetSeen) -> Option<u64> {
    let spec = set.template.as_ref()?.spec.as_ref()?;
    templates::cache_memory(spec)
}

fn lacks_memory_alone(pod: &PodSeen, set: &StatefulSetSeen, wanted: u64) -> bool {
    let of_another = set.observed && pod.revision != set.update_revision;
    let else_same = set.replace_hash().is_some()
        && set.replace_hash() == pod.replace_hash.as_ref()
        && set.restarted() == pod.restarted.as_ref();
    of_another && else_same && !pod.terminating && pod.memory.is_some_and(|has| has < wanted)
}

/// `None` of a pod that is not ready and was not asked: what it lacks, another may have.
async fn growth(api: &Api<Pod>, pod: &Pod, seen: &PodSeen, wanted: u64) -> Option<Growth> {
    if pod.spec.as_ref().and_then(templates::cache_memory) == Some(wanted) {
        return Some(asked(pod));
    }
    if !seen.ready {
        return None;
    }
    let name = pod.name_any();
    let answer = resize::memory(api, &name, names::CACHE, wanted, Trial::DryRun).await;
    Some(match answer {
        ResizeOutcome::Taken => Growth::Possible,
        ResizeOutcome::Refused(why) => Growth::Refused(why),
        ResizeOutcome::NotNow(why) => Growth::NotNow(why),
    })
}

/// What became of it.
fn asked(pod: &Pod) -> Growth {
    let status = pod.status.as_ref();
    let conditions = || {
        status
            .into_iter()
            .flat_map(|s| s.conditions.iter().flatten())
    };
    let current = |c: &PodCondition| {
        let of = c.observed_generation;
        c.status == "True" && of.is_none_or(|of| Some(of) >= pod.metadata.generation)
    };
    let of = |kind: &str| conditions().find(|c| c.type_ == kind && current(c));
    // An earlier change may still be in progress while this one is pending.
    let said = of(PENDING).or_else(|| of(IN_PROGRESS));
    let words = said.map(|c| {
        let parts = [c.reason.as_deref(), c.message.as_deref()];
        parts
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(": ")
    });
    let words = words.filter(|words| !words.is_empty());
    match said.and_then(|c| c.reason.as_deref()) {
        Some(INFEASIBLE) => Growth::Refused(words.unwrap_or_default()),
        Some(_) | None => Growth::Asked {
            since: since(pod),
            words,
        },
    }
}

/// When its resources were last written, if ever since it was made: nothing in its status says when a change of them
/// began.
pub(super) fn since(pod: &Pod) -> Option<Timestamp> {
    let written = pod
        .managed_fields()
        .iter()
        .filter(|entry| entry.subresource.as_deref() == Some("resize"));
    written
        .filter_map(|entry| entry.time.as_ref())
        .map(|time| time.0)
        .max()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A pod whose resources were written at noon, with these conditions.
    fn pod(conditions: &Value) -> Pod {
        let written = |subresource: Option<&str>, time: &str| json!({ "manager": "any", "operation": "Update", "subresource": subresource, "time": time });
        let fields = [
            written(None, "2026-03-15T11:00:00Z"),
            written(Some("resize"), "2026-03-15T12:00:00Z"),
            written(Some("status"), "2026-03-15T13:00:00Z"),
        ];
        serde_json::from_value(json!({
            "metadata": { "name": "chat-0", "generation": 3, "managedFields": fields },
            "status": { "conditions": conditions },
        }))
        .unwrap()
    }

    fn since_noon(words: Option<&str>) -> Growth {
        Growth::Asked {
            since: Some("2026-03-15T12:00:00Z".parse().unwrap()),
            words: words.map(str::to_owned),
        }
    }

    #[test]
    fn what_a_node_says_of_memory_that_was_asked_for_is_passed_on() {
        assert_eq!(asked(&pod(&json!([]))), since_noon(None));
        let in_progress = json!([{ "type": "PodResizeInProgress", "status": "True" }]);
        assert_eq!(asked(&pod(&in_progress)), since_noon(None));
        let deferred = json!([
            { "type": "Ready", "status": "True" },
            { "type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "no room" },
        ]);
        let words = Some("Deferred: no room");
        assert_eq!(asked(&pod(&deferred)), since_noon(words));
    }

    #[test]
    fn what_a_node_can_never_give_is_refused_unless_it_speaks_of_an_earlier_wish() {
        let says = |generation: Value| {
            asked(&pod(&json!([{
                "type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "too much",
                "observedGeneration": generation,
            }])))
        };
        let refused = Growth::Refused("Infeasible: too much".to_owned());
        assert_eq!(says(json!(3)), refused);
        assert_eq!(says(Value::Null), refused);
        assert_eq!(says(json!(2)), since_noon(None));
    }

    #[test]
    fn what_a_node_can_never_give_is_refused_while_an_earlier_change_is_in_progress() {
        let both = json!([
            { "type": "PodResizeInProgress", "status": "True" },
            { "type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "too much" },
        ]);
        let refused = Growth::Refused("Infeasible: too much".to_owned());
        assert_eq!(asked(&pod(&both)), refused);
    }
}
