//! A database on a super-disk, on a machine with local disks: `hack/e2e --disk-node`.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::{Cluster, DiskNode, LOCAL_DISKS, World, cassandra_spec, is_ready};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use readstates_operator_api::{FastLeg, Filesystem, ReadStateClusterSpec, Storage, SuperDiskSpec};

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
    cluster
        .sees_within(MEMBER, "is ready", SLOWLY, is_ready)
        .await?;
    cluster.wait_for("SuperDisksHealthy", SLOWLY).await?;
    cluster.wait_for("Available", SLOWLY).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "wants a virtual machine: hack/e2e --disk-node"]
async fn a_database_on_a_super_disk_survives_its_pods_end_and_its_machines() -> Result<()> {
    let world = World::installed().await?;
    let mut node = DiskNode::joined(&world, SIZE).await?;
    let class = node.offer_network_disk().await?;
    let place = world.namespace("disk-node").await?;
    let cluster = world.cluster(&place, "chat");
    cluster.apply(spec(&node, class)?).await?;
    serves(&cluster).await?;
    let users = cluster.told_of(100).await?;

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
    cluster.has_rows_of(&users).await?;

    println!("    the machine's power is cut; it comes back with blank local disks");
    node.lose_power().await?;
    node.come_back_on_another_host().await?;
    serves(&cluster).await?;
    cluster.has_rows_of(&users).await?;

    println!(
        "    everything of its pods is killed, and they are forgotten: the reaper takes the super-disk down"
    );
    node.kill_pods()?;
    cluster.delete().await?;
    let forgotten = ["delete", "pod", MEMBER, "--force", "--grace-period=0"];
    cluster.kubectl(&forgotten).await?;
    node.look_again().await?;
    node.reap().await?;
    node.leave().await.context("failed to forget the machine")
}
