//! Operations on a cluster that serves: stop and start, restart on request, another capacity.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use e2e::{Cluster, Look, Told, World, until};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::api::resource::Quantity};
use kube::{ResourceExt, api::ListParams};
use readstates_operator_api::labels::{self, Component};

/// A cache pod hands on what it owns and another takes its place, one after another; a database comes up.
const REPLACED: Duration = Duration::from_mins(8);

/// The pods of a tier, each by its UID.
async fn pods(cluster: &Cluster, tier: Component) -> Result<BTreeSet<String>> {
    let selector = labels::selector_text(&cluster.get().await?.name_any(), tier);
    let found = cluster
        .api::<Pod>()
        .list(&ListParams::default().labels(&selector))
        .await?;
    Ok(found.iter().filter_map(ResourceExt::uid).collect())
}

async fn patch(cluster: &Cluster, spec: &str) -> Result<()> {
    let name = format!("readstatecluster/{}", cluster.get().await?.name_any());
    let patch = format!("{{\"spec\": {spec}}}");
    cluster
        .kubectl(&["patch", &name, "--type=merge", "--patch", &patch])
        .await?;
    Ok(())
}

/// Waits until none of these pods is there and as many others serve.
async fn replaced(cluster: &Cluster, tier: Component, old: &BTreeSet<String>) -> Result<()> {
    until("every pod is replaced", REPLACED, async || {
        let now = pods(cluster, tier).await?;
        Ok(if now.len() == old.len() && now.is_disjoint(old) {
            Look::Done(())
        } else {
            let left = now.intersection(old).count();
            Look::NotYet(format!("{left} of {} are the old ones", now.len()))
        })
    })
    .await?;
    cluster.at_rest().await
}

#[tokio::test]
async fn a_stopped_cluster_writes_everything_and_finds_it_when_it_is_started() -> Result<()> {
    let cluster = World::chat().await?;
    let told = Told::by(&cluster.service()?, 60).await?;
    let claims = cluster.claims().await?;

    patch(&cluster, r#"{"stopped": true}"#).await?;
    cluster.wait_for("Stopped", REPLACED).await?;
    let stopped = cluster.condition("Stopped").await?;
    ensure!(stopped.reason == "StoppedInOrder", "{stopped:?}");
    for tier in [Component::Cache, Component::Database] {
        let left = pods(&cluster, tier).await?;
        ensure!(left.is_empty(), "{left:?}");
    }
    ensure!(cluster.claims().await? == claims, "volumes stay");

    patch(&cluster, r#"{"stopped": null}"#).await?;
    cluster.available().await?;
    cluster.has_members(3).await?;
    told.holds(&cluster.service()?).await
}

#[tokio::test]
async fn a_restart_by_request_replaces_each_pod_once_and_refuses_and_loses_nothing() -> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let before = Told::by(&service, 60).await?;
    let (cache, database) = (
        pods(&cluster, Component::Cache).await?,
        pods(&cluster, Component::Database).await?,
    );

    let restart = Box::pin(async {
        cluster.annotate(labels::RESTART_CACHE, "once-more").await?;
        replaced(&cluster, Component::Cache, &cache).await?;
        cluster.has_members(3).await
    });
    let meanwhile = Told::during(&service, restart).await?;
    before.holds(&service).await?;
    meanwhile.holds(&service).await?;
    let untouched = pods(&cluster, Component::Database).await?;
    ensure!(untouched == database, "the database restarted, too");

    // With its only node away, users that are not in memory are refused, so none is asked for during the restart.
    let cache = pods(&cluster, Component::Cache).await?;
    cluster
        .annotate(labels::RESTART_DATABASE, "once-more")
        .await?;
    replaced(&cluster, Component::Database, &database).await?;
    cluster.available().await?;
    ensure!(
        pods(&cluster, Component::Cache).await? == cache,
        "cache pods were replaced, too"
    );
    before.holds(&service).await?;
    meanwhile.holds(&service).await
}

#[tokio::test]
async fn a_cache_that_may_hold_less_does_so_in_the_pods_that_are_there() -> Result<()> {
    let cluster = World::chat().await?;
    let before = pods(&cluster, Component::Cache).await?;
    let meanwhile = Told::during(&cluster.service()?, async {
        patch(&cluster, r#"{"cache": {"capacityStates": 90000}}"#).await?;
        cluster.at_rest().await
    })
    .await?;
    let spec = cluster.get().await?.spec;
    ensure!(spec.cache.capacity_states == 90_000, "{spec:?}");
    ensure!(
        pods(&cluster, Component::Cache).await? == before,
        "a pod was replaced"
    );
    meanwhile.holds(&cluster.service()?).await
}

/// What the kubelet says that a cache pod's container has.
async fn memory(cluster: &Cluster) -> Result<Quantity> {
    let selector = labels::selector_text(&cluster.get().await?.name_any(), Component::Cache);
    let pods = cluster.api::<Pod>();
    let found = pods.list(&ListParams::default().labels(&selector)).await?;
    let given = found.iter().filter_map(|pod| {
        let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
        let resources = status.resources.as_ref()?;
        resources.requests.as_ref()?.get("memory").cloned()
    });
    let given: Vec<_> = given.collect();
    ensure!(given.len() == found.items.len(), "{given:?}");
    given.into_iter().next().context("no cache pod")
}

#[tokio::test]
async fn a_cache_that_must_hold_more_gets_its_memory_in_the_pods_that_are_there() -> Result<()> {
    let cluster = World::chat().await?;
    // Its spec gives no resources: memory follows from the capacity.
    let before = pods(&cluster, Component::Cache).await?;
    let had = memory(&cluster).await?;
    let meanwhile = Told::during(&cluster.service()?, async {
        patch(&cluster, r#"{"cache": {"capacityStates": 3000000}}"#).await?;
        cluster.at_rest().await
    })
    .await?;
    let has = memory(&cluster).await?;
    ensure!(had != has, "every pod still has {had:?}");
    ensure!(
        pods(&cluster, Component::Cache).await? == before,
        "a pod was replaced"
    );
    meanwhile.holds(&cluster.service()?).await
}
