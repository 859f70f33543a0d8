//! `ScyllaDB`, by the options of its official image and the advice of its documentation.

use k8s_openapi::{
    api::core::v1::{Container, ContainerPort, PodSecurityContext, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};

use super::{Config, DATACENTER, Members, Place, agent};
use crate::{
    build::{env, pod, ports},
    validate::Amount,
};

/// The image's entrypoint, with what the start file says.
const START: &str = "/docker-entrypoint.py \"$@\" --seeds \"$SCYLLA_SEEDS\" ${SCYLLA_REPLACE:-}";

pub(super) struct Scylla;

impl Members for Scylla {
    fn container(&self, place: &Place<'_>) -> Container {
        let resources = &place.database.resources;
        let overprovisioned = if guaranteed(resources) { "0" } else { "1" };
        let mut args = vec![
            "--cluster-name".to_owned(),
            place.cluster_name.clone(),
            "--endpoint-snitch".to_owned(),
            "GossipingPropertyFileSnitch".to_owned(),
        ];
        for (option, value) in [
            ("--listen-address", "$(POD_IP)"),
            ("--broadcast-address", "$(POD_IP)"),
            ("--rpc-address", "0.0.0.0"),
            ("--broadcast-rpc-address", "$(POD_IP)"),
            // Whoever reaches the REST API can wipe the node.
            ("--api-address", "127.0.0.1"),
            // The image's own default is a mode for laptops that skips every check.
            ("--developer-mode", "0"),
            ("--overprovisioned", overprovisioned),
            ("--authenticator", "PasswordAuthenticator"),
            ("--authorizer", "CassandraAuthorizer"),
        ] {
            args.extend([option.to_owned(), value.to_owned()]);
        }
        if let Some(shards) = shards(resources) {
            args.extend(["--smp".to_owned(), shards.to_string()]);
        }
        Container {
            command: Some(
                [
                    agent::start_with(place, self.data_path(), START),
                    // What `$0` is; the arguments come after it.
                    vec!["scylla".to_owned()],
                ]
                .concat(),
            ),
            args: Some(args),
            env: Some(vec![env::field("POD_IP", "status.podIP")]),
            ..Container::default()
        }
    }

    fn data_path(&self) -> &'static str {
        "/var/lib/scylla"
    }

    fn admin(&self) -> String {
        "127.0.0.1:10000".to_owned()
    }

    /// The image's start script and supervisor run as root.
    fn security(&self) -> PodSecurityContext {
        PodSecurityContext {
            seccomp_profile: Some(pod::default_seccomp()),
            ..PodSecurityContext::default()
        }
    }

    fn ports(&self) -> Vec<ContainerPort> {
        vec![ports::container("cql-shard-aware", ports::SHARD_AWARE)]
    }

    fn config(&self, place: &Place<'_>) -> Option<Config> {
        Some(Config {
            file: "cassandra-rackdc.properties",
            text: format!(
                "dc={DATACENTER}\nrack={}\nprefer_local=false\n",
                place.rack.name
            ),
            path: "/etc/scylla/cassandra-rackdc.properties",
        })
    }
}

/// One shard for each whole CPU of the limit; without a limit `ScyllaDB` takes every CPU it sees.
fn shards(resources: &ResourceRequirements) -> Option<u64> {
    let limit = resources.limits.as_ref()?.get("cpu")?;
    Some(Amount::parse(&limit.0)?.units().max(1))
}

/// Whether the kubelet gives this pod CPUs and memory of its own: requests equal limits for both.
fn guaranteed(resources: &ResourceRequirements) -> bool {
    let amount = |amounts: &Option<std::collections::BTreeMap<String, Quantity>>, name: &str| {
        amounts
            .as_ref()
            .and_then(|a| a.get(name))
            .and_then(|q| Amount::parse(&q.0))
    };
    ["cpu", "memory"].into_iter().all(|name| {
        let limit = amount(&resources.limits, name);
        // A request that is not given is the limit.
        let request = amount(&resources.requests, name).or(limit);
        limit.is_some() && limit == request
    })
}
