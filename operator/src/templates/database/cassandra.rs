//! Apache Cassandra, by the environment variables of its official image.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PodSecurityContext, ResourceRequirements, Volume, VolumeMount,
};
use readstates_operator_api::InternodeTls;

use super::{
    Config, DATACENTER, Nodes, Place, agent,
    certificates::{self, Certificates},
};
use crate::{
    certificates::CA,
    spec::Amount,
    templates::{env, pod},
};

/// Clients must log in, and may do what their role may. The image has no variables for this, but Cassandra takes any
/// setting as a property.
const LOGIN: &str = "-Dcassandra.config.allow_system_properties=true \
                     -Dcassandra.settings.authenticator=PasswordAuthenticator \
                     -Dcassandra.settings.authorizer=CassandraAuthorizer";

/// The variable of the image with more options of the JVM.
const JVM_OPTIONS: &str = "JVM_EXTRA_OPTS";

/// Any setting of `cassandra.yaml`, of whatever depth, as one more option of the JVM.
fn setting(name: &str, value: &str) -> String {
    format!(" -Dcassandra.settings.{name}={value}")
}

/// CQL over TLS and no other way, from a file in PEM form. No password: the key is not encrypted.
fn tls() -> String {
    let option =
        |name: &str, value: &str| setting(&format!("client_encryption_options.{name}"), value);
    [
        ("enabled", "true"),
        ("optional", "false"),
        ("keystore", certificates::KEYSTORE_FILE),
        ("ssl_context_factory.class_name", PEM),
    ]
    .map(|(name, value)| option(name, value))
    .concat()
}

/// The same between nodes, each of which proves itself to the other. Pods' addresses change, and are in no certificate. The
/// CAs are read where the kubelet writes them, and again when they have changed.
fn internode_tls(stage: InternodeTls) -> String {
    let (encryption, optional) = match stage {
        InternodeTls::Disabled => return String::new(),
        InternodeTls::Accepted => ("none", "true"),
        InternodeTls::Preferred => ("all", "true"),
        InternodeTls::Required => ("all", "false"),
    };
    let option = |name: &str, value: &str| setting(&between_nodes(name), value);
    let cas = format!("{}/{CA}", certificates::PATH);
    [
        (ENCRYPTION, encryption),
        (OPTIONAL, optional),
        ("require_client_auth", "true"),
        ("require_endpoint_verification", "false"),
        ("keystore", certificates::KEYSTORE_FILE),
        ("truststore", &cas),
        ("ssl_context_factory.class_name", PEM),
    ]
    .map(|(name, value)| option(name, value))
    .concat()
}

/// Which connections a node makes over TLS.
const ENCRYPTION: &str = "internode_encryption";
/// Whether it accepts plain text beside TLS.
const OPTIONAL: &str = "optional";

fn between_nodes(name: &str) -> String {
    format!("server_encryption_options.{name}")
}

const PEM: &str = "org.apache.cassandra.security.PEMBasedSslContextFactory";

/// The image's entrypoint writes into the folder of the image's settings, and the root file system is read-only. So it
/// gets a copy of them; the entrypoint, the server and its tools follow the variable.
const SETTINGS: &str = "\
cp -R -f \"${CASSANDRA_CONF:-/etc/cassandra}/.\" /run/cassandra || exit 1
export CASSANDRA_CONF=/run/cassandra
";

/// The settings of the official image have passwords for keystores, and no property can take them away: with one,
/// Cassandra would take the key for encrypted.
const NO_PASSWORD: &str = "\
settings=$CASSANDRA_CONF/cassandra.yaml
if [ -e \"$settings\" ]; then sed -i '/^ *keystore_password:/d' \"$settings\" || exit 1; fi
";

/// For JVMs: the server, and `nodetool`.
const TEMPORARY: (&str, &str) = ("tmp", "/tmp");

/// The user `cassandra` of the image.
const USER: i64 = 999;

pub(super) struct Cassandra;

impl Nodes for Cassandra {
    fn container(&self, place: &Place<'_>) -> Container {
        let (mut tls, edit) = match place.database.tls {
            Some(_) => (tls(), NO_PASSWORD),
            None => (String::new(), ""),
        };
        tls += &internode_tls(place.database.internode);
        let settings = place.database.settings.iter();
        let settings: String = settings.map(|(name, value)| setting(name, value)).collect();
        let options = format!("{LOGIN}{tls}{settings}");
        let mut vars = vec![
            env::field("POD_IP", "status.podIP"),
            env::value("CASSANDRA_CLUSTER_NAME", &place.cluster_name),
            env::value("CASSANDRA_DC", DATACENTER),
            env::value("CASSANDRA_RACK", &place.rack.name),
            env::value("CASSANDRA_ENDPOINT_SNITCH", "GossipingPropertyFileSnitch"),
            env::value("CASSANDRA_LISTEN_ADDRESS", "$(POD_IP)"),
            env::value("CASSANDRA_BROADCAST_ADDRESS", "$(POD_IP)"),
            env::value("CASSANDRA_RPC_ADDRESS", "0.0.0.0"),
            env::value("CASSANDRA_BROADCAST_RPC_ADDRESS", "$(POD_IP)"),
            env::value(JVM_OPTIONS, options),
        ];
        if let Some(heap) = heap(place) {
            vars.push(env::value("MAX_HEAP_SIZE", format!("{}M", heap.max_mib)));
            vars.push(env::value("HEAP_NEWSIZE", format!("{}M", heap.young_mib)));
        }
        Container {
            command: Some(agent::start_with(
                place,
                self.data_path(),
                &format!("{SETTINGS}{edit}exec docker-entrypoint.sh cassandra -f"),
            )),
            env: Some(vars),
            security_context: Some(pod::restricted_container(true)),
            ..Container::default()
        }
    }

    fn data_path(&self) -> &'static str {
        "/var/lib/cassandra"
    }

    fn admin(&self) -> String {
        "127.0.0.1:7199".to_owned()
    }

    fn internode_of(&self, node: &Container) -> InternodeTls {
        let mut variables = node.env.iter().flatten();
        let options = variables
            .find(|one| one.name == JVM_OPTIONS)
            .and_then(|one| one.value.as_deref())
            .unwrap_or_default();
        let has = |name: &str, value: &str| {
            let wanted = setting(&between_nodes(name), value);
            options.split(' ').any(|one| one == wanted.trim_start())
        };
        if !has(OPTIONAL, "true") && !has(OPTIONAL, "false") {
            InternodeTls::Disabled
        } else if has(ENCRYPTION, "none") {
            InternodeTls::Accepted
        } else if has(OPTIONAL, "true") {
            InternodeTls::Preferred
        } else {
            InternodeTls::Required
        }
    }

    fn security(&self) -> PodSecurityContext {
        pod::restricted(USER)
    }

    /// Settings, logs beside those on standard output, and native libraries that the JVM unpacks.
    fn scratch(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("settings", "/run/cassandra"),
            ("logs", "/var/log/cassandra"),
            TEMPORARY,
        ]
    }

    fn ports(&self) -> Vec<ContainerPort> {
        Vec::new()
    }

    fn config(&self, _: &Place<'_>) -> Option<Config> {
        None
    }

    /// `nodetool` is a JVM of its own, now and then.
    fn agent(&self) -> agent::Needs {
        agent::Needs {
            database_image: true,
            memory: "384Mi",
            scratch: &[TEMPORARY],
        }
    }

    fn exclusive(&self, _: &ResourceRequirements) -> bool {
        false
    }

    /// It reads certificate and key from one file, which the agent writes before the start, into memory.
    fn certificates(&self, volume: Volume, mount: VolumeMount, internode: bool) -> Certificates {
        let keystore = VolumeMount {
            read_only: Some(true),
            ..certificates::keystore_mount()
        };
        let cas = internode.then(|| mount.clone());
        Certificates {
            volumes: vec![volume, certificates::keystore()],
            prepare: vec![mount, certificates::keystore_mount()],
            database: [keystore].into_iter().chain(cas).collect(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Heap {
    max_mib: u64,
    young_mib: u64,
}

/// Half of the memory limit, up to 31 GiB: above that the JVM cannot use short pointers. The other
/// half is for buffers outside the heap and for the kernel's file cache. The image wants the young
/// generation beside it; a quarter is what its own script would choose. Without a limit the image
/// chooses by the node's memory.
fn heap(place: &Place<'_>) -> Option<Heap> {
    const MOST_MIB: u64 = 31 << 10;
    let resources = &place.database.resources;
    let memory = |amounts: &Option<std::collections::BTreeMap<String, _>>| {
        amounts.as_ref()?.get("memory").cloned()
    };
    let limit = memory(&resources.limits).or_else(|| memory(&resources.requests))?;
    let max_mib = (Amount::parse(&limit.0)?.units() / 2 / (1 << 20)).clamp(64, MOST_MIB);
    Some(Heap {
        max_mib,
        young_mib: max_mib / 4,
    })
}

#[cfg(test)]
mod tests;
