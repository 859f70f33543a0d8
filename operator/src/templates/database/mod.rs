//! The database: one StatefulSet a rack. What is the same for every engine is here; what differs in its pods is behind
//! [`Nodes`], one module each. What else differs is in the engine's profile, in the crate of the agent.

pub(super) mod agent;
mod cassandra;
mod certificates;
mod scylla;
pub(super) mod super_disk;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{
            RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec,
            StatefulSetUpdateStrategy,
        },
        core::v1::{
            ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, ExecAction, Lifecycle,
            LifecycleHandler, PersistentVolumeClaim, PodSecurityContext, PodSpec, PodTemplateSpec,
            Probe, ResourceRequirements, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use readstates_operator_api::{
    Engine, InternodeTls, VolumesOf,
    fingerprint::fingerprint,
    labels::{self, Component},
};

use self::certificates::Certificates;
use super::{
    overlay,
    pod::{self, Patience},
    service_account,
};
use crate::{
    names::{DATABASE, ports},
    spec::{Database, Rack, ValidatedCluster},
    templates::{RackStep, Template},
};

/// Name of the one data center that a managed database has.
pub(super) const DATACENTER: &str = "dc1";

/// Time for a member to write its memory to disk and say goodbye.
const GRACE_SECONDS: i64 = 900;

/// The image of the engine in pods that are made from this template.
#[must_use]
pub fn database_image(template: &PodTemplateSpec) -> Option<&str> {
    let mut containers = template.spec.as_ref()?.containers.iter();
    containers
        .find(|one| one.name == DATABASE)?
        .image
        .as_deref()
}

/// How far nodes of this template encrypt their traffic with each other, for an engine that changes that by stages.
#[must_use]
pub fn internode_of(engine: Engine, template: &PodTemplateSpec) -> InternodeTls {
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    let mut node = containers.filter(|one| one.name == DATABASE);
    node.next().map_or(InternodeTls::Disabled, |node| {
        nodes(engine).internode_of(node)
    })
}

/// A node's place in the database.
struct Place<'a> {
    database: &'a Database,
    rack: &'a Rack,
    /// Name of the database cluster: unique, and never changed.
    cluster_name: String,
    /// Name of the rack's StatefulSet.
    name: String,
}

/// What is special about the nodes of one engine.
trait Nodes {
    /// The container that runs a node: image, environment, arguments. Ports, probes, resources
    /// and the data volume are added to it.
    fn container(&self, place: &Place<'_>) -> Container;

    /// Where the engine keeps its data.
    fn data_path(&self) -> &'static str;

    /// Where its admin port listens, on loopback.
    fn admin(&self) -> String;

    /// How far a node with this container encrypts its traffic with others.
    fn internode_of(&self, node: &Container) -> InternodeTls;

    /// Which user it runs as, and with which rights.
    fn security(&self) -> PodSecurityContext;

    /// Folders that it writes besides its data, by the volume's name: for as long as the pod lives.
    fn scratch(&self) -> &'static [(&'static str, &'static str)];

    /// Ports of its own, beside CQL and the one between nodes.
    fn ports(&self) -> Vec<ContainerPort>;

    /// Files it reads, and the pod's volumes for them.
    fn config(&self, place: &Place<'_>) -> Option<Config>;

    /// What the agent beside it needs.
    fn agent(&self) -> agent::Needs;

    /// Whether it gets CPUs of its own with these resources, if no container beside it spoils that.
    fn exclusive(&self, resources: &ResourceRequirements) -> bool;

    /// How the pod's containers get its certificate: from the volume of the Secret's files, mounted so. `internode`: the
    /// CAs of the other nodes are among them.
    fn certificates(&self, files: Volume, mount: VolumeMount, internode: bool) -> Certificates;
}

/// A ConfigMap's content and how it is mounted.
struct Config {
    file: &'static str,
    text: String,
    path: &'static str,
}

/// The template that a rack gets with another image of the engine than the spec asks for. `spec_hash` is the one that
/// racks with this image have; without it, the rack is updated later, as after a change of the spec.
#[must_use]
pub fn template_with_image(
    cluster: &ValidatedCluster,
    database: &Database,
    rack: &Rack,
    (image, spec_hash): (&str, Option<&String>),
) -> Template {
    let mut other = database.clone();
    image.clone_into(&mut other.image);
    let spec_hash = spec_hash.cloned();
    Template::Held {
        template: Box::new(pod_template(cluster, &other, rack)),
        template_hash: Some(template_hash(cluster, &other, rack)),
        spec_hash: spec_hash.or_else(|| Some(fingerprint(&(image, database.spec_hash(None))))),
    }
}

fn nodes(engine: Engine) -> &'static dyn Nodes {
    match engine {
        Engine::Cassandra => &cassandra::Cassandra,
        Engine::Scylla => &scylla::Scylla,
    }
}

fn place<'a>(cluster: &ValidatedCluster, database: &'a Database, rack: &'a Rack) -> Place<'a> {
    let id = &cluster.id;
    // A node does not start on data of another cluster's name.
    let (namespace, name) = match &database.volumes_of {
        Some(VolumesOf { namespace, name }) => (namespace, name),
        None => (&id.namespace, &id.name),
    };
    Place {
        database,
        rack,
        cluster_name: format!("{namespace}.{name}"),
        name: id.rack(&rack.name),
    }
}

/// The StatefulSet of a rack after `step`.
#[must_use]
pub fn rack(
    cluster: &ValidatedCluster,
    database: &Database,
    rack: &Rack,
    step: &RackStep,
    exclusive: bool,
) -> StatefulSet {
    let id = &cluster.id;
    let RackStep {
        rack: _,
        members,
        partition,
        template,
        restarted,
        parallel,
        claim_size,
        version,
    } = step;
    let labels = |labels| with_rack(labels, rack);
    let mut metadata = id.child(id.rack(&rack.name), Component::Database);
    metadata.labels = metadata.labels.map(labels);
    metadata.resource_version.clone_from(version);
    let (mut template, hashes) = match template {
        Template::Wanted => (
            pod_template(cluster, database, rack),
            Some((
                template_hash(cluster, database, rack),
                database.spec_hash(claim_size.as_ref()),
            )),
        ),
        Template::Held {
            template,
            template_hash,
            spec_hash,
        } => (
            template.as_ref().clone(),
            template_hash.clone().zip(spec_hash.clone()),
        ),
    };
    pod::restarted(&mut template, restarted.as_ref());
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
            replicas: Some(*members),
            service_name: Some(id.database()),
            pod_management_policy: Some(
                if *parallel {
                    "Parallel"
                } else {
                    "OrderedReady"
                }
                .to_owned(),
            ),
            // Pods from this ordinal on get the template: one more whenever all nodes are well.
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateStatefulSetStrategy {
                    partition: Some(*partition),
                    ..RollingUpdateStatefulSetStrategy::default()
                }),
            }),
            selector: pod::selector(&labels(id.selector(Component::Database))),
            template,
            volume_claim_templates: Some(vec![claim(database, claim_size.as_ref(), exclusive)]),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// `size`: the one at which claims are made already. `exclusive`: a super-disk is for one pod, unless its claims were made
/// otherwise.
pub(super) fn claim(
    database: &Database,
    size: Option<&Quantity>,
    exclusive: bool,
) -> PersistentVolumeClaim {
    let mut volume = database.volume.clone();
    if let Some(size) = size {
        volume.size.clone_from(size);
    }
    let claim = pod::claim(&volume);
    match database.super_disk {
        Some(_) => super_disk::block(claim, exclusive),
        None => claim,
    }
}

pub(super) fn with_rack(
    mut labels: BTreeMap<String, String>,
    rack: &Rack,
) -> BTreeMap<String, String> {
    labels.insert(labels::RACK.to_owned(), rack.name.clone());
    labels
}

fn pod_template(cluster: &ValidatedCluster, database: &Database, rack: &Rack) -> PodTemplateSpec {
    let place = place(cluster, database, rack);
    let mut template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(with_rack(
                labels::all(&cluster.id.name, Component::Database),
                rack,
            )),
            annotations: Some(annotations(cluster)),
            ..ObjectMeta::default()
        }),
        spec: Some(pod_spec(cluster, nodes(database.engine), &place)),
    };
    overlay::over(&mut template, database.overlay.as_deref(), DATABASE);
    template
}

fn annotations(cluster: &ValidatedCluster) -> BTreeMap<String, String> {
    let mark = cluster.certificates.mark.clone();
    [(labels::AUTHENTICATION.to_owned(), "password".to_owned())]
        .into_iter()
        .chain(mark.map(|mark| (labels::CERTIFICATES.to_owned(), mark)))
        .collect()
}

/// Hash of the pods of a rack as they should be, with the files they read.
#[must_use]
pub fn template_hash(cluster: &ValidatedCluster, database: &Database, rack: &Rack) -> String {
    let files = config(cluster, database, rack).and_then(|c| c.data);
    fingerprint(&(pod_template(cluster, database, rack), files))
}

/// The name of an update of all racks' pods, which users consent to.
#[must_use]
pub fn update_name(cluster: &ValidatedCluster, database: &Database) -> String {
    let hashes: Vec<_> = database
        .racks
        .iter()
        .map(|rack| template_hash(cluster, database, rack))
        .collect();
    fingerprint(&hashes)[..8].to_owned()
}

/// Files of a rack's members, if the engine wants some.
#[must_use]
pub fn config(cluster: &ValidatedCluster, database: &Database, rack: &Rack) -> Option<ConfigMap> {
    let place = place(cluster, database, rack);
    let Config {
        file,
        text,
        path: _,
    } = nodes(database.engine).config(&place)?;
    Some(ConfigMap {
        metadata: cluster.id.child(place.name, Component::Database),
        data: Some([(file.to_owned(), text)].into()),
        ..ConfigMap::default()
    })
}

fn pod_spec(cluster: &ValidatedCluster, engine: &dyn Nodes, place: &Place<'_>) -> PodSpec {
    let all = cluster.id.selector(Component::Database);
    let config = engine.config(place);
    let zone = place.rack.zone.as_deref();
    let security = overlay::security(place.database.overlay.as_deref(), engine.security());
    let disk = place.database.super_disk.as_ref();
    let placement = &place.database.placement;
    let own = |disk| super_disk::containers(cluster, disk, &security);
    let mut disk_containers = disk.map(own).unwrap_or_default();
    for container in &mut disk_containers {
        container.resources = Some(agent::resources(engine, place, "32Mi", "256Mi"));
    }
    let disk_volumes = disk.map(|_| super_disk::volumes(&cluster.id));
    let secret = cluster.certificate_secret();
    let certificates = certificates::of(
        engine,
        secret.as_deref(),
        place.database.internode > InternodeTls::Disabled,
    );
    let disk_grace = disk.map_or(0, |_| super_disk::GRACE_SECONDS);
    PodSpec {
        service_account_name: Some(service_account::name(cluster, Component::Database)),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(GRACE_SECONDS + disk_grace),
        security_context: Some(security),
        image_pull_secrets: Some(cluster.pull_secrets.clone()).filter(|s| !s.is_empty()),
        // Two members on one node would be lost together, which the replication factor does not
        // count with: a member without a node of its own waits for one.
        affinity: Some(pod::affinity(pod::apart(&all), zone.map(pod::in_zone))),
        topology_spread_constraints: Some(vec![pod::over_zones(&all)]).filter(|_| zone.is_none()),
        volumes: Some(
            agent::volumes(cluster)
                .into_iter()
                .chain(config.as_ref().map(|_| config_volume(place)))
                .chain(engine.scratch().iter().map(|(name, _)| pod::empty(name)))
                .chain(disk_volumes.into_iter().flatten())
                .chain(certificates.volumes)
                .collect(),
        ),
        init_containers: Some(
            [
                disk_containers,
                agent::containers(cluster, engine, place, certificates.prepare),
            ]
            .concat(),
        ),
        containers: vec![container(
            cluster,
            engine,
            place,
            config.as_ref(),
            certificates.database,
        )],
        node_selector: placement.node_selector.clone(),
        tolerations: placement.tolerations.clone(),
        priority_class_name: placement.priority_class.clone(),
        ..PodSpec::default()
    }
}

fn container(
    cluster: &ValidatedCluster,
    engine: &dyn Nodes,
    place: &Place<'_>,
    config: Option<&Config>,
    certificates: Vec<VolumeMount>,
) -> Container {
    let agent = |path, period_seconds, failures| -> Option<Probe> {
        let patience = Patience {
            period_seconds,
            failures,
        };
        Some(pod::neighbour_probe(path, ports::AGENT_WATCH, patience))
    };
    let mut own_ports = vec![
        pod::port(ports::CQL_NAME, ports::CQL),
        pod::port(ports::INTERNODE_NAME, ports::INTERNODE),
    ];
    own_ports.extend(engine.ports());
    let mut mounts = vec![agent::data_mount(engine, place), agent::run_mount()];
    mounts.extend(certificates);
    let scratch = engine.scratch().iter();
    mounts.extend(scratch.map(|(name, path)| pod::mount(name, path)));
    mounts.extend(config.map(|c| VolumeMount {
        sub_path: Some(c.file.to_owned()),
        read_only: Some(true),
        ..pod::mount(CONFIG, c.path)
    }));
    Container {
        name: DATABASE.to_owned(),
        image: Some(place.database.image.clone()),
        image_pull_policy: cluster.pull_policy.clone(),
        ports: Some(own_ports),
        resources: Some(place.database.resources.clone()),
        // A node is alive if it answers at all: joining copies data, which can take hours, and a busy node must not be
        // killed for it. It is ready if it is a member and serves.
        startup_probe: agent("/livez", 5, 360),
        readiness_probe: agent("/readyz", 5, 2),
        liveness_probe: agent("/livez", 30, 10),
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                exec: Some(ExecAction {
                    command: Some(agent::drain(place, engine)),
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..engine.container(place)
    }
}

const CONFIG: &str = "config";

fn config_volume(place: &Place<'_>) -> Volume {
    Volume {
        name: CONFIG.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: place.name.clone(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}
