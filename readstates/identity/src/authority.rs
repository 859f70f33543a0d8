//! A certificate authority (CA) of one cluster, and the certificates that it issues.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SerialNumber,
};

use crate::{ClusterName, Pems, Role};

/// Certificates are valid from this long before they are issued: clocks of machines differ.
const BACKDATED: Duration = Duration::from_secs(3600);
/// Bytes of a serial number. 16 random ones are never drawn twice.
const SERIAL_BYTES: usize = 16;

/// A certificate authority with its private key.
pub struct Authority {
    ca: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate could not be issued.
#[derive(Debug, thiserror::Error)]
#[error("failed to {attempt}")]
pub struct NotIssued {
    attempt: &'static str,
    source: rcgen::Error,
}

impl Authority {
    /// A new CA for a cluster, which can issue certificates for that cluster alone.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new(cluster: &ClusterName, now: SystemTime, valid: Duration) -> Result<Self, NotIssued> {
        let failed = |source| NotIssued {
            attempt: "make a certificate authority",
            source,
        };
        let mut params = params(now, valid)?;
        params.distinguished_name = named(&format!("Readstates CA {}", hex(&random()?)));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: Role::ALL
                .map(|role| GeneralSubtree::DnsName(role.host(cluster)))
                .to_vec(),
            excluded_subtrees: Vec::new(),
        });
        let key = KeyPair::generate().map_err(failed)?;
        let ca = params.self_signed(&key).map_err(failed)?.pem();
        Self::from_pem(&ca, &key.serialize_pem())
    }

    /// The CA of this certificate and its private key, both in PEM form.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn from_pem(ca: &str, key: &str) -> Result<Self, NotIssued> {
        let failed = |source| NotIssued {
            attempt: "read the certificate authority",
            source,
        };
        let pair = KeyPair::from_pem(key).map_err(failed)?;
        let issuer = Issuer::from_ca_cert_pem(ca, pair).map_err(failed)?;
        Ok(Self {
            ca: ca.to_owned(),
            key: key.to_owned(),
            issuer,
        })
    }

    /// The certificate, in PEM form.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// The private key, in PEM form. A secret: with it an attacker can pose as any process of the cluster.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key
    }

    /// A new certificate and key for a process of this role; `ca` is this CA alone.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn issue(
        &self,
        role: Role,
        cluster: &ClusterName,
        now: SystemTime,
        valid: Duration,
    ) -> Result<Pems, NotIssued> {
        let failed = |source| NotIssued {
            attempt: "issue a certificate",
            source,
        };
        let mut params = params(now, valid)?;
        params.subject_alt_names = CertificateParams::new(vec![role.host(cluster)])
            .map_err(failed)?
            .subject_alt_names;
        params.distinguished_name = named(&format!("Readstates {role}"));
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let uses = [
            (role.serves(), ExtendedKeyUsagePurpose::ServerAuth),
            (role.connects(), ExtendedKeyUsagePurpose::ClientAuth),
        ];
        params.extended_key_usages = uses
            .into_iter()
            .filter_map(|(has, usage)| has.then_some(usage))
            .collect();
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Pems {
            ca: self.ca.clone(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn params(now: SystemTime, valid: Duration) -> Result<CertificateParams, NotIssued> {
    let mut params = CertificateParams::default();
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + valid).into();
    params.serial_number = Some(SerialNumber::from_slice(&random()?));
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn random() -> Result<[u8; SERIAL_BYTES], NotIssued> {
    let mut bytes = [0; SERIAL_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| NotIssued {
        attempt: "draw a random number",
        source: rcgen::Error::RingUnspecified,
    })?;
    // A serial number is positive and not 0.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
