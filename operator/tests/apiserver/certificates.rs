//! Certificates for CQL: waited for, used, followed when they change; and cert-manager, or the want of it.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Pod, Secret},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use readstates_operator::cert_manager::Certificate;
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    chat::{cluster, names, time_passes, until_done},
    foreign_kinds::{ForeignKind, once_served},
    world::{World, condition, waiting, with_world},
};

fn with_tls(tls: Value) -> Value {
    let mut chat = cluster(1);
    chat["spec"]["database"]["tls"] = tls;
    chat
}

/// A certificate for these hosts of a CA of its own, as the content of a Secret.
pub(crate) fn made(hosts: &[&str]) -> Value {
    made_until(hosts, None)
}

/// One that ends then.
fn made_until(hosts: &[&str], end: Option<SystemTime>) -> Value {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(params, ca_key);
    let hosts = hosts.iter().map(|host| (*host).to_owned());
    let mut params = CertificateParams::new(hosts.collect::<Vec<_>>()).unwrap();
    params.not_after = end.map_or(params.not_after, Into::into);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    json!({ "tls.crt": certificate, "tls.key": key.serialize_pem(), "ca.crt": ca })
}

pub(crate) fn good(world: &World) -> Value {
    made(&[&format!("chat-db.{}.svc", world.namespace)])
}

/// Makes the Secret, or gives it this content.
pub(crate) async fn put(world: &World, name: &str, content: &Value) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name }, "stringData": content,
    });
    let params = PatchParams::apply("tests").force();
    let secrets = world.api::<Secret>();
    secrets
        .patch(name, &params, &Patch::Apply(secret))
        .await
        .unwrap();
}

/// How often what all StatefulSets say was changed.
async fn generations(world: &World) -> Vec<Option<i64>> {
    let sets = world.api::<StatefulSet>();
    let found = sets.list(&ListParams::default()).await.unwrap();
    found
        .items
        .iter()
        .map(|set| set.metadata.generation)
        .collect()
}

async fn pod(world: &World, name: &str) -> Option<String> {
    world.get::<Pod>(name).await.metadata.uid
}

#[test]
fn a_database_waits_for_certificates_that_can_be_used() {
    with_world(async |world| {
        let chat = with_tls(json!({ "secretName": "certs" }));
        world.create(&chat).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SecretMissing");
        assert!(condition(&chat, "Degraded").starts_with("False"));

        put(&world, "certs", &json!({ "tls.crt": "x", "tls.key": "y" })).await;
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "Progressing").contains("Secret certs has no ca.crt"));

        put(&world, "certs", &made(&["db.example"])).await;
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Degraded");
        assert!(
            words.starts_with("True CertificateInvalid: Secret certs: tls.crt is for ["),
            "{words}"
        );
        assert!(
            words.contains(&format!("not for chat-db.{}.svc", world.namespace)),
            "{words}"
        );
        assert_eq!(names::<StatefulSet>(&world).await, [""; 0]);

        let content = good(&world);
        put(&world, "certs", &content).await;
        let chat = until_done(&world).await;
        assert!(condition(&chat, "Available").starts_with("True"));
        let key = content["tls.key"].as_str().unwrap().lines().nth(1).unwrap();
        let set = world.get::<StatefulSet>("chat-db-a").await;
        for object in [serde_json::to_string(&chat), serde_json::to_string(&set)] {
            assert!(!object.unwrap().contains(key));
        }
    });
}

#[test]
fn other_certificates_restart_members_alone_and_missing_ones_restart_nobody() {
    with_world(async |world| {
        put(&world, "certs", &good(&world)).await;
        let chat = with_tls(json!({ "secretName": "certs" }));
        world.create(&chat).await.unwrap();
        until_done(&world).await;
        let names = ["chat-db-a-0", "chat-db-b-0"];
        let cache = pod(&world, "chat-0").await;
        let before = [pod(&world, names[0]).await, pod(&world, names[1]).await];

        // Gone, or not of one issue: what runs is left as it is.
        let written = generations(&world).await;
        let gone = DeleteParams::default();
        world.api::<Secret>().delete("certs", &gone).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SecretMissing");
        let mut mixed = good(&world);
        mixed["tls.key"] = good(&world)["tls.key"].clone();
        put(&world, "certs", &mixed).await;
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "Degraded").contains("tls.key is not the key of tls.crt"));
        assert_eq!(generations(&world).await, written);

        put(&world, "certs", &good(&world)).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "DatabaseRolling");
        time_passes(&world).await;
        let chat = until_done(&world).await;
        assert!(condition(&chat, "RequiresUpdate").starts_with("False"));
        for (name, before) in names.into_iter().zip(before) {
            assert_ne!(pod(&world, name).await, before, "{name}");
        }
        assert_eq!(pod(&world, "chat-0").await, cache);
    });
}

#[test]
fn a_certificate_that_nobody_has_renewed_is_told_two_weeks_before_its_end() {
    with_world(async |world| {
        let host = format!("chat-db.{}.svc", world.namespace);
        let in_days = |days: u64| {
            let end = SystemTime::now() + Duration::from_hours(24 * days);
            made_until(&[&host], Some(end))
        };
        put(&world, "certs", &in_days(20)).await;
        world
            .create(&with_tls(json!({ "secretName": "certs" })))
            .await
            .unwrap();
        let chat = until_done(&world).await;
        assert!(condition(&chat, "CertificatesExpiring").starts_with("False"));

        put(&world, "certs", &in_days(13)).await;
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "CertificatesExpiring");
        assert!(
            words.starts_with("True ExpiresSoon: the certificate of role"),
            "{words}"
        );
        assert!(words.contains("has not been renewed"), "{words}");

        put(&world, "certs", &in_days(90)).await;
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "CertificatesExpiring").starts_with("False"));
    });
}

fn kind_of_cert_manager(world: &World) -> ForeignKind {
    ForeignKind::new(world, "cert-manager.io", "Certificate", &json!({}))
}

#[test]
fn cert_manager_is_asked_once_it_is_there() {
    with_world(async |world| {
        let kind = kind_of_cert_manager(&world);
        kind.forget().await;
        let chat = with_tls(json!({ "issuerRef": { "name": "ours" } }));
        world.create(&chat).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "CertManagerMissing");
        let words = condition(&chat, "Degraded");
        assert!(
            words.contains("install cert-manager, or make a new cluster"),
            "{words}"
        );
        assert_eq!(names::<StatefulSet>(&world).await, [""; 0]);

        kind.define().await;
        let is_asked = |chat: &ReadStateCluster| waiting(chat).unwrap() == "CertificatePending";
        once_served(async || world.reconcile("chat").await, is_asked).await;
        world.reconcile("chat").await;
        let asked = world.get::<Certificate>("chat-db-tls").await;
        assert_eq!(asked.spec.issuer_ref.kind, "Issuer");
        assert_eq!(
            asked.spec.dns_names[0],
            format!("chat-db.{}.svc", world.namespace)
        );
        assert_eq!(asked.owner_references()[0].name, "chat");

        let failed = json!({ "status": { "conditions": [
            { "type": "Ready", "status": "False", "message": "issuer ours not found" },
        ] } });
        let certificates = world.api::<Certificate>();
        let params = PatchParams::default();
        certificates
            .patch("chat-db-tls", &params, &Patch::Merge(failed))
            .await
            .unwrap();
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Progressing");
        assert!(
            words.contains("has not made Certificate chat-db-tls yet (issuer ours not found)"),
            "{words}"
        );

        // As cert-manager would.
        put(&world, "chat-db-tls", &good(&world)).await;
        let chat = until_done(&world).await;
        assert!(condition(&chat, "Available").starts_with("True"));
        kind.forget().await;
    });
}
