//! The hash that tells a later operator that a rack's pods were made for the same spec.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::validate;
use crate::{
    fixtures::{CASSANDRA, cluster, id, images},
    spec::{Images, Store},
};

const SCYLLA: &str = "
replicas: 1
database:
  engine: Scylla
  replicationFactor: 3
  racks: [{ name: a, members: 3 }]
  storage: { size: 1Ti }
";

const EVERYTHING: &str = "
replicas: 3
imagePullPolicy: Always
imagePullSecrets: [{ name: registry }]
database:
  engine: Cassandra
  replicationFactor: 3
  racks: [{ name: a, members: 3, zone: zone-a }]
  storage: { size: 1Ti, storageClassName: network }
  superDisk: { localDevices: [/dev/nvme0n1] }
  reclaim: Delete
  image: cassandra:5.0.9
  resources: { limits: { cpu: '2', memory: 8Gi } }
  keyspace: chat
  secretRef: { name: login }
  tls: { secretName: certs }
  clients: [{ podSelector: {} }]
";

fn spec_hash(spec: &str) -> String {
    match cluster(spec).store {
        Store::Managed(database) => database.spec_hash(None),
        Store::External(_) | Store::Embedded(_) => panic!("no racks"),
    }
}

/// Each of these is on StatefulSets out there. Another one here takes itself for a change of the spec, which restarts
/// every database pod when the operator is upgraded, unasked: a new field must not be serialised where it is not set.
#[test]
fn a_spec_has_the_same_hash_as_with_every_operator_before() {
    let hashes = [CASSANDRA, SCYLLA, EVERYTHING].map(spec_hash);
    assert_eq!(
        hashes,
        ["7d44453f4195c5f6", "933e5fcd29c2f777", "a969d1554e50ea55"]
    );
}

#[test]
fn pods_are_pulled_with_the_operators_secrets_unless_the_spec_names_its_own() {
    let images = Images {
        pull_secrets: vec!["registry".to_owned()],
        ..images()
    };
    let secrets = |more: &str| -> Vec<String> {
        let spec = serde_yaml_ng::from_str(&format!("{more}{SCYLLA}")).unwrap();
        let cluster = validate(id(), &spec, &images).unwrap();
        cluster.pull_secrets.into_iter().map(|s| s.name).collect()
    };
    assert_eq!(secrets(""), ["registry"]);
    assert_eq!(secrets("imagePullSecrets: [{ name: own }]"), ["own"]);
    assert_eq!(secrets("imagePullSecrets: []"), [""; 0]);
}

#[test]
fn volumes_that_have_grown_make_no_other_pods() {
    let Store::Managed(grown) = cluster(&CASSANDRA.replace("1Ti", "2Ti")).store else {
        panic!("no racks")
    };
    let made_with = |size: &str| grown.spec_hash(Some(&Quantity(size.to_owned())));
    assert_eq!(made_with("1Ti"), spec_hash(CASSANDRA));
    assert_ne!(grown.spec_hash(None), spec_hash(CASSANDRA));
    // As the API server writes it.
    assert_eq!(made_with("2048Gi"), grown.spec_hash(None));
}

#[test]
fn what_no_pod_is_made_from_does_not_change_the_hash() {
    let other = CASSANDRA
        .replace("members: 2", "members: 3")
        .replace("database:\n", "database:\n  reclaim: Delete\n");
    assert_eq!(spec_hash(&other), spec_hash(CASSANDRA));
    let image = CASSANDRA.replace("database:\n", "database:\n  image: other\n");
    assert_ne!(spec_hash(&image), spec_hash(CASSANDRA));
}
