//! Variables of containers are those that their programs read: the book's page of each program, which is generated from its
//! flags, has them all.

use std::{collections::BTreeSet, fs};

use k8s_openapi::api::core::v1::PodSpec;
use readstates_operator_api::{MembersMeanwhile, labels};

use super::{SCYLLA, all};
use crate::{
    fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, cluster, id, with_tls},
    objects::Object,
    spec::{
        BackupOwner, BackupPlace, BackupsAt, MoveTarget, RestoreSource, ValidatedCluster,
        ValidatedMigration,
    },
    templates::{Ends, move_job, restore_job},
};

/// Whatever a cache pod can be told by variables.
const CACHE: &str = "
cache:
  flushMode: Interval
  durability: Available
  tls: { secretName: api }
  access:
    clientCa: { configMapName: clients }
    callers: [{ name: gateway, verbs: [read], certificates: [gateway.example] }]
";

const SUPER_DISK: &str = "  superDisk: { localDevices: [/dev/nvme0n1] }\n";

fn clusters() -> Vec<ValidatedCluster> {
    let mut external = cluster(&with_tls(EXTERNAL));
    external.certificates.client = true;
    let mut called = cluster(&format!("{CACHE}{}", CASSANDRA.trim_start()));
    called.client_ca = true;
    let others = [
        with_tls(CASSANDRA),
        format!("{SCYLLA}{SUPER_DISK}"),
        EMBEDDED.to_owned(),
    ];
    let others = others.iter().map(|spec| cluster(spec));
    others.chain([external, called]).collect()
}

fn restore(cluster: &ValidatedCluster) -> PodSpec {
    let source = RestoreSource {
        place: BackupPlace {
            at: BackupsAt::Bucket {
                url: "s3://backups/chat".to_owned(),
                region: None,
                endpoint: None,
                ca: Some(("store".to_owned(), "ca.crt".to_owned())),
                credentials: None,
                account: None,
            },
            encryption: Some(("keys".to_owned(), "backup.key".to_owned())),
        },
        snapshot: "latest".to_owned(),
    };
    let job = restore_job(cluster, &source).spec.unwrap();
    job.template.spec.unwrap()
}

fn a_move() -> PodSpec {
    let mut target = cluster(&with_tls(EXTERNAL));
    target.certificates.client = true;
    let ends = Ends {
        source: cluster(EXTERNAL),
        target,
    };
    let owner = BackupOwner {
        id: id(),
        kind: "ReadStateMigration".to_owned(),
        label: labels::MIGRATION,
    };
    let wish = ValidatedMigration {
        target: MoveTarget::Cluster("mail".to_owned()),
        members: MembersMeanwhile::Stop,
        checkpoints: "moves".to_owned(),
        merge: false,
        rate: None,
        parallel: None,
        suspend: false,
    };
    let job = move_job(&ends, &owner, &wish, false).spec.unwrap();
    job.template.spec.unwrap()
}

fn pods() -> impl Iterator<Item = PodSpec> {
    let made = clusters().into_iter().flat_map(|cluster| {
        let of_objects = all(&cluster).into_iter().filter_map(|object| match object {
            Object::StatefulSet(set) => set.spec?.template.spec,
            Object::Job(job) => job.spec?.template.spec,
            _ => None,
        });
        of_objects.chain([restore(&cluster)]).collect::<Vec<_>>()
    });
    made.chain([a_move()])
}

/// Variables of the containers with this image, but for those that arguments in the same pod are made with: `$(POD_NAME)`.
fn read(pod: &PodSpec, image: &str) -> BTreeSet<String> {
    let containers = pod.init_containers.iter().flatten().chain(&pod.containers);
    let own: Vec<_> = containers
        .filter(|one| one.image.as_deref() == Some(image))
        .collect();
    let variables = || own.iter().flat_map(|one| one.env.iter().flatten());
    let values = variables().filter_map(|variable| variable.value.as_ref());
    let args = own.iter().flat_map(|one| one.args.iter().flatten());
    let texts: Vec<_> = values.chain(args).collect();
    let is_part = |name: &String| {
        let reference = format!("$({name})");
        texts.iter().any(|text| text.contains(&reference))
    };
    let names = variables().map(|variable| variable.name.clone());
    names.filter(|name| !is_part(name)).collect()
}

#[test]
fn programs_know_the_variables_that_their_containers_have() {
    let programs = [
        ("readstates:1", "readstates"),
        ("operator:1", "operator"),
        ("superdisk:1", "superdisk"),
    ];
    for (image, program) in programs {
        let page = format!(
            "{}/../readstates/book/src/reference/cli-{program}.md",
            env!("CARGO_MANIFEST_DIR")
        );
        let page = fs::read_to_string(page).unwrap();
        let names: BTreeSet<_> = pods().flat_map(|pod| read(&pod, image)).collect();
        assert!(!names.is_empty(), "{program} has no variables");
        let unknown = |name: &&String| !page.contains(&format!("`{name}`"));
        let unknown: Vec<_> = names.iter().filter(unknown).collect();
        assert_eq!(unknown, [""; 0], "{program} has no flags that read these");
    }
}
