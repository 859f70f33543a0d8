//! TLS on the API port. In: the names of files, looked at again and again. Out: connections that are encrypted, and
//! the certificate of the client where it shows one. Never: what is in a key.
//!
//! Files that are broken change nothing: what was in force stays. A session can be resumed while the files stay the
//! same, and not after: so no client gets in by a CA that was taken out. For the same reason the certificate of a
//! connection counts only while the CAs of clients are those that it was checked by.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ServerSessionMemoryCache, WebPkiClientVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    metrics::{Counter, Gauge, Text},
    store::{TlsFile, TlsFileError, chain},
};

/// How often the files are looked at.
pub const RELOAD_EVERY: Duration = Duration::from_secs(10);
/// Sessions that clients may resume.
const SESSIONS: usize = 4096;

/// The files that TLS on the API port is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate that is shown to clients, with those between it and its CA.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The CAs of clients' certificates; `None`: clients are asked for none.
    pub client_ca: Option<PathBuf>,
    /// How often the files are looked at.
    pub reload_every: Duration,
}

/// The bytes of the files.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

struct Current {
    acceptor: TlsAcceptor,
    /// Counts the changes of the CAs of clients.
    clients: u64,
}

/// What a client has shown.
#[derive(Debug)]
pub(super) struct ClientCertificate {
    /// Its DNS names, in lower case.
    names: Vec<String>,
    /// The CAs that it was checked by.
    clients: u64,
}

/// TLS on the API port.
pub(crate) struct ApiTls {
    files: TlsFiles,
    /// Whether a client without a certificate is refused: there is no other way for it to say who it is.
    must_show: bool,
    current: ArcSwap<Current>,
    /// What was last found in the files, good or not; `None` when they could not be read.
    seen: Mutex<Option<Contents>>,
    handshakes: Counter,
    failures: Counter,
    reload_failures: Counter,
    fresh: Gauge,
}

impl std::fmt::Debug for ApiTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiTls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ApiTls {
    /// TLS with these files; `must_show`: clients without a certificate are refused, where `client_ca` asks for one.
    ///
    /// # Errors
    /// When a file cannot be used now.
    pub(crate) fn open(files: TlsFiles, must_show: bool) -> Result<Arc<Self>, TlsFileError> {
        let contents = files.read()?;
        let acceptor = files.acceptor(&contents, must_show)?;
        let fresh = Gauge::default();
        fresh.set(1.0);
        Ok(Arc::new(Self {
            files,
            must_show,
            current: ArcSwap::from_pointee(Current {
                acceptor,
                clients: 0,
            }),
            seen: Mutex::new(Some(contents)),
            handshakes: Counter::default(),
            failures: Counter::default(),
            reload_failures: Counter::default(),
            fresh,
        }))
    }

    /// Looks at the files for ever. Cancel-safe: they are taken all together or not at all.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut in_force = self.seen.lock().as_ref().map(|seen| seen.client_ca.clone());
        loop {
            tokio::time::sleep(self.files.reload_every).await;
            self.look(&mut in_force);
        }
    }

    fn look(&self, in_force: &mut Option<Option<Vec<u8>>>) {
        let read = self.files.read();
        let mut seen = self.seen.lock();
        if seen.as_ref() == read.as_ref().ok() {
            return;
        }
        let made = read.and_then(|contents| {
            let acceptor = self.files.acceptor(&contents, self.must_show);
            let client_ca = contents.client_ca.clone();
            *seen = Some(contents);
            Ok((acceptor?, client_ca))
        });
        match made {
            Ok((acceptor, client_ca)) => {
                let changed = *in_force != Some(client_ca.clone());
                *in_force = Some(client_ca);
                let clients = self.current.load().clients + u64::from(changed);
                self.current.store(Arc::new(Current { acceptor, clients }));
                self.fresh.set(1.0);
                tracing::info!("the files of TLS on the API port were read again");
            }
            Err(error) => {
                if matches!(error, TlsFileError::Read { .. }) {
                    *seen = None;
                }
                self.reload_failures.increment(1);
                self.fresh.set(0.0);
                tracing::error!(
                    "the files of TLS on the API port are broken, and what they held before stays: {}",
                    chain(&error)
                );
            }
        }
    }

    /// Agrees on TLS with a client. `None` when they do not agree. The caller bounds the time.
    pub(super) async fn accept(
        &self,
        socket: TcpStream,
    ) -> Option<(TlsStream<TcpStream>, Option<ClientCertificate>)> {
        let current = self.current.load_full();
        let stream = match current.acceptor.accept(socket).await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!("no TLS with a client: {}", chain(&error));
                return None;
            }
        };
        self.handshakes.increment(1);
        let shown = stream.get_ref().1.peer_certificates();
        let certificate = shown.and_then(<[_]>::first).map(|shown| ClientCertificate {
            names: dns_names(shown),
            clients: current.clients,
        });
        Some((stream, certificate))
    }

    /// A connection has come to nothing.
    pub(super) fn failed(&self) {
        self.failures.increment(1);
    }

    /// The DNS names of a client's certificate; `None` when the CAs of clients are others by now.
    pub(super) fn names<'a>(&self, certificate: &'a ClientCertificate) -> Option<&'a [String]> {
        let current = certificate.clients == self.current.load().clients;
        current.then_some(&*certificate.names)
    }
}

/// What became of handshakes and files, as metrics; without TLS nothing does.
pub(super) fn write(tls: Option<&ApiTls>, text: &mut Text) {
    text.counter(
        "readstates_tls_handshakes_total",
        "TLS connections that were made on the API port.",
        tls.map_or(0, |tls| tls.handshakes.get()),
    );
    text.counter(
        "readstates_tls_handshake_failures_total",
        "TLS connections to the API port that came to nothing: no agreement, too slow, too many at once.",
        tls.map_or(0, |tls| tls.failures.get()),
    );
    text.counter(
        "readstates_tls_reload_failures_total",
        "Files of TLS on the API port that were broken when they had changed.",
        tls.map_or(0, |tls| tls.reload_failures.get()),
    );
    text.gauge(
        "readstates_tls_files_current",
        "1 while TLS on the API port is that of the files; 0 while they are broken, and those from before stay, and without TLS.",
        tls.map_or(0.0, |tls| tls.fresh.get()),
    );
}

/// The DNS names that a certificate is for. It was checked before: what cannot be read has none.
fn dns_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) else {
        return Vec::new();
    };
    parsed
        .valid_dns_names()
        .map(str::to_ascii_lowercase)
        .collect()
}

impl TlsFiles {
    fn read(&self) -> Result<Contents, TlsFileError> {
        let client_ca = self.client_ca.as_deref();
        Ok(Contents {
            certificate: read(TlsFile::Certificate, &self.certificate)?,
            key: read(TlsFile::Key, &self.key)?,
            client_ca: client_ca.map(|file| read(TlsFile::Ca, file)).transpose()?,
        })
    }

    fn acceptor(&self, contents: &Contents, must_show: bool) -> Result<TlsAcceptor, TlsFileError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let bad_key = |error: &dyn std::fmt::Display| TlsFileError::Key {
            file: self.key.clone(),
            certificate: self.certificate.clone(),
            words: error.to_string(),
        };
        let chain = certificates(
            TlsFile::Certificate,
            &self.certificate,
            &contents.certificate,
        )?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key)
            .map_err(|_| not_pem(TlsFile::Key, &self.key))?;
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| bad_key(&error))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| bad_key(&error))?;
        let builder = match self.client_ca.as_deref().zip(contents.client_ca.as_deref()) {
            None => builder.with_no_client_auth(),
            Some((file, bytes)) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(certificates(TlsFile::Ca, file, bytes)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if must_show {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                let verifier = verifier.build().map_err(|_| not_pem(TlsFile::Ca, file))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // New with every change of the files, and with it all that could be resumed.
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn read(of: TlsFile, file: &Path) -> Result<Vec<u8>, TlsFileError> {
    fs::read(file).map_err(|source| TlsFileError::Read {
        of,
        file: file.to_owned(),
        source,
    })
}

fn certificates(
    of: TlsFile,
    file: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    parsed
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or_else(|| not_pem(of, file))
}

fn not_pem(of: TlsFile, file: &Path) -> TlsFileError {
    let file = file.to_owned();
    TlsFileError::NotPem { of, file }
}
