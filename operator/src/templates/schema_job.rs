//! The Job that makes keyspace and table. Its name comes from all that goes into it.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec},
        core::v1::{Container, ResourceRequirements},
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
use readstates_operator_api::{
    fingerprint::fingerprint,
    labels::{self, Component},
};

use super::{job, pod, service_account, store};
use crate::spec::{Store, ValidatedCluster};

/// The flag that names the database and the keyspace.
const STORE: &str = "--store";

/// Attempts after the first; with Kubernetes' waits between them they take about five minutes.
const RETRIES: i32 = 5;

/// Length of the hash in the name.
const HASH: usize = 8;

/// The Job; none without a database.
#[must_use]
pub fn schema_job(cluster: &ValidatedCluster) -> Option<Job> {
    let spec = job_spec(cluster)?;
    let hash = fingerprint(&spec);
    let name = format!("{}-{}", cluster.id.schema(), &hash[..HASH]);
    Some(Job {
        metadata: cluster.id.child(name, Component::Schema),
        spec: Some(spec),
        status: None,
    })
}

#[must_use]
pub fn job_name(cluster: &ValidatedCluster) -> Option<String> {
    schema_job(cluster).map(|job| job.name_any())
}

/// What a Job has made when it succeeds: the database and the keyspace, as cache pods are given them.
#[must_use]
pub fn made_by(job: &Job) -> Option<String> {
    let pod = job.spec.as_ref()?.template.spec.as_ref()?;
    let mut args = pod.containers.first()?.args.as_ref()?.iter();
    args.find(|arg| *arg == STORE)?;
    args.next().cloned()
}

/// What it should have made; none without a database.
#[must_use]
pub fn wanted_store(cluster: &ValidatedCluster) -> Option<String> {
    store::replication(cluster).map(|_| store::url(cluster))
}

/// The claim on the keyspace of an external database. It is passed as arguments, so that the previous release's
/// program, which would alter the keyspace, fails on what it does not know and does nothing.
fn claim(cluster: &ValidatedCluster) -> Vec<String> {
    match &cluster.store {
        Store::External(_) => {
            let own = ["--claim".to_owned(), cluster.id.uid.clone()];
            let taken = cluster.take_over_claim.iter();
            let taken = taken.flat_map(|from| ["--take-over-claim".to_owned(), from.clone()]);
            own.into_iter().chain(taken).collect()
        }
        Store::Managed(_) | Store::Embedded(_) => Vec::new(),
    }
}

fn job_spec(cluster: &ValidatedCluster) -> Option<JobSpec> {
    let replication = store::replication(cluster)?;
    let access = store::access_of_schema(cluster);
    let args = [
        "schema",
        STORE,
        &store::url(cluster),
        "--replication",
        &replication,
    ];
    let args: Vec<_> = args
        .map(str::to_owned)
        .into_iter()
        .chain(claim(cluster))
        .collect();
    let amount = |cpu: &str, memory: &str| {
        BTreeMap::from([
            ("cpu".to_owned(), Quantity(cpu.to_owned())),
            ("memory".to_owned(), Quantity(memory.to_owned())),
        ])
    };
    let container = Container {
        name: "schema".to_owned(),
        image: Some(cluster.image.clone()),
        image_pull_policy: cluster.pull_policy.clone(),
        args: Some(args),
        env: Some(access.env).filter(|e| !e.is_empty()),
        resources: Some(ResourceRequirements {
            requests: Some(amount("50m", "64Mi")),
            limits: Some(BTreeMap::from([(
                "memory".to_owned(),
                Quantity("256Mi".to_owned()),
            )])),
            ..ResourceRequirements::default()
        }),
        security_context: Some(pod::restricted_container(true)),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(access.mounts).filter(|m| !m.is_empty()),
        ..Container::default()
    };
    let account = service_account::name(cluster, Component::Schema);
    let pod = job::pod(cluster, account, vec![container], access.volumes);
    let labels = labels::all(&cluster.id.name, Component::Schema);
    let mut template = job::template(labels, pod);
    if let Some(metadata) = &mut template.metadata {
        metadata.annotations = store::annotations(cluster);
    }
    Some(JobSpec {
        backoff_limit: Some(RETRIES),
        template,
        ..JobSpec::default()
    })
}
