//! Passwords: where they are, and what changes with them.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::json;

use super::{environment, pod};
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, cluster},
    spec::{Store, ValidatedCluster},
    templates,
};

#[test]
fn a_password_is_only_ever_a_file() {
    let pod = pod(&cluster(EXTERNAL), "Job chat-schema");
    let container = &pod.containers[0];
    assert_eq!(
        environment(container),
        [
            "READSTATES_CQL_LOCAL_DC=east",
            "READSTATES_CQL_USER=<login/username>",
            "READSTATES_CQL_PASSWORD_FILE=/etc/readstates/login/password",
            "READSTATES_CLAIM=uid-of-chat",
            "READSTATES_CLAIM_HOLDER=ReadStateCluster talk/chat",
        ]
    );
    assert_eq!(
        serde_json::to_value(&pod.volumes).unwrap(),
        json!([{
            "name": "login",
            "secret": {
                "secretName": "login", "defaultMode": 0o440,
                "items": [{ "key": "password", "path": "password" }],
            },
        }])
    );
    assert_eq!(
        container.args.as_ref().unwrap(),
        &[
            "schema",
            "--store",
            "cql://db-1.example,db-2.example:9042/readstates",
            "--replication",
            "east=3",
            "--claim",
            "uid-of-chat",
        ]
    );
}

#[test]
fn the_address_of_a_database_of_ipv6_has_brackets_before_its_port() {
    let spec = EXTERNAL.replace("[db-1.example, db-2.example]", "['fd00::7', db-2.example]");
    let pod = pod(&cluster(&spec), "StatefulSet chat");
    let mut environment = pod.containers[0].env.iter().flatten();
    let store = environment.find(|v| v.name == "READSTATES_STORE").unwrap();
    assert_eq!(
        store.value.as_deref(),
        Some("cql://[fd00::7],db-2.example:9042/readstates")
    );
}

#[test]
fn the_superusers_password_is_for_the_schema_job_alone() {
    let mounts = |pod: &PodSpec| {
        let secret = |v: &k8s_openapi::api::core::v1::Volume| v.secret.clone()?.secret_name;
        pod.volumes
            .iter()
            .flatten()
            .filter_map(secret)
            .collect::<Vec<_>>()
    };
    let ours = cluster(CASSANDRA);
    let job = pod(&ours, "Job chat-schema");
    assert_eq!(mounts(&job), ["chat-db-login", "chat-db-superuser"]);
    assert_eq!(
        environment(&job.containers[0]),
        [
            "READSTATES_CQL_LOCAL_DC=dc1",
            "READSTATES_CQL_USER=<chat-db-login/username>",
            "READSTATES_CQL_PASSWORD_FILE=/etc/readstates/login/password",
            "READSTATES_CLAIM=uid-of-chat",
            "READSTATES_CLAIM_HOLDER=ReadStateCluster talk/chat",
            "READSTATES_OWN_DATABASE=true",
            "READSTATES_SUPERUSER_PASSWORD_FILE=/etc/readstates/superuser/password",
        ]
    );
    let cache = templates::cache(&ours, 1, &crate::templates::Template::Wanted, None)
        .spec
        .unwrap()
        .template;
    assert_eq!(
        mounts(&cache.spec.unwrap()),
        ["chat-db-login", "chat-member-tls"]
    );
    let database = pod(&ours, "StatefulSet chat-db-a");
    assert_eq!(mounts(&database), ["chat-agent-tls"]);

    // Where not all of the database asks for a login yet, there are no passwords to make.
    let mut before = ours.clone();
    before.login.asked_for = false;
    assert_eq!(mounts(&pod(&before, "Job chat-schema")), ["chat-db-login"]);

    let given = CASSANDRA.replace("  engine:", "  secretRef: { name: mine }\n  engine:");
    let job = pod(&cluster(&given), "Job chat-schema");
    assert_eq!(mounts(&job), ["mine", "chat-db-superuser"]);
}

#[test]
fn another_login_makes_another_job_and_other_cache_pods_and_leaves_the_database_alone() {
    let before = cluster(CASSANDRA);
    let mut after = before.clone();
    after.login.version = Some("2".to_owned());
    assert_ne!(
        templates::schema_job_name(&before),
        templates::schema_job_name(&after)
    );
    assert_ne!(
        templates::cache(&before, 1, &crate::templates::Template::Wanted, None),
        templates::cache(&after, 1, &crate::templates::Template::Wanted, None)
    );
    let hash = |cluster: &ValidatedCluster| match &cluster.store {
        Store::Managed(database) => templates::update_name(cluster, database),
        Store::External(_) | Store::Embedded(_) => panic!("no database"),
    };
    assert_eq!(hash(&before), hash(&after));
    let given = CASSANDRA.replace("  engine:", "  secretRef: { name: mine }\n  engine:");
    assert_eq!(hash(&before), hash(&cluster(&given)));
}
