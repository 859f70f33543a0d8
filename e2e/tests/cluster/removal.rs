//! Deleting a `ReadStateCluster`: everything it made goes, and what holds data stays.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{CHANNEL, Cluster, Look, MESSAGE, Users, World, embedded_spec, until};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{ConfigMap, Pod, Service, ServiceAccount},
    policy::v1::PodDisruptionBudget,
};
use readstates_operator_api::ReadStateRing;

const COLLECTED: Duration = Duration::from_mins(2);

/// Everything with the cluster's label but its claims, as `kind/name`.
async fn children(cluster: &Cluster) -> Result<Vec<String>> {
    let kinds = [
        ("statefulset", cluster.names::<StatefulSet>().await?),
        ("pod", cluster.names::<Pod>().await?),
        ("service", cluster.names::<Service>().await?),
        ("serviceaccount", cluster.names::<ServiceAccount>().await?),
        ("configmap", cluster.names::<ConfigMap>().await?),
        (
            "poddisruptionbudget",
            cluster.names::<PodDisruptionBudget>().await?,
        ),
        ("job", cluster.names::<Job>().await?),
        ("readstatering", cluster.names::<ReadStateRing>().await?),
    ];
    let named = |(kind, names): (&str, Vec<String>)| {
        names
            .into_iter()
            .map(|name| format!("{kind}/{name}"))
            .collect::<Vec<_>>()
    };
    Ok(kinds.into_iter().flat_map(named).collect())
}

async fn all_gone(cluster: &Cluster) -> Result<()> {
    until("everything owned is gone", COLLECTED, async || {
        let left = children(cluster).await?;
        Ok(if left.is_empty() {
            Look::Done(())
        } else {
            Look::NotYet(left.join(", "))
        })
    })
    .await
}

#[tokio::test]
async fn a_deleted_cluster_takes_everything_with_it_but_its_volumes() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("removal").await?;
    let cluster = world.cluster(&place, "small");
    cluster.apply(embedded_spec()).await?;
    cluster.available().await?;
    let user = Users::fresh().one();
    let told = cluster.service()?.ack(user, CHANNEL, MESSAGE).await?;
    let made = children(&cluster).await?;
    for expected in [
        "statefulset/small",
        "pod/small-0",
        "service/small",
        "readstatering/small",
    ] {
        ensure!(
            made.iter().any(|name| name == expected),
            "no {expected} among {made:?}"
        );
    }
    let claims = cluster.claims().await?;
    ensure!(claims.len() == 1, "{claims:?}");

    cluster.delete().await?;
    all_gone(&cluster).await?;
    ensure!(
        cluster.claims().await? == claims,
        "volumes hold data and are kept"
    );

    // The same name finds the same volume, and on it what the pod wrote before it stopped.
    cluster.apply(embedded_spec()).await?;
    cluster.available().await?;
    let read = cluster.service()?.read(user).await?;
    ensure!(read == [told.clone()], "told {told:?}, now {read:?}");
    cluster.delete().await
}

#[tokio::test]
async fn a_deleted_cluster_writes_what_it_holds_and_one_made_again_finds_it() -> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let mut told = Vec::new();
    for user in Users::fresh().take(60) {
        told.push((user, service.ack(user, CHANNEL, MESSAGE).await?));
    }
    let claims = cluster.claims().await?;
    cluster.delete().await?;
    all_gone(&cluster).await?;
    ensure!(
        cluster.claims().await? == claims,
        "volumes hold data and are kept"
    );
    let cluster = World::chat().await?;
    for (user, state) in &told {
        let read = cluster.service()?.read(*user).await?;
        ensure!(
            read == [state.clone()],
            "user {user}: told {state:?}, now {read:?}"
        );
    }
    Ok(())
}
