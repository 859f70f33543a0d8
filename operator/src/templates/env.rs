//! Environment variables of the service's processes: each is a flag of `readstates serve` or `readstates
//! schema`. And helpers that make them.

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, SecretKeySelector};

/// `--member`: the name of this one.
pub(super) const MEMBER: &str = "READSTATES_MEMBER";
/// `--advertise`: where others reach it.
pub(super) const ADVERTISE: &str = "READSTATES_ADVERTISE";
/// `--ring-namespace` and `--ring-name`: where the ring is kept.
pub(super) const RING_NAMESPACE: &str = "READSTATES_RING_NAMESPACE";
pub(super) const RING_NAME: &str = "READSTATES_RING_NAME";
/// `--zone`.
pub(super) const ZONE: &str = "READSTATES_ZONE";
pub(super) const LISTEN: &str = "READSTATES_LISTEN";
pub(super) const ADMIN_LISTEN: &str = "READSTATES_ADMIN_LISTEN";
pub(super) const MEMBERS_LISTEN: &str = "READSTATES_MEMBERS_LISTEN";
pub(super) const WATCH_LISTEN: &str = "READSTATES_WATCH_LISTEN";
/// `--members-tls-dir`: by which certificates members prove what they are.
pub(super) const MEMBERS_TLS_DIR: &str = "READSTATES_MEMBERS_TLS_DIR";
pub(super) const FLUSH_INTERVAL: &str = "READSTATES_FLUSH_INTERVAL";
pub(super) const FLUSH_MODE: &str = "READSTATES_FLUSH_MODE";
pub(super) const DURABILITY: &str = "READSTATES_DURABILITY";
pub(super) const CAPACITY_STATES: &str = "READSTATES_CAPACITY_STATES";
pub(super) const DRAIN_TIMEOUT: &str = "READSTATES_DRAIN_TIMEOUT";
pub(super) const CQL_LOCAL_DC: &str = "READSTATES_CQL_LOCAL_DC";
pub(super) const CQL_USER: &str = "READSTATES_CQL_USER";
pub(super) const CQL_PASSWORD_FILE: &str = "READSTATES_CQL_PASSWORD_FILE";
/// `--cql-ca-file`, and with it TLS.
pub(super) const CQL_CA_FILE: &str = "READSTATES_CQL_CA_FILE";
/// `--cql-cert-file` and `--cql-key-file`: what is shown to a database that asks for it.
pub(super) const CQL_CERT_FILE: &str = "READSTATES_CQL_CERT_FILE";
pub(super) const CQL_KEY_FILE: &str = "READSTATES_CQL_KEY_FILE";

/// `--access`: who may call the API.
pub(super) const ACCESS: &str = "READSTATES_ACCESS";
/// `--tls-cert-file` and `--tls-key-file`: what is shown to clients of the API.
pub(super) const TLS_CERT_FILE: &str = "READSTATES_TLS_CERT_FILE";
pub(super) const TLS_KEY_FILE: &str = "READSTATES_TLS_KEY_FILE";
/// `--tls-client-ca-file`: whose certificates clients may show.
pub(super) const TLS_CLIENT_CA_FILE: &str = "READSTATES_TLS_CLIENT_CA_FILE";

/// `--claim`: as which cluster it works on a keyspace.
pub(super) const CLAIM: &str = "READSTATES_CLAIM";
/// `--claim-holder`: the name by which a person who finds the claim can look up its holder.
pub(super) const CLAIM_HOLDER: &str = "READSTATES_CLAIM_HOLDER";
/// `--own-database`: the database is the cluster's alone.
pub(super) const OWN_DATABASE: &str = "READSTATES_OWN_DATABASE";

pub(super) const SUPERUSER_PASSWORD_FILE: &str = "READSTATES_SUPERUSER_PASSWORD_FILE";

pub(super) fn value(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.into()),
        ..EnvVar::default()
    }
}

/// A field of the pod itself.
pub(super) fn field(name: &str, path: &str) -> EnvVar {
    let selector = ObjectFieldSelector {
        field_path: path.to_owned(),
        api_version: None,
    };
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(selector),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// A key of a Secret.
pub(super) fn secret(name: &str, secret: &str, key: &str) -> EnvVar {
    let selector = SecretKeySelector {
        name: secret.to_owned(),
        key: key.to_owned(),
        optional: None,
    };
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(selector),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}
