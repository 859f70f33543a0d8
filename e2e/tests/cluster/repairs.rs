//! No acknowledged change is rolled back where one node loses its disk while another one has missed writes: both hold
//! the old rows until the lost one is repaired, and they are a majority of three. Part of `hack/e2e --full repairs`.

use anyhow::{Result, ensure};
use e2e::{CHANNEL, Cluster, Look, MESSAGE, World, until};
use readstates_operator_api::{DatabaseNodeState, ReadStateCluster, SettingValue};

use crate::database::{A_STEP, has_nodes, nodes, spec};

/// Has all three copies, and nothing happens to it.
const WELL: &str = "chat-db-a-0";
/// Loses its disk.
const WIPED: &str = "chat-db-b-0";
/// Misses writes before that.
const BEHIND: &str = "chat-db-b-1";
const USERS: u64 = 200;

#[tokio::test]
#[ignore = "three Cassandras for a quarter of an hour"]
async fn a_lost_disk_beside_a_node_that_missed_writes_rolls_no_acknowledged_change_back()
-> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("repaired").await?;
    let cluster = world.cluster(&place, "chat");
    loses_nothing(&cluster).await?;
    cluster.delete().await
}

async fn loses_nothing(cluster: &Cluster) -> Result<()> {
    let mut three = spec(3, 1, 2);
    // What a node misses, nothing else brings it.
    let hints = (
        "hinted_handoff_enabled".to_owned(),
        SettingValue("false".to_owned()),
    );
    three.database.settings = Some([hints].into());
    cluster.apply(three).await?;
    has_nodes(cluster, 3).await?;
    cluster.available().await?;
    let users = cluster.told_of(USERS).await?;

    is_away(cluster, BEHIND, WIPED).await?;
    let service = cluster.service()?;
    for user in &users {
        service.ack(*user, CHANNEL, MESSAGE + 1).await?;
    }
    until("every change is written", A_STEP, async || {
        Ok(match cluster.flush(0).await {
            Ok(_) => Look::Done(()),
            Err(some) => Look::NotYet(format!("{some:#}")),
        })
    })
    .await?;
    is_back(cluster, BEHIND).await?;
    has_nodes(cluster, 3).await?;

    let claim = format!("pvc/data-{WIPED}");
    cluster.kubectl(&["delete", &claim, "--wait=false"]).await?;
    let pod = format!("pod/{WIPED}");
    cluster
        .kubectl(&["delete", &pod, "--grace-period=1"])
        .await?;
    let repaired = |chat: &ReadStateCluster| {
        let mut nodes = nodes(chat).iter();
        nodes.any(|n| {
            n.name == WIPED && n.state == DatabaseNodeState::Member && n.last_repaired.is_some()
        })
    };
    let what = format!("{WIPED} is rebuilt and repaired");
    cluster
        .sees_within("chat", &what, A_STEP + A_STEP, repaired)
        .await?;
    has_nodes(cluster, 3).await?;

    // The two that could have had the old rows are the majority that answers.
    is_away(cluster, WELL, WIPED).await?;
    let rows = cluster.cassandra().await?;
    let wanted = Some((MESSAGE + 1).to_string());
    for user in &users {
        let row = rows.row(*user).await?;
        let states = row.map(|row| row.read_states()).transpose()?;
        let states = states.unwrap_or_default();
        ensure!(
            states.len() == 1 && states[0].last_message_id == wanted,
            "user {user} was rolled back: {states:?}"
        );
    }
    is_back(cluster, WELL).await?;
    has_nodes(cluster, 3).await
}

/// It runs, and no other node sends it anything, as `witness` sees.
async fn is_away(cluster: &Cluster, pod: &str, witness: &str) -> Result<()> {
    nodetool(cluster, pod, "disablebinary").await?;
    nodetool(cluster, pod, "disablegossip").await?;
    let what = format!("{witness} sees {pod} down");
    until(&what, A_STEP, async || {
        let status = nodetool(cluster, witness, "status").await?;
        let down = status.lines().any(|line| line.starts_with("DN "));
        Ok(if down {
            Look::Done(())
        } else {
            Look::NotYet(status)
        })
    })
    .await
}

async fn is_back(cluster: &Cluster, pod: &str) -> Result<()> {
    nodetool(cluster, pod, "enablegossip").await?;
    nodetool(cluster, pod, "enablebinary").await?;
    Ok(())
}

pub(crate) async fn nodetool(cluster: &Cluster, pod: &str, command: &str) -> Result<String> {
    cluster
        .kubectl(&["exec", pod, "-c", "database", "--", "nodetool", command])
        .await
}
