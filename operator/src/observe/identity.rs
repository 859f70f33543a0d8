//! Observes the Secrets with which the processes of a cluster prove their identity. In: names. Out: marks, times and
//! versions; of keys only the operator's own. A Secret that is not ours is never read further.

use std::time::SystemTime;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Resource, ResourceExt};
use readstates_identity::{CA_FILE, CERTIFICATE_FILE, ClusterName, KEY_FILE, Pems, Role, details};
use readstates_operator_api::{ReadStateCluster, labels};

use super::certificates;
use crate::{error::Error, validate::Identity};

/// The certificate of the authority that issues; its key.
pub const ISSUING: (&str, &str) = ("ca.crt", "ca.key");
/// The one that takes its place, trusted already; its key.
pub const NEXT: (&str, &str) = ("next.crt", "next.key");
/// Those that issue no more, and are trusted until what they issued is no longer in use.
pub const OLD: &str = "old.crt";

/// What cert-manager writes on the Secrets that it makes: the name of their Certificate.
const MADE_BY_MANAGER: &str = "cert-manager.io/certificate-name";

/// The Secrets with which the processes of a cluster prove their identity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdentitySeen {
    /// The certificate authority; always absent where cert-manager issues.
    pub authority: Found<AuthoritySeen>,
    /// What members show.
    pub member: Found<LeafSeen>,
    /// What the operator shows.
    pub operator: Found<LeafSeen>,
    /// What database agents show.
    pub agent: Found<LeafSeen>,
    /// The operator's own certificate with its key.
    pub own: Option<Pems>,
    /// Why nothing may be issued now although it is due.
    pub clock: Option<String>,
    /// Why cert-manager, which is to issue, cannot be asked.
    pub no_manager: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
    /// There is none of this name.
    Absent {
        /// What cert-manager says of it, where it is to make it.
        words: Option<String>,
    },
    /// It does not belong to this cluster.
    Foreign {
        /// Who controls it.
        owner: Option<String>,
    },
    /// It belongs to an earlier cluster of the same name.
    Leftover,
    /// It is ours, and what it holds cannot be used.
    Broken {
        /// Which one it is.
        version: Version,
        /// What is wrong, and what to do.
        why: String,
    },
    /// It is ours.
    Known {
        /// Which one it is.
        version: Version,
        content: T,
    },
}

/// One version of one object: a write that names it changes no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub uid: String,
    /// Its resource version.
    pub number: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSeen {
    pub mark: String,
    /// The first moment at which it is valid.
    pub not_before: Timestamp,
    /// The last one.
    pub not_after: Timestamp,
}

/// The certificate authority of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthoritySeen {
    /// Issues now. None while the one before was lost and the next one is not trusted everywhere yet.
    pub issuing: Option<CertificateSeen>,
    /// Issues next.
    pub next: Option<CertificateSeen>,
    /// Issued before.
    pub old: Vec<CertificateSeen>,
    /// The wish that the newest one was made for.
    pub request: Option<String>,
}

impl AuthoritySeen {
    /// Marks of all that are to be trusted.
    #[must_use]
    pub fn trusted(&self) -> Vec<String> {
        let all = self.issuing.iter().chain(&self.next).chain(&self.old);
        all.map(|ca| ca.mark.clone()).collect()
    }
}

/// The certificate of processes of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSeen {
    pub certificate: CertificateSeen,
    /// Mark of the authority that issued it.
    pub issued_by: Option<String>,
    /// Marks of the authorities that its holder trusts.
    pub trusted: Vec<String>,
    /// When the Secret was last written, by the API server's clock.
    pub written: Option<Timestamp>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self::Absent { words: None }
    }
}

impl<T> Found<T> {
    /// What it says, if it is ours and can be used.
    #[must_use]
    pub fn content(&self) -> Option<&T> {
        match self {
            Self::Known { content, .. } => Some(content),
            Self::Absent { .. } | Self::Foreign { .. } | Self::Leftover | Self::Broken { .. } => {
                None
            }
        }
    }

    /// The version of the Secret, if it is ours.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        match self {
            Self::Known { version, .. } | Self::Broken { version, .. } => Some(version),
            Self::Absent { .. } | Self::Foreign { .. } | Self::Leftover => None,
        }
    }
}

impl IdentitySeen {
    /// The Secret of the processes of a role.
    #[must_use]
    pub fn leaf(&self, role: Role) -> &Found<LeafSeen> {
        match role {
            Role::Member => &self.member,
            Role::Operator => &self.operator,
            Role::Agent => &self.agent,
        }
    }
}

/// Reads them.
///
/// # Errors
/// When the API server cannot be read.
pub async fn identity(
    client: &Client,
    id: &Identity,
    cluster: &ReadStateCluster,
) -> Result<IdentitySeen, Error> {
    let names = id.cluster_name()?;
    let issuer = cluster.spec.identity.as_ref();
    let mut seen = IdentitySeen::default();
    if issuer.is_none() {
        let secret = get(client, id, &id.identity_authority()).await?;
        seen.authority = found(secret.as_ref(), id, authority);
    }
    let agents = cluster.spec.database.engine.is_some();
    for role in Role::ALL {
        if role == Role::Agent && !agents {
            continue;
        }
        let name = id.identity_secret(role);
        let secret = get(client, id, &name).await?;
        let judged = |secret: &Secret| leaf(secret, role, &names);
        let leaf = match (issuer, &secret) {
            (None, _) => found(secret.as_ref(), id, judged),
            (Some(_), Some(secret)) => issued(secret, &name, judged),
            (Some(_), None) => {
                match certificates::issued(client, id, &name, certificates::NO_CQL).await? {
                    Ok(words) => Found::Absent { words },
                    Err(why) => {
                        seen.no_manager = Some(why);
                        Found::default()
                    }
                }
            }
        };
        if role == Role::Operator && leaf.content().is_some() {
            seen.own = secret.as_ref().and_then(pems);
        }
        match role {
            Role::Member => seen.member = leaf,
            Role::Operator => seen.operator = leaf,
            Role::Agent => seen.agent = leaf,
        }
    }
    Ok(seen)
}

async fn get(client: &Client, id: &Identity, name: &str) -> Result<Option<Secret>, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &id.namespace);
    api.get_opt(name).await.map_err(|source| Error::Read {
        what: format!("Secret {name}"),
        source,
    })
}

fn found<T>(
    secret: Option<&Secret>,
    id: &Identity,
    read: impl Fn(&Secret) -> Result<T, String>,
) -> Found<T> {
    let Some(secret) = secret else {
        return Found::default();
    };
    if !id.owns(&secret.metadata) {
        let mut owners = secret.owner_references().iter();
        let owner = owners.find(|o| o.controller == Some(true));
        return match owner {
            Some(o) if o.kind == ReadStateCluster::kind(&()) && o.name == id.name => {
                Found::Leftover
            }
            owner => Found::Foreign {
                owner: owner.map(|o| format!("{} {}", o.kind, o.name)),
            },
        };
    }
    judged(secret, read)
}

/// cert-manager owns what it makes, and would put it into any Secret of that name.
fn issued<T>(secret: &Secret, name: &str, read: impl Fn(&Secret) -> Result<T, String>) -> Found<T> {
    if secret
        .annotations()
        .get(MADE_BY_MANAGER)
        .map(String::as_str)
        != Some(name)
    {
        return Found::Foreign { owner: None };
    }
    judged(secret, read)
}

fn judged<T>(secret: &Secret, read: impl Fn(&Secret) -> Result<T, String>) -> Found<T> {
    let version = Version {
        uid: secret.uid().unwrap_or_default(),
        number: secret.resource_version().unwrap_or_default(),
    };
    match read(secret) {
        Ok(content) => Found::Known { version, content },
        Err(why) => Found::Broken { version, why },
    }
}

/// The text of a key; none where it is missing, empty, or not text.
pub(crate) fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    let text = String::from_utf8(bytes.0.clone()).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

/// The three files of a process.
pub(crate) fn pems(secret: &Secret) -> Option<Pems> {
    Some(Pems {
        ca: text(secret, CA_FILE)?,
        certificate: text(secret, CERTIFICATE_FILE)?,
        key: text(secret, KEY_FILE)?,
    })
}

fn authority(secret: &Secret) -> Result<AuthoritySeen, String> {
    let pair = |(certificate, key): (&'static str, &'static str)| {
        let pems = (text(secret, certificate), text(secret, key));
        let (Some(pem), Some(key_pem)) = pems else {
            return Ok(None);
        };
        let unusable = |why: &dyn std::fmt::Display| format!("{certificate} or {key}: {why}");
        readstates_identity::Authority::from_pem(&pem, &key_pem).map_err(|e| unusable(&e))?;
        let read = certificates_in(&pem).map_err(|why| unusable(&why))?;
        Ok::<_, String>(read.into_iter().next())
    };
    let old = text(secret, OLD).map(|pem| certificates_in(&pem));
    let seen = AuthoritySeen {
        issuing: pair(ISSUING)?,
        next: pair(NEXT)?,
        old: old.transpose()?.unwrap_or_default(),
        request: secret.annotations().get(labels::ROTATE_IDENTITY).cloned(),
    };
    if seen.issuing.is_none() && seen.next.is_none() {
        return Err(format!("{} or {} is missing", ISSUING.0, ISSUING.1));
    }
    Ok(seen)
}

fn leaf(secret: &Secret, role: Role, cluster: &ClusterName) -> Result<LeafSeen, String> {
    let pems = pems(secret)
        .ok_or_else(|| format!("{CA_FILE}, {CERTIFICATE_FILE} and {KEY_FILE} must all be there"))?;
    crate::certificates::check_pair(pems.certificate.as_bytes(), pems.key.as_bytes(), false)?;
    let own = details(&pems.certificate).map_err(|e| format!("{CERTIFICATE_FILE}: {e}"))?;
    let own = own.into_iter().next().ok_or("no certificate")?;
    let host = role.host(cluster);
    if own.names != [host.clone()] {
        let names = own.names.join(", ");
        return Err(format!(
            "{CERTIFICATE_FILE} is for [{names}], and must be for {host} alone; delete the Secret"
        ));
    }
    let trusted = certificates_in(&pems.ca).map_err(|e| format!("{CA_FILE}: {e}"))?;
    let fields = secret.managed_fields().iter();
    Ok(LeafSeen {
        certificate: seen(&own)?,
        issued_by: secret.annotations().get(labels::ISSUED_BY).cloned(),
        trusted: trusted.into_iter().map(|ca| ca.mark).collect(),
        written: fields.filter_map(|f| Some(f.time.as_ref()?.0)).max(),
    })
}

fn certificates_in(pem: &str) -> Result<Vec<CertificateSeen>, String> {
    let all = details(pem).map_err(|error| error.to_string())?;
    all.iter().map(seen).collect()
}

fn seen(details: &readstates_identity::Details) -> Result<CertificateSeen, String> {
    let time = |at: SystemTime| Timestamp::try_from(at).map_err(|error| error.to_string());
    Ok(CertificateSeen {
        mark: details.mark.to_string(),
        not_before: time(details.not_before)?,
        not_after: time(details.not_after)?,
    })
}

/// What is in the authority's Secret, keys included: read only to write a Secret, and kept nowhere.
pub(crate) struct AuthorityKeys(Vec<(&'static str, String)>);

impl AuthorityKeys {
    pub(crate) fn of(secret: &Secret) -> Self {
        let keys = [ISSUING.0, ISSUING.1, NEXT.0, NEXT.1, OLD];
        let entry = |key| Some((key, text(secret, key)?));
        Self(keys.into_iter().filter_map(entry).collect())
    }

    /// The text of a key; empty where there is none.
    pub(crate) fn get(&self, key: &str) -> &str {
        let found = self.0.iter().find(|(name, _)| *name == key);
        found.map_or("", |(_, text)| text)
    }

    pub(crate) fn entries(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(k, v)| (*k, v.as_str())).collect()
    }

    /// All authorities that are to be trusted, in the order of [`AuthoritySeen::trusted`].
    pub(crate) fn bundle(&self) -> String {
        [ISSUING.0, NEXT.0, OLD].map(|key| self.get(key)).concat()
    }
}
