//! From the release before to this one, under load: `hack/e2e --upgrade`.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, ensure};
use e2e::{Cluster, Look, Told, World, cassandra_spec, until};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::ListParams};
use readstates_operator_api::labels;

/// Every cache pod is drained and replaced.
const UPGRADES: Duration = Duration::from_mins(12);

/// The images of the cache pods.
async fn images(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let pods = cluster.cache_pods().await?;
    let containers = pods.into_iter().filter_map(|pod| pod.spec);
    let containers = containers.flat_map(|spec| spec.containers);
    Ok(containers.filter_map(|one| one.image).collect())
}

/// Waits until the operator tells of the update of the cache pods that it would make, and allows it.
async fn consent(cluster: &Cluster) -> Result<()> {
    until("the operator asks for consent", UPGRADES, async || {
        Ok(match cluster.allow_update(labels::UPDATE_CACHE).await? {
            true => Look::Done(()),
            false => Look::NotYet("it has not said yet that pods would change".to_owned()),
        })
    })
    .await
}

/// The database pods, by UID.
async fn database(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let name = cluster.get().await?.name_any();
    let selector = labels::selector_text(&name, labels::Component::Database);
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
    let nodes = database(&cluster).await?;
    let upgrade = Box::pin(async {
        world.install(&[]).await?;
        // Nothing is replaced unasked.
        consent(&cluster).await?;
        every_pod_is_replaced(&cluster, &old).await
    });
    let meanwhile = Told::during(&service, upgrade).await?;
    before.holds(&service).await?;
    meanwhile.holds(&service).await?;
    let untouched = database(&cluster).await? == nodes;
    ensure!(untouched, "a database pod was replaced without consent");

    // Pods that restart from the database alone have it all, too.
    for ordinal in 0..3 {
        cluster.flush(ordinal).await?;
        cluster.replace_pod(ordinal).await?;
    }
    before.holds(&service).await?;
    meanwhile.holds(&service).await?;

    // A user may roll back and upgrade again later. The previous release restarts database pods without consent.
    let new = images(&cluster).await?;
    world.install_old().await?;
    every_pod_is_replaced(&cluster, &new).await?;
    cluster.available().await?;
    let between = Told::by(&service, 200).await?;
    for told in [&before, &meanwhile, &between] {
        told.holds(&service).await?;
    }
    let old = images(&cluster).await?;
    world.install(&[]).await?;
    consent(&cluster).await?;
    every_pod_is_replaced(&cluster, &old).await?;
    for told in [&before, &meanwhile, &between] {
        told.holds(&service).await?;
    }
    Ok(())
}
