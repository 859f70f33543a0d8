//! The files with which a member logs in to a CQL database.

use super::{ConfigError, cli::CqlArgs};
use crate::store::{CqlLogin, CqlTls, Credentials, TlsFile};

impl CqlArgs {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn login(&self) -> Result<CqlLogin, ConfigError> {
        let credentials = match (&self.cql_user, &self.cql_password_file) {
            (Some(user), Some(file)) => {
                let credentials = Credentials::from_file(user, file);
                Some(credentials.map_err(|source| ConfigError::Password {
                    flag: "--cql-password-file",
                    file: file.clone(),
                    source,
                })?)
            }
            // Each requires the other.
            (None, _) | (_, None) => None,
        };
        Ok(CqlLogin {
            credentials,
            local_datacenter: self.cql_local_dc.clone(),
            tls: self.tls()?,
            claim: self.claim.clone(),
        })
    }

    fn tls(&self) -> Result<Option<CqlTls>, ConfigError> {
        let Some(ca) = &self.cql_ca_file else {
            return Ok(None);
        };
        let own = self
            .cql_cert_file
            .as_deref()
            .zip(self.cql_key_file.as_deref());
        let tls = CqlTls::from_files(ca, own).map_err(|source| {
            let flag = match source.of() {
                TlsFile::Ca => "--cql-ca-file",
                TlsFile::Certificate => "--cql-cert-file",
                TlsFile::Key => "--cql-key-file",
            };
            ConfigError::Tls { flag, source }
        })?;
        Ok(Some(tls))
    }
}
