//! Observes the Secrets with which the processes of a cluster prove their identity. In: names. Out: marks, times and
//! versions; of keys only the operator's own. A Secret that is not ours is never read further.

use std::time::SystemTime;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Resource, ResourceExt};
use readstates_identity::{CA_FILE, CERTIFICATE_FILE, ClusterName, KEY_FILE, Pems, Role, details};
use readstates_operator_api::{ReadStateCluster, labels};

use super::certificates;
use crate::{
    error::Error,
    spec::Identity,
    world::{AuthoritySeen, CertificateSeen, Found, IdentitySeen, LeafSeen, Version},
};

/// The certificate of the authority that issues; its key.
pub const ISSUING: (&str, &str) = ("ca.crt", "ca.key");
/// The one that takes its place, trusted already; its key.
pub const NEXT: (&str, &str) = ("next.crt", "next.key");
/// Those that issue no more, and are trusted until what they issued is no longer in use.
pub const OLD: &str = "old.crt";

/// What cert-manager writes on the Secrets that it makes: the name of their Certificate.
const MADE_BY_MANAGER: &str = "cert-manager.io/certificate-name";

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
