//! Ways to install the operator: what it may do, where it works, and which replica takes over.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{Cluster, World, embedded_spec, watched};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::LocalObjectReference};
use kube::api::DeleteParams;
use readstates_operator_api::{DatabaseSpec, ExternalSpec};

const ACCOUNT: &str = "--as=system:serviceaccount:readstates-system:readstates-operator";
const SOON: Duration = Duration::from_secs(60);

/// A cluster for which the operator has something to say at once, and nothing to run.
async fn apply_waiting(cluster: &Cluster) -> Result<()> {
    let mut spec = embedded_spec();
    spec.database = DatabaseSpec {
        external: Some(ExternalSpec {
            contact_points: vec!["cassandra.example".to_owned()],
            port: 9042,
            keyspace: "readstates".to_owned(),
            local_datacenter: "dc1".to_owned(),
            replication_factor: 1,
            secret_ref: Some(LocalObjectReference {
                name: "nowhere".to_owned(),
            }),
        }),
        ..DatabaseSpec::default()
    };
    cluster.apply(spec).await
}

#[tokio::test]
async fn the_operator_may_do_no_more_than_it_needs() -> Result<()> {
    let world = World::installed().await?;
    for (verb, resource, expected) in [
        ("patch", "statefulsets.apps", "yes"),
        ("get", "secrets", "yes"),
        ("list", "secrets", "no"),
        ("delete", "statefulsets.apps", "no"),
        ("delete", "persistentvolumeclaims", "no"),
        ("delete", "pods", "yes"),
        ("delete", "secrets", "no"),
        ("list", "persistentvolumeclaims", "yes"),
        // They ask for more when the spec does.
        ("patch", "persistentvolumeclaims", "yes"),
        ("create", "persistentvolumeclaims", "yes"),
        // For the finalizer of those with a database of their own.
        ("patch", "readstateclusters.readstates.dev", "yes"),
        ("create", "readstateclusters.readstates.dev", "no"),
        ("delete", "readstateclusters.readstates.dev", "no"),
        // Of what it may do itself, and no more: that is the API server's own rule.
        ("create", "roles.rbac.authorization.k8s.io", "yes"),
        ("escalate", "roles.rbac.authorization.k8s.io", "no"),
        ("bind", "roles.rbac.authorization.k8s.io", "no"),
        ("create", "clusterroles.rbac.authorization.k8s.io", "no"),
        ("get", "nodes", "no"),
    ] {
        let arguments = ["auth", "can-i", verb, resource, "-n", "default", ACCOUNT];
        // It fails to say no.
        let answer = world.kubectl(&arguments).await?.printed();
        ensure!(answer.trim() == expected, "{verb} {resource}: {answer}");
    }
    Ok(())
}

#[tokio::test]
async fn helm_test_asks_the_operator_whether_it_is_ready() -> Result<()> {
    let world = World::installed().await?;
    let said = world.helm_test().await?;
    ensure!(said.contains("Succeeded"), "{said}");
    // A Deployment of no pods is up as it should be, and nothing answers.
    world.install(&["replicas=0"]).await?;
    ensure!(
        world.helm_test().await.is_err(),
        "it passed without an operator"
    );
    Ok(())
}

#[tokio::test]
async fn an_operator_of_one_namespace_works_there_and_nowhere_else() -> Result<()> {
    let world = World::reached().await?;
    let watched = world.namespace("watched").await?;
    let other = world.namespace("elsewhere").await?;
    world
        .install(&[&format!("watchNamespaces={{{}}}", watched.name)])
        .await?;
    let ignored = world.cluster(&other, "ignored");
    apply_waiting(&ignored).await?;
    let served = world.cluster(&watched, "served");
    apply_waiting(&served).await?;
    served.waits_on("SecretMissing", SOON).await?;
    ensure!(
        ignored.get().await?.status.is_none(),
        "it works where it should not"
    );
    let arguments = ["auth", "can-i", "get", "pods", "-n", &other.name, ACCOUNT];
    let answer = world.kubectl(&arguments).await?.printed();
    ensure!(
        answer.trim() == "no",
        "it may work where it should not: {answer}"
    );
    served.delete().await?;
    ignored.delete().await
}

#[tokio::test]
async fn a_second_operator_takes_over() -> Result<()> {
    let world = World::reached().await?;
    world.install(&["replicas=2"]).await?;
    let holder = |lease: &Lease| {
        lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.clone())
    };
    let leader = |lease: Option<&Lease>| {
        lease
            .and_then(holder)
            .is_some_and(|holder| !holder.is_empty())
    };
    let name = "readstates-operator";
    let lease = watched(world.lease(), name, "is held", SOON, leader).await?;
    let old = lease.as_ref().and_then(holder).context("no leader")?;
    println!("    deleting {old}");
    world
        .operator_pods()
        .delete(&old, &DeleteParams::default())
        .await?;
    let another = |lease: Option<&Lease>| {
        lease
            .and_then(holder)
            .is_some_and(|holder| !holder.is_empty() && holder != old)
    };
    watched(world.lease(), name, "is held by another", SOON, another).await?;
    let place = world.namespace("refusals").await?;
    let cluster = world.cluster(&place, "taken-over");
    apply_waiting(&cluster).await?;
    cluster.waits_on("SecretMissing", SOON).await?;
    cluster.delete().await
}
