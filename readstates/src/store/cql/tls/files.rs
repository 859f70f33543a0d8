//! The files of TLS: certificates and a key in PEM form, read as often as they are needed.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

/// The files that TLS to a database is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqlTls {
    pub(super) ca_file: PathBuf,
    pub(super) own: Option<OwnFiles>,
}

/// The certificate that this client shows, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// What a file of TLS is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFile {
    /// The CAs that sign the certificates of nodes.
    Ca,
    /// The certificate that this client shows.
    Certificate,
    Key,
}

/// A file of TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    /// It cannot be read.
    #[error("failed to read {file:?}")]
    Read {
        /// What it is for.
        of: TlsFile,
        file: PathBuf,
        source: io::Error,
    },
    /// There is nothing of the kind in it.
    #[error("{file:?} holds no {of} in PEM form; give a file with one")]
    NotPem {
        /// What it is for.
        of: TlsFile,
        file: PathBuf,
    },
    /// The key cannot be used, or is that of another certificate.
    #[error(
        "the key in {file:?} is not one that fits the certificate in {certificate:?}: {words}; give both of one issue"
    )]
    Key {
        /// The file of the key.
        file: PathBuf,
        /// The file of the certificate.
        certificate: PathBuf,
        /// What is wrong with it.
        words: String,
    },
}

impl TlsFileError {
    /// What the file at fault is for.
    #[must_use]
    pub fn of(&self) -> TlsFile {
        match self {
            Self::Read { of, .. } | Self::NotPem { of, .. } => *of,
            Self::Key { .. } => TlsFile::Key,
        }
    }
}

impl fmt::Display for TlsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ca | Self::Certificate => "certificate",
            Self::Key => "private key",
        })
    }
}

impl CqlTls {
    /// TLS with nodes whose certificates a CA of `ca_file` has signed; `own`: the files of the certificate that
    /// is shown to them, and of its key.
    ///
    /// # Errors
    /// When a file cannot be used now.
    pub fn from_files(ca_file: &Path, own: Option<(&Path, &Path)>) -> Result<Self, TlsFileError> {
        let tls = Self {
            ca_file: ca_file.to_owned(),
            own: own.map(|(certificate, key)| OwnFiles {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            }),
        };
        tls.roots()?;
        if let Some(own) = &tls.own {
            own.read(&aws_lc_rs::default_provider())?;
        }
        Ok(tls)
    }

    /// The CAs that are in the file now.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn roots(&self) -> Result<RootCertStore, TlsFileError> {
        let mut roots = RootCertStore::empty();
        let certificates = certificates(TlsFile::Ca, &self.ca_file)?;
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 {
            return Err(not_pem(TlsFile::Ca, &self.ca_file));
        }
        Ok(roots)
    }
}

impl OwnFiles {
    pub(super) fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsFileError> {
        let Self { certificate, key } = self;
        let chain = certificates(TlsFile::Certificate, certificate)?;
        let bytes = read(TlsFile::Key, key)?;
        let parsed =
            PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| not_pem(TlsFile::Key, key))?;
        CertifiedKey::from_der(chain, parsed, provider).map_err(|error| TlsFileError::Key {
            file: key.clone(),
            certificate: certificate.clone(),
            words: error.to_string(),
        })
    }
}

fn certificates(of: TlsFile, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let bytes = read(of, file)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    parsed
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or_else(|| not_pem(of, file))
}

/// A file of a few kilobytes, in memory where Kubernetes mounts it: not worth a thread.
fn read(of: TlsFile, file: &Path) -> Result<Vec<u8>, TlsFileError> {
    fs::read(file).map_err(|source| TlsFileError::Read {
        of,
        file: file.to_owned(),
        source,
    })
}

fn not_pem(of: TlsFile, file: &Path) -> TlsFileError {
    let file = file.to_owned();
    TlsFileError::NotPem { of, file }
}
