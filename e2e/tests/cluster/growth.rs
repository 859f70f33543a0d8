//! Volumes that grow below a database that serves, by a storage driver that can.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{Told, World, cassandra_spec};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use readstates_operator_api::Storage;

/// The kubelet grows the filesystem when it looks at the volume next.
const GROWS: Duration = Duration::from_mins(8);
/// As hack/csi installs it.
const VOLUMES: &str = "csi-hostpath";

fn storage(size: &str) -> Option<Storage> {
    Some(Storage {
        size: size.to_owned(),
        storage_class_name: Some(VOLUMES.to_owned()),
    })
}

#[tokio::test]
#[ignore = "a Cassandra on volumes of a storage driver"]
async fn volumes_grow_below_a_database_that_serves() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("grows").await?;
    let cluster = world.cluster(&place, "grows");
    cluster.delete().await?;
    cluster
        .kubectl(&["delete", "--wait", "pvc", "--all"])
        .await?;
    let mut spec = cassandra_spec();
    spec.replicas = 2;
    spec.database.storage = storage("1Gi");
    cluster.apply(spec.clone()).await?;
    cluster.available().await?;
    cluster.has_members(2).await?;
    let service = cluster.service()?;
    let before = Told::by(&service, 60).await?;
    let pod = "grows-db-a-0";
    let since = restarts(&cluster, pod).await?;

    spec.database.storage = storage("2Gi");
    cluster.apply(spec).await?;
    let grown = Box::pin(async {
        let has_grown = |claim: &PersistentVolumeClaim| {
            let capacity = claim.status.as_ref().and_then(|s| s.capacity.as_ref());
            capacity
                .and_then(|c| c.get("storage"))
                .is_some_and(|q| q.0 == "2Gi")
        };
        let claim = format!("data-{pod}");
        cluster
            .sees_within::<PersistentVolumeClaim>(&claim, "has grown", GROWS, has_grown)
            .await?;
        Ok(())
    });
    let meanwhile = Told::during(&service, grown).await?;
    cluster.at_rest().await?;
    let kib = cluster
        .kubectl(&[
            "exec",
            pod,
            "--container=database",
            "--",
            "df",
            "--output=size",
            "/var/lib/cassandra",
        ])
        .await?;
    let kib: u64 = kib.lines().last().unwrap_or_default().trim().parse()?;
    ensure!(kib > 1_500_000, "the filesystem has {kib} KiB");
    ensure!(
        restarts(&cluster, pod).await? == since,
        "{pod} was restarted"
    );
    before.holds(&service).await?;
    meanwhile.holds(&service).await?;
    cluster.delete().await?;
    cluster
        .kubectl(&["delete", "--wait", "pvc", "--all"])
        .await
        .map(drop)
}

/// The pod's UID and how often its containers were restarted.
async fn restarts(cluster: &e2e::Cluster, pod: &str) -> Result<String> {
    let path = "--output=jsonpath={.metadata.uid} {.status.containerStatuses[*].restartCount}";
    cluster
        .kubectl(&["get", "pod", pod, path])
        .await
        .context("the pod cannot be looked at")
}
