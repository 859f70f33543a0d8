//! Copies of each read state come and go with a real Cassandra under traffic, and a rack is emptied and removed: `hack/e2e
//! --full copies`.

use anyhow::{Context as _, Result, ensure};
use e2e::{Cluster, Told, World, is_ready};
use readstates_operator_api::{DatabaseReplicationStage, ReadStateCluster};

use crate::database::{A_STEP, has_nodes, spec};

/// Loses its disk once everything has a second copy.
const WIPED: &str = "chat-db-a-0";
const USERS: u64 = 200;

#[tokio::test]
#[ignore = "two Cassandras for a quarter of an hour"]
async fn copies_are_made_and_given_up_and_a_rack_is_removed_with_every_row_readable() -> Result<()>
{
    let world = World::installed().await?;
    let place = world.namespace("copies").await?;
    let cluster = world.cluster(&place, "chat");
    cluster.apply(spec(1, 1, 1)).await?;
    has_nodes(&cluster, 2).await?;
    cluster.available().await?;
    let users = cluster.told_of(USERS).await?;

    let raise = async {
        cluster.apply(spec(2, 1, 1)).await?;
        has_copies(&cluster, 2).await
    };
    let meanwhile = Told::during(&cluster.service()?, Box::pin(raise)).await?;
    cluster.flush(0).await?;
    meanwhile.holds(&cluster.service()?).await?;
    cluster.has_rows_of(&users).await?;

    // Whatever it had, the other one has.
    let (claim, pod) = (format!("pvc/data-{WIPED}"), format!("pod/{WIPED}"));
    cluster.kubectl(&["delete", &claim, "--wait=false"]).await?;
    cluster
        .kubectl(&["delete", &pod, "--grace-period=1"])
        .await?;
    cluster.waits_on("NodeReplacing", A_STEP).await?;
    has_nodes(&cluster, 2).await?;
    cluster.sees(WIPED, "is ready", is_ready).await?;
    cluster.has_rows_of(&users).await?;

    let lower = async {
        cluster.apply(spec(1, 1, 1)).await?;
        has_copies(&cluster, 1).await?;
        cluster.apply(spec(1, 1, 0)).await?;
        has_nodes(&cluster, 1).await
    };
    let meanwhile = Told::during(&cluster.service()?, Box::pin(lower)).await?;
    cluster.flush(0).await?;
    meanwhile.holds(&cluster.service()?).await?;
    cluster.has_rows_of(&users).await?;
    let mut without = spec(1, 1, 0);
    let racks = without.database.racks.as_mut().context("no racks")?;
    racks.truncate(1);
    cluster.apply(without).await?;
    has_nodes(&cluster, 1).await?;
    cluster.has_rows_of(&users).await?;
    cluster.delete().await
}

/// Waits until each read state has so many copies and nothing is waited for.
async fn has_copies(cluster: &Cluster, copies: i32) -> Result<()> {
    let has = move |chat: &ReadStateCluster| {
        let status = chat.status.as_ref();
        let replication = status.and_then(|status| status.database_replication.as_ref());
        replication.is_some_and(|it| {
            it.stage == DatabaseReplicationStage::Stable
                && (it.keyspace, it.complete) == (copies, copies)
        }) && status.is_some_and(|status| status.waiting_on.is_none())
    };
    let what = format!("has {copies} copies of everything");
    let seen: ReadStateCluster = cluster
        .sees_within("chat", &what, A_STEP + A_STEP, has)
        .await?;
    ensure!(seen.status.is_some());
    Ok(())
}
