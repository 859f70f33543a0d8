//! Against nodes in this process that speak no more of CQL than a session begins with: a client that reads their
//! words has got through TLS and back.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{CqlTls, TlsFile};
use crate::store::{CqlLogin, SchemaWish, apply_schema, chain};

/// The error of the nodes of these tests to a client that begins a session.
const WORDS: &str = "no tables here";

/// A CA, with its files in a folder.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        fs::write(folder.path().join("ca.crt"), pem).unwrap();
        let issuer = Issuer::new(params, key);
        Self { issuer, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ca_file(&self) -> PathBuf {
        self.file("ca.crt")
    }

    /// The files of a certificate for these names, and of its key.
    fn issue(&self, names: &[&str]) -> (PathBuf, PathBuf) {
        self.issue_that(names, |_| {})
    }

    fn issue_that(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let label = names.concat();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = (
            self.file(&format!("{label}.crt")),
            self.file(&format!("{label}.key")),
        );
        fs::write(&files.0, certificate.pem()).unwrap();
        fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }
}

/// What a node shows: the files of its certificate and key; `clients`: the CA that those of its clients have to
/// be of.
fn shows(files: &(PathBuf, PathBuf), clients: Option<&CqlTls>) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(&files.0).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&files.1).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(of) => {
            let roots = Arc::new(of.roots().unwrap());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}

/// A node; `tls`: what it shows, `None` when it speaks in the clear. It ends with the test.
async fn node(tls: Option<Arc<ServerConfig>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, tls.clone()));
        }
    });
    address
}

async fn serve(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<()> {
    let Some(tls) = tls else {
        return speak(stream).await;
    };
    match TlsAcceptor::from(tls).accept(stream).into_fallible().await {
        Ok(stream) => speak(stream).await,
        Err((_, mut stream)) => {
            // What it says of that must not be lost in what the client has not said yet.
            stream.shutdown().await?;
            tokio::io::copy(&mut stream, &mut tokio::io::sink())
                .await
                .map(drop)
        }
    }
}

/// The native protocol, version 4: OPTIONS is answered by SUPPORTED, STARTUP by ERROR with the words.
async fn speak(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header).await?;
        let [version, _, stream_0, stream_1, opcode, length @ ..] = header;
        if version != 4 {
            // As Cassandra does to the first bytes of TLS: an error in its own protocol.
            stream_error(&mut stream, [0, 0], "unsupported protocol version").await?;
            return stream.shutdown().await;
        }
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut body).await?;
        if opcode == 5 {
            let supported = [0x84, 0, stream_0, stream_1, 6, 0, 0, 0, 2, 0, 0];
            stream.write_all(&supported).await?;
        } else {
            stream_error(&mut stream, [stream_0, stream_1], WORDS).await?;
        }
    }
}

async fn stream_error(
    stream: &mut (impl AsyncWrite + Unpin),
    id: [u8; 2],
    words: &str,
) -> io::Result<()> {
    let length = u8::try_from(words.len()).unwrap();
    let mut frame = vec![0x84, 0, id[0], id[1], 0, 0, 0, 0, length + 6];
    frame.extend([0, 0, 0, 0, 0, length]);
    frame.extend(words.as_bytes());
    stream.write_all(&frame).await
}

/// The result of beginning a session with the node at this host and port.
async fn session(host: &str, node: SocketAddr, tls: Option<CqlTls>) -> String {
    let target = format!("{host}:{}/readstates", node.port())
        .parse()
        .unwrap();
    let login = CqlLogin {
        tls,
        ..CqlLogin::default()
    };
    let wish = SchemaWish {
        replication: "dc1=1".parse().unwrap(),
        own_database: false,
        claim: None,
    };
    let outcome = apply_schema(&target, &login, &wish).await;
    chain(&outcome.unwrap_err())
}

fn trusting(ca: &Path) -> Option<CqlTls> {
    Some(CqlTls::from_files(ca, None).unwrap())
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[tokio::test]
async fn a_node_is_believed_by_its_address_or_by_a_host_of_the_store() {
    let ca = Authority::new();
    let by_address = node(Some(shows(&ca.issue(&["127.0.0.1"]), None))).await;
    let text = session("127.0.0.1", by_address, trusting(&ca.ca_file())).await;
    says(&text, &[WORDS]);
    let by_host = node(Some(shows(&ca.issue(&["localhost"]), None))).await;
    let text = session("localhost", by_host, trusting(&ca.ca_file())).await;
    says(&text, &[WORDS]);
}

#[tokio::test]
async fn a_node_of_another_ca_is_refused() {
    let (ca, other) = (Authority::new(), Authority::new());
    let node = node(Some(shows(&ca.issue(&["127.0.0.1"]), None))).await;
    let text = session("127.0.0.1", node, trusting(&other.ca_file())).await;
    says(
        &text,
        &[
            "failed to open a session: no CA of",
            other.ca_file().to_str().unwrap(),
            "has signed the certificate of the node at 127.0.0.1",
            "give --cql-ca-file the CA that signed it",
        ],
    );
}

#[tokio::test]
async fn a_node_of_another_name_is_refused() {
    let ca = Authority::new();
    let node = node(Some(shows(&ca.issue(&["other.example"]), None))).await;
    let text = session("localhost", node, trusting(&ca.ca_file())).await;
    says(
        &text,
        &[
            "the node at 127.0.0.1 is for [",
            "other.example",
            "not for a host of --store [localhost]",
            "give --store a name that is in the certificate",
        ],
    );
}

#[tokio::test]
async fn a_certificate_of_the_past_is_refused() {
    let ca = Authority::new();
    let files = ca.issue_that(&["127.0.0.1"], |params| {
        params.not_after = date_time_ymd(2020, 1, 1);
    });
    let node = node(Some(shows(&files, None))).await;
    let text = session("127.0.0.1", node, trusting(&ca.ca_file())).await;
    says(
        &text,
        &[
            "node at 127.0.0.1 is not valid",
            "expired",
            "give the node another",
        ],
    );
}

#[tokio::test]
async fn a_node_with_tls_is_not_reached_without_and_the_reason_says_what_to_give() {
    let ca = Authority::new();
    let node = node(Some(shows(&ca.issue(&["127.0.0.1"]), None))).await;
    let text = session("127.0.0.1", node, None).await;
    says(
        &text,
        &[
            "ended the connection at the first message",
            "give --cql-ca-file",
        ],
    );
}

#[tokio::test]
async fn a_node_without_tls_is_not_spoken_to_in_the_clear() {
    let ca = Authority::new();
    let node = node(None).await;
    let text = session("127.0.0.1", node, trusting(&ca.ca_file())).await;
    says(&text, &["answers without TLS", "leave out --cql-ca-file"]);
    says(&session("127.0.0.1", node, None).await, &[WORDS]);
}

#[tokio::test]
async fn a_node_that_wants_a_certificate_gets_the_one_given() {
    let (ca, other) = (Authority::new(), Authority::new());
    let clients = trusting(&ca.ca_file());
    let node = node(Some(shows(&ca.issue(&["127.0.0.1"]), clients.as_ref()))).await;
    let text = session("127.0.0.1", node, clients).await;
    says(
        &text,
        &[
            "does not accept this client's certificate",
            "give --cql-cert-file",
        ],
    );
    let own = |of: &Authority| {
        let (certificate, key) = of.issue(&["chat"]);
        let own = Some((certificate.as_path(), key.as_path()));
        Some(CqlTls::from_files(&ca.ca_file(), own).unwrap())
    };
    let text = session("127.0.0.1", node, own(&other)).await;
    says(&text, &["does not accept this client's certificate"]);
    let text = session("127.0.0.1", node, own(&ca)).await;
    says(&text, &[WORDS]);
}

/// The result of a connection that the driver would make by this configuration.
async fn connection(config: &Arc<rustls::ClientConfig>, node: SocketAddr) -> Result<(), String> {
    let stream = TcpStream::connect(node).await.unwrap();
    let address = ServerName::IpAddress(node.ip().into());
    let connector = TlsConnector::from(Arc::clone(config));
    let outcome = connector.connect(address, stream).await.map(drop);
    outcome.map_err(|error| super::refusal(&error).unwrap().to_string())
}

#[tokio::test]
async fn a_file_that_changed_holds_from_the_next_connection() {
    let (ca, other) = (Authority::new(), Authority::new());
    let node = node(Some(shows(&ca.issue(&["127.0.0.1"]), None))).await;
    let file = ca.file("trusted.crt");
    fs::copy(ca.ca_file(), &file).unwrap();
    let tls = trusting(&file).unwrap();
    let config = tls.client_config(&["db".to_owned()]).unwrap();
    connection(&config, node).await.unwrap();
    fs::copy(other.ca_file(), &file).unwrap();
    says(&connection(&config, node).await.unwrap_err(), &["no CA of"]);
    fs::remove_file(&file).unwrap();
    says(
        &connection(&config, node).await.unwrap_err(),
        &["failed to read", "trusted.crt"],
    );
    // Two CAs while one takes the place of the other.
    let both = [other.ca_file(), ca.ca_file()].map(|file| fs::read_to_string(file).unwrap());
    fs::write(&file, both.concat()).unwrap();
    connection(&config, node).await.unwrap();
}

#[test]
fn files_that_cannot_be_used_are_refused_with_their_names_and_without_what_is_in_them() {
    let ca = Authority::new();
    let (certificate, key) = ca.issue(&["one"]);
    let (_, others) = ca.issue(&["two"]);
    let key_text = fs::read_to_string(&key).unwrap();
    for (ca_file, own, of, part) in [
        (ca.file("none"), None, TlsFile::Ca, "failed to read"),
        (
            key.clone(),
            None,
            TlsFile::Ca,
            "holds no certificate in PEM form",
        ),
        (
            ca.ca_file(),
            Some((&key, &key)),
            TlsFile::Certificate,
            "holds no certificate",
        ),
        (
            ca.ca_file(),
            Some((&certificate, &certificate)),
            TlsFile::Key,
            "holds no private key",
        ),
        (
            ca.ca_file(),
            Some((&certificate, &others)),
            TlsFile::Key,
            "give both of one issue",
        ),
    ] {
        let own = own.map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        let error = CqlTls::from_files(&ca_file, own).unwrap_err();
        let text = chain(&error);
        assert_eq!(error.of(), of, "{text}");
        says(&text, &[part, ca.folder.path().to_str().unwrap()]);
        let secret = key_text.lines().nth(1).unwrap();
        assert!(!text.contains(secret), "{text}");
    }
}
