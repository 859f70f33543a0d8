//! Checks that certificates serve their purpose. In: what a Secret holds, in PEM form. Out: a mark of it, or a sentence
//! that says what is wrong and what to do. Never: what is in a key. Pure.
//!
//! Certificates with which members would not start, or which cache pods would not trust, are refused here, before any
//! pod has them.

use std::{fmt::Write as _, time::Duration};

use aws_lc_rs::digest;
use rustls::{
    CertificateError, Error as Rustls, RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::{ParsedCertificate, WebPkiClientVerifier},
    sign::CertifiedKey,
};

/// The key of the certificate in a Secret.
pub(crate) const CERTIFICATE: &str = "tls.crt";
/// The key of its private key.
pub(crate) const KEY: &str = "tls.key";
/// The key of the CAs that stand for it.
pub(crate) const CA: &str = "ca.crt";

/// Bytes of the mark that are kept.
const MARK_BYTES: usize = 8;

/// A certificate with its key and the CAs that sign it.
#[derive(Clone, Copy)]
pub(crate) struct Pems<'a> {
    pub(crate) certificate: &'a [u8],
    pub(crate) key: &'a [u8],
    pub(crate) ca: &'a [u8],
}

/// A name by which servers are reached.
#[derive(Clone, Copy)]
pub(crate) struct Host<'a> {
    pub(crate) name: &'a str,
    /// What is reached by it, in words.
    pub(crate) reaches: &'static str,
    /// What to have put into a certificate: the name, or one with a `*`.
    pub(crate) wanted: &'a str,
}

/// Whether servers can show it at each of these host names, at this time in seconds after 1970. `pkcs8`: only keys in
/// that form can be read.
pub(crate) fn check_server(
    pems: Pems<'_>,
    hosts: &[Host<'_>],
    pkcs8: bool,
    now: u64,
) -> Result<(), String> {
    let certified = check_pair(pems.certificate, pems.key, pkcs8)?;
    let roots = check_ca(CA, pems.ca)?;
    let provider = default_provider();
    let (own, between) = match certified.cert.as_slice() {
        [own, between @ ..] => (own, between),
        [] => return Err(format!("{CERTIFICATE} holds no certificate")),
    };
    let parsed = ParsedCertificate::try_from(own).map_err(|error| {
        format!("{CERTIFICATE} cannot be read ({error}); put another in its place")
    })?;
    verify_server_cert_signed_by_trust_anchor(
        &parsed,
        &roots,
        between,
        UnixTime::since_unix_epoch(Duration::from_secs(now)),
        provider.signature_verification_algorithms.all,
    )
    .map_err(|error| not_believed(&error))?;
    for host in hosts {
        let name = ServerName::try_from(host.name);
        let name = name.map_err(|error| format!("{}: {error}", host.name))?;
        verify_server_name(&parsed, &name).map_err(|error| not_for(host, &error))?;
    }
    Ok(())
}

/// Whether servers can also show it as clients of each other, at this time in seconds after 1970.
pub(crate) fn check_peer(certificate: &[u8], ca: &[u8], now: u64) -> Result<(), String> {
    let chain = certificates(CERTIFICATE, certificate)?;
    let roots = check_ca(CA, ca)?;
    let [own, between @ ..] = chain.as_slice() else {
        return Err(format!("{CERTIFICATE} holds no certificate"));
    };
    let verifier =
        WebPkiClientVerifier::builder_with_provider(roots.into(), default_provider().into())
            .build()
            .map_err(|error| format!("{CA} cannot be used ({error}); put another in its place"))?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    match verifier.verify_client_cert(own, between, now) {
        Ok(_) => Ok(()),
        Err(Rustls::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        )) => Err(format!(
            "{CERTIFICATE} is for servers alone, and with spec.database.tls.internode nodes show it to each other as \
             clients, too; have the usage \"client auth\" put into it"
        )),
        Err(error) => Err(not_believed(&error)),
    }
}

/// Whether they are a certificate and its key.
pub(crate) fn check_pair(
    certificate: &[u8],
    key: &[u8],
    pkcs8: bool,
) -> Result<CertifiedKey, String> {
    let chain = certificates(CERTIFICATE, certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| format!("{KEY} holds no private key in PEM form; put one in its place"))?;
    if pkcs8 && !matches!(key, PrivateKeyDer::Pkcs8(_)) {
        return Err(format!(
            "{KEY} is not in the form that Cassandra reads; convert it: openssl pkcs8 -topk8 -nocrypt -in {KEY}"
        ));
    }
    CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| {
        format!(
            "{KEY} is not the key of {CERTIFICATE} ({error}); put both of one issue into the Secret"
        )
    })
}

/// Whether there are CAs to believe under this key.
pub(crate) fn check_ca(key: &str, ca: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match roots.add_parsable_certificates(certificates(key, ca)?) {
        (0, _) => Err(format!("{key} cannot be read; put another in its place")),
        _ => Ok(roots),
    }
}

fn certificates(key: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    parsed
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or_else(|| format!("{key} holds no certificate in PEM form; put one in its place"))
}

fn not_believed(error: &Rustls) -> String {
    match error {
        Rustls::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => format!("no CA of {CA} has signed {CERTIFICATE}; put the one that did there"),
        other => format!("{CERTIFICATE} is not valid ({other}); put another in its place"),
    }
}

fn not_for(host: &Host<'_>, error: &Rustls) -> String {
    let Rustls::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) =
        error
    else {
        return format!("{CERTIFICATE} cannot be read ({error}); put another in its place");
    };
    // The library quotes them, and says of what kind they are.
    let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_owned();
    let names: Vec<_> = presented.iter().map(bare).collect();
    let Host {
        name,
        reaches,
        wanted,
    } = host;
    format!(
        "{CERTIFICATE} is for [{}], not for {name}, by which {reaches}; have {wanted} put into it",
        names.join(", ")
    )
}

/// A fingerprint of the certificate, made only of what is public.
pub(crate) fn mark(certificate: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, certificate);
    let bytes = hash.as_ref()[..MARK_BYTES].iter();
    bytes.fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
