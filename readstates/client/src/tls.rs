//! TLS with members: which CA to trust, and which certificate to show.
//!
//! The files are read again for every new connection, so that changed certificates take effect without a restart;
//! open connections stay as they are. For the same reason no connection resumes an older one's session.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error as Rustls, OtherError, RootCertStore,
    SignatureScheme,
    client::{
        ResolvesClientCert, Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    sign::CertifiedKey,
};

/// Why TLS cannot be had with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("failed to read {file:?}")]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is nothing of the kind in it.
    #[error("{file:?} holds no {what} in PEM form")]
    NotPem {
        /// The file.
        file: PathBuf,
        /// What should be in it.
        what: &'static str,
    },
    /// The library refuses what is in them.
    #[error("failed to set up TLS: {0}")]
    Refused(#[from] Rustls),
}

/// The files that TLS with members is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    ca_file: PathBuf,
    own: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// Believes members whose certificate a CA in this file (PEM) has signed, and is for the host of their URL.
    #[must_use]
    pub fn of_ca_file(file: impl Into<PathBuf>) -> Self {
        Self {
            ca_file: file.into(),
            own: None,
        }
    }

    /// Shows this certificate (PEM, with those between it and its CA) to members that ask for one; `key`: the file of
    /// its private key (PEM).
    #[must_use]
    pub fn with_certificate(
        self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        Self {
            own: Some((certificate.into(), key.into())),
            ..self
        }
    }

    /// What connections are made with.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        // Said now rather than with the first request.
        self.verifier(&provider)?;
        let own = self.own.as_ref();
        own.map(|(certificate, key)| certified(certificate, key, &provider))
            .transpose()?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OfFile {
                tls: self.clone(),
                provider: Arc::clone(&provider),
            }));
        let mut config = match own.cloned() {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder.with_client_cert_resolver(Arc::new(Own {
                certificate,
                key,
                provider,
            })),
        };
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(&self.ca_file)?);
        let roots = Arc::new(roots);
        WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider))
            .build()
            .map_err(|_| TlsError::NotPem {
                file: self.ca_file.clone(),
                what: "CA certificate",
            })
    }
}

/// Believes members by the CAs that are in the file now.
#[derive(Debug)]
struct OfFile {
    tls: Tls,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OfFile {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Rustls> {
        let verifier = self.tls.verifier(&self.provider);
        let verifier = verifier.map_err(|error| Rustls::Other(OtherError(Arc::new(error))))?;
        verifier.verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Rustls> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Rustls> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// Shows the certificate that is in the files now.
#[derive(Debug)]
struct Own {
    certificate: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        match certified(&self.certificate, &self.key, &self.provider) {
            Ok(key) => Some(Arc::new(key)),
            Err(error) => {
                tracing::warn!("no certificate is shown to members: {error}");
                None
            }
        }
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn certified(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(certificate)?;
    let parsed = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| TlsError::NotPem {
        file: key.to_owned(),
        what: "private key",
    })?;
    Ok(CertifiedKey::from_der(chain, parsed, provider)?)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(file)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    parsed
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or_else(|| TlsError::NotPem {
            file: file.to_owned(),
            what: "certificate",
        })
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(file).map_err(|source| TlsError::Read {
        file: file.to_owned(),
        source,
    })
}
