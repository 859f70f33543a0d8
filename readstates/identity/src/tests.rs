//! Both ends of real connections on loopback: who gets through, and who does not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls::ClientConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsConnector;

use crate::{Authority, ClusterName, Identity, IdentityError, Pems, Role, details};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn authority(name: &str) -> Authority {
    Authority::new(&cluster(name), SystemTime::now(), 30 * DAY).unwrap()
}

fn issue(ca: &Authority, role: Role, name: &str) -> Pems {
    ca.issue(role, &cluster(name), SystemTime::now(), DAY)
        .unwrap()
}

fn identity(ca: &Authority, role: Role) -> Arc<Identity> {
    Identity::new(issue(ca, role, "chat.talk")).unwrap()
}

/// The role that the server sees, after a byte went each way.
async fn meet(
    server: &Identity,
    admitted: &'static [Role],
    client: ClientConfig,
) -> Result<Role, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = server.acceptor(admitted).unwrap();
    let serve = async {
        let (socket, _) = listener.accept().await.unwrap();
        let (mut stream, role) = acceptor
            .accept(socket)
            .await
            .map_err(|error| crate::identity::chain(&error))?;
        let mut byte = [0];
        let words = |error: std::io::Error| error.to_string();
        stream.read_exact(&mut byte).await.map_err(words)?;
        stream.write_all(&byte).await.map_err(words)?;
        stream.shutdown().await.map_err(words)?;
        Ok::<_, String>(role)
    };
    let connect = async {
        let socket = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(client));
        let host = "127.0.0.1".try_into().unwrap();
        let words = |error: std::io::Error| error.to_string();
        let mut stream = connector.connect(host, socket).await.map_err(words)?;
        stream.write_all(&[7]).await.map_err(words)?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await.map_err(words)?;
        Ok::<_, String>(byte[0])
    };
    let (served, connected) = tokio::join!(serve, connect);
    assert_eq!(
        served.is_ok(),
        connected.is_ok(),
        "{served:?} {connected:?}"
    );
    assert!(connected.is_err() || connected == Ok(7));
    served.map_err(|error| format!("{error}; {connected:?}"))
}

fn to(client: &Identity, role: Role) -> ClientConfig {
    client.client_config(role).unwrap()
}

#[tokio::test]
async fn members_and_operator_meet_by_their_roles() {
    let ca = authority("chat.talk");
    let (member, operator) = (identity(&ca, Role::Member), identity(&ca, Role::Operator));
    let agent = identity(&ca, Role::Agent);
    let other = identity(&ca, Role::Member);
    let met = meet(&member, &[Role::Member], to(&other, Role::Member)).await;
    assert_eq!(met, Ok(Role::Member));
    let met = meet(&member, &[Role::Operator], to(&operator, Role::Member)).await;
    assert_eq!(met, Ok(Role::Operator));
    let met = meet(&agent, &[Role::Operator], to(&operator, Role::Agent)).await;
    assert_eq!(met, Ok(Role::Operator));
}

#[tokio::test]
async fn nobody_else_gets_through() {
    let ca = authority("chat.talk");
    let member = identity(&ca, Role::Member);
    let members: &'static [Role] = &[Role::Member];
    // The right CA, another role.
    let operator = identity(&ca, Role::Operator);
    let met = meet(&member, members, to(&operator, Role::Member)).await;
    assert!(met.is_err(), "{met:?}");
    // A server of another role than expected.
    let agent = identity(&ca, Role::Agent);
    let met = meet(&agent, &[Role::Operator], to(&operator, Role::Member)).await;
    assert!(met.is_err(), "{met:?}");
    // Another CA that says the same.
    let foreign = identity(&authority("chat.talk"), Role::Member);
    let met = meet(&member, members, to(&foreign, Role::Member)).await;
    assert!(met.is_err(), "{met:?}");
    // No certificate at all.
    let nobody = ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .dangerous()
    .with_custom_certificate_verifier(Arc::new(member.verifier(members)))
    .with_no_client_auth();
    let met = meet(&member, members, nobody).await;
    assert!(met.is_err(), "{met:?}");
}

#[tokio::test]
async fn a_cluster_with_the_same_ca_is_another_cluster() {
    // A CA without name constraints, as an issuer that serves many clusters has.
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let ca = Authority::from_pem(&pem, &key.serialize_pem()).unwrap();
    let here = Identity::new(issue(&ca, Role::Member, "chat.talk")).unwrap();
    let there = Identity::new(issue(&ca, Role::Member, "chat.play")).unwrap();
    let met = meet(&here, &[Role::Member], to(&there, Role::Member)).await;
    assert!(met.is_err(), "{met:?}");
}

#[tokio::test]
async fn one_ca_takes_the_place_of_another_while_both_are_trusted() {
    let (old, new) = (authority("chat.talk"), authority("chat.talk"));
    let both = format!("{}{}", old.ca_pem(), new.ca_pem());
    let of = |ca: &Authority, trusts: &str| Pems {
        ca: trusts.to_owned(),
        ..issue(ca, Role::Member, "chat.talk")
    };
    let a = Identity::new(of(&old, old.ca_pem())).unwrap();
    let b = Identity::new(of(&old, old.ca_pem())).unwrap();
    let acceptor_lives: &'static [Role] = &[Role::Member];
    let steps = [
        (&a, of(&old, &both)),
        (&b, of(&old, &both)),
        (&a, of(&new, &both)),
        (&b, of(&new, &both)),
        (&a, of(&new, new.ca_pem())),
        (&b, of(&new, new.ca_pem())),
    ];
    for (identity, pems) in steps {
        let before = identity.mark();
        assert!(identity.replace(pems.clone()).unwrap());
        assert!(!identity.replace(pems).unwrap(), "nothing changed");
        assert_ne!(identity.mark(), before);
        assert!(meet(&a, acceptor_lives, to(&b, Role::Member)).await.is_ok());
        assert!(meet(&b, acceptor_lives, to(&a, Role::Member)).await.is_ok());
    }
    let late = Identity::new(of(&old, old.ca_pem())).unwrap();
    let met = meet(&a, acceptor_lives, to(&late, Role::Member)).await;
    assert!(met.is_err(), "{met:?}");
    assert_eq!(a.trusted().len(), 1);
}

#[tokio::test]
async fn a_config_in_use_follows_the_identity() {
    let (old, new) = (authority("chat.talk"), authority("chat.talk"));
    let (a, b) = (identity(&old, Role::Member), identity(&old, Role::Member));
    let config = to(&b, Role::Member);
    a.replace(issue(&new, Role::Member, "chat.talk")).unwrap();
    let met = meet(&a, &[Role::Member], config.clone()).await;
    assert!(met.is_err(), "{met:?}");
    b.replace(issue(&new, Role::Member, "chat.talk")).unwrap();
    assert!(meet(&a, &[Role::Member], config).await.is_ok());
}

#[test]
fn what_cannot_be_used_is_refused_and_what_was_stays() {
    let (ca, other) = (authority("chat.talk"), authority("chat.talk"));
    let good = issue(&ca, Role::Member, "chat.talk");
    let with = |change: fn(&mut Pems, &Pems)| {
        let mut pems = good.clone();
        change(&mut pems, &issue(&other, Role::Member, "chat.talk"));
        pems
    };
    let expired = ca
        .issue(
            Role::Member,
            &cluster("chat.talk"),
            SystemTime::now() - 10 * DAY,
            DAY,
        )
        .unwrap();
    let identity = Identity::new(good.clone()).unwrap();
    let cases = [
        (with(|pems, _| pems.ca.clear()), "ca.crt is unusable"),
        (
            with(|pems, _| pems.certificate = "x".into()),
            "tls.crt is unusable",
        ),
        (with(|pems, _| pems.key.clear()), "tls.key is not"),
        (
            with(|pems, other| pems.key.clone_from(&other.key)),
            "tls.key is not",
        ),
        (
            with(|pems, other| pems.ca.clone_from(&other.ca)),
            "no CA in ca.crt has signed tls.crt",
        ),
        (expired, "not valid now"),
        (
            issue(&ca, Role::Operator, "chat.talk"),
            "was for member.chat.talk.readstates.internal",
        ),
    ];
    for (pems, part) in cases {
        let before = identity.mark();
        let refusal = identity.replace(pems).unwrap_err().to_string();
        assert!(refusal.contains(part), "{part:?} is not in {refusal:?}");
        let secret = good.key.lines().nth(1).unwrap();
        assert!(!refusal.contains(secret));
        assert_eq!(identity.mark(), before);
    }
}

#[test]
fn a_ca_issues_for_its_own_cluster_alone() {
    let ca = authority("chat.talk");
    let refusal = Identity::new(issue(&ca, Role::Member, "chat.play")).unwrap_err();
    assert!(matches!(refusal, IdentityError::NotTrusted(_)), "{refusal}");
}

#[test]
fn a_certificate_for_something_else_is_no_identity() {
    let mut params = rcgen::CertificateParams::new(vec!["db.example".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let pems = Pems {
        ca: pem.clone(),
        certificate: pem,
        key: key.serialize_pem(),
    };
    let refusal = Identity::new(pems).unwrap_err().to_string();
    assert!(refusal.contains("db.example"), "{refusal}");
}

#[test]
fn details_say_when_a_certificate_expires() {
    let now = SystemTime::now();
    let ca = Authority::new(&cluster("chat.talk"), now, 30 * DAY).unwrap();
    let [of_ca] = details(ca.ca_pem()).unwrap().try_into().unwrap();
    let until = of_ca.not_after.duration_since(now).unwrap();
    assert!(until > 29 * DAY && until <= 30 * DAY, "{until:?}");
    let pems = issue(&ca, Role::Agent, "chat.talk");
    let [leaf] = details(&pems.certificate).unwrap().try_into().unwrap();
    assert_eq!(leaf.names, ["agent.chat.talk.readstates.internal"]);
    assert!(leaf.not_before < now);
    assert!(details("").is_err());
}

#[test]
fn an_authority_is_the_same_after_it_was_stored() {
    let ca = authority("chat.talk");
    let again = Authority::from_pem(ca.ca_pem(), ca.key_pem()).unwrap();
    let pems = Pems {
        ca: ca.ca_pem().to_owned(),
        ..issue(&again, Role::Member, "chat.talk")
    };
    assert!(Identity::new(pems).is_ok());
    assert!(!format!("{again:?}").contains("PRIVATE"));
}

#[tokio::test(start_paused = true)]
async fn files_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let write = |pems: &Pems| {
        for (name, text) in [
            ("ca.crt", &pems.ca),
            ("tls.crt", &pems.certificate),
            ("tls.key", &pems.key),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
    };
    let ca = authority("chat.talk");
    write(&issue(&ca, Role::Member, "chat.talk"));
    let identity = Identity::from_dir(folder.path()).unwrap();
    let first = identity.mark();
    let follower = Arc::clone(&identity);
    let path = folder.path().to_owned();
    let following = tokio::spawn(async move { follower.follow(path).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(identity.mark(), first);
    // Half of a change: the key is still the old one.
    let next = issue(&ca, Role::Member, "chat.talk");
    std::fs::write(folder.path().join("tls.crt"), &next.certificate).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(identity.mark(), first);
    write(&next);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_ne!(identity.mark(), first);
    following.abort();
}
