//! How cache pods and the schema Job are told where the database is and how to log in.

use k8s_openapi::api::core::v1::{EnvVar, KeyToPath, SecretVolumeSource, Volume, VolumeMount};

use super::{database::DATACENTER, env, pod, ports};
use crate::validate::{External, Store, ValidatedCluster};

/// Where the embedded store's files are in a cache pod.
pub(super) const EMBEDDED_PATH: &str = "/var/lib/readstates";

const LOGIN: &str = "login";
const LOGIN_PATH: &str = "/etc/readstates/login";

/// The store as `--store` takes it.
pub(super) fn url(cluster: &ValidatedCluster) -> String {
    match &cluster.store {
        Store::Managed(database) => format!(
            "cql://{}.{}.svc:{}/{}",
            cluster.id.database(),
            cluster.id.namespace,
            ports::CQL,
            database.keyspace
        ),
        Store::External(External {
            contact_points,
            port,
            keyspace,
            ..
        }) => {
            format!("cql://{}:{port}/{keyspace}", contact_points.join(","))
        }
        Store::Embedded(_) => format!("embedded:{EMBEDDED_PATH}"),
    }
}

/// Replication as `readstates schema --replication` takes it; none without a database.
pub(super) fn replication(cluster: &ValidatedCluster) -> Option<String> {
    match &cluster.store {
        Store::Managed(database) => Some(format!("{DATACENTER}={}", database.replication_factor)),
        Store::External(external) => Some(format!(
            "{}={}",
            external.local_datacenter, external.replication_factor
        )),
        Store::Embedded(_) => None,
    }
}

/// What a process needs to reach the database.
#[derive(Default)]
pub(super) struct Access {
    pub(super) env: Vec<EnvVar>,
    pub(super) volumes: Vec<Volume>,
    pub(super) mounts: Vec<VolumeMount>,
}

pub(super) fn access(cluster: &ValidatedCluster) -> Access {
    match &cluster.store {
        Store::Managed(_) => Access {
            env: vec![env::value(env::CQL_LOCAL_DC, DATACENTER)],
            ..Access::default()
        },
        Store::External(external) => {
            let mut access = external.secret.as_deref().map(login).unwrap_or_default();
            access
                .env
                .insert(0, env::value(env::CQL_LOCAL_DC, &external.local_datacenter));
            access
        }
        Store::Embedded(_) => Access::default(),
    }
}

/// The user's name by environment; the password only as a file, which no process list shows.
fn login(secret: &str) -> Access {
    let password = KeyToPath {
        key: "password".to_owned(),
        path: "password".to_owned(),
        mode: None,
    };
    Access {
        env: vec![
            env::secret(env::CQL_USER, secret, "username"),
            env::value(env::CQL_PASSWORD_FILE, format!("{LOGIN_PATH}/password")),
        ],
        volumes: vec![Volume {
            name: LOGIN.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.to_owned()),
                items: Some(vec![password]),
                // Readable by the pod's group, which is the process' own, and nobody else.
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        }],
        mounts: vec![VolumeMount {
            read_only: Some(true),
            ..pod::mount(LOGIN, LOGIN_PATH)
        }],
    }
}
