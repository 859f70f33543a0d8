//! Reasons why there is no connection over TLS, and what to do about each.

use std::{io, path::PathBuf, sync::Arc};

use rustls::{AlertDescription, Error as Rustls, OtherError};

use super::TlsFileError;

/// Why there is no TLS connection with a node.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TlsRefusal {
    /// A file cannot be used any more.
    #[error(transparent)]
    File(Arc<TlsFileError>),
    /// No trusted CA has signed the node's certificate.
    #[error(
        "no CA of {ca_file:?} has signed the certificate of the node at {node}: it is another database, or the file \
         is of another CA; give --cql-ca-file the CA that signed it"
    )]
    Issuer {
        /// The address of the node.
        node: String,
        /// The file of the CAs that are trusted.
        ca_file: PathBuf,
    },
    /// The certificate is for another host.
    #[error(
        "the certificate of the node at {node} is for [{names}], not for that address and not for a host of --store \
         [{hosts}]: it is another database, or goes by another name; give --store a name that is in the certificate"
    )]
    Name {
        /// The address of the node.
        node: String,
        /// The names in the certificate.
        names: String,
        /// The hosts that would have been accepted.
        hosts: String,
    },
    /// The certificate is not good, or not now.
    #[error(
        "the certificate of the node at {node} is not valid ({words}); give the node another, and look at the clocks"
    )]
    Invalid {
        /// The address of the node.
        node: String,
        /// What is wrong with it.
        words: String,
    },
    /// The node does not speak TLS.
    #[error(
        "the database answers without TLS; leave out --cql-ca-file, or have its nodes use TLS for clients"
    )]
    NotTls,
    /// The node wants a certificate of this client, or a different one.
    #[error(
        "the database does not accept this client's certificate ({words}); give --cql-cert-file and --cql-key-file \
         what it trusts"
    )]
    Client {
        /// What the node said.
        words: String,
    },
    /// The node speaks TLS and is spoken to without.
    #[error(
        "the database ended the connection at the first message ({words}): if it wants TLS, give --cql-ca-file"
    )]
    Plain {
        /// What was seen of it.
        words: String,
    },
    /// Anything else that TLS says.
    #[error("failed to agree on TLS with the database: {words}")]
    Other { words: String },
}

/// What an error of the TLS library means to the person who runs this.
pub(in crate::store::cql) fn refusal(error: &io::Error) -> Option<TlsRefusal> {
    let error = error.get_ref()?.downcast_ref::<Rustls>()?;
    Some(match error {
        Rustls::Other(OtherError(ours)) => match ours.downcast_ref::<TlsRefusal>() {
            Some(ours) => ours.clone(),
            None => other(error),
        },
        Rustls::InvalidMessage(_) => TlsRefusal::NotTls,
        Rustls::AlertReceived(alert) if is_about_us(*alert) => TlsRefusal::Client {
            words: format!("{alert:?}"),
        },
        error => other(error),
    })
}

fn other(error: &Rustls) -> TlsRefusal {
    TlsRefusal::Other {
        words: error.to_string(),
    }
}

/// Alerts by which a node says what it thinks of this client's certificate.
fn is_about_us(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            // Signed by another CA of the same name.
            | AlertDescription::DecryptError
    )
}
