//! From the release before to this one, under load: `hack/e2e --upgrade`.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, ensure};
use e2e::{Cluster, Look, Told, World, cassandra_spec, until};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{ResourceExt, api::ListParams};
use readstates_operator_api::labels::{self, Component};

/// Every cache pod is drained and replaced.
const UPGRADES: Duration = Duration::from_mins(12);
/// A slow database takes a few users at a time.
const WRITTEN: Duration = Duration::from_mins(2);

/// The images of the cache pods.
async fn images(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let pods = cluster.cache_pods().await?;
    let containers = pods.into_iter().filter_map(|pod| pod.spec);
    let containers = containers.flat_map(|spec| spec.containers);
    Ok(containers.filter_map(|one| one.image).collect())
}

/// Upgrades the operator, waits until it tells of the update of the cache pods that it would make, and allows it. Nothing
/// is replaced before that.
async fn upgrade(world: &World, cluster: &Cluster) -> Result<()> {
    let before = uids(cluster, Component::Cache).await?;
    world.install(&[]).await?;
    until("the operator asks for consent", UPGRADES, async || {
        let asked = cluster.condition("RequiresUpdate").await?.message;
        Ok(match asked.contains(labels::UPDATE_CACHE) {
            true => Look::Done(()),
            false => Look::NotYet(asked),
        })
    })
    .await?;
    let now = uids(cluster, Component::Cache).await?;
    ensure!(now == before, "cache pods were replaced without consent");
    let allowed = cluster.allow_update(labels::UPDATE_CACHE).await?;
    ensure!(allowed, "the update that was asked about is gone");
    Ok(())
}

/// Takes consent back, so that another update by the same operator has to be asked about again.
async fn without_consent(cluster: &Cluster) -> Result<()> {
    let removed = format!("{}-", labels::UPDATE_CACHE);
    let name = cluster.get().await?.name_any();
    cluster
        .kubectl(&["annotate", "readstatecluster", &name, &removed])
        .await?;
    Ok(())
}

/// The way back, as the book tells it: the operator of the release before cannot ask pods of this one, which want a
/// certificate, so a person deletes them one after another. Each hands on what it owns before it ends.
async fn each_pod_is_deleted(cluster: &Cluster) -> Result<()> {
    for ordinal in (0..3).rev() {
        cluster.replace_pod(ordinal).await?;
    }
    Ok(())
}

async fn everything_is_written(cluster: &Cluster, ordinal: usize) -> Result<()> {
    until("everything is written", WRITTEN, async || {
        Ok(match cluster.flush(ordinal).await {
            Ok(_) => Look::Done(()),
            Err(some) => Look::NotYet(format!("{some:#}")),
        })
    })
    .await
}

/// Waits until the StatefulSet of the cache makes pods with none of these images.
async fn pods_to_come_are_others(cluster: &Cluster, than: &BTreeSet<String>) -> Result<()> {
    let name = cluster.get().await?.name_any();
    let makes_others = |set: &StatefulSet| {
        let template = set
            .spec
            .as_ref()
            .and_then(|spec| spec.template.spec.as_ref());
        let images = template.map(|spec| spec.containers.iter().filter_map(|c| c.image.as_ref()));
        images.is_some_and(|mut images| images.all(|image| !than.contains(image)))
    };
    cluster
        .sees_within(
            &name,
            "makes pods of the other release",
            UPGRADES,
            makes_others,
        )
        .await?;
    Ok(())
}

/// The pods of a tier, by UID.
async fn uids(cluster: &Cluster, tier: Component) -> Result<BTreeSet<String>> {
    let name = cluster.get().await?.name_any();
    let selector = labels::selector_text(&name, tier);
    let pods = cluster.api::<Pod>();
    let pods = pods.list(&ListParams::default().labels(&selector)).await?;
    Ok(pods.iter().filter_map(ResourceExt::uid).collect())
}

/// Waits until no cache pod is of the other release.
async fn every_pod_is_replaced(cluster: &Cluster, old: &BTreeSet<String>) -> Result<()> {
    until(
        "every cache pod is of the other release",
        UPGRADES,
        async || {
            let now = images(cluster).await?;
            Ok(if !now.is_empty() && now.is_disjoint(old) {
                Look::Done(())
            } else {
                Look::NotYet(format!("{now:?}"))
            })
        },
    )
    .await?;
    cluster.has_members(3).await
}

#[tokio::test]
#[ignore = "wants the release before, and a cluster of its own"]
async fn an_upgrade_from_the_release_before_and_the_way_back_serve_every_user_and_lose_nothing()
-> Result<()> {
    let world = World::reached().await?;
    world.install_old().await?;
    let place = world.namespace("upgrade").await?;
    let cluster = world.cluster(&place, "chat");
    let mut spec = cassandra_spec();
    // The previous release has no `spec.cache.access`.
    spec.cache.access = None;
    cluster.apply(spec).await?;
    cluster.available().await?;
    cluster.has_members(3).await?;

    let service = cluster.service()?;
    let old = images(&cluster).await?;
    let before = Told::by(&service, 200).await?;
    let nodes = uids(&cluster, Component::Database).await?;
    let there = Box::pin(async {
        upgrade(&world, &cluster).await?;
        every_pod_is_replaced(&cluster, &old).await
    });
    let meanwhile = Told::during(&service, there).await?;
    before.holds(&service).await?;
    meanwhile.holds(&service).await?;
    let untouched = uids(&cluster, Component::Database).await? == nodes;
    ensure!(untouched, "a database pod was replaced without consent");

    // Pods that restart from the database alone have it all, too.
    for ordinal in 0..3 {
        everything_is_written(&cluster, ordinal).await?;
        cluster.replace_pod(ordinal).await?;
    }
    before.holds(&service).await?;
    meanwhile.holds(&service).await?;

    // A user may roll back and upgrade again later.
    without_consent(&cluster).await?;
    let new = images(&cluster).await?;
    let back = Box::pin(async {
        world.install_old().await?;
        pods_to_come_are_others(&cluster, &new).await?;
        each_pod_is_deleted(&cluster).await?;
        every_pod_is_replaced(&cluster, &new).await
    });
    let meanwhile_back = Told::during(&service, back).await?;
    cluster.available().await?;
    let between = Told::by(&service, 200).await?;
    let all = [&before, &meanwhile, &meanwhile_back, &between];
    for told in all {
        told.holds(&service).await?;
    }
    let old = images(&cluster).await?;
    let again = Box::pin(async {
        upgrade(&world, &cluster).await?;
        every_pod_is_replaced(&cluster, &old).await
    });
    let meanwhile_again = Told::during(&service, again).await?;
    for told in all.into_iter().chain([&meanwhile_again]) {
        told.holds(&service).await?;
    }
    Ok(())
}
