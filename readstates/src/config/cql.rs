//! The files with which a member logs in to a CQL database.

use super::{ConfigError, ToCqlArgs, cli::CqlArgs};
use crate::store::{ClaimName, CqlLogin, CqlTls, Credentials, TlsFile};

/// What the flags are called.
struct Flags {
    password: &'static str,
    ca: &'static str,
    certificate: &'static str,
    key: &'static str,
}

const FLAGS: Flags = Flags {
    password: "--cql-password-file",
    ca: "--cql-ca-file",
    certificate: "--cql-cert-file",
    key: "--cql-key-file",
};
const TO_FLAGS: Flags = Flags {
    password: "--to-cql-password-file",
    ca: "--to-cql-ca-file",
    certificate: "--to-cql-cert-file",
    key: "--to-cql-key-file",
};

impl CqlArgs {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn login(&self) -> Result<CqlLogin, ConfigError> {
        self.login_with(&FLAGS)
    }

    fn login_with(&self, flags: &Flags) -> Result<CqlLogin, ConfigError> {
        let credentials = match (&self.cql_user, &self.cql_password_file) {
            (Some(user), Some(file)) => {
                let credentials = Credentials::from_file(user, file);
                Some(credentials.map_err(|source| ConfigError::Password {
                    flag: flags.password,
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
            tls: self.tls(flags)?,
            claim: self.claim.clone(),
        })
    }

    fn tls(&self, flags: &Flags) -> Result<Option<CqlTls>, ConfigError> {
        let Some(ca) = &self.cql_ca_file else {
            return Ok(None);
        };
        let own = self
            .cql_cert_file
            .as_deref()
            .zip(self.cql_key_file.as_deref());
        let tls = CqlTls::from_files(ca, own).map_err(|source| {
            let flag = match source.of() {
                TlsFile::Ca => flags.ca,
                TlsFile::Certificate => flags.certificate,
                TlsFile::Key => flags.key,
            };
            ConfigError::Tls { flag, source }
        })?;
        Ok(Some(tls))
    }
}

impl ToCqlArgs {
    /// Reads the files. The claim is the cluster's own, unless another one is given.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn login(&self, claim: Option<&ClaimName>) -> Result<CqlLogin, ConfigError> {
        let Self {
            to_claim,
            to_cql_local_dc,
            to_cql_user,
            to_cql_password_file,
            to_cql_ca_file,
            to_cql_cert_file,
            to_cql_key_file,
        } = self;
        let args = CqlArgs {
            claim: to_claim.as_ref().or(claim).cloned(),
            cql_local_dc: to_cql_local_dc.clone(),
            cql_user: to_cql_user.clone(),
            cql_password_file: to_cql_password_file.clone(),
            cql_ca_file: to_cql_ca_file.clone(),
            cql_cert_file: to_cql_cert_file.clone(),
            cql_key_file: to_cql_key_file.clone(),
        };
        args.login_with(&TO_FLAGS)
    }
}
