//! Reconciles that fail, against an API server in memory.

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMetaExt;
use serde_json::json;

use super::*;
use crate::fake_api::{FakeApi, OURS, WORDS};

#[tokio::test]
async fn a_move_that_cannot_be_looked_after_says_why_and_keeps_what_is_on_record() {
    let api = FakeApi::with_cluster("{ replicas: 1, database: { embedded: {} } }");
    let path = format!("{OURS}/readstatemigrations/away");
    api.put(
        &path,
        json!({
            "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateMigration",
            "metadata": { "name": "away", "namespace": "talk", "generation": 1 },
            "spec": {
                "cluster": "chat", "members": "Serve", "checkpoints": { "claimName": "moves" },
                "target": { "external": {
                    "contactPoints": ["new"], "localDatacenter": "dc1", "replicationFactor": 3, "keyspace": "readstates",
                } },
            },
            "status": { "phase": "Copying", "source": "cql://old/readstates", "nextStep": "wait" },
        }),
    );
    let look = async || {
        let meta = ObjectMeta {
            name: Some("away".to_owned()),
            namespace: Some("talk".to_owned()),
            ..ObjectMeta::default()
        };
        let known = meta.into_response_partial();
        Box::pin(reconcile_migration(
            &api.operator(),
            &Moves::default(),
            &known,
        ))
        .await
    };
    api.fail("/persistentvolumeclaims", StatusCode::FORBIDDEN);
    look().await.unwrap_err();
    let status = api.get(&path).unwrap()["status"].clone();
    assert_eq!(
        (&status["phase"], &status["source"]),
        (&json!("Copying"), &json!("cql://old/readstates"))
    );
    let degraded = &status["conditions"][0];
    assert_eq!(
        (&degraded["type"], &degraded["reason"]),
        (&json!("Degraded"), &json!("RequestFailed"))
    );
    let words = degraded["message"].as_str().unwrap();
    assert!(words.contains(WORDS), "{words}");
    // What another client was faster than is looked at again at once, and is no failure to be told.
    api.change(&path, |migration| {
        migration["status"]["conditions"] = json!([])
    });
    api.heal();
    api.fail("/persistentvolumeclaims", StatusCode::CONFLICT);
    look().await.unwrap_err();
    assert_eq!(api.get(&path).unwrap()["status"]["conditions"], json!([]));
}
