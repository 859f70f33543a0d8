//! Creates and replaces the Secrets with which processes prove their identity. In: one step. Out: what was written.
//! Each replacement names the version that was seen; a Secret that has changed since is left alone.

use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, ResourceExt, api::PostParams};
use readstates_identity::{Authority, CA_FILE, CERTIFICATE_FILE, KEY_FILE, NotIssued, Role};
use readstates_operator_api::{
    ReadStateCluster,
    labels::{self, Component},
};

use super::{Refusal, rejected};
use crate::{
    error::Error,
    observe::{self, AuthorityKeys, ISSUING, NEXT, OLD, secret_text},
    plan::{AUTHORITY_VALID, IdentityStep, LEAF_VALID, missing_identity, roles},
    spec::ValidatedCluster,
    telemetry,
    world::{IdentitySeen, Version},
};

/// The authority, then what it issues, then a last look.
const ROUNDS: usize = 3;
/// How much the clock of this machine and the API server's may differ when a certificate is issued: less than
/// the hour by which certificates are backdated.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(30);

/// Creates and renews what is missing, so that pods find it; `seen` is what there is after that. Returns what was refused.
///
/// # Errors
/// When the API server cannot be talked to; then `seen` may be older.
pub async fn provide_identity(
    client: &Client,
    cluster: &ValidatedCluster,
    object: &ReadStateCluster,
    seen: &mut IdentitySeen,
    now: Timestamp,
) -> Result<Option<Refusal>, Error> {
    for _ in 0..ROUNDS {
        let steps = missing_identity(cluster, seen, now);
        if steps.is_empty() {
            return Ok(None);
        }
        if steps.iter().any(IdentityStep::mints)
            && let Some(words) = clocks_differ(client, now).await?
        {
            seen.clock = Some(words);
            return Ok(None);
        }
        let mut refused = None;
        for step in &steps {
            refused = write_identity(client, cluster, seen, step, now).await?;
            if refused.is_some() {
                break;
            }
        }
        *seen = observe::identity(client, &cluster.id, object).await?;
        if refused.is_some() {
            return Ok(refused);
        }
    }
    Ok(None)
}

/// How the clocks differ, if by too much. With a wrong clock the operator would issue certificates that no other
/// process trusts; which of the two clocks is wrong cannot be told.
async fn clocks_differ(client: &Client, now: Timestamp) -> Result<Option<String>, Error> {
    let what = "the API server's time".to_owned();
    let request = http::Request::get("/version").body(kube::client::Body::empty());
    let Ok(request) = request else {
        return Ok(None);
    };
    let answer = client.send(request).await;
    let answer = answer.map_err(|source| Error::Read { what, source })?;
    let date = answer.headers().get(http::header::DATE);
    let date = date.and_then(|date| date.to_str().ok());
    // A server that tells no time cannot contradict.
    let Some(theirs) = date.and_then(|date| rfc2822::parse(date).ok()) else {
        return Ok(None);
    };
    let theirs = theirs.timestamp();
    let differ = now.duration_since(theirs).abs() > CLOCKS_DIFFER;
    Ok(differ.then(|| {
        format!(
            "it is {now} here and {theirs} at the API server: set the clock that is wrong, certificates are \
             issued after that"
        )
    }))
}

/// Does one step. Returns what was refused.
///
/// # Errors
/// When the API server cannot be talked to, or the Secret was changed since it was seen.
pub async fn write_identity(
    client: &Client,
    cluster: &ValidatedCluster,
    seen: &IdentitySeen,
    step: &IdentityStep,
    now: Timestamp,
) -> Result<Option<Refusal>, Error> {
    let id = &cluster.id;
    let name = match step {
        IdentityStep::Issue(role) | IdentityStep::Trust(role) => id.identity_secret(*role),
        IdentityStep::MakeAuthority
        | IdentityStep::RecoverAuthority
        | IdentityStep::BeginRotation
        | IdentityStep::Promote
        | IdentityStep::DropOld => id.identity_authority(),
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), &id.namespace);
    let write = Write {
        api: &api,
        cluster,
        seen,
        now,
        name: &name,
    };
    let refused = match step {
        IdentityStep::MakeAuthority => {
            let new = write.new_authority()?;
            let data = vec![(ISSUING.0, new.ca_pem()), (ISSUING.1, new.key_pem())];
            write.authority(data, true).await?
        }
        IdentityStep::RecoverAuthority => {
            let new = write.new_authority()?;
            let old = write.trusted_now().await?;
            let data = vec![
                (NEXT.0, new.ca_pem()),
                (NEXT.1, new.key_pem()),
                (OLD, old.as_str()),
            ];
            write.authority(data, true).await?
        }
        IdentityStep::BeginRotation => {
            let keys = write.keys().await?;
            let new = write.new_authority()?;
            let mut data = keys.entries();
            data.extend([(NEXT.0, new.ca_pem()), (NEXT.1, new.key_pem())]);
            write.authority(data, true).await?
        }
        IdentityStep::Promote => {
            let keys = write.keys().await?;
            let old = [keys.get(ISSUING.0), keys.get(OLD)].concat();
            let mut data = vec![(ISSUING.0, keys.get(NEXT.0)), (ISSUING.1, keys.get(NEXT.1))];
            data.extend(Some((OLD, old.as_str())).filter(|_| !old.is_empty()));
            write.authority(data, false).await?
        }
        IdentityStep::DropOld => {
            let keys = write.keys().await?;
            let data = vec![
                (ISSUING.0, keys.get(ISSUING.0)),
                (ISSUING.1, keys.get(ISSUING.1)),
            ];
            write.authority(data, false).await?
        }
        IdentityStep::Issue(role) => write.leaf(*role, true).await?,
        IdentityStep::Trust(role) => write.leaf(*role, false).await?,
    };
    if refused.is_some() {
        return Ok(refused);
    }
    telemetry::wrote("Secret");
    tracing::info!(
        secret = name,
        namespace = id.namespace,
        ?step,
        "wrote an identity"
    );
    Ok(None)
}

struct Write<'a> {
    api: &'a Api<Secret>,
    cluster: &'a ValidatedCluster,
    seen: &'a IdentitySeen,
    now: Timestamp,
    name: &'a str,
}

impl Write<'_> {
    fn new_authority(&self) -> Result<Authority, Error> {
        let names = self.cluster.id.cluster_name()?;
        let made = Authority::new(&names, SystemTime::from(self.now), AUTHORITY_VALID);
        made.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: NotIssued) -> Error {
        let name = self.name.to_owned();
        Error::Issue { name, source }
    }

    /// What is in the authority's Secret.
    async fn keys(&self) -> Result<AuthorityKeys, Error> {
        let secret = self.read(&self.cluster.id.identity_authority()).await?;
        Ok(AuthorityKeys::of(&secret))
    }

    async fn read(&self, name: &str) -> Result<Secret, Error> {
        self.api.get(name).await.map_err(|source| Error::Read {
            what: format!("Secret {name}"),
            source,
        })
    }

    /// The authorities that any process trusts, by its Secret.
    async fn trusted_now(&self) -> Result<String, Error> {
        let mut all = String::new();
        let mut known = Vec::new();
        for role in roles(self.cluster) {
            let Some(leaf) = self.seen.leaf(*role).content() else {
                continue;
            };
            if known.contains(&leaf.trusted) {
                continue;
            }
            known.push(leaf.trusted.clone());
            let secret = self.read(&self.cluster.id.identity_secret(*role)).await?;
            all += &secret_text(&secret, CA_FILE).unwrap_or_default();
        }
        Ok(all)
    }

    /// `newest`: an authority was made for the wish of now.
    async fn authority(
        &self,
        data: Vec<(&str, &str)>,
        newest: bool,
    ) -> Result<Option<Refusal>, Error> {
        let note = (labels::ROTATE_IDENTITY, self.cluster.rotation.clone());
        let note = newest.then_some(note);
        let (kind, component) = ("Opaque", Component::Cache);
        let version = self.seen.authority.version();
        self.put(version, (kind, component), data, note).await
    }

    async fn leaf(&self, role: Role, issue: bool) -> Result<Option<Refusal>, Error> {
        let keys = self.keys().await?;
        let bundle = keys.bundle();
        let component = match role {
            Role::Member | Role::Operator => Component::Cache,
            Role::Agent => Component::Database,
        };
        let found = self.seen.leaf(role);
        let kind = ("kubernetes.io/tls", component);
        if !issue {
            return self
                .put(found.version(), kind, vec![(CA_FILE, &bundle)], None)
                .await;
        }
        let names = self.cluster.id.cluster_name()?;
        let (ca, key) = (keys.get(ISSUING.0), keys.get(ISSUING.1));
        let authority = Authority::from_pem(ca, key).map_err(|source| self.failed(source))?;
        let now = SystemTime::from(self.now);
        let issued = authority.issue(role, &names, now, self.valid());
        let pems = issued.map_err(|source| self.failed(source))?;
        let data = vec![
            (CA_FILE, bundle.as_str()),
            (CERTIFICATE_FILE, pems.certificate.as_str()),
            (KEY_FILE, pems.key.as_str()),
        ];
        let issuing = self
            .seen
            .authority
            .content()
            .and_then(|a| a.issuing.as_ref());
        let note = (labels::ISSUED_BY, issuing.map(|ca| ca.mark.clone()));
        self.put(found.version(), kind, data, Some(note)).await
    }

    /// No longer than the authority is.
    fn valid(&self) -> Duration {
        let issuing = self
            .seen
            .authority
            .content()
            .and_then(|a| a.issuing.as_ref());
        let left = issuing.map(|ca| ca.not_after.duration_since(self.now));
        let left = left.and_then(|left| Duration::try_from(left).ok());
        left.map_or(LEAF_VALID, |left| left.min(LEAF_VALID))
    }

    /// Makes the Secret, or replaces this version of it. Keys that are not named are kept in the Secret of a
    /// process, where only the trusted authorities change, and dropped in the authority's.
    async fn put(
        &self,
        version: Option<&Version>,
        (kind, component): (&str, Component),
        data: Vec<(&str, &str)>,
        note: Option<(&str, Option<String>)>,
    ) -> Result<Option<Refusal>, Error> {
        let id = &self.cluster.id;
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = data.into_iter().map(|(k, v)| (k.to_owned(), bytes(v)));
        let params = PostParams {
            field_manager: Some(labels::MANAGER.to_owned()),
            ..PostParams::default()
        };
        let noted = |secret: &mut Secret| {
            if let Some((key, value)) = note {
                let annotations = secret.annotations_mut();
                annotations.remove(key);
                annotations.extend(value.map(|value| (key.to_owned(), value)));
            }
        };
        let written = match version {
            None => {
                let mut secret = Secret {
                    metadata: id.child(self.name.to_owned(), component),
                    type_: Some(kind.to_owned()),
                    data: Some(data.collect()),
                    ..Secret::default()
                };
                noted(&mut secret);
                self.api.create(&params, &secret).await
            }
            Some(Version { uid, number }) => {
                let mut secret = self.read(self.name).await?;
                // As it was seen, or not at all.
                secret.metadata.uid = Some(uid.clone());
                secret.metadata.resource_version = Some(number.clone());
                secret.metadata.managed_fields = None;
                let before = secret.data.take().unwrap_or_default();
                let keep = before.into_iter().filter(|_| kind != "Opaque");
                secret.data = Some(keep.chain(data).collect());
                noted(&mut secret);
                self.api.replace(self.name, &params, &secret).await
            }
        };
        let Err(source) = written else {
            return Ok(None);
        };
        let refused = rejected(format!("Secret {}", self.name), source);
        refused.map(|why| Some(Refusal { component, why }))
    }
}
