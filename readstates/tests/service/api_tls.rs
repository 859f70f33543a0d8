//! TLS on the API port: who is let in by which certificate, and what happens when the files change.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    authority::Authority,
    common::{NEVER, PATIENCE, Running, config, on},
};
use readstates::{
    access::{AccessConfig, token},
    config::ServeConfig,
    http::TlsFiles,
    store::MemoryStore,
};
use rustls::{
    ClientConfig, HandshakeKind, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const LOOK: Duration = Duration::from_millis(20);

/// A member that speaks TLS.
struct TlsWorld {
    member: Running,
    folder: TempDir,
    servers: Authority,
    clients: Authority,
}

impl TlsWorld {
    /// `access`: the access file, if there is one.
    async fn new(access: Option<&str>, asks_for_certificates: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (servers, clients) = (Authority::new(), Authority::new());
        let file = |name: &str| folder.path().join(name);
        let (certificate, key) = servers.issue("localhost");
        fs::write(file("tls.crt"), certificate).unwrap();
        fs::write(file("tls.key"), key).unwrap();
        fs::write(file("clients.crt"), &clients.pem).unwrap();
        let access = access.map(|text| {
            fs::write(file("access.yaml"), text).unwrap();
            AccessConfig {
                reload_every: LOOK,
                ..AccessConfig::new(file("access.yaml"))
            }
        });
        let tls = TlsFiles {
            certificate: file("tls.crt"),
            key: file("tls.key"),
            client_ca: asks_for_certificates.then(|| file("clients.crt")),
            reload_every: LOOK,
        };
        let config = ServeConfig {
            access,
            api_tls: Some(tls),
            ..config(NEVER)
        };
        let member = on(Arc::new(MemoryStore::default()), config).await;
        Self {
            member,
            folder,
            servers,
            clients,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn replace(&self, name: &str, text: &str) {
        let new = self.file("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.file(name)).unwrap();
    }

    /// A client that trusts the member, and shows this.
    fn client(&self, own: Option<&(String, String)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.servers.pem.as_bytes()).unwrap())
            .unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Arc::new(config)
    }

    async fn connect(&self, client: &Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.member.server.http_address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::clone(client))
            .connect(name, socket)
            .await
    }

    /// The status of a read on a connection of its own, and of what kind the handshake was.
    async fn read(
        &self,
        client: &Arc<ClientConfig>,
        token: Option<&str>,
    ) -> std::io::Result<(u16, HandshakeKind)> {
        let mut stream = self.connect(client).await?;
        let status = read(&mut stream, token).await?;
        let kind = stream.get_ref().1.handshake_kind().unwrap();
        Ok((status, kind))
    }

    async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let start = Instant::now();
        while !holds().await {
            assert!(start.elapsed() < PATIENCE, "still not {what}");
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// The status of a read on this connection.
async fn read(stream: &mut TlsStream<TcpStream>, token: Option<&str>) -> std::io::Result<u16> {
    let token = token.map_or_else(String::new, |token| {
        format!("authorization: Bearer {token}\r\n")
    });
    let head = format!("GET /v1/users/1/read-states HTTP/1.1\r\nhost: a\r\n{token}\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut seen = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            length => seen.extend_from_slice(&chunk[..length]),
        }
        let text = String::from_utf8_lossy(&seen);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.unwrap().parse::<usize>().unwrap() {
                return Ok(head[9..12].parse().unwrap());
            }
        }
    }
}

fn caller(more: &str) -> String {
    format!("callers: [{{name: gateway, verbs: [read], {more}}}]")
}

fn token_of(token: &str) -> String {
    caller(&format!("tokens: [\"{}\"]", token::hash(token)))
}

#[tokio::test]
async fn a_member_with_a_certificate_speaks_tls_alone_and_is_listed_so() {
    let world = TlsWorld::new(Some(&token_of("good")), false).await;
    let client = world.client(None);
    assert_eq!(world.read(&client, Some("good")).await.unwrap().0, 200);
    assert_eq!(world.read(&client, None).await.unwrap().0, 401);
    let url = world.member.server.ownership().me().url().to_owned();
    assert_eq!(url, format!("https://{}", world.member.server.http_address));
    let mut plain = TcpStream::connect(world.member.server.http_address)
        .await
        .unwrap();
    plain
        .write_all(b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut heard = Vec::new();
    // An alert of TLS, and the end; nothing of HTTP.
    let _ = plain.read_to_end(&mut heard).await;
    assert!(!heard.starts_with(b"HTTP"));
}

#[tokio::test]
async fn a_client_certificate_stands_for_the_caller_that_has_its_name() {
    let access = caller("certificates: [gateway.example]");
    let world = TlsWorld::new(Some(&access), true).await;
    let own = world.clients.issue("Gateway.example");
    let status = async |own: Option<&(String, String)>| {
        world
            .read(&world.client(own), None)
            .await
            .map(|read| read.0)
    };
    assert_eq!(status(Some(&own)).await.unwrap(), 200);
    assert_eq!(status(None).await.unwrap(), 401);
    let other = world.clients.issue("other.example");
    assert_eq!(status(Some(&other)).await.unwrap(), 401);
    // Signed by another authority: not let in at all.
    let foreign = Authority::new().issue("gateway.example");
    assert!(status(Some(&foreign)).await.is_err());
    // A token that is wrong is not made good by a certificate.
    let client = world.client(Some(&own));
    assert_eq!(world.read(&client, Some("wrong")).await.unwrap().0, 401);
}

#[tokio::test]
async fn without_callers_a_certificate_is_what_a_client_needs() {
    let world = TlsWorld::new(None, true).await;
    let own = world.clients.issue("anybody.example");
    let shown = world.client(Some(&own));
    assert_eq!(world.read(&shown, None).await.unwrap().0, 200);
    assert!(world.read(&world.client(None), None).await.is_err());
}

#[tokio::test]
async fn a_session_is_resumed_but_not_after_the_cas_of_clients_have_changed() {
    let access = caller("certificates: [gateway.example]");
    let world = TlsWorld::new(Some(&access), true).await;
    let own = world.clients.issue("gateway.example");
    let client = world.client(Some(&own));
    let first = world.read(&client, None).await.unwrap();
    assert_eq!(first, (200, HandshakeKind::Full));
    let again = world.read(&client, None).await.unwrap();
    assert_eq!(again, (200, HandshakeKind::Resumed));
    // Open before the change, and of no use after it.
    let mut open = world.connect(&client).await.unwrap();
    assert_eq!(read(&mut open, None).await.unwrap(), 200);
    world.replace("clients.crt", &Authority::new().pem);
    world
        .until("refused with the CA from before", async || {
            !matches!(world.read(&client, None).await, Ok((200, _)))
        })
        .await;
    assert_eq!(read(&mut open, None).await.unwrap(), 401);
    assert!(world.read(&client, None).await.is_err());
}

#[tokio::test]
async fn a_new_certificate_is_shown_and_broken_files_change_nothing() {
    let mut world = TlsWorld::new(Some(&token_of("good")), false).await;
    let client = world.client(None);
    world.replace("tls.crt", "no certificate");
    world
        .until("counted as broken", async || {
            let page = world.member.get("/metrics").await.text;
            page.contains("readstates_tls_files_current 0\n")
        })
        .await;
    assert_eq!(world.read(&client, Some("good")).await.unwrap().0, 200);
    let of_before = world.client(None);
    let before = std::mem::replace(&mut world.servers, Authority::new());
    let (certificate, key) = world.servers.issue("localhost");
    world.replace("tls.key", &key);
    world.replace("tls.crt", &certificate);
    let client = world.client(None);
    world
        .until("shown", async || {
            world.read(&client, Some("good")).await.is_ok()
        })
        .await;
    drop(before);
    world
        .until("counted as sound", async || {
            let page = world.member.get("/metrics").await.text;
            page.contains("readstates_tls_files_current 1\n")
        })
        .await;
    // A client that trusts only the previous authority breaks off, which is counted.
    assert!(world.read(&of_before, Some("good")).await.is_err());
    world
        .until("counted as failed", async || {
            let page = world.member.get("/metrics").await.text;
            !page.contains("readstates_tls_handshake_failures_total 0\n")
        })
        .await;
}

#[tokio::test]
async fn a_client_that_says_nothing_holds_no_place_for_long() {
    let world = TlsWorld::new(None, false).await;
    let mut silent = TcpStream::connect(world.member.server.http_address)
        .await
        .unwrap();
    let mut heard = Vec::new();
    // The member ends it, after the time that a head may take.
    let ended = tokio::time::timeout(2 * PATIENCE, silent.read_to_end(&mut heard)).await;
    assert!(ended.is_ok() && heard.is_empty());
}
