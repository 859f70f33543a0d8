//! VolumeSnapshots of a real Cassandra under load, by the CSI hostpath driver; everything but the copies is destroyed, and a
//! cluster of another name in another namespace begins with them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{Cluster, Place, World, cassandra_spec};
use k8s_openapi::api::core::v1::Secret;
use readstates_operator_api::{
    BackupPhase, NodeSnapshot, ReadStateBackup, ReadStateClusterSpec, RestoreFrom, RestorePhase,
    Storage, VolumeSnapshotsOf, VolumesOf, labels,
};
use serde_json::{Value, json};

use super::{apply, history::History, of_kind};

/// A flush, and a copy of a small volume.
const TAKES: Duration = Duration::from_mins(5);
/// A start of Cassandra on its data.
const RESTORED: Duration = Duration::from_mins(12);
const BACKUP: &str = "copied";
/// As hack/csi installs them; the copies stay when everything else goes.
const VOLUMES: &str = "csi-hostpath";
const KEPT: &str = "csi-hostpath-retain";

fn spec() -> ReadStateClusterSpec {
    let mut spec = cassandra_spec();
    spec.replicas = 2;
    spec.database.storage = Some(Storage {
        size: "2Gi".to_owned(),
        storage_class_name: Some(VOLUMES.to_owned()),
    });
    spec
}

/// What the API server says of an object, as JSON.
async fn json_of(world: &World, reference: &[&str]) -> Result<Value> {
    let arguments = [&["get", "--output=json"], reference].concat();
    Ok(serde_json::from_str(
        &world.kubectl(&arguments).await?.success()?,
    )?)
}

async fn create(world: &World, objects: &[Value]) -> Result<()> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let apply = ["apply", "--filename=-"];
    let applied = world.kubectl_with(&apply, &list.to_string()).await?;
    applied.success().map(drop)
}

/// The backup, complete.
async fn backed_up(cluster: &Cluster) -> Result<Vec<NodeSnapshot>> {
    let class = json!({ "volumeSnapshotClassName": KEPT });
    let spec = json!({ "cluster": "origin", "volumeSnapshots": class });
    apply::<ReadStateBackup>(cluster, of_kind("ReadStateBackup", BACKUP, spec)).await?;
    let over = |backup: &ReadStateBackup| {
        let phase = backup.status.as_ref().map(|status| status.phase);
        matches!(phase, Some(BackupPhase::Complete | BackupPhase::Failed))
    };
    let backup = cluster.sees_within(BACKUP, "is over", TAKES, over).await?;
    let status = backup.status.context("no status")?;
    ensure!(status.phase == BackupPhase::Complete, "{status:?}");
    Ok(status.volume_snapshots)
}

/// What is written down of a backup so that its copies can be found without the namespace that it was made in.
struct Copied {
    contents: Vec<Value>,
    snapshots: Vec<Value>,
}

impl Copied {
    async fn of(world: &World, from: &Place, to: &Place, nodes: &[NodeSnapshot]) -> Result<Self> {
        let (mut contents, mut snapshots) = (Vec::new(), Vec::new());
        for NodeSnapshot { name, content, .. } in nodes {
            let content = content.as_deref().context("no VolumeSnapshotContent")?;
            let content = json_of(world, &["volumesnapshotcontent", content]).await?;
            let of = format!("--namespace={}", from.name);
            let snapshot = json_of(world, &[&of, "volumesnapshot", name]).await?;
            let api = &snapshot["apiVersion"];
            contents.push(json!({
                "apiVersion": api, "kind": "VolumeSnapshotContent", "metadata": { "name": format!("again-{name}") },
                "spec": {
                    "deletionPolicy": "Delete", "driver": content["spec"]["driver"],
                    "source": { "snapshotHandle": content["status"]["snapshotHandle"] },
                    "sourceVolumeMode": content["spec"]["sourceVolumeMode"],
                    "volumeSnapshotRef": { "name": name, "namespace": to.name },
                },
            }));
            let (labels, annotations) = (
                &snapshot["metadata"]["labels"],
                &snapshot["metadata"]["annotations"],
            );
            snapshots.push(json!({
                "apiVersion": api, "kind": "VolumeSnapshot",
                "metadata": {
                    "name": name, "namespace": to.name, "labels": { labels::BACKUP: labels[labels::BACKUP] },
                    "annotations": { labels::SNAPSHOT_OF: annotations[labels::SNAPSHOT_OF] },
                },
                "spec": { "source": { "volumeSnapshotContentName": format!("again-{name}") } },
            }));
        }
        Ok(Self {
            contents,
            snapshots,
        })
    }
}

/// The passwords that are in the data, under the names of the new cluster.
async fn passwords(origin: &Cluster, to: &Place) -> Result<Vec<Value>> {
    let mut copies = Vec::new();
    for suffix in ["db-superuser", "db-login"] {
        let secret = origin
            .api::<Secret>()
            .get(&format!("origin-{suffix}"))
            .await?;
        copies.push(json!({
            "apiVersion": "v1", "kind": "Secret", "data": secret.data,
            "metadata": { "name": format!("talk-{suffix}"), "namespace": to.name },
        }));
    }
    Ok(copies)
}

async fn destroy(world: &World, places: &[&Place]) -> Result<()> {
    for place in places {
        let delete = ["delete", "--wait", "--ignore-not-found", "--timeout=15m"];
        for what in [
            &["--all", "readstatecluster"][..],
            &["--all", "readstatebackup"],
            &["--all", "pvc"],
            &["--all", "volumesnapshot"],
        ] {
            let of = format!("--namespace={}", place.name);
            let arguments = [&delete[..], &[of.as_str()], what].concat();
            world.kubectl(&arguments).await?.success()?;
        }
        let namespace = ["namespace", place.name.as_str()];
        world
            .kubectl(&[&delete[..], &namespace].concat())
            .await?
            .success()?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "two Cassandras one after the other, and a storage driver"]
async fn everything_is_destroyed_and_comes_back_from_the_snapshots_of_its_volumes() -> Result<()> {
    let world = World::installed().await?;
    let (from, to) = (
        world.namespace("copied-from").await?,
        world.namespace("copied-to").await?,
    );
    destroy(&world, &[&from, &to]).await?;
    let (from, to) = (
        world.namespace("copied-from").await?,
        world.namespace("copied-to").await?,
    );
    let (origin, talk) = (world.cluster(&from, "origin"), world.cluster(&to, "talk"));
    origin.apply(spec()).await?;
    origin.available().await?;
    origin.has_members(2).await?;
    let service = origin.service()?;
    let mut nodes = Vec::new();
    let backup = Box::pin(async {
        nodes = backed_up(&origin).await?;
        Ok(())
    });
    let history = History::around(&service, backup).await?;
    println!("    {nodes:?}");

    let copied = Copied::of(&world, &from, &to, &nodes).await?;
    let secrets = passwords(&origin, &to).await?;
    destroy(&world, &[&from]).await?;

    create(&world, &copied.contents).await?;
    create(&world, &[copied.snapshots, secrets].concat()).await?;
    let mut again = spec();
    again.database.volumes_of = Some(VolumesOf {
        namespace: from.name.clone(),
        name: "origin".to_owned(),
    });
    again.restore_from = Some(Box::new(RestoreFrom {
        volume_snapshots: Some(VolumeSnapshotsOf {
            backup: BACKUP.to_owned(),
        }),
        ..RestoreFrom::default()
    }));
    talk.apply(again).await?;
    talk.wait_for("Restored", RESTORED).await?;
    talk.available().await?;
    talk.has_members(2).await?;
    let status = talk.get().await?.status.context("no status")?;
    let restore = status.restore.context("no record of the restore")?;
    ensure!(restore.phase == RestorePhase::Restored, "{restore:?}");

    history.is_restored_in(&talk.service()?).await?;
    destroy(&world, &[&to]).await
}
