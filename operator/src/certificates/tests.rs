use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

use super::*;
use crate::fixtures::now;

const HOST: &str = "chat-db.talk.svc";

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    Authority { pem, issuer }
}

impl Authority {
    /// A certificate for this name, and its key.
    fn issue(&self, name: &str, until: i32) -> (String, String) {
        self.issue_for(name, until, &[])
    }

    /// The same, for nothing but these purposes if there are any.
    fn issue_for(
        &self,
        name: &str,
        until: i32,
        purposes: &[ExtendedKeyUsagePurpose],
    ) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        params.extended_key_usages = purposes.to_vec();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn check(certificate: &str, key: &str, ca: &str) -> Result<(), String> {
    let pems = Pems {
        certificate: certificate.as_bytes(),
        key: key.as_bytes(),
        ca: ca.as_bytes(),
    };
    check_at(pems, &[HOST])
}

fn check_at(pems: Pems<'_>, names: &[&str]) -> Result<(), String> {
    let now = u64::try_from(now().as_second()).unwrap();
    let host = |name| Host {
        name,
        reaches: "the database is reached",
        wanted: name,
    };
    let hosts: Vec<_> = names.iter().copied().map(host).collect();
    check_server(pems, &hosts, true, now)
}

#[test]
fn every_name_by_which_a_server_is_reached_has_to_be_in_its_certificate() {
    let ca = authority();
    let (certificate, key) = ca.issue(HOST, 4000);
    let pems = Pems {
        certificate: certificate.as_bytes(),
        key: key.as_bytes(),
        ca: ca.pem.as_bytes(),
    };
    check_at(pems, &[HOST, HOST]).unwrap();
    let refusal = check_at(pems, &[HOST, "other.talk.svc"]).unwrap_err();
    assert!(refusal.contains("not for other.talk.svc"), "{refusal}");
}

#[test]
fn what_members_can_show_and_cache_pods_believe_is_taken() {
    let (ca, other) = (authority(), authority());
    for name in [HOST, "*.talk.svc"] {
        let (certificate, key) = ca.issue(name, 4000);
        check(&certificate, &key, &ca.pem).unwrap();
        // While one CA takes the place of the other.
        check(&certificate, &key, &format!("{}{}", other.pem, ca.pem)).unwrap();
    }
}

#[test]
fn what_would_not_work_is_refused_with_the_next_step_and_without_the_key() {
    let (ca, other) = (authority(), authority());
    let (certificate, key) = ca.issue(HOST, 4000);
    let (old, old_key) = ca.issue(HOST, 2001);
    let (elsewhere, elsewhere_key) = ca.issue("db.example", 4000);
    let pkcs1 = key.replace("PRIVATE KEY", "EC PRIVATE KEY");
    let (good, signed, by) = (certificate.as_str(), key.as_str(), ca.pem.as_str());
    for (certificate, key, ca, part) in [
        ("", signed, by, "tls.crt holds no certificate"),
        (good, "", by, "tls.key holds no private key"),
        (good, &pkcs1, by, "openssl pkcs8 -topk8 -nocrypt"),
        (good, &old_key, by, "tls.key is not the key of tls.crt"),
        (good, signed, "x", "ca.crt holds no certificate"),
        (
            good,
            signed,
            &other.pem,
            "no CA of ca.crt has signed tls.crt",
        ),
        (
            &old,
            &old_key,
            by,
            "tls.crt is not valid (invalid peer certificate: certificate expired",
        ),
        (
            &elsewhere,
            &elsewhere_key,
            by,
            "tls.crt is for [db.example], not for chat-db.talk.svc, by which the database is reached",
        ),
    ] {
        let refusal = check(certificate, key, ca).unwrap_err();
        assert!(refusal.contains(part), "{part:?} is not in: {refusal}");
        let secret = key.lines().nth(1);
        assert!(
            secret.is_none_or(|line| !refusal.contains(line)),
            "{refusal}"
        );
    }
}

#[test]
fn nodes_show_each_other_a_certificate_that_is_for_clients_too() {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let now = u64::try_from(now().as_second()).unwrap();
    let (ca, other) = (authority(), authority());
    let peer = |certificate: &str, ca: &str| check_peer(certificate.as_bytes(), ca.as_bytes(), now);
    for purposes in [&[][..], &[ServerAuth, ClientAuth]] {
        let (certificate, _) = ca.issue_for(HOST, 4000, purposes);
        peer(&certificate, &ca.pem).unwrap();
        let refusal = peer(&certificate, &other.pem).unwrap_err();
        assert!(
            refusal.starts_with("no CA of ca.crt has signed"),
            "{refusal}"
        );
    }
    let (certificate, key) = ca.issue_for(HOST, 4000, &[ServerAuth]);
    check(&certificate, &key, &ca.pem).unwrap();
    let refusal = peer(&certificate, &ca.pem).unwrap_err();
    assert!(refusal.contains("\"client auth\""), "{refusal}");
}

#[test]
fn the_mark_changes_with_the_certificate() {
    let first = mark(b"one");
    assert_eq!(first.len(), 16);
    assert_eq!(first, mark(b"one"));
    assert_ne!(first, mark(b"two"));
}
