//! What a backup needs and what became of its Jobs. In: names. Out: plain values. Reads Secrets of the place only for
//! whether they have what is needed.

use k8s_openapi::{
    ByteString,
    api::{
        batch::v1::{CronJob, Job},
        core::v1::{ContainerStateTerminated, Pod},
    },
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use readstates_agent::words::last_telling_line;
use readstates_operator_api::ReadStateCluster;

mod volumes;

pub use self::volumes::snapshots;
use super::{
    certificates, children,
    credentials::{self, Content},
};
use crate::{
    error::Error,
    names::{ACCESS_KEY_ID, SECRET_ACCESS_KEY},
    namespaced::Namespaced,
    spec::{BackupOwner, BackupPlace, BackupsAt, Identity},
    world::{CronJobSeen, Run, Said, SourceSeen},
};

/// Exit code for wrong usage.
const USAGE: i32 = 2;
/// Length of a key for encryption.
const KEY_BYTES: usize = 32;
/// Letters of a program's last words that fit into a condition.
const LONGEST_WORDS: usize = 600;

/// An object of a kind that is reconciled, as it is now; `None` when it is gone.
///
/// # Errors
/// When the API server cannot be read.
pub async fn owner<K: Namespaced>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, Error> {
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.get_opt(name).await.map_err(|source| Error::Read {
        what: format!("{} {name}", K::kind(&())),
        source,
    })
}

/// Reads what a backup of this cluster, at this place, needs.
///
/// # Errors
/// When the API server cannot be read.
pub async fn source(
    client: &Client,
    owner: &BackupOwner,
    cluster: &str,
    place: &BackupPlace,
) -> Result<SourceSeen, Error> {
    let clusters: Api<ReadStateCluster> = Api::namespaced(client.clone(), &owner.id.namespace);
    let found = clusters.get_opt(cluster).await;
    let cluster = found.map_err(|source| Error::Read {
        what: format!("ReadStateCluster {cluster}"),
        source,
    })?;
    let mut seen = SourceSeen::default();
    if let Some(cluster) = &cluster {
        let (id, spec) = (Identity::of(cluster)?, &cluster.spec.database);
        seen.login = credentials::observe(client, &id, spec).await?.login;
        seen.certificates = certificates::observe(client, &id, spec).await?;
    }
    seen.cluster = cluster;
    seen.lacking = lacking(client, &owner.id, place).await?;
    Ok(seen)
}

/// What is wrong with each Secret of a place.
pub(super) async fn lacking(
    client: &Client,
    id: &Identity,
    place: &BackupPlace,
) -> Result<Vec<String>, Error> {
    let BackupPlace { at, encryption } = place;
    let mut lacking = Vec::new();
    if let BackupsAt::Bucket {
        ca: Some((name, key)),
        ..
    } = at
    {
        let content = credentials::read(client, id, name).await?;
        lacking.extend(no_certificates(name, key, content.as_ref()));
    }
    if let BackupsAt::Bucket {
        credentials: Some(name),
        ..
    } = at
    {
        let content = credentials::read(client, id, name).await?;
        lacking.extend(lacks(name, content.as_ref()));
    }
    if let Some((name, key)) = encryption {
        let content = credentials::read(client, id, name).await?;
        lacking.extend(no_key(name, key, content.as_ref()));
    }
    Ok(lacking)
}

/// What a Secret with the credentials of a bucket lacks.
fn lacks(name: &str, content: Option<&Content>) -> Option<String> {
    let Some(content) = content else {
        return Some(format!("Secret {name} does not exist"));
    };
    let is_there = |key: &&str| content.get(*key).is_some_and(|value| !value.0.is_empty());
    let missing: Vec<_> = [ACCESS_KEY_ID, SECRET_ACCESS_KEY]
        .into_iter()
        .filter(|key| !is_there(key))
        .collect();
    let missing = (!missing.is_empty()).then(|| missing.join(" and no "));
    missing.map(|keys| format!("Secret {name} has no {keys}"))
}

/// What is wrong with the CAs of a store.
fn no_certificates(name: &str, key: &str, content: Option<&Content>) -> Option<String> {
    let Some(content) = content else {
        return Some(format!("Secret {name} does not exist"));
    };
    let has_one = |value: &ByteString| {
        let text = std::str::from_utf8(&value.0).unwrap_or_default();
        text.contains("-----BEGIN CERTIFICATE-----")
    };
    let usable = content.get(key).is_some_and(has_one);
    (!usable).then(|| format!("{key} of Secret {name} has no certificate as PEM"))
}

/// What is wrong with a key for encryption.
fn no_key(name: &str, key: &str, content: Option<&Content>) -> Option<String> {
    let Some(content) = content else {
        return Some(format!("Secret {name} does not exist"));
    };
    let Some(value) = content.get(key) else {
        return Some(format!("Secret {name} has no {key}"));
    };
    let bytes = value.0.len();
    (bytes != KEY_BYTES).then(|| {
        format!(
            "{key} of Secret {name} has {bytes} bytes and not {KEY_BYTES}: make it with `head -c {KEY_BYTES} \
             /dev/urandom > {key}` and `kubectl create secret generic {name} --from-file={key}`"
        )
    })
}

/// A CronJob of this name that belongs to the schedule.
///
/// # Errors
/// When the API server cannot be read.
pub async fn cron_job(
    client: &Client,
    owner: &BackupOwner,
    name: &str,
) -> Result<Option<CronJobSeen>, Error> {
    let api: Api<CronJob> = Api::namespaced(client.clone(), &owner.id.namespace);
    let found = api.get_opt(name).await.map_err(|source| Error::Read {
        what: format!("CronJob {name}"),
        source,
    })?;
    let ours = found.filter(|cron_job| owner.id.owns(&cron_job.metadata));
    Ok(ours.and_then(|cron_job| {
        let suspended = cron_job.spec.suspend;
        Some(CronJobSeen {
            uid: cron_job.uid()?,
            suspended: suspended.unwrap_or_default(),
        })
    }))
}

/// The Jobs of a backup or schedule with the UID of what controls each, newest first.
///
/// # Errors
/// When the API server cannot be read.
pub async fn runs(client: &Client, owner: &BackupOwner) -> Result<Vec<(String, Run)>, Error> {
    let jobs: Api<Job> = Api::namespaced(client.clone(), &owner.id.namespace);
    let ours = ListParams::default().labels(&owner.selector_text());
    let failed = |source| Error::Read {
        what: format!("the Jobs of {}", owner.id.name),
        source,
    };
    let found = jobs.list(&ours).await.map_err(failed)?;
    if found.items.is_empty() {
        return Ok(Vec::new());
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), &owner.id.namespace);
    let pods = pods.list(&ours).await.map_err(failed)?.items;
    let mut runs: Vec<_> = found
        .items
        .iter()
        .filter_map(|job| Some((controller(job)?, run(job, &pods)?)))
        .collect();
    runs.sort_by_key(|(_, run)| std::cmp::Reverse(run.begun));
    Ok(runs)
}

fn controller(job: &Job) -> Option<String> {
    let mut owners = job.owner_references().iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(owner.uid.clone())
}

/// How a Job went, and what its containers reported.
pub(super) fn run(job: &Job, pods: &[Pod]) -> Option<Run> {
    let seen = children::job(job, pods)?;
    let mut said: Vec<(String, Said)> = Vec::new();
    for pod in children::of_job(pods, &seen.uid) {
        let status = pod.status.as_ref();
        let first = status.and_then(|s| s.init_container_statuses.as_deref());
        let main = status.and_then(|s| s.container_statuses.as_deref());
        for container in first.into_iter().chain(main).flatten() {
            let ended = container.state.as_ref().and_then(|s| s.terminated.as_ref());
            let is_new = said.iter().all(|(name, _)| *name != container.name);
            if let Some(ended) = ended.filter(|_| is_new) {
                said.push((container.name.clone(), heard(ended)));
            }
        }
    }
    Some(Run {
        job: job.name_any(),
        begun: job.creation_timestamp().map(|t| t.0).unwrap_or_default(),
        outcome: seen.outcome,
        finished: job
            .status
            .as_ref()
            .and_then(|s| s.completion_time.as_ref())
            .map(|t| t.0),
        said,
    })
}

fn heard(ended: &ContainerStateTerminated) -> Said {
    let text = ended.message.as_deref().unwrap_or_default();
    if ended.exit_code == 0 {
        return Said::Done(serde_json::from_str(text).ok());
    }
    // What a program says of wrong usage ends with advice; what is wrong stands in front.
    let usage = || text.lines().find(|line| line.starts_with("error: "));
    let usage = (ended.exit_code == USAGE).then(usage).flatten();
    let words = match usage.or_else(|| last_telling_line(text)) {
        Some(line) => line.chars().take(LONGEST_WORDS).collect(),
        None => {
            let reason = ended.reason.as_deref().unwrap_or("it said nothing");
            format!("exit code {}: {reason}", ended.exit_code)
        }
    };
    Said::Failed(words)
}

#[cfg(test)]
mod tests;
