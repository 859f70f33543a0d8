//! What this member shows the other processes of its cluster, and the HTTP clients that follow from it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use readstates_api::admin::IdentityStatus;
use readstates_identity::{Acceptor, Identity, IdentityError, Role};

/// The other processes are near: one that has not accepted by then is gone or overrun.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A member's identity, and the folder in which it is renewed.
#[derive(Debug, Clone)]
pub struct MembersTls {
    /// What it shows and whom it believes.
    pub identity: Arc<Identity>,
    /// Where it is from: `ca.crt`, `tls.crt` and `tls.key`.
    pub folder: PathBuf,
}

/// A folder holds no identity that is of use here.
#[derive(Debug, thiserror::Error)]
pub enum TlsFolderError {
    /// The files cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// It is another process's.
    #[error("the certificate is for the role {found}; give the folder of the {wanted}")]
    Role {
        /// What it is for.
        found: Role,
        /// What it must be for.
        wanted: Role,
    },
}

/// There is no HTTP client for the other processes.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up the client for the other members")]
pub enum ClientError {
    /// Because of its certificates.
    Identity(#[from] IdentityError),
    /// Because of HTTP.
    Http(#[from] reqwest::Error),
}

impl MembersTls {
    /// Reads a member's files.
    ///
    /// # Errors
    /// When they cannot be used, or are not a member's.
    pub fn read(folder: &Path) -> Result<Self, TlsFolderError> {
        Ok(Self {
            identity: read(folder, Role::Member)?,
            folder: folder.to_owned(),
        })
    }

    /// Proves who connects to the port of the other members, and to that of the operator.
    pub(crate) fn acceptors(&self) -> Result<(Acceptor, Acceptor), IdentityError> {
        let members = self.identity.acceptor(&[Role::Member])?;
        Ok((members, self.identity.acceptor(&[Role::Operator])?))
    }

    /// As the operator reads it.
    pub(crate) fn status(&self) -> IdentityStatus {
        let trusted = self.identity.trusted();
        IdentityStatus {
            certificate: self.identity.mark().to_string(),
            trusted: trusted.iter().map(ToString::to_string).collect(),
            expires: jiff::Timestamp::try_from(self.identity.expires())
                .map_or_else(|_| String::new(), |at| at.to_string()),
        }
    }

    /// When the certificate expires, in seconds since 1970.
    pub(crate) fn expires(&self) -> f64 {
        let since = self.identity.expires().duration_since(UNIX_EPOCH);
        since.map_or(0.0, |since| since.as_secs_f64())
    }
}

/// The identity in a folder, for a process of this role.
///
/// # Errors
/// When the files cannot be used, or are another role's.
pub fn read(folder: &Path, wanted: Role) -> Result<Arc<Identity>, TlsFolderError> {
    let identity = Identity::from_dir(folder)?;
    match identity.role() {
        found if found == wanted => Ok(identity),
        found => Err(TlsFolderError::Role { found, wanted }),
    }
}

/// A client for members: with an identity the other end must be a member of the same cluster wherever it is
/// asked over TLS.
pub(crate) fn client(identity: Option<&Identity>) -> Result<reqwest::ClientBuilder, IdentityError> {
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    Ok(match identity {
        Some(identity) => client.tls_backend_preconfigured(identity.client_config(Role::Member)?),
        // It has nothing to do with TLS, and does not look for the certificates of a system that may have none.
        None => client.tls_certs_only([]),
    })
}
