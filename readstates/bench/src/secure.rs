//! What the service asks of its callers: a token, and TLS.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

/// Why there is no token, or no TLS.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    /// A file cannot be read.
    #[error("failed to read {file:?}")]
    Read { file: PathBuf, source: io::Error },
    /// The file holds no token.
    #[error("{0:?} holds no token of printable characters")]
    NoToken(PathBuf),
    /// The file holds no certificate.
    #[error("{0:?} holds no CA certificate in PEM form")]
    NoCertificate(PathBuf),
    /// The host has no name that a certificate can have.
    #[error("{0:?} is no name that a certificate can be for")]
    NoName(String),
    /// The library refuses.
    #[error("failed to set up TLS")]
    Refused(#[from] rustls::Error),
}

/// A token, never shown.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// The token in a file.
    ///
    /// # Errors
    /// When there is none.
    pub fn of_file(file: &Path) -> Result<Self, SecureError> {
        let text = fs::read_to_string(file).map_err(|source| SecureError::Read {
            file: file.to_owned(),
            source,
        })?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SecureError::NoToken(file.to_owned()));
        }
        Ok(Self(token.to_owned()))
    }
}

/// The lines of a request's head that are the same for every request to one host, without the path.
#[derive(Clone)]
pub(crate) struct Head(String);

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Head")
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Head {
    pub(crate) fn new(host: &str, token: Option<&Token>) -> Self {
        let token = token.map_or_else(String::new, |Token(token)| {
            format!("authorization: Bearer {token}\r\n")
        });
        Self(format!("host: {host}\r\n{token}"))
    }
}

/// TLS with one host.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Whom to believe over TLS.
#[derive(Debug, Clone)]
pub struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Believes servers whose certificate a CA in this file (PEM) has signed.
    ///
    /// # Errors
    /// When there is none in it.
    pub fn of_file(file: &Path) -> Result<Self, SecureError> {
        let bytes = fs::read(file).map_err(|source| SecureError::Read {
            file: file.to_owned(),
            source,
        })?;
        let mut roots = RootCertStore::empty();
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        let certificates = certificates.map_err(|_| SecureError::NoCertificate(file.to_owned()))?;
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(SecureError::NoCertificate(file.to_owned()));
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// TLS with the server of this name: a host name or an address.
    ///
    /// # Errors
    /// When it is neither.
    pub fn with(&self, name: &str) -> Result<Tls, SecureError> {
        let server = ServerName::try_from(name.to_owned());
        Ok(Tls {
            config: Arc::clone(&self.0),
            name: server.map_err(|_| SecureError::NoName(name.to_owned()))?,
        })
    }
}

impl Tls {
    /// The client's side of a connection that is to be made.
    pub(crate) fn session(&self) -> io::Result<ClientConnection> {
        let mut session = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(io::Error::other)?;
        // What is to be sent is bounded by the requests in flight.
        session.set_buffer_limit(None);
        Ok(session)
    }
}
