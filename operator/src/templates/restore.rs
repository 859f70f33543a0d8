//! The Job that restores a backup into a new cluster. Its name comes from all that goes into it. It has what a Job of a
//! backup has: the login of the cache, which may write, the Secrets of the place, and no token of the Kubernetes API.
//!
//! No pod failure policy: with one, Kubernetes would not replace a pod before its machine confirms that it has ended,
//! and a machine that is gone never does. Two pods at once do no harm: see `readstates backup restore --once`.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec},
        core::v1::{PodSpec, Toleration},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use readstates_operator_api::{
    fingerprint::fingerprint,
    labels::{self, Component},
};

use super::{backup, job, store};
use crate::{
    names::RESTORE,
    spec::{Identity, RestoreSource, ValidatedCluster},
};

/// Attempts after the first: each goes on where the one before was.
const RETRIES: i32 = 6;
/// How long a pod stays on a machine that does not answer: nothing of it is lost when it is made elsewhere.
const AWAY_SECONDS: i64 = 60;
const AWAY: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// Length of the hash in the name.
const HASH: usize = 8;

#[must_use]
pub fn restore_job(cluster: &ValidatedCluster, source: &RestoreSource) -> Job {
    let spec = job_spec(cluster, source);
    let hash = fingerprint(&spec);
    let name = format!("{}-{}", cluster.id.restore(), &hash[..HASH]);
    Job {
        metadata: metadata(&cluster.id, name),
        spec: Some(spec),
        status: None,
    }
}

#[must_use]
pub fn restore_job_name(cluster: &ValidatedCluster, source: &RestoreSource) -> String {
    let job = restore_job(cluster, source);
    job.metadata.name.unwrap_or_default()
}

/// Selects the Jobs and their pods.
#[must_use]
pub fn restore_selector(id: &Identity) -> String {
    let (component, name) = (Component::Backup, &id.name);
    format!(
        "{}={component},{}={name}",
        labels::COMPONENT,
        labels::RESTORE
    )
}

/// Those of a backup, which operators of the release before take for none of their database pods.
fn pod_labels(id: &Identity) -> BTreeMap<String, String> {
    let mut all = labels::all(&id.name, Component::Backup);
    all.insert(labels::RESTORE.to_owned(), id.name.clone());
    all
}

pub(crate) fn metadata(id: &Identity, name: String) -> ObjectMeta {
    ObjectMeta {
        labels: Some(pod_labels(id)),
        ..id.child(name, Component::Backup)
    }
}

fn job_spec(cluster: &ValidatedCluster, source: &RestoreSource) -> JobSpec {
    let RestoreSource { place, snapshot } = source;
    let access = store::access(cluster);
    let volumes = [access.volumes.clone(), backup::volumes(place)].concat();
    let url = store::url(cluster);
    let flags = [snapshot.as_str(), "--once", "--store", &url];
    // A volume of backups is read only; its claim may be mounted elsewhere as well.
    let restore = backup::container(cluster, place, RESTORE, &flags, access, true);
    let placement = &cluster.cache.placement;
    let away = AWAY.map(|taint| Toleration {
        key: Some(taint.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        toleration_seconds: Some(AWAY_SECONDS),
        value: None,
    });
    let tolerations = placement.tolerations.iter().flatten().cloned();
    let account = backup::account(cluster, place);
    let pod = PodSpec {
        tolerations: Some(tolerations.chain(away).collect()),
        ..job::pod(cluster, account, vec![restore], volumes)
    };
    JobSpec {
        backoff_limit: Some(RETRIES),
        template: job::template(pod_labels(&cluster.id), pod),
        ..JobSpec::default()
    }
}
