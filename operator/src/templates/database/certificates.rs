//! Mounts the CQL server certificate into database pods.
//!
//! Cassandra reads certificate and key from one file, which the agent writes before the start, into memory.
//! `ScyllaDB` reads the files of the Secret as they are.

use k8s_openapi::{
    api::core::v1::{EmptyDirVolumeSource, Volume, VolumeMount},
    apimachinery::pkg::api::resource::Quantity,
};
use readstates_operator_api::Engine;

use super::Place;
use crate::{
    certificates::{CERTIFICATE, KEY},
    templates::{pod, store},
};

const CERTIFICATES: &str = "certificates";
/// Folder of the Secret's files, for containers that read them.
pub(super) const PATH: &str = "/etc/readstates/certificates";
const KEYSTORE: &str = "keystore";
const KEYSTORE_PATH: &str = "/run/keystore";
/// Certificate and key for Cassandra.
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

/// `secret`: where the certificates are; none: no TLS.
pub(super) fn of(place: &Place<'_>, secret: Option<&str>) -> Certificates {
    let Some(secret) = secret else {
        return Certificates::default();
    };
    let (mut volume, mount) = store::keys_of(CERTIFICATES, PATH, secret, &[CERTIFICATE, KEY]);
    match place.database.engine {
        Engine::Cassandra => Certificates {
            volumes: vec![volume, keystore()],
            prepare: vec![mount, pod::mount(KEYSTORE, KEYSTORE_PATH)],
            database: vec![VolumeMount {
                read_only: Some(true),
                ..pod::mount(KEYSTORE, KEYSTORE_PATH)
            }],
        },
        Engine::Scylla => {
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
}

/// In memory: a key does not belong on the disk of a node.
fn keystore() -> Volume {
    Volume {
        name: KEYSTORE.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(Quantity("1Mi".to_owned())),
        }),
        ..Volume::default()
    }
}
