//! Wrong input: refused by the API server or told by a condition, with the field's name; and what kubectl shows.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};
use e2e::{World, embedded_spec};
use k8s_openapi::{
    api::core::v1::{LocalObjectReference, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use readstates_operator_api::{DatabaseSpec, ExternalSpec};

const SOON: Duration = Duration::from_secs(60);

const EMBEDDED: &str = "{ embedded: { storage: { size: 1Gi } } }";

/// What is asked for, and what the answer must name.
fn wrong_specs() -> Vec<(String, Vec<&'static str>)> {
    let cassandra = |more: &str| {
        let racks = "racks: [{ name: a, members: 1 }], storage: { size: 1Gi }";
        format!("{{ database: {{ engine: Cassandra, {racks}, {more} }} }}")
    };
    vec![
        (
            format!("{{ replicas: 0, database: {EMBEDDED} }}"),
            vec!["spec.replicas"],
        ),
        (
            format!("{{ replicas: 65, database: {EMBEDDED} }}"),
            vec!["spec.replicas", "64"],
        ),
        (
            format!("{{ replicas: 2, database: {EMBEDDED} }}"),
            vec!["spec.replicas", "must be 1"],
        ),
        (
            format!("{{ replica: 1, database: {EMBEDDED} }}"),
            vec!["unknown field", "spec.replica"],
        ),
        (
            format!("{{ replicas: 1, cache: {{ flushInterval: 1h }}, database: {EMBEDDED} }}"),
            vec!["spec.cache.flushInterval"],
        ),
        (
            format!("{{ replicas: 1, cache: {{ capacityStates: 5 }}, database: {EMBEDDED} }}"),
            vec!["spec.cache.capacityStates"],
        ),
        (
            "{ replicas: 1 }".to_owned(),
            vec!["spec.database", "Required"],
        ),
        (
            "{ database: {} }".to_owned(),
            vec!["spec.database", "exactly one of"],
        ),
        (
            cassandra("keyspace: chat"),
            vec!["spec.database.replicationFactor", "required"],
        ),
        (
            cassandra("replicationFactor: 3"),
            vec!["spec.database.replicationFactor", "members"],
        ),
        (
            "{ database: { engine: MySQL } }".to_owned(),
            vec!["spec.database.engine", "Cassandra", "Scylla"],
        ),
        (
            "{ replicas: 1, database: { embedded: { storage: { size: big } } } }".to_owned(),
            vec!["spec.database.embedded.storage.size", "100Gi"],
        ),
    ]
}

#[tokio::test]
async fn a_wrong_spec_is_refused_with_the_name_of_its_field() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("refusals").await?;
    let mut missed = Vec::new();
    for (spec, words) in wrong_specs() {
        let text = format!(
            "{{ apiVersion: readstates.dev/v1alpha1, kind: ReadStateCluster, \
             metadata: {{ name: wrong }}, spec: {spec} }}"
        );
        let arguments = ["apply", "-n", &place.name, "-f", "-"];
        match world.kubectl_with(&arguments, &text).await?.refusal() {
            Ok(message) if words.iter().all(|word| message.contains(word)) => {}
            Ok(message) => missed.push(format!("{spec}: lacks one of {words:?}: {message}")),
            Err(accepted) => missed.push(format!("{spec}: {accepted:#}")),
        }
    }
    ensure!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}

#[tokio::test]
async fn what_the_schema_cannot_refuse_becomes_a_condition_that_names_the_field() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("refusals").await?;
    for (name, request, reason, words) in [
        (
            "no-amount",
            "lots",
            "InvalidSpec",
            "spec.cache.resources.requests.memory",
        ),
        ("odd-limits", "2Gi", "ApplyRejected", "resources.requests"),
    ] {
        let cluster = world.cluster(&place, name);
        let memory = |amount: &str| {
            Some(BTreeMap::from([(
                "memory".to_owned(),
                Quantity(amount.to_owned()),
            )]))
        };
        let mut spec = embedded_spec();
        spec.cache.resources = Some(ResourceRequirements {
            requests: memory(request),
            limits: memory("1Gi"),
            ..ResourceRequirements::default()
        });
        cluster.apply(spec).await?;
        cluster.wait_for("Degraded", SOON).await?;
        let degraded = cluster.condition("Degraded").await?;
        ensure!(degraded.reason == reason, "{name}: {degraded:?}");
        ensure!(degraded.message.contains(words), "{name}: {degraded:?}");
        ensure!(
            cluster.cache_pods().await?.is_empty(),
            "{name}: pods were made all the same"
        );
        cluster.delete().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_secret_that_is_missing_is_named_and_waited_for() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("refusals").await?;
    let cluster = world.cluster(&place, "no-secret");
    let mut spec = embedded_spec();
    spec.database = DatabaseSpec {
        external: Some(ExternalSpec {
            contact_points: vec!["cassandra.example".to_owned()],
            port: 9042,
            keyspace: "readstates".to_owned(),
            local_datacenter: "dc1".to_owned(),
            replication_factor: 1,
            secret_ref: Some(LocalObjectReference {
                name: "cassandra-login".to_owned(),
            }),
        }),
        ..DatabaseSpec::default()
    };
    cluster.apply(spec).await?;
    let waiting = cluster.waits_on("SecretMissing", SOON).await?;
    ensure!(waiting.message.contains("cassandra-login"), "{waiting:?}");
    let progressing = cluster.condition("Progressing").await?;
    ensure!(
        progressing.message.contains("cassandra-login"),
        "{progressing:?}"
    );
    cluster.delete().await
}

#[tokio::test]
async fn kubectl_teaches_and_shows() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("refusals").await?;
    let explained = world
        .kubectl(&["explain", "rsc.spec.database.racks.members"])
        .await?
        .success()?;
    ensure!(
        explained.contains("Number of members (pods) in this rack"),
        "{explained}"
    );
    let cluster = world.cluster(&place, "shown");
    let mut spec = embedded_spec();
    spec.paused = true;
    cluster.apply(spec).await?;
    let shown = cluster.kubectl(&["get", "readstates"]).await?;
    let columns: Vec<&str> = shown
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    ensure!(
        columns
            == [
                "NAME",
                "CACHE",
                "DATABASE",
                "STATES",
                "DIRTY",
                "WAITING-ON",
                "AVAILABLE",
                "AGE"
            ],
        "{shown}"
    );
    cluster.delete().await
}
