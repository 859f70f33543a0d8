//! A new cluster, of another name and in another namespace, that begins with a backup of a cluster that served meanwhile.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{Cluster, Place, World, cassandra_spec};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use readstates_operator_api::{
    BackupStorage, EncryptionKeyRef, ReadStateClusterSpec, RestoreFrom, RestorePhase,
    VolumeClaimStorage,
};
use serde_json::json;

use super::{VOLUME, apply, backed_up, encryption_key, history::History, volume_claim};

/// A cold start of Cassandra, its schema, and a Job that restores little.
const RESTORED: Duration = Duration::from_mins(12);
/// The volume of the backups once more, for the other namespace.
const SAME_VOLUME: &str = "backups-of-chat-again";

fn spec() -> ReadStateClusterSpec {
    let repository = BackupStorage {
        s3: None,
        volume_claim: Some(VolumeClaimStorage {
            claim_name: VOLUME.to_owned(),
            path: Some("chat".to_owned()),
        }),
        encryption_key_secret_ref: Some(EncryptionKeyRef {
            name: VOLUME.to_owned(),
            key: None,
        }),
    };
    ReadStateClusterSpec {
        replicas: 2,
        restore_from: Some(Box::new(RestoreFrom {
            backup: None,
            repository: Some(repository),
            volume_snapshots: None,
            migration: None,
            snapshot: None,
        })),
        ..cassandra_spec()
    }
}

/// Gives the other namespace a claim on the volume with the backups, as a bucket would be there for both.
async fn share_volume(world: &World, chat: &Cluster, place: &Cluster, name: &Place) -> Result<()> {
    let claim = chat.api::<PersistentVolumeClaim>().get(VOLUME).await?;
    let bound = claim.spec.and_then(|spec| spec.volume_name);
    let volumes: Api<PersistentVolume> = Api::all(world.client());
    let volume = volumes
        .get(&bound.context("the claim is not bound")?)
        .await?;
    let mut spec = volume.spec.context("a volume without a spec")?;
    let class = spec.storage_class_name.clone();
    spec.claim_ref = None;
    spec.persistent_volume_reclaim_policy = Some("Retain".to_owned());
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": SAME_VOLUME }, "spec": spec,
    });
    volume["spec"]["claimRef"] = json!({ "name": VOLUME, "namespace": name.name });
    let parameters = PatchParams::apply("readstates-e2e").force();
    volumes
        .patch(SAME_VOLUME, &parameters, &Patch::Apply(volume))
        .await?;
    let mut claim = volume_claim();
    claim["spec"]["volumeName"] = json!(SAME_VOLUME);
    claim["spec"]["storageClassName"] = json!(class);
    apply::<PersistentVolumeClaim>(place, claim).await
}

/// Nothing of an earlier run is left: volumes on which cache pods have served are not restored into.
async fn clean(world: &World, chat: &Cluster, talk: &Cluster) -> Result<()> {
    let delete = ["delete", "--wait", "--ignore-not-found"];
    let clusters = ["--timeout=17m", "readstatecluster", "talk"];
    talk.kubectl(&[&delete[..], &clusters].concat()).await?;
    for cluster in [talk, chat] {
        let backup = ["readstatebackup", "under-load"];
        cluster.kubectl(&[&delete[..], &backup].concat()).await?;
    }
    talk.kubectl(&["delete", "--wait", "pvc", "--all"]).await?;
    chat.kubectl(&[&delete[..], &["pvc", VOLUME]].concat())
        .await?;
    let volume = [&delete[..], &["persistentvolume", SAME_VOLUME]].concat();
    world.kubectl(&volume).await?.success()?;
    for cluster in [talk, chat] {
        let secret = ["secret", VOLUME];
        cluster.kubectl(&[&delete[..], &secret].concat()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_backup_under_load_is_restored_into_a_new_cluster_of_another_namespace_and_name()
-> Result<()> {
    let chat = World::chat().await?;
    let world = World::reached().await?;
    let place = world.namespace("restored").await?;
    let talk = world.cluster(&place, "talk");
    clean(&world, &chat, &talk).await?;
    let service = chat.service()?;
    apply::<PersistentVolumeClaim>(&chat, volume_claim()).await?;
    apply::<Secret>(&chat, encryption_key()).await?;

    let backup = Box::pin(async {
        for ordinal in 0..3 {
            chat.flush(ordinal).await?;
        }
        let made = backed_up(&chat, "under-load").await?;
        println!("    {made:?}");
        Ok(())
    });
    let history = History::around(&service, backup).await?;

    apply::<Secret>(&talk, encryption_key()).await?;
    share_volume(&world, &chat, &talk, &place).await?;
    talk.apply(spec()).await?;
    talk.wait_for("Restored", RESTORED).await?;
    talk.available().await?;
    talk.has_members(2).await?;
    let status = talk.get().await?.status.context("no status")?;
    let restore = status.restore.context("no record of the restore")?;
    ensure!(restore.phase == RestorePhase::Restored, "{restore:?}");
    ensure!(restore.users >= Some(history.users()), "{restore:?}");

    let restored = talk.service()?;
    history.is_restored_in(&restored).await?;
    // Nothing is done again when the wish is taken back.
    let plain = ReadStateClusterSpec {
        restore_from: None,
        ..spec()
    };
    talk.apply(plain).await?;
    talk.at_rest().await?;
    history.stays_in(&restored).await?;
    let refused = talk.apply(spec()).await.unwrap_err();
    ensure!(
        format!("{refused:#}").contains("nothing is restored over live data"),
        "{refused:#}"
    );
    history.goes_on_in(&service).await?;

    clean(&world, &chat, &talk).await
}
