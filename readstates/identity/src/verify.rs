//! The checks of a handshake: chain, cluster and role of the other end.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error as Rustls, SignatureScheme,
    client::{
        ResolvesClientCert,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{
        ClientHello, ParsedCertificate, ResolvesServerCert,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
};

use crate::{ClusterName, Role, identity::State};

/// Verifies the certificates that others show, and shows the one in force.
#[derive(Debug, Clone)]
pub(crate) struct Verifier {
    pub(crate) state: Arc<ArcSwap<State>>,
    pub(crate) cluster: ClusterName,
    /// The roles that the other end may have.
    pub(crate) roles: &'static [Role],
}

impl Verifier {
    /// The role that a certificate names, among those that may connect.
    pub(crate) fn role(&self, certificate: &CertificateDer<'_>) -> Result<Role, Rustls> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let mut refusal = Rustls::InvalidCertificate(CertificateError::NotValidForName);
        for &role in self.roles {
            match verify_server_name(&parsed, &server_name(role, &self.cluster)?) {
                Ok(()) => return Ok(role),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }
}

fn server_name(role: Role, cluster: &ClusterName) -> Result<ServerName<'static>, Rustls> {
    ServerName::try_from(role.host(cluster)).map_err(|error| Rustls::General(error.to_string()))
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Each process has one certificate: there is nothing to choose from.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Rustls> {
        let state = self.state.load();
        let clients = &state.clients;
        let verified = clients.verify_client_cert(end_entity, intermediates, now)?;
        self.role(end_entity)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Rustls> {
        let state = self.state.load();
        let clients = &state.clients;
        clients.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Rustls> {
        let state = self.state.load();
        let clients = &state.clients;
        clients.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.state.load().clients.supported_verify_schemes()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Rustls> {
        let role = self.role(end_entity)?;
        let name = server_name(role, &self.cluster)?;
        let state = self.state.load();
        let servers = &state.servers;
        servers.verify_server_cert(end_entity, intermediates, &name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Rustls> {
        let state = self.state.load();
        let servers = &state.servers;
        servers.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Rustls> {
        let state = self.state.load();
        let servers = &state.servers;
        servers.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.state.load().servers.supported_verify_schemes()
    }
}

impl ResolvesServerCert for Verifier {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.state.load().certified))
    }
}

impl ResolvesClientCert for Verifier {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.state.load().certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
