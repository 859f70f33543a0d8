//! Services: one for clients, and two headless ones that give pods names of their own.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use readstates_operator_api::{IpFamilyPolicy, ServiceSpec as Wanted, labels::Component};

use crate::{names::ports, spec::ValidatedCluster, templates};

/// Where clients find the API: any ready cache pod.
pub(super) fn cache(cluster: &ValidatedCluster) -> Service {
    let Wanted {
        type_,
        annotations,
        load_balancer_class,
        load_balancer_source_ranges,
        external_traffic_policy,
        ip_family_policy,
        traffic_distribution,
    } = cluster
        .cache
        .service
        .as_deref()
        .cloned()
        .unwrap_or_default();
    let mut metadata = cluster.id.child(cluster.id.cache(), Component::Cache);
    metadata.annotations = annotations;
    // Said always: the API server keeps the second family of a Service that says nothing any more.
    let families = ip_family_policy.unwrap_or(IpFamilyPolicy::SingleStack);
    Service {
        metadata,
        spec: Some(ServiceSpec {
            selector: Some(cluster.id.selector(Component::Cache)),
            ports: Some(vec![api(cluster)]),
            type_: type_.map(|type_| type_.as_str().to_owned()),
            load_balancer_class,
            load_balancer_source_ranges,
            external_traffic_policy: external_traffic_policy.map(|p| p.as_str().to_owned()),
            ip_family_policy: Some(families.as_str().to_owned()),
            traffic_distribution: traffic_distribution.map(|d| d.as_str().to_owned()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Names for cache pods. Members reach each other before and after they are ready.
pub(super) fn cache_members(cluster: &ValidatedCluster) -> Service {
    headless(
        cluster,
        cluster.id.cache_members(),
        Component::Cache,
        vec![
            api(cluster),
            port(ports::ADMIN_NAME, ports::ADMIN),
            port(ports::MEMBERS_NAME, ports::MEMBERS),
            port(ports::METRICS_NAME, ports::WATCH),
        ],
    )
}

/// Names for database pods. A seed must be found before it is ready.
pub(super) fn database(cluster: &ValidatedCluster) -> Service {
    headless(
        cluster,
        cluster.id.database(),
        Component::Database,
        vec![
            port(ports::CQL_NAME, ports::CQL),
            port(ports::INTERNODE_NAME, ports::INTERNODE),
        ],
    )
}

fn headless(
    cluster: &ValidatedCluster,
    name: String,
    component: Component,
    ports: Vec<ServicePort>,
) -> Service {
    Service {
        metadata: cluster.id.child(name, component),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(cluster.id.selector(component)),
            ports: Some(ports),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The port keeps its name with TLS, since others may refer to it; `appProtocol` tells proxies and meshes.
fn api(cluster: &ValidatedCluster) -> ServicePort {
    let tls = cluster.cache.tls.is_some();
    ServicePort {
        app_protocol: tls.then(|| templates::scheme(cluster).to_owned()),
        ..port(ports::HTTP_NAME, ports::HTTP)
    }
}

/// By number: pods of the release before call the API's port otherwise.
fn port(name: &str, port: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: i32::from(port),
        target_port: Some(IntOrString::Int(i32::from(port))),
        ..ServicePort::default()
    }
}
