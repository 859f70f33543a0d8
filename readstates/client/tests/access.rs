//! The client against members that have callers, and speak TLS.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the service's own tests use all of it"
)]
#[path = "../../tests/service/common/mod.rs"]
mod common;

use std::{fs, sync::Arc, time::Duration};

use common::{NEVER, PATIENCE, Running, config, on};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use readstates::{
    access::{AccessConfig, token},
    config::ServeConfig,
    http::TlsFiles,
    store::MemoryStore,
};
use readstates_api::{Id, ProblemType};
use readstates_client::{Cause, Client, Config, Tls};
use tempfile::TempDir;
use tokio::time::Instant;

const LOOK: Duration = Duration::from_millis(20);

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn callers(tokens: &[&str]) -> String {
    let hashes: Vec<_> = tokens
        .iter()
        .map(|of| token::hash(of).to_string())
        .collect();
    format!("callers: [{{name: gateway, verbs: [read], tokens: {hashes:?}}}]")
}

/// A member with an access file in this folder.
async fn guarded(folder: &TempDir, text: &str, tls: Option<TlsFiles>) -> Running {
    let file = folder.path().join("access.yaml");
    fs::write(&file, text).unwrap();
    let access = AccessConfig {
        reload_every: LOOK,
        ..AccessConfig::new(file)
    };
    let config = ServeConfig {
        access: Some(access),
        api_tls: tls,
        ..config(NEVER)
    };
    on(Arc::new(MemoryStore::default()), config).await
}

#[tokio::test]
async fn a_caller_that_is_refused_is_not_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let member = guarded(&folder, &callers(&["good"]), None).await;
    let config = || Config::new([member.url("")]).unwrap();
    let nobody = Client::start(config()).unwrap();
    let refusal = nobody.read_states(id(1)).await.unwrap_err();
    assert!(matches!(refusal.cause(), Cause::Unauthenticated(_)));
    assert_eq!(refusal.problem(), Some(ProblemType::Unauthenticated));
    assert!(!refusal.passes() && refusal.attempts() == 1, "{refusal}");
    let reader = Client::start(config().token("good").unwrap()).unwrap();
    assert_eq!(reader.read_states(id(1)).await.unwrap().read_states, []);
    // It follows the ring, too.
    assert!(reader.ring_after(0).await.number() > 0);
    let refusal = reader.delete_user(id(1)).await.unwrap_err();
    assert!(matches!(refusal.cause(), Cause::Forbidden(_)));
    assert!(!refusal.passes() && refusal.attempts() == 1, "{refusal}");
    assert!(refusal.cause().to_string().contains("delete"));
}

#[tokio::test]
async fn the_token_of_a_file_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let member = guarded(&folder, &callers(&["old"]), None).await;
    let file = folder.path().join("token");
    fs::write(&file, "old\n").unwrap();
    let config = Config::new([member.url("")]).unwrap();
    let client = Client::start(config.token_file(&file).unwrap()).unwrap();
    client.read_states(id(1)).await.unwrap();
    let new = folder.path().join("new");
    fs::write(&new, callers(&["new"])).unwrap();
    fs::rename(&new, folder.path().join("access.yaml")).unwrap();
    fs::write(&new, "new\n").unwrap();
    // As when both are written in one tick of the kernel's clock.
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    let same_time = fs::File::options().write(true).open(&new).unwrap();
    same_time.set_modified(written).unwrap();
    fs::rename(&new, &file).unwrap();
    let start = Instant::now();
    let reloaded = "readstates_access_reloads_total 1\n";
    while !member.get("/metrics").await.text.contains(reloaded) {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(LOOK).await;
    }
    // The member admits the new one alone; the client looks at its file once a second.
    while client.read_states(id(1)).await.is_err() {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(LOOK).await;
    }
}

#[test]
fn a_token_that_cannot_be_sent_is_refused_at_once() {
    let config = || Config::new(["http://chat:7400"]).unwrap();
    for bad in ["", "a b", "a\nb", "\u{7f}"] {
        assert!(config().token(bad).is_err(), "{bad:?}");
    }
    let refusal = config().token_file("/no/such/file").unwrap_err();
    assert!(format!("{refusal:?}").contains("/no/such/file"));
}

#[tokio::test]
async fn a_member_is_believed_over_tls_by_the_ca_of_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let authority = |name: &str| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(file(name), params.self_signed(&key).unwrap().pem()).unwrap();
        Issuer::new(params, key)
    };
    let (ca, _) = (authority("ca.crt"), authority("other.crt"));
    let issue = |name: &str| {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &ca).unwrap();
        fs::write(file(&format!("{name}.crt")), certificate.pem()).unwrap();
        fs::write(file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    };
    issue("127.0.0.1");
    issue("gateway.example");
    let tls = TlsFiles {
        certificate: file("127.0.0.1.crt"),
        key: file("127.0.0.1.key"),
        client_ca: Some(file("ca.crt")),
        reload_every: LOOK,
    };
    let text = "callers: [{name: gateway, verbs: [read], certificates: [gateway.example]}]";
    let member = guarded(&folder, text, Some(tls)).await;
    let config = || {
        let url = format!("https://{}", member.server.http_address);
        Config::new([url]).unwrap().deadline(Duration::from_secs(2))
    };
    let trusting = Tls::of_ca_file(file("ca.crt"));
    let own = (file("gateway.example.crt"), file("gateway.example.key"));
    let shown = trusting.clone().with_certificate(own.0, own.1);
    let client = Client::start(config().tls(shown)).unwrap();
    assert_eq!(client.read_states(id(1)).await.unwrap().read_states, []);
    assert!(client.ring_after(0).await.number() > 0);
    let nobody = Client::start(config().tls(trusting)).unwrap();
    let refusal = nobody.read_states(id(1)).await.unwrap_err();
    assert!(matches!(refusal.cause(), Cause::Unauthenticated(_)));
    let other = Client::start(config().tls(Tls::of_ca_file(file("other.crt")))).unwrap();
    let refusal = other.read_states(id(1)).await.unwrap_err();
    assert!(
        matches!(refusal.cause(), Cause::NoAnswer { .. }),
        "{refusal}"
    );
    let missing = Client::start(config().tls(Tls::of_ca_file(file("missing.crt"))));
    assert!(missing.is_err());
}
