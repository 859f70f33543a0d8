//! Super-disks: what the API server takes and refuses of them, what pods are told, and what is done while one
//! is at risk.

use k8s_openapi::api::{
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use readstates_operator::super_disk::Condition;
use readstates_operator_api::{ReadStateCluster, SuperDiskState};
use serde_json::{Value, json};

use crate::{
    chat::cluster,
    database::{at_rest, up},
    world::{World, condition, waiting, with_world},
};

fn on_super_disks() -> Value {
    let mut cluster = cluster(1);
    cluster["spec"]["database"]["superDisk"] =
        json!({ "localDevices": ["/dev/disk/by-id/google-local-nvme-ssd-*"] });
    cluster
}

fn states(chat: &ReadStateCluster) -> Vec<(String, SuperDiskState)> {
    let disks = &chat.status.as_ref().unwrap().super_disks;
    disks.iter().map(|d| (d.name.clone(), d.state)).collect()
}

/// As a kubelet tells that the disk's container has ended like this, again and again.
async fn ends(world: &World, pod: &str, status: i32, said: &str) {
    let state = |state: Value, last: Value, name: &str| {
        json!({
            "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 1, "state": state,
            "lastState": last,
        })
    };
    let crashed = json!({ "terminated": { "exitCode": status, "message": said } });
    let status = json!({ "status": {
        "conditions": [{ "type": "Ready", "status": "False" }],
        "initContainerStatuses": [
            state(json!({ "waiting": { "reason": "CrashLoopBackOff" } }), crashed, "disk"),
            state(json!({ "waiting": { "reason": "PodInitializing" } }), json!({}), "disk-agent"),
        ],
    } });
    let pods = world.api::<Pod>();
    pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

#[test]
fn what_would_lose_data_or_do_nothing_is_refused() {
    with_world(async |world| {
        let with = |field: &str, value: Value| {
            let mut cluster = on_super_disks();
            cluster["spec"]["database"]["superDisk"][field] = value;
            cluster
        };
        for (cluster, word) in [
            (with("localDevices", json!([])), "localDevices"),
            (with("localDevices", json!(["nvme0n1"])), "localDevices"),
            (with("localDevices", json!(["/dev/a b"])), "localDevices"),
            (
                with("localDevices", json!(["/dev/$(reboot)"])),
                "localDevices",
            ),
            (
                with("localDevices", json!(["/dev/../etc/passwd"])),
                "without . and ..",
            ),
            (with("localDevices", json!(["/dev/nvme*"])), "more specific"),
            (
                with("localDevices", json!(["/dev/nvme[0-3]n1"])),
                "more specific",
            ),
            (with("localDevices", json!(["/dev/*"])), "more specific"),
            (
                with("localDevices", json!(["/dev/disk/by-id/nvme-*"])),
                "more specific",
            ),
            (
                with("localDevices", json!(["/dev/disk/by-id/google-*"])),
                "more specific",
            ),
            (
                with("localDevices", json!(["/dev/disk/by-path/*"])),
                "more specific",
            ),
            (
                with(
                    "localDevices",
                    json!(["/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_*"]),
                ),
                "must not name network disks",
            ),
            (with("localCount", json!(0)), "localCount"),
            (with("fastLeg", json!("Sometimes")), "fastLeg"),
            (with("filesystem", json!("Btrfs")), "filesystem"),
            (with("size", json!("1Ti")), "size"),
        ] {
            let refusal = world.create(&cluster).await.unwrap_err();
            assert!(refusal.contains(word), "{word:?} is not in {refusal:?}");
        }
        let mut embedded = cluster(1);
        embedded["spec"]["database"] =
            json!({ "embedded": {}, "superDisk": { "localDevices": ["/dev/nvme0n1"] } });
        let refusal = world.create(&embedded).await.unwrap_err();
        assert!(refusal.contains("are valid only with engine"), "{refusal}");

        world.create(&on_super_disks()).await.unwrap();
        for local in [
            "/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_*",
            "/dev/disk/by-id/google-local-ssd-block*",
            "/dev/disk/by-id/nvme-Microsoft_NVMe_Direct_Disk_*",
            "/dev/nvme0n1",
        ] {
            let changed = with("localDevices", json!([local]));
            world.replace(changed).await.unwrap();
        }
        let refusal = world
            .replace(with("filesystem", json!("Ext4")))
            .await
            .unwrap_err();
        assert!(refusal.contains("filesystem cannot change"), "{refusal}");
        let refusal = world.replace(cluster(1)).await.unwrap_err();
        assert!(
            refusal.contains("superDisk cannot be added or removed"),
            "{refusal}"
        );
        world.replace(with("localCount", json!(4))).await.unwrap();
    });
}

#[test]
fn pods_are_told_their_volumes_and_the_status_how_their_disks_are() {
    with_world(async |world| {
        world.agents.ring().ordered = true;
        world.create(&on_super_disks()).await.unwrap();
        world.reconcile("chat").await;
        // The API server has taken the pod, with everything that it is given of its node.
        world.settle().await;
        let chat = world.reconcile("chat").await;
        let entries = async || {
            let map = world.get::<ConfigMap>("chat-super-disks").await;
            let data = map.data.unwrap_or_default().into_iter();
            data.map(|(pod, text)| (pod, serde_json::from_str::<Value>(&text).unwrap()))
                .collect::<Vec<_>>()
        };
        let uid = async |pod: &str| {
            let claim = world
                .get::<PersistentVolumeClaim>(&format!("data-{pod}"))
                .await;
            claim.uid().unwrap()
        };
        let a = "chat-db-a-0".to_owned();
        let entry = async |pod: &str, used: bool| {
            let uid_of_pod = world.get::<Pod>(pod).await.uid();
            let entry = json!({ "volume": uid(pod).await, "pod": uid_of_pod, "usedBefore": used });
            (pod.to_owned(), entry)
        };
        assert_eq!(entries().await, [entry(&a, false).await]);
        assert_eq!(states(&chat), [(a.clone(), SuperDiskState::Healthy)]);

        let chat = at_rest(&world).await;
        assert!(condition(&chat, "SuperDisksHealthy").starts_with("True SuperDiskHealthy"));
        let b = "chat-db-b-0".to_owned();
        assert_eq!(
            entries().await,
            [entry(&a, true).await, entry(&b, true).await]
        );
        // A claim with a source says what it is a copy of; where the source is gone, a person does.
        let annotated =
            json!({ "metadata": { "annotations": { "readstates.dev/copy-of": "u-0" } } });
        let claims = world.api::<PersistentVolumeClaim>();
        let patch = Patch::Merge(annotated);
        claims
            .patch(&format!("data-{b}"), &PatchParams::default(), &patch)
            .await
            .unwrap();
        world.reconcile("chat").await;
        assert_eq!(entries().await[1].1["copyOf"], "u-0");
        assert_eq!(entries().await[0].1["copyOf"], Value::Null);
    });
}

#[test]
fn while_one_disk_is_filled_no_other_pod_may_go() {
    with_world(async |world| {
        up(&world, &on_super_disks()).await;
        let budget = async || {
            let budget = world.get::<PodDisruptionBudget>("chat-db").await;
            let spec = serde_json::to_value(budget.spec.unwrap()).unwrap();
            let others = &spec["selector"]["matchExpressions"][0]["values"];
            (spec["maxUnavailable"].clone(), others.clone())
        };
        assert_eq!(budget().await, (json!(1), Value::Null));
        world.agents.disk_is("chat-db-a-0", Condition::Rebuilding);
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "SuperDisksHealthy");
        assert!(
            words.starts_with("False FastLegRebuilding: chat-db-a-0: "),
            "{words}"
        );
        assert!(condition(&chat, "Degraded").starts_with("False"));
        assert_eq!(budget().await, (json!(0), json!(["chat-db-a-0"])));

        // Nor do we take one.
        let uid = world.get::<Pod>("chat-db-b-0").await.uid();
        let mut changed = on_super_disks();
        changed["spec"]["database"]["resources"]["limits"]["memory"] = json!("3Gi");
        world.replace(changed).await.unwrap();
        for _ in 0..3 {
            world.reconcile("chat").await;
            world.settle().await;
        }
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "DatabaseRolling");
        let words = condition(&chat, "Progressing");
        assert!(words.contains("the super-disk of chat-db-a-0"), "{words}");
        assert_eq!(world.get::<Pod>("chat-db-b-0").await.uid(), uid);

        world.agents.disk_is("chat-db-a-0", Condition::Healthy);
        at_rest(&world).await;
        assert_eq!(budget().await, (json!(1), Value::Null));
        assert_ne!(world.get::<Pod>("chat-db-b-0").await.uid(), uid);
    });
}

#[test]
fn a_disk_that_refuses_is_told_with_its_code_and_what_to_do() {
    with_world(async |world| {
        up(&world, &on_super_disks()).await;
        let said = "ForgetArray md3\nE_SSD_AHEAD The fast leg has writes that the durable leg has not. Decide.";
        ends(&world, "chat-db-b-0", 3, said).await;
        let chat = world.reconcile("chat").await;
        let disk = &chat.status.as_ref().unwrap().super_disks[1];
        assert_eq!(disk.state, SuperDiskState::Refused);
        assert_eq!(disk.code.as_deref(), Some("E_SSD_AHEAD"));
        let uid = world.get::<Pod>("chat-db-b-0").await.uid().unwrap();
        let words = format!(
            "True SuperDiskRefused: the super-disk of chat-db-b-0: E_SSD_AHEAD The fast leg has writes that the durable \
             leg has not. Decide. Here: annotate the ReadStateCluster with readstates.dev/keep-leg={uid}.durable or \
             readstates.dev/keep-leg={uid}.fast."
        );
        assert_eq!(condition(&chat, "Degraded"), words);
        let decided = json!({ "metadata": { "annotations": { "readstates.dev/keep-leg": format!("{uid}.durable") } } });
        let clusters = world.api::<ReadStateCluster>();
        clusters
            .patch("chat", &PatchParams::default(), &Patch::Merge(decided))
            .await
            .unwrap();
        world.reconcile("chat").await;
        let map = world
            .get::<ConfigMap>("chat-super-disks")
            .await
            .data
            .unwrap();
        let entry: Value = serde_json::from_str(&map["chat-db-b-0"]).unwrap();
        assert_eq!(entry["keep"], json!({ "pod": uid, "leg": "durable" }));
        let entry: Value = serde_json::from_str(&map["chat-db-a-0"]).unwrap();
        assert_eq!(entry["keep"], Value::Null);
        // One that failed is told from one that refused.
        ends(&world, "chat-db-b-0", 1, "error: failed to run a step").await;
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "SuperDisksHealthy");
        let expected = "False SuperDiskFailed: chat-db-b-0: it ended with status 1 and said: error: failed to run a step";
        assert_eq!(words, expected);
    });
}
