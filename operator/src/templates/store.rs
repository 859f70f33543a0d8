//! Tells cache pods and the schema Job where the database is and how to log in.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::api::core::v1::{EnvVar, KeyToPath, SecretVolumeSource, Volume, VolumeMount};
use readstates_operator_api::labels;

use super::{database::DATACENTER, env, pod};
use crate::{
    certificates::{CA, CERTIFICATE, KEY},
    names::{PASSWORD_KEY, USERNAME_KEY, ports},
    spec::{External, Store, ValidatedCluster},
};

/// Where the embedded store's files are in a cache pod.
pub(super) const EMBEDDED_PATH: &str = "/var/lib/readstates";

const LOGIN: &str = "login";
const LOGIN_PATH: &str = "/etc/readstates/login";
const CERTIFICATES: &str = "certificates";
const CERTIFICATES_PATH: &str = "/etc/readstates/certificates";
const SUPERUSER: &str = "superuser";
const SUPERUSER_PATH: &str = "/etc/readstates/superuser";

/// The store as `--store` takes it.
pub(super) fn url(cluster: &ValidatedCluster) -> String {
    match &cluster.store {
        Store::Managed(database) => format!(
            "cql://{}:{}/{}",
            cluster.id.database_host(),
            ports::CQL,
            database.keyspace
        ),
        Store::External(External {
            contact_points,
            port,
            keyspace,
            ..
        }) => {
            let hosts: Vec<_> = contact_points.iter().map(|host| bracketed(host)).collect();
            format!("cql://{}:{port}/{keyspace}", hosts.join(","))
        }
        Store::Embedded(_) => format!("embedded:{EMBEDDED_PATH}"),
    }
}

/// An IPv6 address has brackets before a port.
fn bracketed(host: &str) -> Cow<'_, str> {
    match host.contains(':') {
        true => format!("[{host}]").into(),
        false => host.into(),
    }
}

/// Replication as `readstates schema --replication` takes it; none without a database.
pub(super) fn replication(cluster: &ValidatedCluster) -> Option<String> {
    match &cluster.store {
        Store::Managed(database) => Some(format!("{DATACENTER}={}", database.copies.keyspace)),
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

impl Access {
    pub(super) fn extend(&mut self, more: Self) {
        self.env.extend(more.env);
        self.volumes.extend(more.volumes);
        self.mounts.extend(more.mounts);
    }
}

pub(super) fn access(cluster: &ValidatedCluster) -> Access {
    let Access {
        mut env,
        mut volumes,
        mut mounts,
    } = access_in_the_clear(cluster);
    if let Some(secret) = cluster.certificate_secret() {
        let tls = over_tls(&secret, cluster.certificates.client);
        env.extend(tls.env);
        volumes.extend(tls.volumes);
        mounts.extend(tls.mounts);
    }
    match &cluster.store {
        Store::Managed(_) | Store::External(_) => {
            env.push(env::value(env::CLAIM, cluster.id.uid.clone()));
        }
        Store::Embedded(_) => {}
    }
    Access {
        env,
        volumes,
        mounts,
    }
}

fn access_in_the_clear(cluster: &ValidatedCluster) -> Access {
    match &cluster.store {
        Store::Managed(database) => {
            let own = || cluster.id.login_secret();
            let mut access = login(&database.secret.clone().unwrap_or_else(own));
            access
                .env
                .insert(0, env::value(env::CQL_LOCAL_DC, DATACENTER));
            access
        }
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

/// What the schema Job needs to create roles: the login of cache pods and the superuser's password. Without the latter
/// where the database, or a part of it, does not ask for a login yet: it knows no passwords then.
pub(super) fn access_of_schema(cluster: &ValidatedCluster) -> Access {
    let mut access = access(cluster);
    let holder = format!(
        "ReadStateCluster {}/{}",
        cluster.id.namespace, cluster.id.name
    );
    access.env.push(env::value(env::CLAIM_HOLDER, holder));
    if matches!(cluster.store, Store::Managed(_)) {
        access.env.push(env::value(env::OWN_DATABASE, "true"));
    }
    if matches!(cluster.store, Store::Managed(_)) && cluster.login.asked_for {
        access.env.push(env::value(
            env::SUPERUSER_PASSWORD_FILE,
            format!("{SUPERUSER_PATH}/{PASSWORD_KEY}"),
        ));
        let (volume, mount) = password(SUPERUSER, SUPERUSER_PATH, &cluster.id.superuser_secret());
        access.volumes.push(volume);
        access.mounts.push(mount);
    }
    access
}

/// What pods that log in carry, so that another login makes other pods.
pub(super) fn annotations(cluster: &ValidatedCluster) -> Option<BTreeMap<String, String>> {
    let version = cluster.login.version.clone()?;
    Some([(labels::LOGIN.to_owned(), version)].into())
}

/// The user's name by environment; the password only as a file, which no process list shows.
fn login(secret: &str) -> Access {
    let (volume, mount) = password(LOGIN, LOGIN_PATH, secret);
    Access {
        env: vec![
            env::secret(env::CQL_USER, secret, USERNAME_KEY),
            env::value(
                env::CQL_PASSWORD_FILE,
                format!("{LOGIN_PATH}/{PASSWORD_KEY}"),
            ),
        ],
        volumes: vec![volume],
        mounts: vec![mount],
    }
}

/// Files that are read again for each connection: other certificates make no other pods.
fn over_tls(secret: &str, client: bool) -> Access {
    let own = [(env::CQL_CERT_FILE, CERTIFICATE), (env::CQL_KEY_FILE, KEY)];
    let own = own.into_iter().filter(|_| client);
    let files: Vec<_> = [(env::CQL_CA_FILE, CA)].into_iter().chain(own).collect();
    let keys: Vec<_> = files.iter().map(|(_, key)| *key).collect();
    let (volume, mount) = keys_of(CERTIFICATES, CERTIFICATES_PATH, secret, &keys);
    let file = |key: &str| format!("{CERTIFICATES_PATH}/{key}");
    Access {
        env: files
            .into_iter()
            .map(|(name, key)| env::value(name, file(key)))
            .collect(),
        volumes: vec![volume],
        mounts: vec![mount],
    }
}

fn password(name: &str, path: &str, secret: &str) -> (Volume, VolumeMount) {
    keys_of(name, path, secret, &[PASSWORD_KEY])
}

/// A volume with nothing of a Secret but these keys.
pub(super) fn keys_of(
    name: &str,
    path: &str,
    secret: &str,
    keys: &[&str],
) -> (Volume, VolumeMount) {
    let item = |key: &&str| KeyToPath {
        key: (*key).to_owned(),
        path: (*key).to_owned(),
        mode: None,
    };
    let volume = Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            items: Some(keys.iter().map(item).collect()),
            // Readable by the pod's group, which is the process' own, and by no other user.
            default_mode: Some(0o440),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mount = VolumeMount {
        read_only: Some(true),
        ..pod::mount(name, path)
    };
    (volume, mount)
}
