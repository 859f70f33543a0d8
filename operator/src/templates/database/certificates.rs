//! Mounts the CQL server certificate into database pods: the files of its Secret, and what the engine makes of them.

use k8s_openapi::{
    api::core::v1::{EmptyDirVolumeSource, Volume, VolumeMount},
    apimachinery::pkg::api::resource::Quantity,
};

use super::Nodes;
use crate::{
    certificates::{CA, CERTIFICATE, KEY},
    templates::{pod, store},
};

const CERTIFICATES: &str = "certificates";
/// Folder of the Secret's files, for containers that read them.
pub(super) const PATH: &str = "/etc/readstates/certificates";
const KEYSTORE: &str = "keystore";
const KEYSTORE_PATH: &str = "/run/keystore";
/// Certificate and key in one file, for an engine that reads one.
pub(super) const KEYSTORE_FILE: &str = "/run/keystore/server.pem";

/// What a pod has for TLS.
#[derive(Default)]
pub(super) struct Certificates {
    /// Of the pod.
    pub(super) volumes: Vec<Volume>,
    /// Of the container that prepares the start.
    pub(super) prepare: Vec<VolumeMount>,
    /// Of the database's container.
    pub(super) database: Vec<VolumeMount>,
}

/// `secret`: where the certificates are; none: no TLS. `internode`: nodes prove themselves to each other by them.
pub(super) fn of(engine: &dyn Nodes, secret: Option<&str>, internode: bool) -> Certificates {
    let Some(secret) = secret else {
        return Certificates::default();
    };
    let keys: &[&str] = if internode {
        &[CERTIFICATE, KEY, CA]
    } else {
        &[CERTIFICATE, KEY]
    };
    let (volume, mount) = store::keys_of(CERTIFICATES, PATH, secret, keys);
    engine.certificates(volume, mount, internode)
}

/// Where the one file is, for the container that writes it.
pub(super) fn keystore_mount() -> VolumeMount {
    pod::mount(KEYSTORE, KEYSTORE_PATH)
}

/// In memory: a key does not belong on the disk of a node.
pub(super) fn keystore() -> Volume {
    Volume {
        name: KEYSTORE.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(Quantity("1Mi".to_owned())),
        }),
        ..Volume::default()
    }
}
