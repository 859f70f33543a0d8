//! The StatefulSet of the cache.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy},
        core::v1::{Container, EnvVar, PodSpec, PodTemplateSpec, ResourceRequirements},
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use readstates_identity::Role;
use readstates_operator_api::{
    fingerprint::fingerprint,
    labels::{self, Component},
};

use super::{
    access, api_tls, env, identity, overlay,
    pod::{self, Patience},
    service_account, store,
};
use crate::{
    names::{self, CACHE, ports},
    spec::{Amount, Store, ValidatedCluster},
    templates::Template,
};

/// The user our images run as.
pub(super) const USER: i64 = 65532;

/// Time for a pod to hand on or write all it holds: it gives up a little before the kubelet does, so
/// that it can say how much it could not write.
///
/// There is no preStop hook. A process drains when it is told to stop, and a hook could only begin the same a moment
/// earlier: it would have to wait for the end of the drain, since the kubelet sends SIGTERM when the hook ends, and it
/// runs neither when a node is short of memory nor when a container fails.
const GRACE_SECONDS: i64 = 300;
const DRAIN_TIMEOUT: &str = "270s";

const MEMORY: &str = "memory";

/// So many pods. They change by deletion alone, one drained pod at a time: a controller that replaces
/// pods by itself knows nothing of slots.
pub(super) fn stateful_set(
    cluster: &ValidatedCluster,
    replicas: i32,
    template: &Template,
    restarted: Option<&String>,
) -> StatefulSet {
    let id = &cluster.id;
    let claims = match &cluster.store {
        Store::Embedded(volume) => Some(vec![pod::claim(volume)]),
        Store::Managed(_) | Store::External(_) => None,
    };
    let (mut template, hashes) = match template {
        Template::Wanted => {
            let hashes = (template_hash(cluster), cluster.cache_spec_hash());
            (pod_template(cluster), Some(hashes))
        }
        Template::Held {
            template,
            template_hash,
            spec_hash,
        } => (
            template.as_ref().clone(),
            template_hash.clone().zip(spec_hash.clone()),
        ),
    };
    pod::restarted(&mut template, restarted);
    let mut metadata = id.child(id.cache(), Component::Cache);
    metadata.annotations = hashes.map(|(template, spec)| {
        [
            (labels::TEMPLATE_HASH.to_owned(), template),
            (labels::SPEC_HASH.to_owned(), spec),
        ]
        .into()
    });
    StatefulSet {
        metadata,
        spec: Some(StatefulSetSpec {
            replicas: Some(replicas),
            service_name: Some(id.cache_members()),
            // Members do not wait for each other.
            pod_management_policy: Some("Parallel".to_owned()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".to_owned()),
                rolling_update: None,
            }),
            selector: pod::selector(&id.selector(Component::Cache)),
            template,
            volume_claim_templates: claims,
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// The pods as they should be.
fn pod_template(cluster: &ValidatedCluster) -> PodTemplateSpec {
    let mut template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels::all(&cluster.id.name, Component::Cache)),
            annotations: store::annotations(cluster),
            ..ObjectMeta::default()
        }),
        spec: Some(pod_spec(cluster)),
    };
    overlay::over(&mut template, cluster.cache.overlay.as_deref(), CACHE);
    let hash = fingerprint(&lasting(cluster, template.clone()));
    let metadata = template.metadata.get_or_insert_default();
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(labels::REPLACE_HASH.to_owned(), hash);
    template
}

/// The part of a template that is fixed for the life of a pod: all but the capacity, which its process can be told to
/// change, and the memory that follows from it.
fn lasting(cluster: &ValidatedCluster, mut template: PodTemplateSpec) -> PodTemplateSpec {
    let mut containers = template.spec.iter_mut().flat_map(|s| &mut s.containers);
    if let Some(container) = containers.find(|c| c.name == CACHE) {
        let environment = container.env.iter_mut();
        environment.for_each(|env| env.retain(|v| v.name != env::CAPACITY_STATES));
        let requests = container
            .resources
            .as_mut()
            .and_then(|r| r.requests.as_mut());
        if let Some(requests) = requests.filter(|_| cluster.cache.resources_by_capacity) {
            requests.remove(MEMORY);
        }
    }
    template
}

/// Bytes of memory that the pods of this template ask for.
#[must_use]
pub fn memory(spec: &PodSpec) -> Option<u64> {
    let container = spec.containers.iter().find(|c| c.name == CACHE)?;
    memory_of(container.resources.as_ref()?)
}

/// Bytes of memory that these ask for.
#[must_use]
pub fn memory_of(resources: &ResourceRequirements) -> Option<u64> {
    let given = |amounts: &Option<BTreeMap<String, Quantity>>| {
        Amount::parse(&amounts.as_ref()?.get(MEMORY)?.0)
    };
    // A request that is not given is the limit.
    let amount = given(&resources.requests).or_else(|| given(&resources.limits))?;
    Some(amount.units())
}

/// Hash of the pods as they should be.
#[must_use]
pub fn template_hash(cluster: &ValidatedCluster) -> String {
    fingerprint(&pod_template(cluster))
}

fn pod_spec(cluster: &ValidatedCluster) -> PodSpec {
    let selector = cluster.id.selector(Component::Cache);
    let mut needs = store::access(cluster);
    needs.extend(access::of(cluster));
    needs.extend(api_tls::of(cluster));
    let (volume, mount) = identity::volume(cluster, Role::Member);
    needs.volumes.push(volume);
    needs.mounts.push(mount);
    let some = |v: Vec<_>| Some(v).filter(|v: &Vec<_>| !v.is_empty());
    let placement = &cluster.cache.placement;
    PodSpec {
        service_account_name: Some(service_account::name(cluster, Component::Cache)),
        // For the ring and the leases; see `role`.
        automount_service_account_token: Some(true),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        security_context: Some(pod::restricted(USER)),
        image_pull_secrets: some(cluster.pull_secrets.clone()),
        node_selector: placement.node_selector.clone(),
        tolerations: placement.tolerations.clone(),
        priority_class_name: placement.priority_class.clone(),
        affinity: Some(pod::affinity(pod::apart_if_possible(&selector), None)),
        topology_spread_constraints: Some(vec![pod::over_zones(&selector)]),
        volumes: Some(needs.volumes.clone()),
        containers: vec![container(cluster, needs)],
        ..PodSpec::default()
    }
}

fn container(cluster: &ValidatedCluster, access: store::Access) -> Container {
    let mut mounts = access.mounts;
    if let Store::Embedded(_) = &cluster.store {
        mounts.push(pod::mount(pod::DATA, store::EMBEDDED_PATH));
    }
    Container {
        name: CACHE.to_owned(),
        image: Some(cluster.image.clone()),
        image_pull_policy: cluster.pull_policy.clone(),
        // An argument, so that a program that knows no ring does not run alone by mistake.
        args: Some(
            ["serve", "--ring", "kubernetes"]
                .map(str::to_owned)
                .to_vec(),
        ),
        env: Some(environment(cluster).into_iter().chain(access.env).collect()),
        ports: Some(vec![
            pod::port(ports::API_NAME, ports::HTTP),
            pod::port(ports::ADMIN_NAME, ports::ADMIN),
            pod::port(ports::MEMBERS_NAME, ports::MEMBERS),
            pod::port(ports::WATCH_NAME, ports::WATCH),
        ]),
        resources: Some(cluster.cache.resources.clone()),
        security_context: Some(pod::restricted_container(true)),
        startup_probe: Some(pod::http_probe(
            "/livez",
            ports::WATCH_NAME,
            Patience {
                period_seconds: 2,
                failures: 60,
            },
        )),
        liveness_probe: Some(pod::http_probe(
            "/livez",
            ports::WATCH_NAME,
            Patience {
                period_seconds: 10,
                failures: 6,
            },
        )),
        readiness_probe: Some(pod::http_probe(
            "/readyz",
            ports::WATCH_NAME,
            Patience {
                period_seconds: 3,
                failures: 2,
            },
        )),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

fn environment(cluster: &ValidatedCluster) -> Vec<EnvVar> {
    let id = &cluster.id;
    // The kubelet puts the pod's name in the place of $(…).
    let host = format!(
        "$({}).{}.{}.svc",
        env::MEMBER,
        id.cache_members(),
        id.namespace
    );
    let flush_mode = cluster.cache.flush_mode;
    let flush_mode = flush_mode.map(|mode| env::value(env::FLUSH_MODE, mode.as_str()));
    let durability = cluster.cache.durability;
    let durability = durability.map(|mode| env::value(env::DURABILITY, mode.as_str()));
    let mut environment = vec![
        env::field(env::MEMBER, "metadata.name"),
        env::value(
            env::ADVERTISE,
            format!("{}://{host}:{}", api_tls::scheme(cluster), ports::HTTP),
        ),
        // Kubernetes 1.35 and later put the node's zone on the pod. Before, it is empty: not known.
        env::field(env::ZONE, &format!("metadata.labels['{}']", labels::ZONE)),
        env::value(env::RING_NAMESPACE, id.namespace.clone()),
        env::value(env::RING_NAME, id.cache()),
        env::value(env::LISTEN, format!("{}:{}", ports::ANY, ports::HTTP)),
        env::value(
            env::ADMIN_LISTEN,
            format!("{}:{}", ports::ANY, ports::ADMIN),
        ),
        env::value(
            env::MEMBERS_LISTEN,
            format!("{}:{}", ports::ANY, ports::MEMBERS),
        ),
        env::value(
            env::WATCH_LISTEN,
            format!("{}:{}", ports::ANY, ports::WATCH),
        ),
        env::value(env::MEMBERS_TLS_DIR, identity::PATH),
        env::value(names::STORE, store::url(cluster)),
        env::value(
            env::FLUSH_INTERVAL,
            format!("{}ms", cluster.cache.flush_interval.as_millis()),
        ),
        env::value(
            env::CAPACITY_STATES,
            cluster.cache.capacity_states.to_string(),
        ),
        env::value(env::DRAIN_TIMEOUT, DRAIN_TIMEOUT),
    ];
    environment.extend(flush_mode);
    environment.extend(durability);
    environment
}
