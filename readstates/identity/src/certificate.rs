//! What a certificate says: its mark, when it expires, and the names in it. Pure.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use aws_lc_rs::digest;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::{extensions::GeneralName, prelude::X509Certificate};

const MARK_BYTES: usize = 8;

/// The first eight bytes of a certificate's SHA-256: names it in status, logs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark([u8; MARK_BYTES]);

impl Mark {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let hash = digest::digest(&digest::SHA256, certificate);
        let mut mark = [0; MARK_BYTES];
        mark.copy_from_slice(&hash.as_ref()[..MARK_BYTES]);
        Self(mark)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is of interest in a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// Its mark.
    pub mark: Mark,
    /// The first moment at which it is valid.
    pub not_before: SystemTime,
    /// The last moment at which it is valid.
    pub not_after: SystemTime,
    /// The DNS names in it.
    pub names: Vec<String>,
}

/// It is not a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub(crate) String);

/// Reads each certificate in PEM form, in order; none is an error.
///
/// # Errors
/// When there is none, or one cannot be read.
pub fn details(pem: &str) -> Result<Vec<Details>, Unreadable> {
    parse(pem)?.iter().map(of_der).collect()
}

/// The certificates in PEM form; at least one.
pub(crate) fn parse(pem: &str) -> Result<Vec<CertificateDer<'static>>, Unreadable> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match parsed {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(Unreadable("it holds no certificate in PEM form".into())),
        Err(error) => Err(Unreadable(format!("it is not in PEM form: {error}"))),
    }
}

pub(crate) fn of_der(der: &CertificateDer<'static>) -> Result<Details, Unreadable> {
    let unreadable = |error: &dyn fmt::Display| Unreadable(format!("not a certificate: {error}"));
    let (_, parsed) = x509_parser::parse_x509_certificate(der).map_err(|e| unreadable(&e))?;
    let validity = parsed.validity();
    Ok(Details {
        mark: Mark::of(der),
        not_before: moment(validity.not_before.timestamp()),
        not_after: moment(validity.not_after.timestamp()),
        names: names(&parsed).map_err(|e| unreadable(&e))?,
    })
}

fn names(parsed: &X509Certificate<'_>) -> Result<Vec<String>, x509_parser::error::X509Error> {
    let Some(extension) = parsed.subject_alternative_name()? else {
        return Ok(Vec::new());
    };
    let names = extension.value.general_names.iter();
    let dns = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    };
    Ok(names.filter_map(dns).collect())
}

/// Seconds since 1970; a moment before that is 1970, which is long over either way.
fn moment(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
