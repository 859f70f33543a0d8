//! `ScyllaDB`, by the options of its official image and the advice of its documentation.

use k8s_openapi::{
    api::core::v1::{
        Container, ContainerPort, PodSecurityContext, ResourceRequirements, Volume, VolumeMount,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use readstates_agent::engine::Profile;
use readstates_operator_api::InternodeTls;

use super::{
    Config, DATACENTER, Nodes, Place, agent,
    certificates::{self, Certificates},
};
use crate::{
    certificates::{CA, CERTIFICATE, KEY},
    names::ports,
    spec::Amount,
    templates::{env, pod},
};

/// The disk is measured once, on its first start, and what came of it is kept on it: in the file that the start
/// file names, unless this is no time to measure. Then the image's entrypoint, with what the start file says.
const START: &str = "\
io='--io-setup 0'
if [ -n \"${SCYLLA_IO:-}\" ]; then
  if ! [ -s \"$SCYLLA_IO\" ]; then
    iotune --evaluation-directory /var/lib/scylla --properties-file \"$SCYLLA_IO.new\" $cpus || exit 1
    mv \"$SCYLLA_IO.new\" \"$SCYLLA_IO\" || exit 1
  fi
  io=\"$io --io-properties-file=$SCYLLA_IO\"
fi
exec /docker-entrypoint.py \"$@\" --seeds \"$SCYLLA_SEEDS\" ${SCYLLA_ADDRESSES:---rpc-address 0.0.0.0} \
${SCYLLA_REPLACE:-} $cpus $io";

/// One reactor on each CPU that the kubelet has set aside for this container alone, where it has: then it sees as
/// many as it has shards, and no others. Which they are is in a file of another name with version 1 of cgroups; without
/// one of them nothing is pinned.
const PIN: &str = "\
if [ \"$(nproc)\" = \"$shards\" ]; then
  for own in /sys/fs/cgroup/cpuset.cpus.effective /sys/fs/cgroup/cpuset/cpuset.effective_cpus; do
    if [ -s \"$own\" ]; then cpus=\"$cpus --cpuset $(cat \"$own\")\"; break; fi
  done
fi
";

/// The superuser's first password in a new database, as crypt(3) has it: the schema Job logs in with it once, to set a
/// different one. `ScyllaDB` before 2026.2 creates this superuser by itself. The database ignores name and password where
/// there is a superuser already.
const FIRST_PASSWORD: &str = "$6$readstates$EMuIw2y7cEY1qVqAdcN.pSakRGivCg1.HaJ0ui6h34V9i/q.UQFAD4w6TWOvxZaF3gxnQ6/hqw3YLxLMxRjhf.";

/// CQL over TLS and no other way, on all its ports; and between nodes, where that is asked for. The image's own settings
/// have no such sections.
fn tls(internode: bool) -> String {
    let path = certificates::PATH;
    let between_nodes = if internode {
        format!(
            "\
server_encryption_options:
  internode_encryption: all
  certificate: {path}/{CERTIFICATE}
  keyfile: {path}/{KEY}
  truststore: {path}/{CA}
  require_client_auth: true
"
        )
    } else {
        String::new()
    };
    format!(
        "cat >>/etc/scylla/scylla.yaml <<'TLS' || exit 1
client_encryption_options:
  enabled: true
  certificate: {path}/{CERTIFICATE}
  keyfile: {path}/{KEY}
{between_nodes}TLS
"
    )
}

pub(super) struct Scylla;

impl Nodes for Scylla {
    fn container(&self, place: &Place<'_>) -> Container {
        let profile = Profile::of(place.database.engine);
        let resources = &place.database.resources;
        let guaranteed = guaranteed(resources);
        let overprovisioned = if guaranteed { "0" } else { "1" };
        let shards = shards(resources);
        let pin = if guaranteed { PIN } else { "" };
        let tls = place
            .database
            .tls
            .as_ref()
            .map(|_| tls(place.database.internode > InternodeTls::Disabled))
            .unwrap_or_default();
        let developer_mode = place.database.developer_mode;
        // A disk that may be anything is not measured.
        let unmeasured = if developer_mode {
            "unset SCYLLA_IO\n"
        } else {
            ""
        };
        let start =
            format!("{unmeasured}shards={shards}\ncpus=\"--smp $shards\"\n{pin}{tls}{START}");
        let mut args = vec![
            "--cluster-name".to_owned(),
            place.cluster_name.clone(),
            "--endpoint-snitch".to_owned(),
            "GossipingPropertyFileSnitch".to_owned(),
        ];
        for (option, value) in [
            ("--listen-address", "$(POD_IP)"),
            ("--broadcast-address", "$(POD_IP)"),
            ("--broadcast-rpc-address", "$(POD_IP)"),
            // Access to the REST API is enough to wipe the node.
            ("--api-address", "127.0.0.1"),
            // The image's own default is a mode for laptops that skips every check.
            ("--developer-mode", if developer_mode { "1" } else { "0" }),
            ("--overprovisioned", overprovisioned),
            ("--authenticator", "PasswordAuthenticator"),
            ("--authorizer", "CassandraAuthorizer"),
            ("--auth-superuser-name", profile.superuser),
            ("--auth-superuser-salted-password", FIRST_PASSWORD),
        ] {
            args.extend([option.to_owned(), value.to_owned()]);
        }
        // Asks the maker's servers daily, and tells them the version and an identity of the node.
        args.push("--disable-version-check".to_owned());
        // Whatever the image does not know it hands on, and the server has an option for every setting.
        for (name, value) in &place.database.settings {
            args.extend([format!("--{}", name.replace('_', "-")), value.clone()]);
        }
        Container {
            command: Some(
                [
                    agent::start_with(place, self.data_path(), &start),
                    // What `$0` is; the arguments come after it.
                    vec!["scylla".to_owned()],
                ]
                .concat(),
            ),
            args: Some(args),
            env: Some(vec![env::field("POD_IP", "status.podIP")]),
            // Its start script writes to half a dozen folders of its root. Without the capability to raise its priority
            // a reactor's timer says so, and works.
            security_context: Some(pod::restricted_container(false)),
            ..Container::default()
        }
    }

    fn data_path(&self) -> &'static str {
        "/var/lib/scylla"
    }

    fn admin(&self) -> String {
        "127.0.0.1:10000".to_owned()
    }

    /// It has no stages that could be read.
    fn internode_of(&self, _: &Container) -> InternodeTls {
        InternodeTls::Disabled
    }

    /// The image's start script and supervisor run as root, whose files the data is then. So do the containers beside
    /// it, which sign the disk; of what root may do they all have nothing but its files.
    fn security(&self) -> PodSecurityContext {
        PodSecurityContext {
            run_as_user: Some(0),
            run_as_group: Some(0),
            seccomp_profile: Some(pod::default_seccomp()),
            ..PodSecurityContext::default()
        }
    }

    fn scratch(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn ports(&self) -> Vec<ContainerPort> {
        vec![pod::port("cql-shard-aware", ports::SHARD_AWARE)]
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

    fn agent(&self) -> agent::Needs {
        agent::Needs {
            database_image: false,
            memory: "64Mi",
            scratch: &[],
        }
    }

    fn exclusive(&self, resources: &ResourceRequirements) -> bool {
        guaranteed(resources)
    }

    /// It reads the files of the Secret as they are.
    fn certificates(&self, mut volume: Volume, mount: VolumeMount, _: bool) -> Certificates {
        if let Some(source) = &mut volume.secret {
            // The user that the image runs as is the image's choice, and no other container mounts the volume.
            source.default_mode = Some(0o444);
        }
        Certificates {
            volumes: vec![volume],
            prepare: Vec::new(),
            database: vec![mount],
        }
    }
}

/// One shard for each whole CPU of the limit, or of the request where there is no limit: without a number
/// `ScyllaDB` would take every CPU of the node.
fn shards(resources: &ResourceRequirements) -> u64 {
    let cpu = |amounts: &Option<std::collections::BTreeMap<String, Quantity>>| {
        Amount::parse(&amounts.as_ref()?.get("cpu")?.0)
    };
    let given = cpu(&resources.limits).or_else(|| cpu(&resources.requests));
    given.map_or(1, Amount::units).max(1)
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

#[cfg(test)]
mod tests;
