//! The volume claims of a database, and which claims they were made from. In: a namespace. Out: plain values.
//!
//! A super-disk takes another volume's disk for its own only where it is declared a copy of that volume. A claim with a
//! data source declares it:
//!
//! | data source | it is a copy of |
//! |---|---|
//! | any, and the annotation `readstates.dev/copy-of` | the claim with that UID |
//! | a claim | that claim |
//! | a VolumeSnapshot | the claim that it was taken of, while that is there |

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Api, Client, ResourceExt, api::ListParams};
use readstates_operator_api::labels::{self, COPY_OF, Component, RESTORED_FROM};

use crate::{
    error::Error,
    spec::Identity,
    volume_snapshot::{self, VolumeSnapshot},
    world::{ClaimSeen, ClaimSize},
};

/// Claims of database pods, by name. `with_sources`: it is asked, too, what they were made from.
pub(super) async fn claims(
    client: &Client,
    id: &Identity,
    with_sources: bool,
) -> Result<BTreeMap<String, ClaimSeen>, Error> {
    let reader = Reader { client, id };
    // The StatefulSet controller puts the selector's labels on the claims it makes.
    let ours = ListParams::default().labels(&labels::selector_text(&id.name, Component::Database));
    let mut seen = BTreeMap::new();
    for claim in reader.list(&ours).await? {
        let Some(uid) = claim.uid() else { continue };
        let bound = claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
        let copy_of = match source(&claim).filter(|_| with_sources) {
            Some(source) => reader.copy_of(&claim, source).await?,
            None => None,
        };
        let (name, size) = (claim.name_any(), size(&claim));
        let restored_from = claim.annotations().get(RESTORED_FROM).cloned();
        seen.insert(
            name,
            ClaimSeen {
                uid,
                bound,
                copy_of,
                restored_from,
                size,
            },
        );
    }
    Ok(seen)
}

fn size(claim: &PersistentVolumeClaim) -> ClaimSize {
    let (spec, status) = (claim.spec.as_ref(), claim.status.as_ref());
    let requested = spec.and_then(|s| s.resources.as_ref()?.requests.as_ref()?.get("storage"));
    let capacity = status.and_then(|s| s.capacity.as_ref()?.get("storage"));
    let mut conditions = status
        .into_iter()
        .flat_map(|s| s.conditions.iter().flatten());
    let words = conditions
        .find(|c| c.status == "True" && GROWTH.contains(&c.type_.as_str()))
        .map(|c| {
            c.message
                .clone()
                .filter(|m| !m.is_empty())
                .unwrap_or_else(|| c.type_.clone())
        });
    ClaimSize {
        requested: requested.map(|q| q.0.clone()),
        capacity: capacity.map(|q| q.0.clone()),
        words,
    }
}

/// Conditions of a claim that tell of its growth.
const GROWTH: [&str; 4] = [
    "ControllerResizeError",
    "NodeResizeError",
    "FileSystemResizePending",
    "Resizing",
];

/// What a claim's data comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source<'a> {
    /// A claim of this namespace, by name.
    Claim(&'a str),
    /// A VolumeSnapshot of this namespace, by name.
    Snapshot(&'a str),
    /// Something else; only a person knows.
    Other,
}

/// What a claim is made from, when it does not begin blank.
fn source(claim: &PersistentVolumeClaim) -> Option<Source<'_>> {
    let spec = claim.spec.as_ref()?;
    let (group, kind, name, elsewhere) = match (&spec.data_source_ref, &spec.data_source) {
        (Some(of), _) => (&of.api_group, &of.kind, &of.name, of.namespace.is_some()),
        (None, Some(of)) => (&of.api_group, &of.kind, &of.name, false),
        // Made by hand over a volume that was kept.
        (None, None) => {
            return claim
                .annotations()
                .contains_key(COPY_OF)
                .then_some(Source::Other);
        }
    };
    Some(match (group.as_deref(), kind.as_str()) {
        _ if elsewhere => Source::Other,
        (None | Some(""), "PersistentVolumeClaim") => Source::Claim(name),
        (Some(volume_snapshot::GROUP), "VolumeSnapshot") => Source::Snapshot(name),
        _ => Source::Other,
    })
}

struct Reader<'a> {
    client: &'a Client,
    id: &'a Identity,
}

impl Reader<'_> {
    async fn list(&self, wanted: &ListParams) -> Result<Vec<PersistentVolumeClaim>, Error> {
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &self.id.namespace);
        let found = api.list(wanted).await;
        let found = found.map_err(|source| Error::Read {
            what: format!("the volume claims of {}", self.id.name),
            source,
        })?;
        Ok(found.items)
    }

    async fn copy_of(
        &self,
        claim: &PersistentVolumeClaim,
        source: Source<'_>,
    ) -> Result<Option<String>, Error> {
        if let Some(said) = claim.annotations().get(COPY_OF) {
            return Ok(Some(said.clone()));
        }
        let found = match source {
            Source::Claim(name) => self.named(name).await?,
            Source::Snapshot(name) => self.of_snapshot(name).await?,
            Source::Other => None,
        };
        Ok(found.filter(|uid| Some(uid) != claim.uid().as_ref()))
    }

    /// The UID of a claim, which need not be one of the database's.
    async fn named(&self, name: &str) -> Result<Option<String>, Error> {
        Ok(self.claim(name).await?.and_then(|claim| claim.uid()))
    }

    async fn claim(&self, name: &str) -> Result<Option<PersistentVolumeClaim>, Error> {
        // By a list: nothing else of claims may be read.
        let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
        Ok(self.list(&by_name).await?.pop())
    }

    /// The claim that a snapshot was taken of. A claim of that name that is younger than the snapshot is not the one.
    async fn of_snapshot(&self, name: &str) -> Result<Option<String>, Error> {
        let api: Api<VolumeSnapshot> = Api::namespaced(self.client.clone(), &self.id.namespace);
        let snapshot = match api.get(name).await {
            Ok(snapshot) => snapshot,
            // Gone, no such kind, or no right to read it: then only the annotation can tell.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => return Ok(None),
            Err(source) => {
                let what = format!("VolumeSnapshot {name}");
                return Err(Error::Read { what, source });
            }
        };
        let Some(of) = snapshot.spec.source.persistent_volume_claim_name else {
            return Ok(None);
        };
        let claim = self.claim(&of).await?;
        let taken = snapshot.metadata.creation_timestamp;
        Ok(claim
            .filter(|claim| is_older(claim.metadata.creation_timestamp.as_ref(), taken.as_ref()))
            .and_then(|claim| claim.uid()))
    }
}

fn is_older(one: Option<&Time>, other: Option<&Time>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.0 < other.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(spec: Value, annotations: Value) -> PersistentVolumeClaim {
        serde_json::from_value(json!({ "metadata": { "annotations": annotations }, "spec": spec }))
            .unwrap()
    }

    #[test]
    fn where_the_data_of_a_claim_comes_from_is_told() {
        let snapshot = json!({ "apiGroup": volume_snapshot::GROUP, "kind": "VolumeSnapshot", "name": "yesterday" });
        let volume = json!({ "kind": "PersistentVolumeClaim", "name": "data-0" });
        let mut elsewhere = snapshot.clone();
        elsewhere["namespace"] = json!("backups");
        let backup = json!({ "apiGroup": "velero.io", "kind": "Backup", "name": "b" });
        for (spec, said, expected) in [
            (json!({}), json!({}), None),
            (json!({}), json!({ COPY_OF: "u-1" }), Some(Source::Other)),
            (
                json!({ "dataSource": volume }),
                json!({}),
                Some(Source::Claim("data-0")),
            ),
            (
                json!({ "dataSource": snapshot, "dataSourceRef": snapshot }),
                json!({}),
                Some(Source::Snapshot("yesterday")),
            ),
            // A snapshot of another namespace: a claim of its name here has nothing to do with it.
            (
                json!({ "dataSourceRef": elsewhere }),
                json!({}),
                Some(Source::Other),
            ),
            (
                json!({ "dataSourceRef": backup }),
                json!({}),
                Some(Source::Other),
            ),
        ] {
            assert_eq!(source(&claim(spec.clone(), said)), expected, "{spec}");
        }
    }
}
