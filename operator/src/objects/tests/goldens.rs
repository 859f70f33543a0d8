//! `operator/src/objects/golden/NAME.yaml`: everything that the operator makes for a spec. `UPDATE_FIXTURES=1 cargo test -p
//! readstates-operator --lib goldens` rewrites them all; hack/chart-test has kube-score look at them.

use std::{fs, path::Path};

use super::{SCYLLA, all};
use crate::{
    fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, cluster},
    objects::Object,
};

const SUPER_DISK: &str = "
  superDisk:
    localDevices: ['/dev/disk/by-id/google-local-nvme-ssd-*']
    localCount: 2
";

fn yaml(object: &Object) -> String {
    match object {
        Object::Certificate(o) => serde_yaml_ng::to_string(o),
        Object::ConfigMap(o) => serde_yaml_ng::to_string(o),
        Object::CronJob(o) => serde_yaml_ng::to_string(o),
        Object::Job(o) => serde_yaml_ng::to_string(o),
        Object::NetworkPolicy(o) => serde_yaml_ng::to_string(o),
        Object::PodDisruptionBudget(o) => serde_yaml_ng::to_string(o),
        Object::Ring(o) => serde_yaml_ng::to_string(o),
        Object::Role(o) => serde_yaml_ng::to_string(o),
        Object::RoleBinding(o) => serde_yaml_ng::to_string(o),
        Object::Secret(o) => serde_yaml_ng::to_string(o),
        Object::Service(o) => serde_yaml_ng::to_string(o),
        Object::ServiceAccount(o) => serde_yaml_ng::to_string(o),
        Object::StatefulSet(o) => serde_yaml_ng::to_string(o),
    }
    .unwrap()
}

#[test]
fn everything_that_is_made_is_as_it_was_reviewed() {
    let super_disk = format!("{CASSANDRA}{SUPER_DISK}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/objects/golden");
    for (name, spec) in [
        ("cassandra", CASSANDRA),
        ("scylla", SCYLLA),
        ("super-disk", &super_disk),
        ("external", EXTERNAL),
        ("embedded", EMBEDDED),
    ] {
        let objects = all(&cluster(spec));
        // A new ring lists 1,024 slots without an owner.
        let reviewed = objects.iter().filter(|o| !matches!(o, Object::Ring(_)));
        let made: String = reviewed.map(|o| format!("---\n{}", yaml(o))).collect();
        let file = folder.join(format!("{name}.yaml"));
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, &made).unwrap();
        }
        let reviewed = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            made == reviewed,
            "{} is stale: look at what has changed, with UPDATE_FIXTURES=1",
            file.display()
        );
    }
}
