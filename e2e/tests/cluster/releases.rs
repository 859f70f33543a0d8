//! Another release of Cassandra, with a real one of each: `hack/e2e --full releases`. First one that does not come up, and the
//! way back from it; then one that does. Meanwhile users are acknowledged, and none is lost.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{Cluster, Told, World, cassandra_spec, is_ready};
use k8s_openapi::api::core::v1::Pod;
use readstates_operator_api::{
    DatabaseUpgrade, DatabaseUpgradeStage, ReadStateCluster, ReadStateClusterSpec,
};

use crate::repairs::nodetool;

/// The one node of the database.
const NODE: &str = "chat-db-a-0";
/// Takes a snapshot, stops, starts with another image, writes its data anew, each while the machine does other things.
const A_CHANGE: Duration = Duration::from_mins(9);
const SNAPSHOTS: &str = "readstates-before-upgrade-from-";

fn spec(image: Option<&str>) -> ReadStateClusterSpec {
    let mut spec = cassandra_spec();
    spec.replicas = 1;
    spec.database.image = image.map(str::to_owned);
    spec
}

fn upgrade(cluster: &ReadStateCluster) -> Option<&DatabaseUpgrade> {
    cluster.status.as_ref()?.database_upgrade.as_ref()
}

fn image(pod: &Pod) -> Option<&str> {
    let containers = &pod.spec.as_ref()?.containers;
    let database = containers.iter().find(|c| c.name == "database")?;
    database.image.as_deref()
}

/// `5.0.8` of `readstates/cassandra-former:5.0.8-0a1b2c`.
fn release(image: &str) -> Result<&str> {
    let (_, tag) = image.rsplit_once(':').context("no tag")?;
    Ok(tag.split('-').next().unwrap_or(tag))
}

/// A container waits for an image that is not there. The first that needs the database's prepares its configuration.
fn lacks_image(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let initial = status.and_then(|s| s.init_container_statuses.as_ref());
    let main = status.and_then(|s| s.container_statuses.as_ref());
    let statuses = [initial, main].into_iter().flatten().flatten();
    let mut reasons = statuses.filter_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        waiting.reason.as_deref()
    });
    reasons.any(|reason| matches!(reason, "ErrImagePull" | "ImagePullBackOff"))
}

/// The names of the snapshots that the node says it has of upgrades, each once.
async fn snapshots(cluster: &Cluster) -> Result<Vec<String>> {
    let told = nodetool(cluster, NODE, "listsnapshots").await?;
    let names = told
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let mut names: Vec<_> = names
        .filter(|name| name.starts_with(SNAPSHOTS))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// The node serves with this image, and says that it is of this release.
async fn runs(cluster: &Cluster, wanted: &str) -> Result<()> {
    let serves = |pod: &Pod| is_ready(pod) && image(pod) == Some(wanted);
    let what = format!("serves with {wanted}");
    cluster.sees_within(NODE, &what, A_CHANGE, serves).await?;
    let told = nodetool(cluster, NODE, "version").await?;
    let version = format!("ReleaseVersion: {}", release(wanted)?);
    ensure!(told.contains(&version), "{told}");
    Ok(())
}

/// Waits until the change is in this stage, or over.
async fn comes_to(
    cluster: &Cluster,
    stage: Option<DatabaseUpgradeStage>,
) -> Result<ReadStateCluster> {
    let there = move |cluster: &ReadStateCluster| {
        let status = cluster.status.as_ref();
        let seen = status.and_then(|status| status.observed_generation);
        seen == cluster.metadata.generation && upgrade(cluster).map(|now| now.stage) == stage
    };
    let what = match stage {
        Some(stage) => format!("is {stage:?}"),
        None => "is not being upgraded".to_owned(),
    };
    cluster.sees_within("chat", &what, A_CHANGE, there).await
}

#[tokio::test]
#[ignore = "a Cassandra that starts four times: ten minutes"]
async fn another_release_that_does_not_come_up_is_taken_back_and_one_that_does_is_kept()
-> Result<()> {
    let world = World::installed().await?;
    let former = world.environment().former_cassandra.clone();
    let former =
        former.context("READSTATES_E2E_FORMER_CASSANDRA is not set; hack/e2e --full sets it")?;
    let place = world.namespace("releases").await?;
    let cluster = world.cluster(&place, "chat");
    cluster.apply(spec(Some(&former))).await?;
    cluster.available().await?;
    runs(&cluster, &former).await?;
    let written = cluster.told_of(100).await?;
    let told = Told::by(&cluster.service()?, 100).await?;

    let back = Box::pin(goes_and_comes_back(&cluster, &former));
    let told = told.again_during(&cluster.service()?, back).await?;
    told.holds(&cluster.service()?).await?;
    cluster.has_rows_of(&written).await?;

    let told = told
        .again_during(&cluster.service()?, Box::pin(goes(&cluster, &former)))
        .await?;
    cluster.available().await?;
    told.holds(&cluster.service()?).await?;
    cluster.flush(0).await?;
    cluster.has_rows_of(&written).await?;
    cluster.has_rows_of(&told.users()).await?;
    cluster.delete().await
}

/// To a release that no registry has, and back.
async fn goes_and_comes_back(cluster: &Cluster, former: &str) -> Result<()> {
    let missing = format!("readstates/cassandra-former:{}.999", line(former)?);
    cluster.apply(spec(Some(&missing))).await?;
    let begun = comes_to(cluster, Some(DatabaseUpgradeStage::Restarting)).await?;
    let name = upgrade(&begun).context("it was there")?.snapshot.clone();
    let wanted = format!("{SNAPSHOTS}{}-", release(former)?);
    ensure!(name.starts_with(&wanted), "{name}");
    let broken = |pod: &Pod| image(pod) == Some(missing.as_str()) && lacks_image(pod);
    cluster
        .sees_within(NODE, "lacks its image", A_CHANGE, broken)
        .await?;

    cluster.apply(spec(Some(former))).await?;
    runs(cluster, former).await?;
    comes_to(cluster, Some(DatabaseUpgradeStage::WentBack)).await?;
    let kept = snapshots(cluster).await?;
    ensure!(kept == [name], "{kept:?}");
    cluster.at_rest().await
}

/// To the release of the chart's values, which is there.
async fn goes(cluster: &Cluster, former: &str) -> Result<()> {
    cluster.apply(spec(None)).await?;
    let rewriting = comes_to(cluster, Some(DatabaseUpgradeStage::Rewriting)).await?;
    let to = upgrade(&rewriting).context("it was there")?.to.clone();
    ensure!(
        release(&to)? != release(former)?,
        "{to} is the same release"
    );
    runs(cluster, &to).await?;
    comes_to(cluster, None).await?;
    cluster.at_rest().await?;
    let kept = snapshots(cluster).await?;
    ensure!(kept.is_empty(), "{kept:?}");
    Ok(())
}

/// `5.0` of `cassandra:5.0.8`.
fn line(image: &str) -> Result<&str> {
    let (line, _) = release(image)?.rsplit_once('.').context("no patch")?;
    Ok(line)
}
