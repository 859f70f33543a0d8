//! The StatefulSet of the cache.

use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec},
        core::v1::{Container, EnvVar, PodSpec, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use readstates_operator_api::{
    ReadStateRingSpec,
    labels::{self, Component},
};

use super::{
    env,
    pod::{self, Patience},
    ports, service_account, store,
};
use crate::validate::{Store, ValidatedCluster};

/// The user our images run as.
pub(super) const USER: i64 = 65532;

/// Time for a pod to write all it holds: it gives up a little before the kubelet does, so that it
/// can say how much it could not write.
const GRACE_SECONDS: i64 = 300;
const DRAIN_TIMEOUT: &str = "270s";

/// Every member of `table` runs with it.
pub(super) fn run(cluster: &ValidatedCluster, table: &ReadStateRingSpec) -> StatefulSet {
    stateful_set(
        cluster,
        table,
        i32::try_from(table.members.len()).unwrap_or(i32::MAX),
    )
}

/// No pod runs. The template is of no consequence until the next [`run`].
pub(super) fn stop(cluster: &ValidatedCluster, table: &ReadStateRingSpec) -> StatefulSet {
    stateful_set(cluster, table, 0)
}

fn stateful_set(
    cluster: &ValidatedCluster,
    table: &ReadStateRingSpec,
    replicas: i32,
) -> StatefulSet {
    let id = &cluster.id;
    let claims = match &cluster.store {
        Store::Embedded(volume) => Some(vec![pod::claim(volume)]),
        Store::Managed(_) | Store::External(_) => None,
    };
    StatefulSet {
        metadata: id.child(id.cache(), Component::Cache),
        spec: Some(StatefulSetSpec {
            replicas: Some(replicas),
            service_name: Some(id.cache_members()),
            // Members do not wait for each other: all start with the same table.
            pod_management_policy: Some("Parallel".to_owned()),
            selector: pod::selector(&id.selector(Component::Cache)),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels::all(&id.name, Component::Cache)),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec(cluster, table)),
            },
            volume_claim_templates: claims,
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

fn pod_spec(cluster: &ValidatedCluster, table: &ReadStateRingSpec) -> PodSpec {
    let selector = cluster.id.selector(Component::Cache);
    let access = store::access(cluster);
    let some = |v: Vec<_>| Some(v).filter(|v: &Vec<_>| !v.is_empty());
    PodSpec {
        service_account_name: Some(service_account::name(cluster, Component::Cache)),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        security_context: Some(pod::restricted(USER)),
        image_pull_secrets: some(cluster.pull_secrets.clone()),
        node_selector: Some(cluster.cache.node_selector.clone()).filter(|s| !s.is_empty()),
        tolerations: Some(cluster.cache.tolerations.clone()).filter(|t| !t.is_empty()),
        affinity: Some(pod::affinity(pod::apart_if_possible(&selector), None)),
        topology_spread_constraints: Some(vec![pod::over_zones(&selector)]),
        volumes: Some(access.volumes.clone()).filter(|v| !v.is_empty()),
        containers: vec![container(cluster, table, access)],
        ..PodSpec::default()
    }
}

fn container(
    cluster: &ValidatedCluster,
    table: &ReadStateRingSpec,
    access: store::Access,
) -> Container {
    let mut mounts = access.mounts;
    if let Store::Embedded(_) = &cluster.store {
        mounts.push(pod::mount(pod::DATA, store::EMBEDDED_PATH));
    }
    Container {
        name: "readstates".to_owned(),
        image: Some(cluster.image.clone()),
        image_pull_policy: cluster.pull_policy.clone(),
        args: Some(vec!["serve".to_owned()]),
        env: Some(
            environment(cluster, table)
                .into_iter()
                .chain(access.env)
                .collect(),
        ),
        ports: Some(vec![
            ports::container(ports::HTTP_NAME, ports::HTTP),
            ports::container(ports::ADMIN_NAME, ports::ADMIN),
        ]),
        resources: Some(cluster.cache.resources.clone()),
        security_context: Some(pod::restricted_container(true)),
        startup_probe: Some(pod::http_probe(
            "/livez",
            ports::HTTP_NAME,
            Patience {
                period_seconds: 2,
                failures: 60,
            },
        )),
        liveness_probe: Some(pod::http_probe(
            "/livez",
            ports::HTTP_NAME,
            Patience {
                period_seconds: 10,
                failures: 6,
            },
        )),
        readiness_probe: Some(pod::http_probe(
            "/readyz",
            ports::HTTP_NAME,
            Patience {
                period_seconds: 3,
                failures: 2,
            },
        )),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts).filter(|m| !m.is_empty()),
        ..Container::default()
    }
}

fn environment(cluster: &ValidatedCluster, table: &ReadStateRingSpec) -> Vec<EnvVar> {
    let members: Vec<_> = table
        .members
        .iter()
        .map(|m| format!("{}={}", m.name, m.url))
        .collect();
    vec![
        env::field(env::MEMBER, "metadata.name"),
        env::value(env::MEMBERS, members.join(",")),
        env::value(env::RING_NUMBER, table.number.to_string()),
        env::value(env::LISTEN, format!("0.0.0.0:{}", ports::HTTP)),
        env::value(env::ADMIN_LISTEN, format!("0.0.0.0:{}", ports::ADMIN)),
        env::value(env::STORE, store::url(cluster)),
        env::value(
            env::FLUSH_INTERVAL,
            format!("{}ms", cluster.cache.flush_interval.as_millis()),
        ),
        env::value(
            env::CAPACITY_STATES,
            cluster.cache.capacity_states.to_string(),
        ),
        env::value(env::DRAIN_TIMEOUT, DRAIN_TIMEOUT),
    ]
}
