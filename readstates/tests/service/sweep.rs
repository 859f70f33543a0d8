//! Every route at every port with every proof: only the requests that the table names are answered.
//!
//! | port | no proof | another cluster's | the wrong role | the right one |
//! |---|---|---|---|---|
//! | api | the routes of clients | | | |
//! | admin | closed | closed | closed (member) | the routes of the operator |
//! | members | closed | closed | closed (operator) | what is forwarded, and slots |
//! | watch | probes and metrics | | | |

use std::{net::SocketAddr, sync::Arc};

use crate::common::{PATIENCE, Running, among, balance, of_ring, owner_of, tls};
use readstates::{
    config::ServeConfig,
    ownership::store::{MemoryRing, RingStore},
    store::{MemoryStore, Store},
};
use readstates_identity::{Authority, ClusterName, Identity, Pems, Role};
use reqwest::{Client, Method};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::net::TcpStream;

/// What a connection shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// It speaks plain HTTP.
    Plain,
    /// It speaks TLS and shows nothing.
    Nothing,
    /// A certificate of a cluster of the same name that has another CA.
    OtherCa(Role),
    /// A certificate that the same CA issued for another cluster.
    OtherCluster(Role),
    /// A certificate of this cluster.
    Own(Role),
}

const PROOFS: [Proof; 9] = [
    Proof::Plain,
    Proof::Nothing,
    Proof::OtherCa(Role::Member),
    Proof::OtherCa(Role::Operator),
    Proof::OtherCluster(Role::Member),
    Proof::OtherCluster(Role::Operator),
    Proof::Own(Role::Member),
    Proof::Own(Role::Operator),
    Proof::Own(Role::Agent),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Api,
    Admin,
    Members,
    Watch,
}

const PORTS: [Port; 4] = [Port::Api, Port::Admin, Port::Members, Port::Watch];

/// Every route of the service, and the ports at which it is.
const ROUTES: [(&str, &str, &[Port]); 23] = [
    (
        "GET",
        "/v1/users/1/read-states",
        &[Port::Api, Port::Members],
    ),
    (
        "GET",
        "/v1/users/1/read-states/2",
        &[Port::Api, Port::Members],
    ),
    ("GET", "/v1/users/1/summary", &[Port::Api, Port::Members]),
    (
        "POST",
        "/v1/users/1/read-states/2/ack",
        &[Port::Api, Port::Members],
    ),
    (
        "POST",
        "/v1/users/1/read-states/2/pins/ack",
        &[Port::Api, Port::Members],
    ),
    (
        "POST",
        "/v1/users/1/read-states/ack-bulk",
        &[Port::Api, Port::Members],
    ),
    (
        "DELETE",
        "/v1/users/1/read-states/2",
        &[Port::Api, Port::Members],
    ),
    ("DELETE", "/v1/users/1", &[Port::Api, Port::Members]),
    ("POST", "/v1/mentions", &[Port::Api, Port::Members]),
    ("POST", "/v1/batch", &[Port::Api, Port::Members]),
    ("GET", "/v1/ring", &[Port::Api]),
    ("GET", "/openapi.json", &[Port::Api]),
    ("GET", "/livez", &[Port::Watch]),
    ("GET", "/readyz", &[Port::Watch]),
    ("GET", "/metrics", &[Port::Watch]),
    ("GET", "/admin/v1/status", &[Port::Admin]),
    ("POST", "/admin/v1/flush", &[Port::Admin]),
    ("PUT", "/admin/v1/capacity", &[Port::Admin]),
    ("POST", "/admin/v1/moves", &[Port::Admin]),
    ("POST", "/admin/v1/drain", &[Port::Admin]),
    ("POST", "/internal/v1/handoff", &[Port::Members]),
    ("POST", "/internal/v1/singles", &[Port::Members]),
    ("GET", "/", &[]),
];

/// What a request comes to.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    /// To an operation, whatever that says to a request without a body.
    Answered,
    /// There is nothing there.
    NoRoute,
    /// To no answer.
    Closed,
}

fn expected(port: Port, proof: Proof, ports: &[Port]) -> Came {
    let admitted = match port {
        Port::Api | Port::Watch => proof == Proof::Plain,
        Port::Admin => proof == Proof::Own(Role::Operator),
        Port::Members => proof == Proof::Own(Role::Member),
    };
    match (admitted, ports.contains(&port)) {
        (false, _) => Came::Closed,
        (true, false) => Came::NoRoute,
        (true, true) => Came::Answered,
    }
}

/// Trusts every server: an attacker does not care which one it speaks to.
#[derive(Debug)]
struct Careless;

impl ServerCertVerifier for Careless {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// A client that shows these certificates, or none, and trusts every server.
fn careless(pems: Option<&Pems>) -> Client {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Careless));
    let config = match pems {
        None => config.with_no_client_auth(),
        Some(pems) => {
            let chain = CertificateDer::pem_slice_iter(pems.certificate.as_bytes());
            let chain = chain.collect::<Result<_, _>>().unwrap();
            let key = PrivateKeyDer::from_pem_slice(pems.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    Client::builder()
        .tls_backend_preconfigured(config)
        .timeout(PATIENCE)
        .build()
        .unwrap()
}

/// Two members that know each other by certificates, and the authority of both.
async fn two() -> (Vec<Running>, Authority, ClusterName) {
    let cluster: ClusterName = "chat.talk".parse().unwrap();
    let authority = tls::authority(&cluster);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let ring: Arc<dyn RingStore> = Arc::new(MemoryRing::default());
    let mut members = Vec::new();
    for name in ["chat-0", "chat-1"] {
        let config = ServeConfig {
            tls: Some(tls::member(&authority, &cluster)),
            ..of_ring(name)
        };
        members.push(among(Arc::clone(&store), Arc::clone(&ring), config).await);
    }
    for member in &mut members {
        let pems = tls::issue(&authority, Role::Operator, &cluster);
        member.speak_as_operator(&Identity::new(pems).unwrap());
    }
    balance(&members.iter().collect::<Vec<_>>()).await;
    (members, authority, cluster)
}

fn address(member: &Running, port: Port) -> SocketAddr {
    let server = &member.server;
    match port {
        Port::Api => server.http_address,
        Port::Admin => server.admin_address,
        Port::Members => server.members_address.unwrap(),
        Port::Watch => server.watch_address,
    }
}

async fn came(client: &Client, proof: Proof, at: SocketAddr, method: &str, path: &str) -> Came {
    let scheme = match proof {
        Proof::Plain => "http",
        _ => "https",
    };
    let method: Method = method.parse().unwrap();
    let sent = client.request(method, format!("{scheme}://{at}{path}"));
    let Ok(answer) = sent.send().await else {
        return Came::Closed;
    };
    let status = answer.status();
    let text = answer.text().await.unwrap_or_default();
    match status == 404 && text.contains("/problems/no-route") {
        true => Came::NoRoute,
        false => Came::Answered,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_route_at_each_port_answers_exactly_those_who_prove_that_they_may() {
    let (members, authority, cluster) = two().await;
    let same_name = tls::authority(&cluster);
    let other: ClusterName = "other.talk".parse().unwrap();
    for proof in PROOFS {
        let client = match proof {
            Proof::Plain | Proof::Nothing => careless(None),
            Proof::OtherCa(role) => careless(Some(&tls::issue(&same_name, role, &cluster))),
            Proof::OtherCluster(role) => careless(Some(&tls::issue(&authority, role, &other))),
            Proof::Own(role) => careless(Some(&tls::issue(&authority, role, &cluster))),
        };
        for port in PORTS {
            let at = address(&members[0], port);
            for (method, path, ports) in ROUTES {
                let came = came(&client, proof, at, method, path).await;
                let expected = expected(port, proof, ports);
                assert_eq!(came, expected, "{method} {path} at {port:?} with {proof:?}");
            }
        }
    }
    let page = members[0].get("/metrics").await.text;
    for port in ["admin", "members"] {
        let none = format!("readstates_handshake_failures_total{{port=\"{port}\"}} 0\n");
        assert!(page.contains("readstates_handshake_failures_total{port="));
        assert!(!page.contains(&none), "{page}");
    }
    // All of it has changed nothing.
    let status = members[0].status().await;
    assert_eq!(status["ownership"]["owned"], 512, "{status}");
    assert_eq!(status["ownership"]["draining"], false, "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_with_certificates_forward_and_hand_on_and_say_what_they_show() {
    let (members, ..) = two().await;
    for user in 1..=30 {
        members[0].ack(user, 10, user).await;
        assert_eq!(members[1].state(user, 10).await, Some((user, 0)));
    }
    assert!((1..=30).any(|user| owner_of(&members, user) == 1));
    let identity = &members[0].status().await["identity"];
    assert_eq!(identity["trusted"].as_array().unwrap().len(), 1);
    assert_eq!(identity["certificate"].as_str().unwrap().len(), 16);
    let page = members[0].get("/metrics").await.text;
    assert!(
        page.contains("readstates_certificate_expires_timestamp_seconds 1"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_keep_no_member_out() {
    let (members, ..) = two().await;
    let mut silent = Vec::new();
    // More than handshakes may be under way.
    for _ in 0..300 {
        silent.push(
            TcpStream::connect(address(&members[1], Port::Members))
                .await
                .unwrap(),
        );
    }
    let theirs = (1..).find(|&user| owner_of(&members, user) == 1).unwrap();
    members[0].ack(theirs, 10, 1).await;
    let page = members[1].get("/metrics").await.text;
    let none = "readstates_handshake_failures_total{port=\"members\"} 0\n";
    assert!(!page.contains(none), "{page}");
    drop(silent);
}
