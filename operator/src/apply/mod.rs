//! Writes what was built, by one generic server-side apply. In: desired objects. Out: what was written, or what stands
//! in the way. Never decides anything.
//!
//! Before each write the object of that name is read: one that is not this cluster's is not touched, and one that is as
//! wanted is not written. As wanted means two things. The annotation with the hash of what was applied last says that
//! the wish is still the same, so nothing has to be removed; and every field of the wish has its value in the live
//! object, so none was changed. (Managed fields would tell the same, except for values that the API server rewrites, at
//! the cost of decoding them.) An object that was found as wanted, and whose version has not changed since according to
//! the watches, is not read again; but where an action follows the writes, every object is read.

mod access;
mod adopt;
mod credentials;
mod identity;
mod members;
mod nodes;
mod pod_monitors;
mod token_review;
mod unchanged;

use std::mem;

use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use readstates_operator_api::{
    ReadStateCluster, ReadStateRing,
    labels::{self, Component},
};
use serde::Serialize;

pub use self::{
    adopt::adopt,
    credentials::make_secrets,
    identity::{provide_identity, write_identity},
    nodes::{carry_out, make_claims},
    pod_monitors::keep_pod_monitors,
    token_review::bind_reviewers,
};
use crate::{
    error::Error,
    known::{Known, kind},
    namespaced::Namespaced,
    objects::Object,
    plan::{DatabaseTrouble, JobToDelete},
    spec::Identity,
    telemetry, templates,
};

pub use self::members::act;

/// What came of carrying out a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CarriedOut {
    /// How its objects were written.
    pub applied: Applied,
    /// What kept nodes of the database from what was planned for them.
    pub trouble: Option<DatabaseTrouble>,
    /// Why cache pods could not be given the right to check tokens.
    pub unbound: Option<String>,
    /// What failed, so that nothing after it was done.
    pub failed: Option<String>,
    /// Whether that was before what was planned for nodes of the database: their records stay as they are.
    pub nodes_wait: bool,
}

/// How applying went, when the API server could be talked to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Applied {
    /// Everything that was built is there.
    #[default]
    All,
    /// Objects could not be written: of their components, those before them were; of the others, all.
    Partly(Vec<Refusal>),
}

impl Applied {
    /// Whether everything of a component is there.
    #[must_use]
    pub fn has_all_of(&self, component: Component) -> bool {
        match self {
            Self::All => true,
            Self::Partly(refusals) => refusals.iter().all(|r| r.component != component),
        }
    }

    /// Takes note of more that could not be written.
    pub fn refuse(&mut self, more: impl IntoIterator<Item = Refusal>) {
        let mut all = match mem::take(self) {
            Self::All => Vec::new(),
            Self::Partly(refusals) => refusals,
        };
        all.extend(more);
        if !all.is_empty() {
            *self = Self::Partly(all);
        }
    }

    /// What could not be written.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        match self {
            Self::All => &[],
            Self::Partly(refusals) => refusals,
        }
    }
}

/// The first object of a component that could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Of what it is a part.
    pub component: Component,
    pub why: Blocked,
}

/// Why an object could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Its name is taken by an object that is not this cluster's.
    Conflict {
        /// Kind and name.
        object: String,
        /// Who controls it.
        owner: Option<String>,
    },
    /// An object of an earlier cluster of the same name is still there.
    Leftover {
        /// Kind and name.
        object: String,
    },
    /// The API server refused it.
    Rejected {
        /// Kind and name.
        object: String,
        message: String,
    },
}

/// Writes `objects` in order. Where one cannot be written, the others of its component that come after it are not
/// either: pods must not run without what protects them. Other components go on. What is `known` to be as wanted is left
/// alone.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn apply(
    client: &Client,
    known: &Known,
    id: &Identity,
    objects: &[Object],
) -> Result<Applied, Error> {
    let mut applied = Applied::All;
    apply_after(&mut applied, client, known, id, objects).await?;
    Ok(applied)
}

/// The same after something else was written, or could not be.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn apply_after(
    applied: &mut Applied,
    client: &Client,
    known: &Known,
    id: &Identity,
    objects: &[Object],
) -> Result<(), Error> {
    for object in objects {
        let component = object.component();
        if !applied.has_all_of(component) {
            continue;
        }
        let blocked = match object {
            Object::Certificate(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::ConfigMap(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::CronJob(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::Job(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::NetworkPolicy(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::PodDisruptionBudget(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::Ring(o) => create_ring(client, id, o.as_ref()).await?,
            Object::Role(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::RoleBinding(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::Secret(o) => access::put(client, id, o.as_ref()).await?,
            Object::Service(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::ServiceAccount(o) => apply_one(client, known, id, o.as_ref()).await?,
            Object::StatefulSet(o) => apply_one(client, known, id, o.as_ref()).await?,
        };
        applied.refuse(blocked.map(|why| Refusal { component, why }));
    }
    Ok(())
}

/// What the API server refuses for good, as far as this object goes.
fn rejected(what: String, source: kube::Error) -> Result<Blocked, Error> {
    match source {
        kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422) => {
            Ok(Blocked::Rejected {
                object: what,
                message: status.message,
            })
        }
        source => Err(Error::Write { what, source }),
    }
}

/// Makes the ring, if there is none. One that is there is its members' alone.
async fn create_ring(
    client: &Client,
    id: &Identity,
    desired: &ReadStateRing,
) -> Result<Option<Blocked>, Error> {
    let name = desired.name_any();
    let what = format!("{} {name}", ReadStateRing::kind(&()));
    let api: Api<ReadStateRing> = Api::namespaced(client.clone(), &id.namespace);
    let live = api.get_opt(&name).await.map_err(|source| Error::Read {
        what: what.clone(),
        source,
    })?;
    if let Some(live) = live {
        return Ok(foreign(&live, id, &what));
    }
    let params = PostParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PostParams::default()
    };
    match api.create(&params, desired).await {
        Ok(_) => {
            tracing::info!(object = what, namespace = id.namespace, "made");
            telemetry::wrote(kind::<ReadStateRing>());
            Ok(None)
        }
        // A conflict means that it was created meanwhile: it is read in the next round.
        Err(source) => rejected(what, source).map(Some),
    }
}

async fn apply_one<K: Namespaced + Serialize>(
    client: &Client,
    known: &Known,
    id: &Identity,
    desired: &K,
) -> Result<Option<Blocked>, Error> {
    let name = desired.name_any();
    let hash = templates::applied_hash(desired);
    if known.holds::<K>(&id.namespace, &name, &hash) {
        return Ok(None);
    }
    let what = format!("{} {name}", K::kind(&()));
    let api: Api<K> = Api::namespaced(client.clone(), &id.namespace);
    let live = api.get_opt(&name).await.map_err(|source| Error::Read {
        what: what.clone(),
        source,
    })?;
    if let Some(live) = &live {
        if let Some(blocked) = foreign(live, id, &what) {
            return Ok(Some(blocked));
        }
        if live.meta().deletion_timestamp.is_some() {
            // On its way out: its last event brings us back here.
            return Ok(None);
        }
    }
    let mut wish = wish(desired, live.as_ref(), &hash).map_err(|source| Error::Encode {
        what: what.clone(),
        source,
    })?;
    if let Some(live) = &live {
        let seen = serde_json::to_value(live).map_err(|source| Error::Encode {
            what: what.clone(),
            source,
        })?;
        if unchanged::holds(&wish, &seen) {
            known.found(live, &hash);
            return Ok(None);
        }
    }
    if let Some(version) = &desired.meta().resource_version {
        // The decision rests on this version: if the object has changed since, the write fails and the decision is made
        // again.
        wish["metadata"]["resourceVersion"] = version.as_str().into();
    }
    known.forget::<K>(&id.namespace, &name);
    let params = PatchParams::apply(labels::MANAGER).force();
    match api.patch(&name, &params, &Patch::Apply(&wish)).await {
        Ok(_) => {
            tracing::info!(object = what, namespace = id.namespace, "applied");
            telemetry::wrote(kind::<K>());
            Ok(None)
        }
        Err(source) => rejected(what, source).map(Some),
    }
}

/// The object as it is sent: with the hash of its content, and bound to the live object that was
/// looked at, so that one that has taken its place meanwhile is not overwritten.
fn wish<K: Resource<DynamicType = ()> + Clone + Serialize>(
    desired: &K,
    live: Option<&K>,
    hash: &str,
) -> serde_json::Result<serde_json::Value> {
    let mut desired = desired.clone();
    desired.meta_mut().resource_version = None;
    desired
        .annotations_mut()
        .insert(labels::APPLIED_HASH.to_owned(), hash.to_owned());
    desired.meta_mut().uid = live.and_then(ResourceExt::uid);
    let mut wish = serde_json::to_value(&desired)?;
    wish["apiVersion"] = K::api_version(&()).into_owned().into();
    wish["kind"] = K::kind(&()).into_owned().into();
    Ok(wish)
}

fn foreign<K: Resource>(live: &K, id: &Identity, what: &str) -> Option<Blocked> {
    if id.owns(live.meta()) {
        return None;
    }
    let owner = live
        .owner_references()
        .iter()
        .find(|o| o.controller == Some(true));
    let object = what.to_owned();
    match owner {
        Some(owner) if owner.kind == ReadStateCluster::kind(&()) && owner.name == id.name => {
            Some(Blocked::Leftover { object })
        }
        Some(owner) => {
            let owner = Some(format!("{} {}", owner.kind, owner.name));
            Some(Blocked::Conflict { object, owner })
        }
        None => Some(Blocked::Conflict {
            object,
            owner: None,
        }),
    }
}

/// Deletes Jobs, each only if it is still the one that was seen.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn delete_jobs(
    client: &Client,
    id: &Identity,
    jobs: &[JobToDelete],
) -> Result<(), Error> {
    let api: Api<Job> = Api::namespaced(client.clone(), &id.namespace);
    for JobToDelete { name, uid } in jobs {
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(uid.clone()),
            resource_version: None,
        });
        match api.delete(name, &params).await {
            Ok(_) => tracing::info!(job = name, namespace = id.namespace, "deleted"),
            // Gone or replaced: either way the Job that was meant is gone.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(source) => {
                return Err(Error::Write {
                    what: format!("Job {name}"),
                    source,
                });
            }
        }
    }
    Ok(())
}
