//! What is known of Cassandra.

use super::Cassandra;
use crate::{
    engine::{Access, LocalNode, Profile},
    start::{Dialect, address},
    wire::Node,
};

pub(crate) static PROFILE: Profile = Profile {
    name: "cassandra",
    title: "Apache Cassandra",
    image: "cassandra:5.0.9",
    variables: &[
        "CASSANDRA_",
        "JVM_EXTRA_OPTS",
        "MAX_HEAP_SIZE",
        "HEAP_NEWSIZE",
        "LOCAL_JMX",
        "POD_",
    ],
    folders: &["/var/lib/cassandra", "/var/log/cassandra"],
    // JMX.
    ports: &[7199],
    superuser: "cassandra",
    internode_by_stages: true,
    inner_settings: true,
    developer_mode: false,
    // A JVM collects garbage on more CPUs than it asks for.
    own_cpus: false,
    only_pkcs8: true,
    metrics_port: None,
    starts_together: false,
    rewrites: true,
    // Each major release upgrades from any of the one before it.
    may_follow: |old, new| new.major <= old.major + 1,
    reach,
    disk_figures: None,
    start: Dialect {
        seeds: "CASSANDRA_SEEDS",
        ipv6: IPV6,
        replace,
    },
};

/// Clients reach it by every address of the pod, and its JVM, which its image keeps to IPv4, speaks IPv6. Quoted: YAML
/// takes a colon at the end for a key. No `preferIPv6Addresses`: JMX would listen on `::1`, where neither `nodetool`
/// nor the agent asks.
const IPV6: &str = "\
export CASSANDRA_RPC_ADDRESS='\"::\"'
export JVM_EXTRA_OPTS=\"${JVM_EXTRA_OPTS:-} -Djava.net.preferIPv4Stack=false\"
";

fn reach(access: Access) -> reqwest::Result<Box<dyn LocalNode>> {
    let Access {
        admin,
        nodetool,
        address,
    } = access;
    Ok(Box::new(Cassandra {
        nodetool,
        address: address.map(|ip| ip.to_string()).unwrap_or_default(),
        jmx: admin,
    }))
}

/// It does not wait for nodes that are down.
fn replace(lost: &Node, _ignore_dead: &[String]) -> Result<String, String> {
    let lost = address(&lost.address)?;
    let option = format!("-Dcassandra.replace_address_first_boot={lost}");
    Ok(format!(
        "export JVM_EXTRA_OPTS=\"${{JVM_EXTRA_OPTS:-}} {option}\"\n"
    ))
}
