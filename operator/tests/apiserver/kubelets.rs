//! Fake kubelets, as far as they give memory to cache pods that run.

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::world::World;

const MEMBER: &str = "readstates";

impl World {
    /// Every cache pod that asks for other resources than it has gets them, or hears that its node has none left.
    pub(crate) async fn give_memory(&self, pods: &[Pod]) {
        for pod in pods {
            let (Some(wanted), Some(given)) = (wanted(pod), given(pod)) else {
                continue;
            };
            if wanted == given {
                continue;
            }
            let status = if self.nodes_are_full {
                json!({ "conditions": [
                    { "type": "Ready", "status": "True" },
                    {
                        "type": "PodResizePending", "status": "True", "reason": "Infeasible",
                        "message": "Node didn't have enough capacity: memory",
                    },
                ] })
            } else {
                json!({ "containerStatuses": statuses(pod) })
            };
            let (name, patch) = (pod.name_any(), Patch::Merge(json!({ "status": status })));
            let params = PatchParams::default();
            let pods = self.api::<Pod>();
            pods.patch_status(&name, &params, &patch).await.unwrap();
        }
    }
}

fn wanted(pod: &Pod) -> Option<&ResourceRequirements> {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let member = containers.find(|container| container.name == MEMBER)?;
    member.resources.as_ref()
}

fn given(pod: &Pod) -> Option<&ResourceRequirements> {
    let status = pod.status.as_ref()?;
    let mut containers = status.container_statuses.iter().flatten();
    let member = containers.find(|container| container.name == MEMBER)?;
    member.resources.as_ref()
}

/// What the kubelet says of the containers of a cache pod that it has given what they ask for; nothing of others.
pub(crate) fn statuses(pod: &Pod) -> Option<Value> {
    let resources = wanted(pod)?;
    Some(json!([{
        "name": MEMBER, "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} },
        "resources": resources,
    }]))
}
