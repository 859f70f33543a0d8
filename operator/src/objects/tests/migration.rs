//! Pods of moves have the logins of both databases, and nothing else.

use k8s_openapi::api::{batch::v1::JobSpec, core::v1::Container};
use readstates_operator_api::MembersMeanwhile;

use crate::{
    fixtures::{CASSANDRA, EXTERNAL, cluster, id, with_tls},
    objects::move_network_policy,
    spec::{Asked, BackupOwner, Identity, MoveTarget, ValidatedMigration},
    templates::{Ends, move_job},
};

fn owner() -> BackupOwner {
    BackupOwner {
        id: Identity {
            name: "away".to_owned(),
            uid: "uid-of-away".to_owned(),
            ..id()
        },
        kind: "ReadStateMigration".to_owned(),
        label: readstates_operator_api::labels::MIGRATION,
    }
}

fn wish() -> ValidatedMigration {
    ValidatedMigration {
        target: MoveTarget::Cluster("mail".to_owned()),
        members: MembersMeanwhile::Stop,
        checkpoints: "moves".to_owned(),
        merge: false,
        rate: Some(20_000),
        parallel: None,
        suspend: false,
    }
}

fn ends() -> Ends {
    let target = with_tls(EXTERNAL)
        .replace("[db-1.example, db-2.example]", "[new]")
        .replace("name: login", "name: new-login");
    Ends {
        source: cluster(EXTERNAL),
        target: cluster(&target),
    }
}

fn spec(ahead: bool) -> JobSpec {
    move_job(&ends(), &owner(), &wish(), ahead).spec.unwrap()
}

fn words(container: &Container) -> String {
    container.args.as_ref().unwrap().join(" ")
}

fn env(container: &Container, name: &str) -> Option<String> {
    let mut all = container.env.iter().flatten();
    let found = all.find(|variable| variable.name == name)?;
    let secret = || {
        let reference = found.value_from.as_ref()?.secret_key_ref.as_ref()?;
        Some(format!("{}/{}", reference.name, reference.key))
    };
    found.value.clone().or_else(secret)
}

#[test]
fn a_move_copies_and_verifies_under_the_claim_of_its_cluster() {
    let spec = spec(false);
    let pod = spec.template.spec.unwrap();
    let first = pod.init_containers.unwrap();
    let uid = &cluster(EXTERNAL).id.uid;
    assert_eq!(
        words(&first[0]),
        format!("schema --store cql://new:9042/readstates --replication east=3 --claim {uid}")
    );
    let ends = "--store cql://db-1.example,db-2.example:9042/readstates --to cql://new:9042/readstates --checkpoint \
                /var/lib/readstates-migrate/away.json --progress-listen [::]:7404 --report /dev/termination-log --rate \
                20000";
    assert_eq!(words(&first[1]), format!("migrate copy {ends} --until 0"));
    assert_eq!(words(&pod.containers[0]), format!("migrate verify {ends}"));
    assert_eq!(env(&first[1], "READSTATES_CLAIM").as_ref(), Some(uid));
    assert_eq!(pod.automount_service_account_token, Some(false));
}

#[test]
fn each_database_is_reached_by_its_own_secrets() {
    let spec = spec(false);
    let pod = spec.template.spec.unwrap();
    let verify = &pod.containers[0];
    let is = |name: &str, value: &str| assert_eq!(env(verify, name).as_deref(), Some(value));
    is("READSTATES_CQL_USER", "login/username");
    is("READSTATES_TO_CQL_USER", "new-login/username");
    is(
        "READSTATES_CQL_PASSWORD_FILE",
        "/etc/readstates/login/password",
    );
    is(
        "READSTATES_TO_CQL_PASSWORD_FILE",
        "/etc/readstates/to/login/password",
    );
    is(
        "READSTATES_TO_CQL_CA_FILE",
        "/etc/readstates/to/certificates/ca.crt",
    );
    assert_eq!(env(verify, "READSTATES_CQL_CA_FILE"), None);
    // The schema is the target's alone.
    let schema = &pod.init_containers.as_ref().unwrap()[0];
    assert_eq!(
        env(schema, "READSTATES_CQL_USER").as_deref(),
        Some("new-login/username")
    );
    let mounts = schema.volume_mounts.iter().flatten();
    let mounts: Vec<_> = mounts.map(|m| m.name.as_str()).collect();
    assert_eq!(mounts, ["to-login", "to-certificates"]);
    let names = pod
        .volumes
        .as_ref()
        .unwrap()
        .iter()
        .map(|v| v.name.as_str());
    let names: Vec<_> = names.collect();
    assert_eq!(
        names,
        ["login", "to-login", "to-certificates", "checkpoints"]
    );
}

#[test]
fn a_job_that_copies_ahead_does_not_verify_and_needs_no_empty_pass() {
    let spec = spec(true);
    let pod = spec.template.spec.unwrap();
    assert!(words(&pod.containers[0]).starts_with("migrate copy "));
    assert!(!words(&pod.containers[0]).contains("--until"));
    assert_eq!(pod.init_containers.unwrap().len(), 1);
    let rules = spec.pod_failure_policy.unwrap().rules;
    let of_exit = rules.iter().filter_map(|rule| rule.on_exit_codes.as_ref());
    let names: Vec<_> = of_exit
        .map(|rule| rule.container_name.as_deref().unwrap())
        .collect();
    assert_eq!(names, ["schema", "copy"]);
}

#[test]
fn only_the_operator_reaches_the_pod() {
    let source = ends().source.asked(Asked {
        operator_namespace: "readstates-system",
        ..Asked::default()
    });
    let policy = move_network_policy(&source, &owner());
    let rules = policy.spec.unwrap().ingress.unwrap();
    let [rule] = &rules[..] else {
        panic!("{rules:?}")
    };
    let from = rule.from.as_ref().unwrap();
    let namespace = from[0].namespace_selector.as_ref().unwrap();
    let labels = namespace.match_labels.as_ref().unwrap();
    assert_eq!(labels["kubernetes.io/metadata.name"], "readstates-system");
}

#[test]
fn another_clusters_keyspace_is_written_under_its_claim_and_made_by_that_cluster() {
    let mut target = cluster(&with_tls(CASSANDRA));
    target.id.name = "mail".to_owned();
    target.id.uid = "uid-of-mail".to_owned();
    let ends = Ends {
        source: cluster(CASSANDRA),
        target,
    };
    let job = |ahead| move_job(&ends, &owner(), &wish(), ahead).spec.unwrap();
    let spec = job(false);
    let pod = spec.template.spec.unwrap();
    let first = pod.init_containers.unwrap();
    let [copy] = &first[..] else {
        panic!("{first:?}");
    };
    assert!(
        words(copy).contains("--to cql://mail-db."),
        "{}",
        words(copy)
    );
    for container in [copy, &pod.containers[0]] {
        let is = |name: &str, value: &str| assert_eq!(env(container, name).as_deref(), Some(value));
        is("READSTATES_CLAIM", &ends.source.id.uid);
        is("READSTATES_TO_CLAIM", "uid-of-mail");
        is("READSTATES_CQL_USER", "chat-db-login/username");
        is("READSTATES_TO_CQL_USER", "mail-db-login/username");
        is(
            "READSTATES_TO_CQL_CA_FILE",
            "/etc/readstates/to/certificates/ca.crt",
        );
    }
    let rules = spec.pod_failure_policy.unwrap().rules;
    let of_exit = rules.iter().filter_map(|rule| rule.on_exit_codes.as_ref());
    let names: Vec<_> = of_exit
        .map(|rule| rule.container_name.as_deref().unwrap())
        .collect();
    assert_eq!(
        names,
        ["copy", "verify"],
        "a rule for a container that is not there is refused"
    );
    let ahead = job(true).template.spec.unwrap();
    assert_eq!(ahead.init_containers, None);
}
