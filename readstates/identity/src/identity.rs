//! The identity of this process: its certificate, the CAs it trusts, and the TLS that follows from both.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::{Resumption, WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
    version::TLS13,
};
use tokio::{net::TcpStream, time::sleep};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    CA_FILE, CERTIFICATE_FILE, ClusterName, KEY_FILE, Mark, Pems, PemsError, Role,
    certificate::{self, Details, Unreadable},
    verify::Verifier,
};

/// How often the files of an identity are looked at: the kubelet changes them within a minute or two.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// An identity, which can be replaced while it is in use.
#[derive(Debug)]
pub struct Identity {
    role: Role,
    cluster: ClusterName,
    state: Arc<ArcSwap<State>>,
}

/// Everything that is replaced as a whole.
pub(crate) struct State {
    pems: Pems,
    own: Details,
    trusted: Vec<Details>,
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
    pub(crate) servers: Arc<dyn ServerCertVerifier>,
}

/// An identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file is missing.
    #[error(transparent)]
    Read(#[from] PemsError),
    /// A certificate cannot be read.
    #[error("{file} is unusable")]
    Certificate {
        /// Which.
        file: &'static str,
        /// Why.
        source: Unreadable,
    },
    /// The key is missing, or is that of another certificate.
    #[error("{KEY_FILE} is not the private key of {CERTIFICATE_FILE}; use both of one issue")]
    Key,
    /// The certificate is not for a role of a cluster.
    #[error(
        "{CERTIFICATE_FILE} is for {names:?}; it must have the one DNS name ROLE.CLUSTER.readstates.internal"
    )]
    Name {
        /// The names in it.
        names: Vec<String>,
    },
    /// A new certificate is for another role or cluster.
    #[error(
        "{CERTIFICATE_FILE} is now for {found}, and was for {was}; restart to take another identity"
    )]
    Other {
        /// What it is for.
        found: String,
        /// What this process is.
        was: String,
    },
    /// No CA that is trusted has signed the certificate.
    #[error(
        "no CA in {CA_FILE} has signed {CERTIFICATE_FILE}, or it is not valid now ({0}); put the CA there"
    )]
    NotTrusted(String),
    /// The TLS library refuses.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

impl Identity {
    /// The identity of these certificates.
    ///
    /// # Errors
    /// When they do not belong together, or name no role of a cluster.
    pub fn new(pems: Pems) -> Result<Arc<Self>, IdentityError> {
        let (role, cluster, state) = State::new(pems)?;
        Ok(Arc::new(Self {
            role,
            cluster,
            state: Arc::new(ArcSwap::from_pointee(state)),
        }))
    }

    /// The identity in the files `ca.crt`, `tls.crt` and `tls.key` of a folder; see [`Identity::follow`].
    ///
    /// # Errors
    /// When they cannot be read or used.
    pub fn from_dir(folder: &Path) -> Result<Arc<Self>, IdentityError> {
        Self::new(Pems::read(folder)?)
    }

    /// Replaces the certificates by others of the same role and cluster, which new connections use.
    /// Returns whether anything changed.
    ///
    /// # Errors
    /// When they cannot be used; the ones before stay in force.
    pub fn replace(&self, pems: Pems) -> Result<bool, IdentityError> {
        if self.state.load().pems == pems {
            return Ok(false);
        }
        let (role, cluster, state) = State::new(pems)?;
        if role != self.role || cluster != self.cluster {
            return Err(IdentityError::Other {
                found: role.host(&cluster),
                was: self.role.host(&self.cluster),
            });
        }
        self.state.store(Arc::new(state));
        Ok(true)
    }

    /// Takes the files of this folder whenever they change; never ends. Files that cannot be used are
    /// reported once, and the certificates before stay in force.
    pub async fn follow(&self, folder: PathBuf) {
        let mut said = String::new();
        loop {
            // A few kilobytes, in memory where Kubernetes mounts them.
            let problem = match Pems::read(&folder).map_err(IdentityError::from) {
                Ok(pems) => self.replace(pems),
                Err(error) => Err(error),
            };
            match problem {
                Ok(changed) => {
                    said.clear();
                    if changed {
                        let certificate = self.mark();
                        tracing::info!(%certificate, "the certificates of this process were renewed");
                    }
                }
                Err(error) => {
                    let words = chain(&error);
                    if words != said {
                        tracing::error!(
                            folder = %folder.display(),
                            "new certificates cannot be used, and the ones before stay in force: {words}"
                        );
                        said = words;
                    }
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// What this process is.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The cluster that it belongs to.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// When the certificate that it shows expires.
    #[must_use]
    pub fn expires(&self) -> SystemTime {
        self.state.load().own.not_after
    }

    /// The certificate that it shows.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.state.load().own.mark
    }

    /// The CAs that it trusts.
    #[must_use]
    pub fn trusted(&self) -> Vec<Mark> {
        let state = self.state.load();
        state.trusted.iter().map(|ca| ca.mark).collect()
    }

    /// Accepts connections of these roles of the same cluster.
    ///
    /// # Errors
    /// When the TLS library refuses.
    pub fn acceptor(&self, roles: &'static [Role]) -> Result<Acceptor, IdentityError> {
        let verifier = Arc::new(self.verifier(roles));
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_protocol_versions(&[&TLS13])
                .map_err(|error| IdentityError::Tls(error.to_string()))?
                .with_client_cert_verifier(Arc::clone(&verifier) as _)
                .with_cert_resolver(Arc::clone(&verifier) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Acceptor {
            tls: TlsAcceptor::from(Arc::new(config)),
            verifier,
        })
    }

    /// Connects to processes of this role of the same cluster, whatever host they are reached by.
    ///
    /// # Errors
    /// When the TLS library refuses.
    pub fn client_config(&self, role: Role) -> Result<ClientConfig, IdentityError> {
        let roles: &'static [Role] = match role {
            Role::Member => &[Role::Member],
            Role::Operator => &[Role::Operator],
            Role::Agent => &[Role::Agent],
        };
        let verifier = Arc::new(self.verifier(roles));
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_protocol_versions(&[&TLS13])
                .map_err(|error| IdentityError::Tls(error.to_string()))?
                .dangerous()
                .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
                .with_client_cert_resolver(verifier);
        config.resumption = Resumption::disabled();
        // Hosts say nothing here, and their names need not be told on the wire.
        config.enable_sni = false;
        Ok(config)
    }

    pub(crate) fn verifier(&self, roles: &'static [Role]) -> Verifier {
        Verifier {
            state: Arc::clone(&self.state),
            cluster: self.cluster.clone(),
            roles,
        }
    }
}

impl State {
    fn new(pems: Pems) -> Result<(Role, ClusterName, Self), IdentityError> {
        let tls = |error: &dyn fmt::Display| IdentityError::Tls(error.to_string());
        let unusable = |file| move |source| IdentityError::Certificate { file, source };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let cas = certificate::parse(&pems.ca).map_err(unusable(CA_FILE))?;
        let trusted: Result<Vec<Details>, _> = cas.iter().map(certificate::of_der).collect();
        let trusted = trusted.map_err(unusable(CA_FILE))?;
        let mut roots = RootCertStore::empty();
        for ca in cas {
            roots.add(ca).map_err(|error| tls(&error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificate::parse(&pems.certificate).map_err(unusable(CERTIFICATE_FILE))?;
        let own = certificate::of_der(&chain[0]).map_err(unusable(CERTIFICATE_FILE))?;
        let named = match own.names.as_slice() {
            [name] => Role::of_host(name),
            _ => None,
        };
        let Some((role, cluster)) = named else {
            let names = own.names;
            return Err(IdentityError::Name { names });
        };
        let key =
            PrivateKeyDer::from_pem_slice(pems.key.as_bytes()).map_err(|_| IdentityError::Key)?;
        let certified =
            CertifiedKey::from_der(chain, key, &provider).map_err(|_| IdentityError::Key)?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| tls(&error))?;
        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| tls(&error))?;
        let state = Self {
            pems,
            own,
            trusted,
            certified: Arc::new(certified),
            clients,
            servers,
        };
        state.check_itself(role, &cluster)?;
        Ok((role, cluster, state))
    }

    /// Refuses a certificate that this process would not trust itself: no other process would.
    fn check_itself(&self, role: Role, cluster: &ClusterName) -> Result<(), IdentityError> {
        let refused = |error: rustls::Error| IdentityError::NotTrusted(error.to_string());
        let [own, between @ ..] = self.certified.cert.as_slice() else {
            return Err(IdentityError::Key);
        };
        let now = rustls::pki_types::UnixTime::now();
        if role.connects() {
            let clients = &self.clients;
            clients
                .verify_client_cert(own, between, now)
                .map_err(refused)?;
        } else {
            let name = role.host(cluster).try_into();
            let name = name.map_err(|_| IdentityError::Name { names: vec![] })?;
            let servers = &self.servers;
            servers
                .verify_server_cert(own, between, &name, &[], now)
                .map_err(refused)?;
        }
        Ok(())
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("own", &self.own)
            .field("trusted", &self.trusted)
            .finish_non_exhaustive()
    }
}

/// Accepts mutual TLS.
#[derive(Clone)]
pub struct Acceptor {
    tls: TlsAcceptor,
    verifier: Arc<Verifier>,
}

/// A connection was not admitted.
#[derive(Debug, thiserror::Error)]
#[error("the other end did not prove what it is")]
pub struct AcceptError(#[from] io::Error);

impl Acceptor {
    /// Makes the handshake, and returns the connection with the role of the other end. The caller bounds
    /// the time.
    ///
    /// # Errors
    /// When the other end proves nothing, or the wrong thing.
    pub async fn accept(
        &self,
        socket: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Role), AcceptError> {
        let stream = self.tls.accept(socket).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let certificate = shown
            .and_then(|chain| chain.first())
            .ok_or_else(|| io::Error::other("it showed no certificate"))?;
        let role = self.verifier.role(certificate).map_err(io::Error::other)?;
        Ok((stream, role))
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("roles", &self.verifier.roles)
            .finish_non_exhaustive()
    }
}

/// An error and its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
