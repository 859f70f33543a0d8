use std::time::SystemTime;

use http::StatusCode;
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Time};
use readstates_identity::{Authority, Role, details};
use readstates_operator_api::DatabaseUpgradeStage;
use serde_json::json;

use super::*;
use crate::{
    fake_api::{CORE, FakeApi, OURS, WORDS},
    fixtures,
    plan::LEAF_VALID,
};

#[test]
fn a_cluster_is_judged_from_memory_at_rest_and_not_while_its_database_changes_its_release() {
    let at = |stage| {
        let mut plan = Plan::default();
        plan.database.upgrade = Some(DatabaseUpgrade {
            from: "cassandra:5.0.8".to_owned(),
            to: "cassandra:5.0.9".to_owned(),
            snapshot: "before".to_owned(),
            stage,
            since: Time(fixtures::now()),
        });
        rests(&plan, &World::default())
    };
    assert!(rests(&Plan::default(), &World::default()));
    for stage in [
        DatabaseUpgradeStage::Snapshotting,
        DatabaseUpgradeStage::Restarting,
        DatabaseUpgradeStage::Rewriting,
        DatabaseUpgradeStage::Releasing,
    ] {
        assert!(!at(stage), "{stage:?}");
    }
    assert!(at(DatabaseUpgradeStage::WentBack));
}

const POLICY: &str = "/apis/networking.k8s.io/v1/namespaces/talk/networkpolicies/chat";
const SET: &str = "/apis/apps/v1/namespaces/talk/statefulsets/chat";
const RACK: &str = "/apis/apps/v1/namespaces/talk/statefulsets/chat-db-a";

/// A condition as `Status Reason: message`.
fn condition(api: &FakeApi, type_: &str) -> String {
    let conditions = api.cluster().status.unwrap().conditions;
    let found = conditions.iter().find(|c| c.type_ == type_).unwrap();
    format!("{} {}: {}", found.status, found.reason, found.message)
}

/// What is waited for.
fn waiting(api: &FakeApi) -> String {
    let waiting = api.cluster().status.unwrap().waiting_on.unwrap();
    format!("{}: {}", waiting.reason, waiting.message)
}

/// What is waited for when this has failed.
fn again(what: &str) -> String {
    format!("RequestFailed: {what}: {WORDS}; it is tried again, and what comes after it waits")
}

#[tokio::test]
async fn a_kind_that_cannot_be_written_is_named_and_keeps_no_condition_from_moving() {
    let api = FakeApi::with_cluster(fixtures::EMBEDDED);
    // As with an admission webhook that does not answer.
    let webhook = format!("PATCH {POLICY}");
    api.fail(&webhook, StatusCode::INTERNAL_SERVER_ERROR);
    let failed = api.reconcile().await.unwrap_err();
    assert_eq!(failed.to_string(), "failed to write NetworkPolicy chat");
    let failed = again("failed to write NetworkPolicy chat");
    assert_eq!(waiting(&api), failed);
    assert_eq!(condition(&api, "Progressing"), format!("True {failed}"));
    let cache = "False CacheNotReady: 0 cache pods are ready, 1 are wanted";
    assert_eq!(condition(&api, "CacheReady"), cache);
    assert_eq!(api.get(SET), None);

    api.heal();
    api.reconcile().await.unwrap();
    assert!(api.get(SET).is_some());
    assert!(!waiting(&api).starts_with("RequestFailed"));
    // It has to be written again, and pods become ready meanwhile.
    api.take(POLICY);
    api.fail(&webhook, StatusCode::INTERNAL_SERVER_ERROR);
    api.change(SET, |set| {
        set["status"] = json!({ "replicas": 1, "readyReplicas": 1 })
    });
    api.reconcile().await.unwrap_err();
    assert_eq!(waiting(&api), failed);
    let cache = condition(&api, "CacheReady");
    assert!(
        cache.ends_with("1 cache pods are ready, 1 are wanted"),
        "{cache}"
    );
}

#[tokio::test]
async fn what_somebody_else_has_changed_meanwhile_is_decided_again_and_not_told() {
    let api = FakeApi::with_cluster(fixtures::EMBEDDED);
    api.fail(&format!("PATCH {POLICY}"), StatusCode::CONFLICT);
    assert!(api.reconcile().await.unwrap_err().is_outdated());
    assert_eq!(api.cluster().status, None);
}

#[tokio::test]
async fn a_secret_that_is_refused_is_named_and_one_that_fails_is_tried_again() {
    for (secret, waits) in [
        ("chat-identity-ca", "IdentityPending"),
        ("chat-member-tls", "IdentityPending"),
        ("chat-db-login", "DatabaseNotReady"),
    ] {
        let api = FakeApi::with_cluster(fixtures::CASSANDRA);
        let made = format!("{CORE}/secrets/{secret}");
        api.fail(&format!("POST {made}"), StatusCode::FORBIDDEN);
        api.reconcile().await.unwrap();
        let refused = format!("ApplyRejected: the API server refused Secret {secret}: {WORDS}");
        assert_eq!(condition(&api, "Degraded"), format!("True {refused}"));
        assert_eq!(condition(&api, "Progressing"), format!("False {refused}"));
        assert!(waiting(&api).starts_with(waits), "{}", waiting(&api));
        assert_eq!(api.get(RACK), None, "{secret}");

        api.heal();
        api.fail(&format!("POST {made}"), StatusCode::SERVICE_UNAVAILABLE);
        api.reconcile().await.unwrap_err();
        assert_eq!(
            waiting(&api),
            again(&format!("failed to write Secret {secret}"))
        );
        assert!(condition(&api, "Degraded").starts_with("False "));
        assert_eq!(api.get(RACK), None, "{secret}");

        api.heal();
        api.reconcile().await.unwrap();
        assert!(api.get(&made).is_some() && api.get(RACK).is_some());
    }
}

#[tokio::test]
async fn a_volume_claim_beyond_the_quota_is_named_and_nothing_is_said_to_be_copied() {
    let spec = format!(
        "{}restoreFrom: {{ volumeSnapshots: {{ backup: nightly }} }}\n",
        fixtures::CASSANDRA
    );
    let api = FakeApi::with_cluster(&spec);
    for (rack, ordinal) in [("a", 0), ("b", 0), ("b", 1)] {
        let of = json!({
            "namespace": "talk", "cluster": "chat", "rack": rack, "ordinal": ordinal, "claimUid": "claim",
            "image": fixtures::images().cassandra, "flushed": "2026-01-01T00:00:00Z",
        });
        let name = format!("nightly-{rack}-{ordinal}");
        let snapshot = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {
                "name": name, "namespace": "talk", "labels": { labels::BACKUP: "nightly" },
                "annotations": { labels::SNAPSHOT_OF: of.to_string() },
            },
            "spec": { "source": {} }, "status": { "readyToUse": true, "restoreSize": "1Ti" },
        });
        let all = "/apis/snapshot.storage.k8s.io/v1/namespaces/talk/volumesnapshots";
        api.put(&format!("{all}/{name}"), snapshot);
    }
    let second = format!("POST {CORE}/persistentvolumeclaims/data-chat-db-b-0");
    api.fail(&second, StatusCode::FORBIDDEN);
    for _ in 0..2 {
        api.reconcile().await.unwrap();
        assert_eq!(
            condition(&api, "Degraded"),
            format!(
                "True ApplyRejected: the API server refused PersistentVolumeClaim data-chat-db-b-0: {WORDS}"
            )
        );
    }
    assert_eq!(
        condition(&api, "Restored"),
        "False RestoreRunning: volume claims are to be made from VolumeSnapshots: data-chat-db-b-0, data-chat-db-b-1"
    );
    assert_eq!(api.get(RACK), None);

    api.heal();
    api.fail(&second, StatusCode::INTERNAL_SERVER_ERROR);
    api.reconcile().await.unwrap_err();
    let failed = again("failed to write PersistentVolumeClaim data-chat-db-b-0");
    assert_eq!(waiting(&api), failed);
    api.heal();
    api.reconcile().await.unwrap();
    api.reconcile().await.unwrap();
    assert!(api.get(RACK).is_some());
}

#[tokio::test]
async fn a_cluster_that_cannot_be_held_says_so_and_gets_nothing() {
    let api = FakeApi::with_cluster(fixtures::CASSANDRA);
    let itself = format!("PATCH {OURS}/readstateclusters/chat");
    api.fail(&itself, StatusCode::INTERNAL_SERVER_ERROR);
    api.reconcile().await.unwrap_err();
    let failed = again("failed to write the finalizers of ReadStateCluster chat");
    assert_eq!(waiting(&api), failed);
    let written = api.written();
    assert!(written.iter().all(|write| is_told(write)), "{written:?}");
}

/// Whether it is a write of the status or of an event.
fn is_told(write: &str) -> bool {
    write.ends_with("/status") || write.contains("/events")
}

/// The certificate in a Secret, with when it ends.
fn leaf(api: &FakeApi, secret: &str) -> (String, SystemTime) {
    let secret: Secret = serde_json::from_value(api.get(secret).unwrap()).unwrap();
    let pem = String::from_utf8(secret.data.unwrap()["tls.crt"].0.clone()).unwrap();
    let own = details(&pem).unwrap().remove(0);
    (own.mark.to_string(), own.not_after)
}

/// The certificate in this Secret was issued so long ago.
fn issued_before(api: &FakeApi, secret: &str, role: Role, ago: Duration) {
    let secret_of = |path: &str| -> Secret {
        let found = api.get(&format!("{CORE}/secrets/{path}")).unwrap();
        serde_json::from_value(found).unwrap()
    };
    let authority = secret_of("chat-identity-ca").data.unwrap();
    let text = |key: &str| String::from_utf8(authority[key].0.clone()).unwrap();
    let authority = Authority::from_pem(&text("ca.crt"), &text("ca.key")).unwrap();
    let chat = "chat.talk".parse().unwrap();
    let then = SystemTime::now() - ago;
    let pems = authority.issue(role, &chat, then, LEAF_VALID).unwrap();
    let mut leaf = secret_of(secret);
    let data = leaf.data.as_mut().unwrap();
    data.insert(
        "tls.crt".to_owned(),
        ByteString(pems.certificate.into_bytes()),
    );
    data.insert("tls.key".to_owned(), ByteString(pems.key.into_bytes()));
    let leaf = serde_json::to_value(leaf).unwrap();
    api.put(&format!("{CORE}/secrets/{secret}"), leaf);
}

#[tokio::test]
async fn a_paused_cluster_keeps_its_certificates_and_nothing_else_is_written() {
    const DAY: Duration = Duration::from_hours(24);
    let api = FakeApi::with_cluster(fixtures::EMBEDDED);
    api.reconcile().await.unwrap();
    let chat = format!("{OURS}/readstateclusters/chat");
    api.change(&chat, |chat| chat["spec"]["paused"] = json!(true));
    api.reconcile().await.unwrap();
    assert!(condition(&api, "Progressing").starts_with("False Paused: "));
    api.take(POLICY);
    issued_before(&api, "chat-member-tls", Role::Member, DAY * 61);
    let member = format!("{CORE}/secrets/chat-member-tls");
    let operator = format!("{CORE}/secrets/chat-operator-tls");
    let (old, of_operator) = (leaf(&api, &member), leaf(&api, &operator));

    let renewal = format!("PUT {member}");
    api.fail(&renewal, StatusCode::INTERNAL_SERVER_ERROR);
    api.reconcile().await.unwrap_err();
    assert_eq!(
        waiting(&api),
        again("failed to write Secret chat-member-tls")
    );
    assert!(condition(&api, "Progressing").starts_with("False Paused: "));
    api.heal();
    let before = api.written().len();
    api.reconcile().await.unwrap();
    let (mark, ends) = leaf(&api, &member);
    assert_ne!(mark, old.0);
    assert!(ends > old.1 + DAY * 60);
    assert_eq!(leaf(&api, &operator), of_operator);
    let mut written = api.written().split_off(before);
    written.retain(|write| !is_told(write));
    assert_eq!(written, [renewal]);
    assert_eq!(api.get(POLICY), None);
}
