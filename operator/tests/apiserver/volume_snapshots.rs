//! Backups by VolumeSnapshots, and a database that begins with them: against definitions of the kind, with what storage
//! systems and the snapshot controller do done by these tests.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Secret},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::PartialObjectMetaExt,
};
use readstates_operator::{backups::reconcile_backup, volume_snapshot::VolumeSnapshot};
use readstates_operator_api::{
    BackupPhase, ReadStateBackup, ReadStateBackupStatus, ReadStateCluster, RestorePhase, labels,
};
use serde_json::{Value, json};

use crate::{
    chat::{cluster, names, running, time_passes, until_done},
    faults::{Fault, Faults},
    foreign_kinds::{ForeignKind, once_served},
    gate::Gate,
    policy::with_the_charts_rights,
    world::{World, condition, waiting, with_world},
};

fn kind_of_snapshots(world: &World) -> ForeignKind {
    let parts = json!({ "status": {} });
    ForeignKind::new(world, "snapshot.storage.k8s.io", "VolumeSnapshot", &parts)
}

/// One reconcile; the status after it.
async fn reconciled(world: &World) -> ReadStateBackupStatus {
    let known = world.get::<ReadStateBackup>("nightly").await.metadata;
    let known = known.into_response_partial();
    reconcile_backup(world.context(), &known).await.unwrap();
    let backup: ReadStateBackup = world.get("nightly").await;
    backup.status.unwrap()
}

fn complete(status: &ReadStateBackupStatus) -> String {
    let found = status.conditions.iter().find(|c| c.type_ == "Complete");
    let found = found.unwrap();
    format!("{} {} {}", found.status, found.reason, found.message)
}

/// The snapshot controller says this of one.
async fn storage_says(world: &World, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let snapshots = world.api::<VolumeSnapshot>();
    let params = PatchParams::default();
    snapshots.patch_status(name, &params, &patch).await.unwrap();
}

async fn taken(world: &World, name: &str) {
    let status = json!({
        "boundVolumeSnapshotContentName": format!("content-of-{name}"), "creationTime": "2026-01-01T00:00:09Z",
        "readyToUse": true, "restoreSize": "10Gi",
    });
    storage_says(world, name, status).await;
}

/// A person has copied the snapshots of a backup into this namespace.
async fn copied_by_hand(from: &World, to: &World) {
    for name in names::<VolumeSnapshot>(from).await {
        let one: VolumeSnapshot = from.get(&name).await;
        let annotation = |key: &str| one.annotations()[key].clone();
        let copy = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {
                "name": name, "labels": { labels::BACKUP: one.labels()[labels::BACKUP] },
                "annotations": { labels::SNAPSHOT_OF: annotation(labels::SNAPSHOT_OF) },
            },
            "spec": { "source": { "volumeSnapshotContentName": format!("copy-of-{name}") } },
        });
        to.make::<VolumeSnapshot>(copy).await.unwrap();
        taken(to, &name).await;
    }
}

#[test]
fn a_database_is_backed_up_by_snapshots_and_another_begins_with_them() {
    with_world(async |world| {
        let kind = kind_of_snapshots(&world);
        kind.forget().await;
        let world = with_the_charts_rights(world).await;
        running(&world, 2).await;
        until_done(&world).await;
        let nightly = json!({
            "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateBackup",
            "metadata": { "name": "nightly" },
            "spec": { "cluster": "chat", "volumeSnapshots": { "volumeSnapshotClassName": "kept" } },
        });
        world
            .make::<ReadStateBackup>(nightly.clone())
            .await
            .unwrap();
        let status = reconciled(&world).await;
        assert_eq!(status.phase, BackupPhase::Refused);
        let told = complete(&status);
        assert!(
            told.contains("this Kubernetes has no VolumeSnapshots"),
            "{told}"
        );

        kind.define().await;
        let goes_on = |status: &ReadStateBackupStatus| status.phase != BackupPhase::Refused;
        let status = once_served(async || reconciled(&world).await, goes_on).await;
        let told = complete(&status);
        assert!(told.contains("cache pods have written"), "{told}");
        let asked = world.fleet.asked();
        for pod in ["chat-0", "chat-1"] {
            assert!(asked.contains(&format!("flush {pod}")), "{asked:?}");
        }
        let flushed = status.flushed.clone().unwrap();

        world.agents.ring().orders.clear();
        let told = complete(&reconciled(&world).await);
        assert!(told.contains("chat-db-a-0 is told to flush"), "{told}");
        let orders = world.agents.ring().orders.clone();
        assert_eq!(orders, ["flush chat-db-a-0", "flush chat-db-b-0"]);
        let told = complete(&reconciled(&world).await);
        assert!(told.contains("2 VolumeSnapshots were made"), "{told}");
        let made = ["nightly-a-0", "nightly-b-0"];
        assert_eq!(names::<VolumeSnapshot>(&world).await, made);
        let one: VolumeSnapshot = world.get("nightly-a-0").await;
        assert_eq!(one.spec.volume_snapshot_class_name.as_deref(), Some("kept"));
        assert_eq!(one.owner_references()[0].name, "nightly");

        let error = json!({ "error": { "message": "the array is busy" } });
        storage_says(&world, "nightly-a-0", error).await;
        let told = complete(&reconciled(&world).await);
        assert!(told.contains("the array is busy"), "{told}");
        for name in made {
            taken(&world, name).await;
        }
        let status = reconciled(&world).await;
        assert_eq!(status.phase, BackupPhase::Complete, "{status:?}");
        assert_eq!(status.flushed, Some(flushed.clone()));
        let nodes = status.volume_snapshots.iter();
        let contents: Vec<_> = nodes.filter_map(|n| n.content.clone()).collect();
        assert_eq!(contents, made.map(|name| format!("content-of-{name}")));

        // The cluster is gone, and another begins with copies, in another namespace and under another name.
        let old = &world.namespace;
        let other = with_the_charts_rights(world.another().await).await;
        let mut again = cluster(2);
        again["spec"]["restoreFrom"] = json!({ "volumeSnapshots": { "backup": "nightly" } });
        let mut wrong = again.clone();
        wrong["spec"]["restoreFrom"]["backup"] = json!({ "name": "nightly" });
        let said = other.create(&wrong).await.unwrap_err();
        assert!(said.contains("exactly one of"), "{said}");
        again["spec"]["database"]["volumesOf"] = json!({ "namespace": old, "name": "chat" });
        other.create(&again).await.unwrap();
        let waits = condition(&other.reconcile("chat").await, "Restored");
        assert!(waits.contains("there is no VolumeSnapshot"), "{waits}");
        copied_by_hand(&world, &other).await;
        storage_says(&other, "nightly-b-0", json!({ "readyToUse": false })).await;
        let waits = condition(&other.reconcile("chat").await, "Restored");
        assert!(
            waits.contains("nightly-b-0 cannot be restored yet"),
            "{waits}"
        );
        let sets = names::<StatefulSet>(&other).await;
        assert!(sets.is_empty(), "{sets:?} would make empty volumes");
        storage_says(&other, "nightly-b-0", json!({ "readyToUse": true })).await;
        // A quota of the namespace leaves no room for them, and is raised.
        let gate = Gate::with(Faults::each("/persistentvolumeclaims", Fault::Forbidden));
        let operator = other.operator_behind(&gate);
        other.reconcile_by(&operator).await.unwrap();
        let chat: ReadStateCluster = other.get("chat").await;
        let told = condition(&chat, "Degraded");
        let claim =
            "True ApplyRejected: the API server refused PersistentVolumeClaim data-chat-db-a-0: ";
        assert!(told.starts_with(claim), "{told}");
        let told = condition(&chat, "Restored");
        assert!(
            told.contains("are to be made from VolumeSnapshots"),
            "{told}"
        );
        other.reconcile("chat").await;
        let claims = other.api::<PersistentVolumeClaim>();
        let found = claims.list(&ListParams::default()).await.unwrap().items;
        for (claim, snapshot) in found.iter().zip(made) {
            let source = claim.spec.as_ref().unwrap().data_source.as_ref().unwrap();
            let source = (source.kind.as_str(), source.name.as_str());
            assert_eq!(source, ("VolumeSnapshot", snapshot));
            assert!(claim.annotations().contains_key(labels::RESTORED_FROM));
        }
        assert_eq!(found.len(), 2);
        {
            let mut ring = other.agents.ring();
            ring.ordered = true;
            for rack in ["a", "b"] {
                let pod = format!("chat-db-{rack}-0");
                let signed = (format!("id-of-{rack}"), pod.clone());
                ring.signed.insert(pod, signed);
            }
        }
        // The passwords are in the data: none are made, and a person brings them.
        let waits = condition(&other.reconcile("chat").await, "Restored");
        for secret in ["chat-db-superuser", "chat-db-login"] {
            let there = other.api::<Secret>().get_opt(secret).await.unwrap();
            assert!(there.is_none(), "{waits}");
            let one: Secret = world.get(secret).await;
            let copy = json!({ "metadata": { "name": secret }, "data": one.data });
            other.make::<Secret>(copy).await.unwrap();
        }
        let clusters = world.api::<ReadStateCluster>();
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let params = PatchParams::default();
        clusters.patch("chat", &params, &free).await.unwrap();
        let now = DeleteParams::default();
        clusters.delete("chat", &now).await.unwrap();
        for _ in 0..40 {
            let chat = other.reconcile("chat").await;
            if condition(&chat, "Restored").starts_with("True") && waiting(&chat).is_none() {
                break;
            }
            Box::pin(time_passes(&other)).await;
        }
        let chat = until_done(&other).await;
        let restore = chat.status.unwrap().restore.unwrap();
        assert_eq!(restore.phase, RestorePhase::Restored);
        assert_eq!(restore.backup.as_deref(), Some("nightly"));
        assert_eq!(restore.backed_up, Some(flushed));
        kind.forget().await;
    });
}
