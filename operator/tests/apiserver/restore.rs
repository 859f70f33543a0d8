//! A new cluster that begins with a backup: restored before its first cache pod, once, and never over live data. What
//! Job controllers and kubelets do is done by these tests.

mod killed;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{Namespace, Pod},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use readstates_operator_api::{
    ReadStateBackup, ReadStateCluster, ReadStateRing, RestorePhase, RestoreStatus,
};
use serde_json::{Value, json};

use crate::{
    chat::{names, running, time_passes, until_done},
    policy::with_the_charts_rights,
    world::{World, condition, waiting, with_world},
};

const ID: &str = "20260101T000000.000Z-00000001";
const REPORT: &str = r#"{"id":"20260101T000000.000Z-00000001","source":"cql://mail-db/readstates",
    "finished":"2026-01-01T00:00:05Z","users":7,"restored":"2026-01-02T00:00:00Z","dry_run":false}"#;

fn volume() -> Value {
    json!({ "repository": { "volumeClaim": { "claimName": "backups" } } })
}

fn cluster(replicas: i32, restore: Value) -> Value {
    let mut cluster = crate::chat::cluster(replicas);
    cluster["spec"]["restoreFrom"] = restore;
    cluster
}

async fn restore_jobs(world: &World) -> Vec<Job> {
    let ours = ListParams::default().labels("readstates.dev/restore=chat");
    let jobs = world.api::<Job>().list(&ours).await.unwrap();
    let stays = |job: &Job| job.metadata.deletion_timestamp.is_none();
    jobs.items.into_iter().filter(stays).collect()
}

async fn restore_of(world: &World) -> Option<RestoreStatus> {
    let chat = world.get::<ReadStateCluster>("chat").await;
    chat.status
        .and_then(|status| status.restore)
        .map(|restore| *restore)
}

/// Whether there is anything of the cache that could serve.
async fn has_cache(world: &World) -> bool {
    let set = world.api::<StatefulSet>().get_opt("chat").await.unwrap();
    let ring = world.api::<ReadStateRing>().get_opt("chat").await.unwrap();
    set.is_some() || ring.is_some()
}

/// Brings the database of a new cluster up, with its keyspace; the Job that restores is at work then.
async fn until_restoring(world: &World) -> Job {
    for _ in 0..12 {
        world.reconcile("chat").await;
        assert!(!has_cache(world).await);
        if let Some(job) = restore_jobs(world).await.pop() {
            return job;
        }
        time_passes(world).await;
    }
    let chat = world.get::<ReadStateCluster>("chat").await;
    panic!("no Job restores: {:?}", chat.status.unwrap().waiting_on);
}

async fn set_status<K>(world: &World, name: &str, status: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let patch = Patch::Merge(json!({ "status": status }));
    let api = world.api::<K>();
    api.patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[test]
fn a_new_cluster_begins_with_a_backup_and_its_cache_pods_come_after_it() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        world.create(&cluster(2, volume())).await.unwrap();
        let job = until_restoring(&world).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("RestoreRunning"));
        let told = condition(&chat, "Restored");
        assert!(
            told.starts_with(&format!("False RestoreRunning: Job {}", job.name_any())),
            "{told}"
        );
        assert_eq!(
            restore_of(&world).await.unwrap().phase,
            RestorePhase::Running
        );
        let policy: NetworkPolicy = world.get("chat-restore").await;
        assert_eq!(policy.spec.unwrap().ingress, None);
        for change in [volume(), Value::Null] {
            let mut other = cluster(2, change);
            if other["spec"]["restoreFrom"].is_object() {
                other["spec"]["restoreFrom"]["snapshot"] = json!(ID);
            }
            let refused = world.replace(other).await.unwrap_err();
            assert!(refused.contains("spec.restoreFrom cannot be"), "{refused}");
        }

        // Its pod passes the restricted pod security standard.
        let namespace = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        let params = PatchParams::default();
        let patch = Patch::Merge(namespace);
        let name = &world.namespace;
        namespaces.patch(name, &params, &patch).await.unwrap();
        world.pod_ends(&job, &[], &[("restore", 0, REPORT)]).await;
        world.finish_jobs().await;
        let chat = world.reconcile("chat").await;
        assert!(!has_cache(&world).await, "it is on record first");
        assert_eq!(
            condition(&chat, "Restored"),
            "True Restored: backup 20260101T000000.000Z-00000001 of cql://mail-db/readstates, complete at \
             2026-01-01T00:00:05Z, with 7 users was restored at 2026-01-02T00:00:00Z"
        );
        let record = restore_of(&world).await;
        let jobs = world.api::<Job>();
        let now = DeleteParams::background();
        jobs.delete(&job.name_any(), &now).await.unwrap();
        let chat = until_done(&world).await;
        assert_eq!(chat.status.unwrap().cache, "2/2");
        assert_eq!(restore_of(&world).await, record);
        assert!(restore_jobs(&world).await.is_empty(), "it is done once");

        // Removing the wish changes nothing, and there is no way back.
        world.replace(crate::chat::cluster(2)).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "Restored").starts_with("True Restored: "));
        assert_eq!(waiting(&chat), None);
        let refused = world.replace(cluster(2, volume())).await.unwrap_err();
        assert!(
            refused.contains("nothing is restored over live data"),
            "{refused}"
        );
    });
}

#[test]
fn a_restore_that_is_refused_is_told_with_the_words_and_another_wish_is_taken() {
    with_world(async |world| {
        world.create(&cluster(2, volume())).await.unwrap();
        let job = until_restoring(&world).await;
        let words = "12 users\nreadstates: 1 problems: object chunks/AB/ABCD is not there\n";
        world.pod_ends(&job, &[], &[("restore", 4, words)]).await;
        world
            .fail_jobs("Job has reached the specified backoff limit")
            .await;
        let chat = world.reconcile("chat").await;
        let told = condition(&chat, "Degraded");
        assert!(
            told.starts_with("True RestoreFailed: Job chat-restore-"),
            "{told}"
        );
        assert!(
            told.contains("failed: readstates: 1 problems: object chunks/AB"),
            "{told}"
        );
        assert!(told.contains("not tried again by itself"), "{told}");
        assert_eq!(waiting(&chat).as_deref(), Some("RestoreFailed"));
        assert_eq!(
            restore_of(&world).await.unwrap().phase,
            RestorePhase::Failed
        );

        let mut other = volume();
        other["snapshot"] = json!(ID);
        world.replace(cluster(2, other)).await.unwrap();
        world.reconcile("chat").await;
        world.reconcile("chat").await;
        let jobs = restore_jobs(&world).await;
        let [next] = &jobs[..] else {
            panic!("{jobs:?}");
        };
        let pod = next.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
        assert!(
            pod.containers[0]
                .args
                .as_ref()
                .unwrap()
                .contains(&ID.to_owned())
        );
        assert!(!has_cache(&world).await);
    });
}

#[test]
fn a_backup_by_its_name_is_waited_for_and_taken_with_its_place_and_id() {
    with_world(async |world| {
        let named = json!({ "backup": { "name": "before-upgrade" } });
        world.create(&cluster(1, named)).await.unwrap();
        for _ in 0..4 {
            world.reconcile("chat").await;
            time_passes(&world).await;
        }
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("RestoreWaiting"));
        let told = condition(&chat, "Restored");
        assert!(
            told.contains("there is no ReadStateBackup before-upgrade"),
            "{told}"
        );
        let backup = json!({
            "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateBackup",
            "metadata": { "name": "before-upgrade" },
            "spec": { "cluster": "mail", "storage": {
                "volumeClaim": { "claimName": "backups", "path": "mail" },
                "encryptionKeySecretRef": { "name": "keys" },
            } },
        });
        world.make::<ReadStateBackup>(backup).await.unwrap();
        let told = condition(&world.reconcile("chat").await, "Restored");
        assert!(told.contains("is not complete yet"), "{told}");
        let complete = json!({
            "phase": "Complete", "conditions": [],
            "backup": { "id": ID, "finished": "2026-01-01T00:00:05Z" },
        });
        set_status::<ReadStateBackup>(&world, "before-upgrade", complete).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(
            condition(&chat, "Restored"),
            "False SecretMissing: Secret keys does not exist"
        );
        let key = json!({
            "metadata": { "name": "keys" },
            "stringData": { "backup.key": "0123456789abcdef0123456789abcdef" },
        });
        world
            .make::<k8s_openapi::api::core::v1::Secret>(key)
            .await
            .unwrap();
        let job = until_restoring(&world).await;
        let pod = job.spec.unwrap().template.spec.unwrap();
        let args = pod.containers[0].args.as_ref().unwrap().join(" ");
        assert!(args.contains(&format!("{ID} --once")), "{args}");
        assert!(args.contains("/var/lib/readstates-backups/mail"), "{args}");
    });
}

#[test]
fn a_cluster_that_runs_is_not_restored_whatever_is_lost_of_its_record() {
    with_world(async |world| {
        // One that an operator which knew no restores has brought up.
        running(&world, 2).await;
        let refused = world.replace(cluster(2, volume())).await.unwrap_err();
        assert!(
            refused.contains("nothing is restored over live data"),
            "{refused}"
        );

        // The status is gone, as after a restore of etcd: the wish gets in, and the ring is there.
        set_status::<ReadStateCluster>(&world, "chat", Value::Null).await;
        world.replace(cluster(2, volume())).await.unwrap();
        for _ in 0..3 {
            world.reconcile("chat").await;
            time_passes(&world).await;
        }
        let chat = world.reconcile("chat").await;
        let told = condition(&chat, "Restored");
        assert!(told.starts_with("Unknown RestoreSkipped: "), "{told}");
        assert!(restore_jobs(&world).await.is_empty());
        assert_eq!(chat.status.unwrap().cache, "2/2");
        assert_eq!(world.cache_pods("chat").await.len(), 2);
    });
}

#[test]
fn where_everything_is_lost_but_the_database_the_job_itself_finds_what_was_done() {
    with_world(async |world| {
        world.create(&cluster(1, volume())).await.unwrap();
        let job = until_restoring(&world).await;
        world.finish_jobs().await;
        until_done(&world).await;

        // Of the cache and of the record nothing is left.
        let now = DeleteParams::background();
        let sets = world.api::<StatefulSet>();
        sets.delete("chat", &now).await.unwrap();
        let rings = world.api::<ReadStateRing>();
        rings.delete("chat", &now).await.unwrap();
        let pods = world.api::<Pod>();
        pods.delete("chat-0", &now).await.unwrap();
        world.let_go().await;
        let jobs = world.api::<Job>();
        jobs.delete(&job.name_any(), &now).await.unwrap();
        set_status::<ReadStateCluster>(&world, "chat", Value::Null).await;

        let again = until_restoring(&world).await;
        assert_ne!(again.uid(), job.uid());
        let args = again.spec.unwrap().template.spec.unwrap().containers[0]
            .args
            .clone();
        assert!(args.unwrap().contains(&"--once".to_owned()));
        assert!(
            !names::<StatefulSet>(&world)
                .await
                .contains(&"chat".to_owned())
        );
        world.finish_jobs().await;
        let chat = until_done(&world).await;
        assert!(condition(&chat, "Restored").starts_with("True Restored: "));
    });
}

#[test]
fn what_cannot_be_restored_is_refused_at_the_door() {
    with_world(async |world| {
        let mut embedded = cluster(1, volume());
        embedded["spec"]["database"] = json!({ "embedded": {} });
        let two = json!({
            "backup": { "name": "b" }, "repository": { "volumeClaim": { "claimName": "b" } },
        });
        let both = json!({ "backup": { "name": "b" }, "snapshot": "latest" });
        let mut odd = volume();
        odd["snapshot"] = json!("yesterday");
        for (wish, words) in [
            (embedded, "readstates backup restore --store embedded:"),
            (
                cluster(1, json!({})),
                "exactly one of backup, repository, volumeSnapshots and migration",
            ),
            (
                cluster(1, two),
                "exactly one of backup, repository, volumeSnapshots and migration",
            ),
            (cluster(1, both), "snapshot goes with repository"),
            (cluster(1, odd), "spec.restoreFrom.snapshot"),
            (
                cluster(1, json!({ "repository": {} })),
                "exactly one of s3 and volumeClaim",
            ),
        ] {
            let refused = world.create(&wish).await.unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    });
}

#[test]
fn the_sample_is_what_the_api_server_takes() {
    with_world(async |world| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../hack/samples/restore.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        let sample: Value = serde_yaml_ng::from_str(&text).unwrap();
        let taken = world.create(&sample).await.unwrap();
        let taken = serde_json::to_value(taken.spec.restore_from).unwrap();
        assert_eq!(taken, sample["spec"]["restoreFrom"]);
    });
}
