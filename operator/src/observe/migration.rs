//! What a move of a table needs, what its Jobs did, and which databases members use. In: names. Out: plain values.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{PersistentVolumeClaim, Pod, PodSpec},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
};
use readstates_operator_api::{
    MigrationPhase, MigrationTarget, ReadStateCluster, ReadStateMigration, ReadStateMigrationSpec,
    labels::{Component, selector_text},
};
use serde::Deserialize;

use super::{backups, certificates, children, credentials, stored::stored};
use crate::{
    error::Error,
    names::{self, MOVING_TO, STORE},
    spec::{BackupOwner, Identity, MoveTarget},
    validate::on_target,
    world::{MemberStores, MigrationSeen, MoveJob, MoveJobs, OtherMove, SecretsSeen},
};

/// Reads what a move needs.
///
/// # Errors
/// When the API server cannot be read.
pub async fn migration(
    client: &Client,
    owner: &BackupOwner,
    spec: &ReadStateMigrationSpec,
    target: &MoveTarget,
) -> Result<MigrationSeen, Error> {
    let namespace = &owner.id.namespace;
    let mut seen = MigrationSeen {
        cluster: backups::owner::<ReadStateCluster>(client, namespace, &spec.cluster).await?,
        others: others(client, &owner.id).await?,
        ..MigrationSeen::default()
    };
    seen.jobs = move_jobs(client, owner).await?;
    if let Some(name) = target.cluster() {
        seen.target_cluster = backups::owner::<ReadStateCluster>(client, namespace, name).await?;
    }
    seen.has_claim = has_claim(client, namespace, &spec.checkpoints.claim_name).await?;
    let Some(cluster) = &seen.cluster else {
        return Ok(seen);
    };
    let id = Identity::of(cluster)?;
    seen.source = secrets(client, &id, cluster).await?;
    match target {
        MoveTarget::Database {
            external,
            tls_secret,
        } => {
            let moved = on_target(cluster, external, tls_secret.as_ref());
            seen.target = secrets(client, &id, &moved).await?;
        }
        MoveTarget::Cluster(_) => {
            if let Some(other) = &seen.target_cluster {
                seen.target = secrets(client, &Identity::of(other)?, other).await?;
            }
        }
    }
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), namespace);
    let set = sets.get_opt(&id.cache()).await;
    let set = set.map_err(|source| Error::Read {
        what: format!("StatefulSet {}", id.cache()),
        source,
    })?;
    let set = set.filter(|set| id.owns(&set.metadata));
    seen.template = set.as_ref().and_then(template);
    let counts = set.as_ref().map(children::stateful_set);
    seen.at_zero = counts.is_none_or(|set| set.replicas == 0 && set.existing == 0 && set.observed);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let ours = ListParams::default().labels(&selector_text(&id.name, Component::Cache));
    let found = pods.list(&ours).await.map_err(|source| Error::Read {
        what: format!("the cache pods of {}", id.name),
        source,
    })?;
    seen.pods = found.items.iter().map(member).collect();
    seen.pods.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(seen)
}

async fn secrets(
    client: &Client,
    id: &Identity,
    cluster: &ReadStateCluster,
) -> Result<SecretsSeen, Error> {
    let database = &cluster.spec.database;
    Ok(SecretsSeen {
        login: credentials::observe(client, id, database).await?.login,
        certificates: certificates::observe(client, id, database).await?,
    })
}

async fn others(client: &Client, own: &Identity) -> Result<Vec<OtherMove>, Error> {
    let all = ListParams::default();
    let found = stored::<ReadStateMigration>(client, &own.namespace, &all).await;
    let found = found.map_err(|source| Error::Read {
        what: "the ReadStateMigrations".to_owned(),
        source,
    })?;
    let others = found.iter();
    let others = others.filter(|other| other.uid().as_ref() != Some(&own.uid));
    Ok(others.map(other_move).collect())
}

/// Whatever else of it cannot be read, these fields say whether it is in the way.
fn other_move(other: &DynamicObject) -> OtherMove {
    let (spec, status) = (&other.data["spec"], &other.data["status"]);
    let phase = MigrationPhase::deserialize(&status["phase"]);
    OtherMove {
        name: other.name_any(),
        created: other.creation_timestamp().map(|t| t.0),
        complete: phase.is_ok_and(|phase| phase == MigrationPhase::Complete),
        cluster: spec["cluster"].as_str().map(str::to_owned),
        target: MigrationTarget::deserialize(&spec["target"]).ok(),
    }
}

async fn has_claim(client: &Client, namespace: &str, name: &str) -> Result<bool, Error> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    // By a list: nothing else of claims may be read.
    let by_name = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = api.list(&by_name).await.map_err(|source| Error::Read {
        what: format!("PersistentVolumeClaim {name}"),
        source,
    })?;
    let stays = |claim: &PersistentVolumeClaim| claim.metadata.deletion_timestamp.is_none();
    Ok(found.items.iter().any(stays))
}

/// The Jobs that belong to this very move, and its pods that belong to neither.
///
/// # Errors
/// When the API server cannot be read.
pub async fn move_jobs(client: &Client, owner: &BackupOwner) -> Result<MoveJobs, Error> {
    let failed = |source| Error::Read {
        what: format!("the Jobs of {}", owner.id.name),
        source,
    };
    let ours = ListParams::default().labels(&owner.selector_text());
    let jobs: Api<Job> = Api::namespaced(client.clone(), &owner.id.namespace);
    let found = jobs.list(&ours).await.map_err(failed)?.items;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &owner.id.namespace);
    let pods = pods.list(&ours).await.map_err(failed)?.items;
    let own = || found.iter().filter(|job| owner.id.owns(&job.metadata));
    let named = |name: String| {
        own()
            .find(|job| job.name_any() == name)
            .and_then(|job| move_job(job, &pods))
    };
    let is_of_one = |pod: &Pod| {
        let mut owners = pod.owner_references().iter();
        owners.any(|owner| own().any(|job| job.uid().as_ref() == Some(&owner.uid)))
    };
    let stray = pods.iter().filter(|pod| !has_ended(pod) && !is_of_one(pod));
    Ok(MoveJobs {
        ahead: named(owner.ahead()),
        moving: named(owner.moving()),
        stray: stray.map(ResourceExt::name_any).collect(),
    })
}

pub(super) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn move_job(job: &Job, pods: &[Pod]) -> Option<MoveJob> {
    let uid = job.uid()?;
    let newest = children::of_job(pods, &uid).into_iter().next();
    // The address of one that has ended may be another's by now.
    let runs = newest.filter(|pod| !has_ended(pod));
    let ip = runs.and_then(|pod| pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok());
    let suspended = job.spec.as_ref().and_then(|spec| spec.suspend);
    Some(MoveJob {
        run: backups::run(job, pods)?,
        uid,
        suspended: suspended.unwrap_or_default(),
        ip,
    })
}

fn template(set: &StatefulSet) -> Option<MemberStores> {
    let pod = set.spec.as_ref()?.template.spec.as_ref()?;
    Some(stores(set.name_any(), Some(pod)))
}

pub(super) fn member(pod: &Pod) -> MemberStores {
    stores(pod.name_any(), pod.spec.as_ref())
}

fn stores(name: String, pod: Option<&PodSpec>) -> MemberStores {
    let containers = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
    let main = containers
        .iter()
        .find(|c| names::MAIN_CONTAINERS.contains(&c.name.as_str()));
    let value = |name: &str| {
        let mut env = main?.env.iter().flatten();
        env.find(|variable| variable.name == name)?.value.clone()
    };
    MemberStores {
        name,
        store: value(STORE),
        moving_to: value(MOVING_TO),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn other(target: Value, phase: &str) -> OtherMove {
        let stored = json!({
            "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateMigration",
            "metadata": { "name": "other" },
            "spec": { "cluster": "old", "members": "NotYetInvented", "target": target },
            "status": { "phase": phase },
        });
        other_move(&serde_json::from_value(stored).unwrap())
    }

    #[test]
    fn of_a_move_of_a_later_release_is_known_what_can_be_read() {
        let whole = other(json!({ "cluster": "new" }), "Complete");
        let target = whole.target.unwrap();
        assert_eq!(target.cluster.as_deref(), Some("new"));
        assert_eq!(
            (whole.cluster.as_deref(), whole.complete),
            (Some("old"), true)
        );
        let part = other(json!({ "cluster": ["new"] }), "NotYetInvented");
        assert_eq!((part.target, part.complete), (None, false));
    }
}
