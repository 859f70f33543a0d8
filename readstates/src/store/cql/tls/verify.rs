//! Verification of nodes' certificates, and the certificate shown to them.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error as Rustls, OtherError, SignatureScheme,
    client::{
        ResolvesClientCert,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
    sign::CertifiedKey,
};

use super::{CqlTls, TlsRefusal, files::OwnFiles};
use crate::store::chain;

/// Believes nodes whose certificate is signed by a CA that is in the file now, and is for the node's address or a
/// host.
#[derive(Debug)]
pub(super) struct NodeVerifier {
    pub(super) tls: CqlTls,
    pub(super) hosts: Vec<String>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        address: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Rustls> {
        let refused = |refusal: TlsRefusal| Rustls::Other(OtherError(Arc::new(refusal)));
        let node = address.to_str().into_owned();
        let roots = self.tls.roots();
        let roots = roots.map_err(|error| refused(TlsRefusal::File(Arc::new(error))))?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &roots,
            intermediates,
            now,
            self.algorithms.all,
        )
        .map_err(|error| refused(self.not_signed(node.clone(), &error)))?;
        self.verify_names(&certificate, address).map_err(|names| {
            refused(TlsRefusal::Name {
                node,
                names,
                hosts: self.hosts.join(", "),
            })
        })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Rustls> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Rustls> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl NodeVerifier {
    fn not_signed(&self, node: String, error: &Rustls) -> TlsRefusal {
        match error {
            // A CA that was recreated has the same name and another key.
            Rustls::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => TlsRefusal::Issuer {
                node,
                ca_file: self.tls.ca_file.clone(),
            },
            other => TlsRefusal::Invalid {
                node,
                words: other.to_string(),
            },
        }
    }

    /// The names that the certificate is for, when none of them is right.
    fn verify_names(
        &self,
        certificate: &ParsedCertificate<'_>,
        address: &ServerName<'_>,
    ) -> Result<(), String> {
        let mut presented = match verify_server_name(certificate, address) {
            Ok(()) => return Ok(()),
            Err(error) => presented(&error),
        };
        for host in &self.hosts {
            let Ok(host) = ServerName::try_from(host.as_str()) else {
                continue;
            };
            match verify_server_name(certificate, &host) {
                Ok(()) => return Ok(()),
                Err(error) if presented.is_empty() => presented = self::presented(&error),
                Err(_) => {}
            }
        }
        Err(presented)
    }
}

/// The names in a certificate that was not for the one asked for.
fn presented(error: &Rustls) -> String {
    let Rustls::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) =
        error
    else {
        return error.to_string();
    };
    // The library quotes them, and says of what kind they are.
    let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_owned();
    presented.iter().map(bare).collect::<Vec<_>>().join(", ")
}

/// Shows the certificate that is in the files now.
#[derive(Debug)]
pub(super) struct OwnCertificate {
    pub(super) files: OwnFiles,
    pub(super) provider: Arc<CryptoProvider>,
}

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        match self.files.read(&self.provider) {
            Ok(key) => Some(Arc::new(key)),
            Err(error) => {
                let error = chain(&error);
                tracing::warn!("no certificate is shown to the database: {error}");
                None
            }
        }
    }

    fn has_certs(&self) -> bool {
        true
    }
}
