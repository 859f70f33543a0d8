//! TLS to the nodes of the database. In: the names of files. Out: what the driver makes its connections
//! with. Never: what is in a key.
//!
//! The files are read again for every connection, so that certificates which were changed hold without a
//! restart. For the same reason no connection resumes the TLS session of an older one.
//!
//! The driver knows nodes by their addresses, and those of pods change: a node is believed when its
//! certificate is for its address **or for a host of the store**, whichever of them it was found by.

mod files;
mod refusal;
#[cfg(test)]
mod tests;
mod verify;

use std::sync::Arc;

pub use files::{CqlTls, TlsFile, TlsFileError};
pub use refusal::TlsRefusal;
pub(super) use refusal::refusal;
use rustls::{ClientConfig, client::Resumption, crypto::aws_lc_rs};
use verify::{NodeVerifier, OwnCertificate};

impl CqlTls {
    /// What the driver connects with; nodes may be found by these hosts.
    pub(super) fn client_config(&self, hosts: &[String]) -> Result<Arc<ClientConfig>, TlsRefusal> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsRefusal::Other {
                words: error.to_string(),
            })?;
        let verifier = NodeVerifier {
            tls: self.clone(),
            hosts: hosts.to_vec(),
            algorithms: provider.signature_verification_algorithms,
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.own {
            Some(files) => builder.with_client_cert_resolver(Arc::new(OwnCertificate {
                files: files.clone(),
                provider,
            })),
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}
