//! Reconciles that fail, against an API server in memory.

use http::StatusCode;
use kube::core::PartialObjectMetaExt;
use serde_json::{Value, json};

use super::*;
use crate::fake_api::{FakeApi, OURS, WORDS};

fn partial<K: Namespaced>(name: &str) -> PartialObjectMeta<K> {
    let meta = json!({ "name": name, "namespace": "talk" });
    let meta: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta =
        serde_json::from_value(meta).unwrap();
    meta.into_response_partial()
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": kind,
        "metadata": { "name": name, "namespace": "talk", "generation": 1 }, "spec": spec,
    })
}

/// What the condition Degraded of an object says, and its status.
fn degraded_of(api: &FakeApi, path: &str) -> (String, Value) {
    let status = api.get(path).unwrap()["status"].clone();
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    let degraded = conditions.find(|c| c["type"] == "Degraded").unwrap();
    let text = |key: &str| degraded[key].as_str().unwrap().to_owned();
    let said = format!("{} {}: {}", text("status"), text("reason"), text("message"));
    (said, status)
}

#[tokio::test]
async fn a_backup_that_cannot_be_looked_after_says_why() {
    let api = FakeApi::with_cluster("{ replicas: 1, database: { embedded: {} } }");
    let path = format!("{OURS}/readstatebackups/one");
    let storage = json!({ "volumeClaim": { "claimName": "backups" } });
    let spec = json!({ "cluster": "chat", "storage": storage });
    api.put(&path, object("ReadStateBackup", "one", spec));
    let look = async || reconcile_backup(&api.operator(), &partial("one")).await;
    api.fail("/jobs", StatusCode::FORBIDDEN);
    look().await.unwrap_err();
    let (said, status) = degraded_of(&api, &path);
    assert!(
        said.starts_with("True RequestFailed: failed to read"),
        "{said}"
    );
    assert!(
        said.ends_with(&format!("{WORDS}; it is tried again")),
        "{said}"
    );
    // Another attempt that fails so says nothing new.
    look().await.unwrap_err();
    assert_eq!(degraded_of(&api, &path).1, status);
    api.heal();
    look().await.unwrap();
    let (said, _) = degraded_of(&api, &path);
    assert!(said.starts_with("True BackupUnsupported: "), "{said}");
}

#[tokio::test]
async fn a_schedule_that_cannot_be_kept_to_says_why_and_what_it_had_made() {
    let api = FakeApi::with_cluster("{ replicas: 1, database: { embedded: {} } }");
    let path = format!("{OURS}/readstatebackupschedules/nightly");
    let spec = json!({ "cluster": "chat", "schedule": "0 3 * * *", "volumeSnapshots": {} });
    let mut nightly = object("ReadStateBackupSchedule", "nightly", spec);
    let made = json!({ "finished": "2026-01-01T03:00:00Z", "users": 7 });
    nightly["status"] = json!({ "conditions": [], "lastBackup": made });
    api.put(&path, nightly);
    let look = async || {
        let schedules = Schedules::default();
        reconcile_schedule(&api.operator(), &schedules, &partial("nightly")).await
    };
    api.fail("/readstatebackups", StatusCode::INTERNAL_SERVER_ERROR);
    look().await.unwrap_err();
    let (said, status) = degraded_of(&api, &path);
    assert!(said.starts_with("True RequestFailed: "), "{said}");
    assert_eq!(status["lastBackup"], made);
    // One that cannot be read, of a later release, is told and keeps no other from being made.
    api.heal();
    let later = json!({ "cluster": "chat", "storage": "NotYetInvented" });
    let mut later = object("ReadStateBackup", "later", later);
    later["metadata"]["labels"] = json!({ labels::BACKUP_SCHEDULE: "nightly" });
    api.put(&format!("{OURS}/readstatebackups/later"), later);
    look().await.unwrap();
    let (said, status) = degraded_of(&api, &path);
    let told = "True NotObserved: ReadStateBackup later cannot be read";
    assert!(said.starts_with(told), "{said}");
    assert_eq!(status["lastBackup"], made);
}
