//! What Job controller, garbage collector and kubelets do to the Jobs of backups and moves, a step at a time.

use std::net::IpAddr;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::world::World;

/// Name, exit code and termination message of a container.
pub(crate) type Ended<'a> = (&'a str, i32, &'a str);

impl World {
    /// A pod of a Job is made; its name.
    async fn pod_of(&self, job: &Job) -> String {
        let spec = job.spec.as_ref().unwrap();
        let labels = &spec.template.metadata.as_ref().unwrap().labels;
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "generateName": format!("{}-", job.name_any()), "labels": labels,
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": job.name_any(), "uid": job.uid(),
                    "controller": true,
                }],
            },
            "spec": spec.template.spec,
        }))
        .unwrap();
        let pods = self.api::<Pod>();
        let made = pods.create(&PostParams::default(), &pod).await.unwrap();
        made.name_any()
    }

    async fn pod_is(&self, name: &str, status: Value) {
        let status = Patch::Merge(json!({ "status": status }));
        let pods = self.api::<Pod>();
        let params = PatchParams::default();
        pods.patch_status(name, &params, &status).await.unwrap();
    }

    /// The pod of a Job is at work at this address; its name.
    pub(crate) async fn pod_works(&self, job: &Job, ip: IpAddr) -> String {
        let name = self.pod_of(job).await;
        let status = json!({ "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }] });
        self.pod_is(&name, status).await;
        name
    }

    /// The pod of a Job ends: containers, first those that run before the others, by name, exit code and message.
    pub(crate) async fn pod_ends(&self, job: &Job, first: &[Ended<'_>], main: &[Ended<'_>]) {
        let name = self.pod_of(job).await;
        let statuses = |all: &[Ended<'_>]| -> Vec<Value> {
            let status = |(name, code, message): &Ended<'_>| {
                json!({
                    "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "terminated": { "exitCode": code, "message": message } },
                })
            };
            all.iter().map(status).collect()
        };
        let is_well = first.iter().chain(main).all(|(_, code, _)| *code == 0);
        let status = json!({
            "phase": if is_well { "Succeeded" } else { "Failed" },
            "initContainerStatuses": statuses(first), "containerStatuses": statuses(main),
        });
        self.pod_is(&name, status).await;
    }

    /// Jobs that are being deleted go, after their pods.
    pub(crate) async fn jobs_end(&self) {
        let (jobs, pods) = (self.api::<Job>(), self.api::<Pod>());
        for job in jobs.list(&ListParams::default()).await.unwrap() {
            if job.metadata.deletion_timestamp.is_none() {
                continue;
            }
            for pod in pods.list(&ListParams::default()).await.unwrap() {
                let mut owners = pod.owner_references().iter();
                if owners.any(|owner| Some(&owner.uid) == job.uid().as_ref()) {
                    let now = DeleteParams::default().grace_period(0);
                    pods.delete(&pod.name_any(), &now).await.unwrap();
                }
            }
            let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            let params = PatchParams::default();
            jobs.patch(&job.name_any(), &params, &free).await.unwrap();
        }
    }
}

/// The documents of a sample.
pub(crate) fn sample(file: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../hack/samples/");
    let text = std::fs::read_to_string(format!("{folder}{file}")).unwrap();
    serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| serde::Deserialize::deserialize(document).unwrap())
        .collect()
}
