//! The database under a cluster grows, shrinks, changes and loses a disk, and every row stays readable. Two and three
//! members of Cassandra at a time, for many minutes: `hack/e2e --full database`, which lets all three
//! machines take pods: no two members share one.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Cluster, Told, World, cassandra_spec, is_ready};
use readstates_operator_api::{
    DatabaseNode, DatabaseNodeState, RackSpec, ReadStateCluster, ReadStateClusterSpec, Reclaim,
    SettingValue,
};

/// A member joins half a minute after it has seen the others, and starts slowly on a busy machine.
pub(crate) const A_STEP: Duration = Duration::from_mins(9);

/// Racks a and b, with `a` and `b` members, and this many copies.
pub(crate) fn spec(copies: i32, a: i32, b: i32) -> ReadStateClusterSpec {
    let rack = |name: &str, members| RackSpec {
        name: name.to_owned(),
        members,
        zone: None,
    };
    let mut spec = cassandra_spec();
    spec.replicas = 1;
    spec.database.replication_factor = Some(copies);
    spec.database.reclaim = Some(Reclaim::Keep);
    spec.database.racks = Some([("a", a), ("b", b)].map(|(n, m)| rack(n, m)).into());
    spec
}

/// The same with another setting, which restarts every database pod.
fn other_settings(mut spec: ReadStateClusterSpec) -> ReadStateClusterSpec {
    let reads = ("concurrent_reads".to_owned(), SettingValue("24".to_owned()));
    spec.database.settings = Some([reads].into());
    spec
}

pub(crate) fn nodes(cluster: &ReadStateCluster) -> &[DatabaseNode] {
    cluster.status.as_ref().map_or(&[], |s| &s.database_nodes)
}

/// Waits until `count` members are on record and no node joins or leaves.
pub(crate) async fn has_nodes(cluster: &Cluster, count: usize) -> Result<()> {
    let member = |n: &&DatabaseNode| n.state == DatabaseNodeState::Member;
    let settled = move |c: &ReadStateCluster| {
        let left = |n: &DatabaseNode| n.state == DatabaseNodeState::Left;
        let members = nodes(c).iter().filter(member).count();
        let current = c.status.as_ref().is_some_and(|s| {
            s.observed_generation == c.metadata.generation && s.waiting_on.is_none()
        });
        members == count && nodes(c).iter().all(|n| member(&n) || left(n)) && current
    };
    let what = format!("has {count} database nodes");
    cluster.sees_within("chat", &what, A_STEP, settled).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "three Cassandras for a quarter of an hour"]
async fn a_database_grows_changes_and_shrinks_with_every_row_readable() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("database").await?;
    let cluster = world.cluster(&place, "chat");
    grows_changes_and_shrinks(&cluster).await?;
    cluster.delete().await
}

async fn grows_changes_and_shrinks(cluster: &Cluster) -> Result<()> {
    cluster.apply(spec(2, 1, 1)).await?;
    has_nodes(cluster, 2).await?;
    cluster.available().await?;
    let users = cluster.told_of(100).await?;

    cluster.apply(spec(2, 1, 2)).await?;
    has_nodes(cluster, 3).await?;
    cluster.has_rows_of(&users).await?;

    let mut changed = other_settings(spec(2, 1, 2));
    cluster.apply(changed.clone()).await?;
    has_nodes(cluster, 3).await?;
    cluster.has_rows_of(&users).await?;

    changed.database.racks = spec(2, 1, 1).database.racks;
    cluster.apply(changed).await?;
    has_nodes(cluster, 2).await?;
    cluster.has_rows_of(&users).await?;
    // What is on the volume of the one that left is its owner's to delete.
    let claims = cluster.claims().await?;
    ensure!(claims.len() == 3, "{claims:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "three Cassandras for a quarter of an hour"]
async fn a_change_goes_through_three_members_without_a_failed_read() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("rolled").await?;
    let cluster = world.cluster(&place, "chat");
    rolls_under_load(&cluster).await?;
    cluster.delete().await
}

/// Who is new is looked for in the database, by two of three copies.
async fn rolls_under_load(cluster: &Cluster) -> Result<()> {
    cluster.apply(spec(3, 1, 2)).await?;
    has_nodes(cluster, 3).await?;
    cluster.available().await?;
    let users = cluster.told_of(100).await?;
    let roll = async {
        cluster.apply(other_settings(spec(3, 1, 2))).await?;
        cluster.waits_on("DatabaseRolling", A_STEP).await?;
        has_nodes(cluster, 3).await
    };
    let meanwhile = Told::during(&cluster.service()?, Box::pin(roll)).await?;
    cluster.flush(0).await?;
    meanwhile.holds(&cluster.service()?).await?;
    cluster.has_rows_of(&users).await
}

#[tokio::test]
#[ignore = "two Cassandras for a quarter of an hour"]
async fn a_member_whose_disk_is_wiped_is_rebuilt_from_the_other_one() -> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("wiped").await?;
    let cluster = world.cluster(&place, "chat");
    cluster.apply(spec(2, 1, 1)).await?;
    has_nodes(&cluster, 2).await?;
    cluster.available().await?;
    let users = cluster.told_of(100).await?;
    let before = nodes(&cluster.get().await?).to_vec();

    let claim = "pvc/data-chat-db-b-0";
    cluster.kubectl(&["delete", claim, "--wait=false"]).await?;
    cluster
        .kubectl(&["delete", "pod/chat-db-b-0", "--grace-period=1"])
        .await?;
    cluster.waits_on("NodeReplacing", A_STEP).await?;
    has_nodes(&cluster, 2).await?;
    let after = nodes(&cluster.get().await?).to_vec();
    ensure!(
        before[1].claim_uid != after[1].claim_uid && before[1].host_id != after[1].host_id,
        "{before:?} {after:?}"
    );
    cluster.sees("chat-db-b-0", "is ready", is_ready).await?;
    cluster.has_rows_of(&users).await?;
    cluster.delete().await
}
