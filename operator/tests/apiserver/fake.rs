//! Fake StatefulSet controller, Job controller and kubelets, which act when a test says so.

use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        batch::v1::Job,
        core::v1::{PersistentVolumeClaim, Pod, PodSpec, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use readstates_operator::world::PodSeen;
use readstates_operator_api::fingerprint::fingerprint;
use serde_json::json;

use crate::{kubelets::statuses, world::World};

/// Holds a pod back when it is deleted, as a process that still writes would.
const STILL_WRITING: &str = "tests.readstates.dev/still-writing";

impl World {
    /// Every StatefulSet gets the pods it asks for, all ready; those too many are told to go, and stay
    /// until [`World::let_go`].
    pub(crate) async fn settle(&self) {
        for set in self
            .api::<StatefulSet>()
            .list(&ListParams::default())
            .await
            .unwrap()
        {
            self.settle_set(&set).await;
        }
    }

    pub(crate) async fn settle_set(&self, set: &StatefulSet) {
        let spec = set.spec.as_ref().unwrap();
        let wanted = spec.replicas.unwrap();
        for pod in self.pods_of(set).await {
            let ordinal: i32 = pod.name_any().rsplit_once('-').unwrap().1.parse().unwrap();
            if ordinal >= wanted && pod.metadata.deletion_timestamp.is_none() {
                let pods = self.api::<Pod>();
                pods.delete(&pod.name_any(), &DeleteParams::default())
                    .await
                    .unwrap();
            }
        }
        self.turn(set).await;
        for ordinal in 0..wanted {
            let name = format!("{}-{ordinal}", set.name_any());
            self.start(set, &name, &spec.template).await;
        }
        let pods = self.pods_of(set).await;
        self.give_memory(&pods).await;
        let stays = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
        let status = json!({ "status": {
            "observedGeneration": set.metadata.generation,
            "replicas": pods.len(), "readyReplicas": pods.iter().filter(stays).count(),
            "updatedReplicas": wanted, "currentRevision": revision(set), "updateRevision": revision(set),
        } });
        self.api::<StatefulSet>()
            .patch_status(
                &set.name_any(),
                &PatchParams::default(),
                &Patch::Merge(status),
            )
            .await
            .unwrap();
    }

    /// The last database pod that may have another template and has not: it is restarted.
    async fn turn(&self, set: &StatefulSet) {
        let strategy = set.spec.as_ref().unwrap().update_strategy.as_ref();
        let Some(rolling) = strategy.and_then(|s| s.rolling_update.as_ref()) else {
            return;
        };
        let from = rolling.partition.unwrap_or_default();
        let mut pods = self.pods_of(set).await;
        pods.sort_by_key(ResourceExt::name_any);
        let old = pods.iter().rfind(|pod| {
            let ordinal: i32 = pod.name_any().rsplit_once('-').unwrap().1.parse().unwrap();
            let label = pod.labels().get("controller-revision-hash");
            let stays = pod.metadata.deletion_timestamp.is_none();
            stays && ordinal >= from && label.is_some_and(|l| *l != revision(set))
        });
        if let Some(pod) = old {
            let pods = self.api::<Pod>();
            let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            pods.patch(&pod.name_any(), &PatchParams::default(), &free)
                .await
                .unwrap();
            let now = DeleteParams::default().grace_period(0);
            pods.delete(&pod.name_any(), &now).await.unwrap();
        }
    }

    /// The claim of a database pod, as its StatefulSet's controller makes it; its UID.
    async fn claim(
        &self,
        set: &StatefulSet,
        pod: &str,
        labels: Option<std::collections::BTreeMap<String, String>>,
    ) -> String {
        let name = format!("data-{pod}");
        let claims = self.api::<PersistentVolumeClaim>();
        if let Some(there) = claims.get_opt(&name).await.unwrap() {
            return there.uid().unwrap();
        }
        let templates = set.spec.as_ref().unwrap().volume_claim_templates.as_ref();
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name),
                labels,
                ..ObjectMeta::default()
            },
            spec: templates.unwrap()[0].spec.clone(),
            status: None,
        };
        let made = claims.create(&PostParams::default(), &claim).await.unwrap();
        made.uid().unwrap()
    }

    /// Starts a pod, unless one of that name is there.
    async fn start(&self, set: &StatefulSet, name: &str, template: &PodTemplateSpec) {
        let pods = self.api::<Pod>();
        if pods.get_opt(name).await.unwrap().is_some() {
            return;
        }
        let mut labels = template.metadata.as_ref().unwrap().labels.clone();
        let of_database = name.contains("-db-");
        let claim = match of_database {
            true => Some(self.claim(set, name, labels.clone()).await),
            false => None,
        };
        labels
            .as_mut()
            .unwrap()
            .insert("controller-revision-hash".to_owned(), revision(set));
        let mut pod = Pod {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels,
                annotations: template.metadata.as_ref().unwrap().annotations.clone(),
                owner_references: set.controller_owner_ref(&()).map(|owner| vec![owner]),
                finalizers: Some(vec![STILL_WRITING.to_owned()]),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        };
        without_claims(&mut pod);
        let spec = pod.spec.as_mut().unwrap();
        // What a pod with a super-disk is told depends on whether it is on a machine.
        let mut first = spec.init_containers.iter().flatten();
        let on_super_disk = first.any(|c| c.name == "disk-agent");
        spec.node_name = on_super_disk.then(|| "machine".to_owned());
        let made = pods.create(&PostParams::default(), &pod).await.unwrap();
        if let Some(claim) = claim {
            self.agents.ring().mounts(made.uid().unwrap(), claim);
        }
        let ip = match of_database {
            true if self.agents_listen => self.listen(&made).await,
            true => self.agents.address(name),
            false => {
                let identity = self.identity_of(made.spec.as_ref().unwrap()).await;
                let capacity = capacity(made.spec.as_ref().unwrap());
                self.fleet.start(name, identity, capacity).await.to_string()
            }
        };
        let running = |name| {
            let state = json!({ "running": {} });
            json!({
                "name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state,
            })
        };
        let ready = json!({ "status": {
            "phase": "Running",
            "podIP": ip, "podIPs": [{ "ip": ip }],
            "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": statuses(&made),
            "initContainerStatuses": on_super_disk.then(|| [running("disk-agent")]),
        } });
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(ready))
            .await
            .unwrap();
    }

    /// The agent of this pod answers, at an address of its own.
    async fn listen(&self, pod: &Pod) -> String {
        let (ip, _) = self.fleet.address();
        let seen = PodSeen {
            name: pod.name_any(),
            uid: pod.uid(),
            ip: Some(ip.to_string()),
            ..PodSeen::default()
        };
        let identity = self.identity_of(pod.spec.as_ref().unwrap()).await.unwrap();
        crate::agents::http::serve(self.agents.clone(), seen, ip, &identity).await;
        ip.to_string()
    }

    /// Pods that were told to go are gone, and the StatefulSets know it.
    pub(crate) async fn let_go(&self) {
        let pods = self.api::<Pod>();
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            if pod.metadata.deletion_timestamp.is_some() {
                if self.fleet.runs(&pod.name_any()) {
                    self.fleet.stop(&pod.name_any());
                }
                let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
                pods.patch(&pod.name_any(), &PatchParams::default(), &free)
                    .await
                    .unwrap();
                let now = DeleteParams::default().grace_period(0);
                // Gone already, where it had no time left to use.
                let _ = pods.delete(&pod.name_any(), &now).await;
            }
        }
        // A claim that is not in use is released by its controller.
        let claims = self.api::<PersistentVolumeClaim>();
        for claim in claims.list(&ListParams::default()).await.unwrap() {
            if claim.metadata.deletion_timestamp.is_some() {
                let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
                let params = PatchParams::default();
                claims
                    .patch(&claim.name_any(), &params, &free)
                    .await
                    .unwrap();
            }
        }
        Box::pin(self.settle()).await;
    }

    /// Every Job that is running has done its work.
    pub(crate) async fn finish_jobs(&self) {
        let now = jiff::Timestamp::now().to_string();
        let condition =
            |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": now });
        let succeeded = json!({ "status": {
            "startTime": now, "completionTime": now, "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        } });
        for job in self.end_jobs(&succeeded).await {
            if let Some(copies) = copies_by(&job) {
                self.agents.ring().keyspace = Some(copies);
            }
        }
    }

    /// Every Job that is running has given up.
    pub(crate) async fn fail_jobs(&self, message: &str) {
        let now = jiff::Timestamp::now().to_string();
        let condition = |type_: &str| {
            json!({
                "type": type_, "status": "True", "lastTransitionTime": now, "message": message,
                "reason": "BackoffLimitExceeded",
            })
        };
        self.end_jobs(&json!({ "status": {
            "startTime": now, "failed": 1,
            "conditions": [condition("FailureTarget"), condition("Failed")],
        } }))
        .await;
    }

    /// Ends every Job that is running, and gives those.
    async fn end_jobs(&self, status: &serde_json::Value) -> Vec<Job> {
        let mut all = Vec::new();
        let jobs = self.api::<Job>();
        for job in jobs.list(&ListParams::default()).await.unwrap() {
            if job.status.as_ref().is_some_and(|s| s.conditions.is_some()) {
                continue;
            }
            let (name, patch) = (job.name_any(), Patch::Merge(status));
            let ended = jobs
                .patch_status(&name, &PatchParams::default(), &patch)
                .await;
            match ended {
                Ok(job) => all.push(job),
                // An operator at work has deleted it meanwhile.
                Err(kube::Error::Api(gone)) if gone.code == 404 => {}
                Err(error) => panic!("{error}"),
            }
        }
        all
    }

    async fn pods_of(&self, set: &StatefulSet) -> Vec<Pod> {
        let pods = self
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .unwrap();
        let owned = |p: &Pod| {
            p.owner_references()
                .iter()
                .any(|o| Some(&o.uid) == set.metadata.uid.as_ref())
        };
        pods.items.into_iter().filter(owned).collect()
    }

    /// Names of the cache pods that exist.
    pub(crate) async fn cache_pods(&self, cluster: &str) -> Vec<String> {
        let labels = format!("readstates.dev/cluster={cluster},app.kubernetes.io/component=cache");
        let ours = ListParams::default().labels(&labels);
        let pods = self.api::<Pod>().list(&ours).await.unwrap();
        pods.items.iter().map(ResourceExt::name_any).collect()
    }
}

/// No controller creates the claims that database pods mount.
pub(crate) fn without_claims(pod: &mut Pod) {
    let spec = pod.spec.as_mut().unwrap();
    let first = spec.init_containers.iter_mut().flatten();
    for container in first.chain(&mut spec.containers) {
        if let Some(mounts) = &mut container.volume_mounts {
            mounts.retain(|m| m.name != "data");
        }
        container.volume_devices = None;
    }
}

/// The copies that the keyspace of a database of ours has after this Job.
fn copies_by(job: &Job) -> Option<i32> {
    let pod = job.spec.as_ref()?.template.spec.as_ref()?;
    let args = pod.containers.first()?.args.as_ref()?;
    let copies = args.iter().find_map(|arg| arg.strip_prefix("dc1="))?;
    Some(copies.parse().unwrap())
}

/// How many states the process of a cache pod is started to keep.
fn capacity(spec: &PodSpec) -> u64 {
    let env = spec.containers[0].env.iter().flatten();
    let mut found = env.filter(|v| v.name == "READSTATES_CAPACITY_STATES");
    found
        .next()
        .unwrap()
        .value
        .as_ref()
        .unwrap()
        .parse()
        .unwrap()
}

/// The revision of a StatefulSet's template: what the operator says of it, or one for all.
fn revision(set: &StatefulSet) -> String {
    let said = set.annotations().get("readstates.dev/template-hash");
    let template = &set.spec.as_ref().unwrap().template;
    let said = said.map_or_else(|| fingerprint(template), Clone::clone);
    let annotations = template
        .metadata
        .as_ref()
        .and_then(|m| m.annotations.as_ref());
    match annotations.and_then(|a| a.get("readstates.dev/restarted")) {
        None => said,
        Some(request) => fingerprint(&(said, request)),
    }
}
