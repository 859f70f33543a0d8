//! A certificate authority of a test's own.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;

#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, in PEM form.
#[derive(Clone, Debug)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    /// A new one, with a new key.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, pem })
    }

    /// Its own certificate, in PEM form.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A new certificate with a new key for these DNS names.
    ///
    /// # Errors
    /// When one of them is not a DNS name.
    pub fn issue(&self, names: &[String]) -> Result<Issued> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(names)?;
        Ok(Issued {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }

    /// The same as a Secret, for `kubectl apply`.
    ///
    /// # Errors
    /// When one of the names is not a DNS name.
    pub fn secret(&self, secret: &str, names: &[String]) -> Result<String> {
        let Issued { certificate, key } = self.issue(names)?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": { "name": secret },
            "stringData": { "tls.crt": certificate, "tls.key": key, "ca.crt": self.pem },
        });
        Ok(secret.to_string())
    }
}
