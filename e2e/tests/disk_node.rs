//! A database on a super-disk, on a machine with local disks: `hack/e2e --disk-node`.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    CHANNEL, Cluster, DiskNode, LOCAL_DISKS, MESSAGE, Users, World, cassandra_spec, is_ready,
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Condition};
use kube::ResourceExt;
use readstates_operator_api::{
    FastLeg, Filesystem, ReadStateCluster, ReadStateClusterSpec, Storage, SuperDiskSpec,
    SuperDiskState,
};

const MEMBER: &str = "chat-db-a-0";
/// Of each leg.
const SIZE: u64 = 1 << 30;
/// A database starts twenty times slower than on a real processor.
const SLOWLY: Duration = Duration::from_mins(40);

fn spec(node: &DiskNode, class: String) -> Result<ReadStateClusterSpec> {
    let mut spec = cassandra_spec();
    spec.replicas = 1;
    spec.database.storage = Some(Storage {
        size: "1Gi".to_owned(),
        storage_class_name: Some(class),
    });
    spec.database.image = Some(node.database_image()?);
    spec.database.node_selector = Some(node.labels());
    spec.database.super_disk = Some(SuperDiskSpec {
        local_devices: vec![LOCAL_DISKS.to_owned()],
        local_count: 2,
        fast_leg: FastLeg::Required,
        filesystem: Filesystem::Xfs,
        image: None,
    });
    Ok(spec)
}

/// Waits until the database serves on a disk of which both legs are in sync, and cache pods do on it.
async fn serves(cluster: &Cluster) -> Result<()> {
    let whole = |c: &ReadStateCluster| {
        let disks = c.status.as_ref().map(|s| &s.super_disks[..]);
        disks.is_some_and(|d| matches!(d, [one] if one.state == SuperDiskState::Healthy))
    };
    cluster
        .sees_within(MEMBER, "is ready", SLOWLY, is_ready)
        .await?;
    let what = "has a super-disk in sync";
    cluster.sees_within("chat", what, SLOWLY, whole).await?;
    let available = |c: &ReadStateCluster| {
        let conditions = c.status.as_ref().map(|s| &s.conditions[..]);
        let is = |c: &Condition| c.type_ == "Available" && c.status == "True";
        conditions.is_some_and(|all| all.iter().any(is))
    };
    cluster
        .sees_within("chat", "is available", SLOWLY, available)
        .await?;
    Ok(())
}

async fn all_rows(cluster: &Cluster, users: &[u64]) -> Result<()> {
    let rows = cluster.cassandra().await?;
    for user in users {
        ensure!(rows.row(*user).await?.is_some(), "user {user} has no row");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a virtual machine with a database in it: an hour"]
async fn a_database_on_a_super_disk_survives_its_pods_end_and_its_machines() -> Result<()> {
    let world = World::installed().await?;
    let mut node = DiskNode::joined(&world, SIZE).await?;
    let class = node.offer_network_disk().await?;
    let place = world.namespace("disk-node").await?;
    let cluster = world.cluster(&place, "chat");
    cluster.apply(spec(&node, class)?).await?;
    serves(&cluster).await?;
    let users = Users::fresh().take(100);
    for user in &users {
        cluster.service().ack(*user, CHANNEL, MESSAGE).await?;
    }
    cluster.flush(0).await?;

    println!("    the pod ends and returns");
    let before = cluster.api::<Pod>().get(MEMBER).await?.uid();
    cluster
        .kubectl(&["delete", "pod", MEMBER, "--wait=false"])
        .await?;
    let another = |pod: &Pod| pod.uid() != before;
    cluster
        .sees_within(MEMBER, "comes back", SLOWLY, another)
        .await?;
    serves(&cluster).await?;
    all_rows(&cluster, &users).await?;

    println!("    the machine's power is cut; it comes back with blank local disks");
    node.lose_power().await?;
    node.come_back_on_another_host().await?;
    serves(&cluster).await?;
    all_rows(&cluster, &users).await?;
    let condition = cluster.condition("SuperDisksHealthy").await?;
    ensure!(condition.status == "True", "{condition:?}");
    let _ = node.network_disk_did();
    all_rows(&cluster, &users).await?;
    let did = node.network_disk_did();
    println!("    the network disk meanwhile: {did:?}");

    cluster.delete().await?;
    node.leave().await.context("failed to forget the machine")
}
