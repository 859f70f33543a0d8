//! Placement, priority and settings of pods that the user chooses.

use clap::Parser;

use super::{SCYLLA, environment, pod};
use crate::{
    cli::Cli,
    fixtures::{CASSANDRA, EXTERNAL, cluster},
};

const SET: &str = "StatefulSet chat-db-b";

fn with(field: &str) -> String {
    CASSANDRA.replace("database:\n", &format!("database:\n  {field}\n"))
}

#[test]
fn settings_are_properties_after_those_that_are_not_the_users() {
    let options = |spec: &str| {
        let environment = environment(&pod(&cluster(spec), SET).containers[0]);
        let options = environment
            .into_iter()
            .find(|e| e.starts_with("JVM_EXTRA_OPTS="));
        options.unwrap()
    };
    let settings = "settings: { concurrent_writes: '64', 'audit_logging_options.enabled': 'true' }";
    assert_eq!(
        options(&with(settings)),
        format!(
            "{} -Dcassandra.settings.audit_logging_options.enabled=true \
             -Dcassandra.settings.concurrent_writes=64",
            options(CASSANDRA)
        )
    );
}

#[test]
fn pods_go_where_the_spec_says_with_the_priority_it_says() {
    let plain = pod(&cluster(CASSANDRA), SET);
    assert_eq!(plain.node_selector, None);
    assert_eq!(plain.tolerations, None);
    assert_eq!(plain.priority_class_name, None);
    let placed = with("nodeSelector: { disk: nvme }")
        .replace(
            "  nodeSelector",
            "  tolerations: [{ key: database, operator: Exists }]\n  nodeSelector",
        )
        .replace(
            "  nodeSelector",
            "  priorityClassName: important\n  nodeSelector",
        );
    let placed = pod(&cluster(&placed), SET);
    assert_eq!(placed.node_selector.unwrap()["disk"], "nvme");
    assert_eq!(
        placed.tolerations.unwrap()[0].key.as_deref(),
        Some("database")
    );
    assert_eq!(placed.priority_class_name.as_deref(), Some("important"));
}

#[test]
fn cache_pods_have_a_priority_of_their_own() {
    let spec = format!("cache: {{ priorityClassName: first }}{EXTERNAL}");
    let placed = pod(&cluster(&spec), "StatefulSet chat");
    assert_eq!(placed.priority_class_name.as_deref(), Some("first"));
}

#[test]
fn a_database_is_drained_by_our_own_program_and_by_nothing_of_its_image() {
    for (spec, set, line) in [
        (
            CASSANDRA,
            SET,
            "/run/readstates/agent agent drain --engine cassandra --admin 127.0.0.1:7199",
        ),
        (
            SCYLLA,
            "StatefulSet chat-db-a",
            "/run/readstates/agent agent drain --engine scylla --admin 127.0.0.1:10000",
        ),
    ] {
        let pod = pod(&cluster(spec), set);
        let database = &pod.containers[0];
        let hook = database.lifecycle.as_ref().unwrap().pre_stop.as_ref();
        let command = hook.unwrap().exec.as_ref().unwrap().command.as_ref();
        let command = command.unwrap();
        assert_eq!(command.join(" "), line);
        // It is what the first container has left, and these are arguments that it knows.
        let mut mounts = database.volume_mounts.iter().flatten();
        assert!(mounts.any(|m| m.mount_path == "/run/readstates"));
        Cli::try_parse_from(command).unwrap();
    }
}
