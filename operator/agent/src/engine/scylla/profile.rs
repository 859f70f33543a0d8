//! What is known of `ScyllaDB`.

use super::Scylla;
use crate::{
    engine::{Access, Line, LocalNode, Profile},
    start::{Dialect, identity},
    wire::Node,
};

pub(crate) static PROFILE: Profile = Profile {
    name: "scylla",
    title: "ScyllaDB",
    image: "scylladb/scylla:2025.1.13",
    variables: &["SCYLLA_", "POD_"],
    folders: &["/etc/scylla", "/var/lib/scylla"],
    // TLS between nodes, the REST API, and CQL by shard.
    ports: &[7001, 10000, 19042],
    superuser: "cassandra",
    internode_by_stages: false,
    inner_settings: false,
    developer_mode: true,
    // A shard has its CPU to itself.
    own_cpus: true,
    only_pkcs8: false,
    metrics_port: Some(9180),
    starts_together: true,
    // Compaction writes new files in the new format.
    rewrites: false,
    may_follow,
    reach,
    disk_figures: Some("SCYLLA_IO"),
    start: Dialect {
        seeds: "SCYLLA_SEEDS",
        // Clients reach it by every address of the pod.
        ipv6: "export SCYLLA_ADDRESSES='--rpc-address :: --enable-ipv6-dns-lookup 1'\n",
        replace,
    },
};

/// Releases are named by years since 2025, and the last one before was 6.2: a year begins with its first release, which
/// follows any of the year before.
fn may_follow(old: Line, new: Line) -> bool {
    const FIRST: u32 = 2025;
    const LAST_BEFORE: Line = Line { major: 6, minor: 2 };
    let begins = new.minor == 1;
    match (old.major >= 2024, new.major >= FIRST) {
        (true, _) => new.major == old.major || (new.major == old.major + 1 && begins),
        (false, true) => old == LAST_BEFORE && new.major == FIRST && begins,
        (false, false) => {
            let next_minor = new.major == old.major && new.minor <= old.minor + 1;
            next_minor || (new.major == old.major + 1 && new.minor == 0)
        }
    }
}

fn reach(access: Access) -> reqwest::Result<Box<dyn LocalNode>> {
    let Access {
        admin,
        nodetool: _,
        address: _,
    } = access;
    Ok(Box::new(Scylla::new(format!("http://{admin}"))?))
}

/// Nodes that are down are named, or it waits for them.
fn replace(lost: &Node, ignore_dead: &[String]) -> Result<String, String> {
    let lost = identity(&lost.host_id)?;
    let dead = ignore_dead.iter().map(|id| identity(id));
    let dead = dead.collect::<Result<Vec<_>, _>>()?.join(",");
    let ignored = if dead.is_empty() {
        String::new()
    } else {
        format!(" --ignore-dead-nodes-for-replace {dead}")
    };
    Ok(format!(
        "export SCYLLA_REPLACE='--replace-node-first-boot {lost}{ignored}'\n"
    ))
}
