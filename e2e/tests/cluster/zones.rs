//! Machines in zones: members are spread over them, leave one that is drained one by one, and survive one that dies.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Cluster, Look, Told, World, until};

/// Until the members that are left serve what another had that is gone without a word.
const TAKEN_OVER: Duration = Duration::from_mins(2);

#[tokio::test]
async fn a_machine_that_is_drained_gives_up_its_members_one_by_one() -> Result<()> {
    let world = World::installed().await?;
    let cluster = World::chat().await?;
    let zones = cluster.zones_of_members().await?;
    ensure!(zones.len() == 2, "three members are in {zones:?}");
    let told = Told::by(&cluster.service()?, 60).await?;
    let node = cluster.node_without_database().await?;
    let drained = world.while_cordoned(&node, async {
        world.drain(&node).await?;
        let left = cluster.nodes_of_members().await?;
        ensure!(!left.contains(&node), "members are still on {left:?}");
        cluster.has_members(3).await
    });
    let meanwhile = Told::during(&cluster.service()?, Box::pin(drained)).await?;
    told.holds(&cluster.service()?).await?;
    meanwhile.holds(&cluster.service()?).await
}

#[tokio::test]
async fn a_machine_that_dies_costs_nothing_that_was_written_and_returns() -> Result<()> {
    let world = World::installed().await?;
    let cluster = World::chat().await?;
    let node = cluster.node_without_database().await?;
    only_the_last_member_on(&world, &cluster, &node).await?;
    let told = Told::by(&cluster.service()?, 60).await?;
    for member in 0..3 {
        cluster.flush(member).await?;
    }
    world.kill_node(&node).await?;
    let survived = serves_without(&cluster, &told).await;
    // Also when it failed: the tests after this one want the machine.
    world.start_node(&node).await?;
    survived?;
    cluster.has_members(3).await?;
    told.holds(&cluster.service()?).await?;
    told.holds(&cluster.member(2)?).await
}

/// Of all that is watched here, the last member alone is on this machine: neither another member nor the operator.
async fn only_the_last_member_on(world: &World, cluster: &Cluster, node: &str) -> Result<()> {
    let empty = async {
        world.drain(node).await?;
        cluster.has_members(3).await
    };
    world.while_cordoned(node, Box::pin(empty)).await?;
    let other = cluster.node_of("chat-0").await?;
    ensure!(other != node, "chat-0 is still on {node}");
    world
        .while_cordoned(&other, Box::pin(cluster.replace_pod(2)))
        .await?;
    cluster.has_members(3).await?;
    let on = cluster.node_of("chat-2").await?;
    ensure!(on == node, "chat-2 is on {on}");
    Ok(())
}

/// The two remaining members serve all users, and accept changes.
async fn serves_without(cluster: &Cluster, told: &Told) -> Result<()> {
    let what = "the members that are left serve all";
    until(what, TAKEN_OVER, async || {
        Ok(match told.holds(&cluster.member(0)?).await {
            Ok(()) => Look::Done(()),
            Err(error) => Look::NotYet(format!("{error:#}")),
        })
    })
    .await?;
    let new = Told::by(&cluster.member(1)?, 60).await?;
    new.holds(&cluster.member(0)?).await
}
