//! The nodes of a database: claims and what their agents say. In: pods. Out: plain values. An agent that does
//! not answer is unknown, and no error.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use readstates_agent::wire::{Phase, Report};
use readstates_operator_api::{
    DatabaseNodeState, DatabaseReplicationStage, DatabaseUpgrade, DatabaseUpgradeStage,
    ReadStateCluster,
};

use super::claims;
use crate::{
    agents::Agents,
    connections::PodClients,
    error::Error,
    names::TOKEN_KEY,
    spec::Identity,
    world::{Nodes, PodSeen, Seen, StatefulSetSeen, Token},
};

/// How old an answer may be while nothing happens: a fresh one has its price.
const AT_REST: Duration = Duration::from_mins(1);
/// And while something does: every step is decided by what was so a moment ago.
const BUSY: Duration = Duration::from_secs(3);

/// Agents, and how they are reached.
pub(super) struct Asked<'a> {
    pub(super) agents: &'a dyn Agents,
    pub(super) clients: &'a PodClients,
}

pub(super) async fn nodes(
    client: &Client,
    asked: &Asked<'_>,
    id: &Identity,
    cluster: &ReadStateCluster,
    pods: &[PodSeen],
    racks: &BTreeMap<String, StatefulSetSeen>,
) -> Result<Nodes, Error> {
    if cluster.spec.database.engine.is_none() {
        return Ok(Nodes::default());
    }
    let max_age = if at_rest(cluster, pods, racks) {
        AT_REST
    } else {
        BUSY
    };
    let with_agents = pods.iter().filter(|p| p.has_agent && p.ip.is_some());
    let reports = with_agents.map(async |pod| {
        let report = asked.agents.report(asked.clients, pod, max_age).await;
        (
            pod.name.clone(),
            report.map_or_else(Seen::Unknown, Seen::Known),
        )
    });
    let reports: BTreeMap<_, _> = join_all(reports).await.into_iter().collect();
    let mut facts = BTreeMap::new();
    let asks = joins(&reports) || restarts_for_upgrade(cluster) || lacks_copies(cluster);
    let witness = asks.then(|| serving(pods, &reports)).flatten();
    for pod in leavers(id, cluster, pods, racks).into_iter().chain(witness) {
        if let Some(Seen::Known(Report {
            phase: Phase::Running(_),
            ..
        })) = reports.get(&pod.name)
        {
            let found = asked.agents.facts(asked.clients, pod).await;
            facts.insert(
                pod.name.clone(),
                found.map_or_else(Seen::Unknown, Seen::Known),
            );
        }
    }
    Ok(Nodes {
        reports,
        facts,
        claims: claims::claims(client, id, cluster.spec.database.super_disk.is_some()).await?,
        token: token(client, id).await?,
    })
}

/// Nothing is on its way and nothing was asked for since the last look.
fn at_rest(
    cluster: &ReadStateCluster,
    pods: &[PodSeen],
    racks: &BTreeMap<String, StatefulSetSeen>,
) -> bool {
    let Some(status) = &cluster.status else {
        return false;
    };
    status.observed_generation == cluster.metadata.generation
        && status.waiting_on.is_none()
        && !status
            .database_upgrade
            .as_ref()
            .is_some_and(DatabaseUpgrade::goes_on)
        && !status
            .database_replication
            .as_ref()
            .is_some_and(|copies| copies.stage != DatabaseReplicationStage::Stable)
        && status
            .database_nodes
            .iter()
            .all(|n| n.state == DatabaseNodeState::Member)
        && pods.iter().all(|p| p.ready)
        && racks.values().all(|r| r.settled)
}

/// Whether nodes are being restarted with another release, each once all agree on the schema.
fn restarts_for_upgrade(cluster: &ReadStateCluster) -> bool {
    let status = cluster.status.as_ref();
    let upgrade = status.and_then(|status| status.database_upgrade.as_ref());
    upgrade.is_some_and(|upgrade| upgrade.stage == DatabaseUpgradeStage::Restarting)
}

/// Whether it is not on record how many copies the keyspace has.
fn lacks_copies(cluster: &ReadStateCluster) -> bool {
    let status = cluster.status.as_ref();
    status.is_none_or(|status| status.database_replication.is_none())
}

/// Whether a pod waits to be told how to start.
fn joins(reports: &BTreeMap<String, Seen<Report>>) -> bool {
    reports.values().any(|seen| {
        matches!(
            seen,
            Seen::Known(Report {
                phase: Phase::Waiting { .. },
                ..
            })
        )
    })
}

/// The first pod whose node is a member: one that joins may not know every keyspace yet.
fn serving<'a>(
    pods: &'a [PodSeen],
    reports: &BTreeMap<String, Seen<Report>>,
) -> Option<&'a PodSeen> {
    pods.iter().find(|pod| match reports.get(&pod.name) {
        Some(Seen::Known(Report {
            phase: Phase::Running(view),
            ..
        })) => view.serves().is_some(),
        Some(_) | None => false,
    })
}

/// The last pods of racks that should become smaller.
fn leavers<'a>(
    id: &Identity,
    cluster: &ReadStateCluster,
    pods: &'a [PodSeen],
    racks: &BTreeMap<String, StatefulSetSeen>,
) -> Vec<&'a PodSeen> {
    let wanted = cluster.spec.database.racks.iter().flatten();
    let last = wanted.filter_map(|rack| {
        let seen = racks.get(&rack.name)?;
        let name = format!("{}-{}", id.rack(&rack.name), seen.replicas - 1);
        (seen.replicas > rack.members).then(|| pods.iter().find(|p| p.name == name))?
    });
    last.collect()
}

async fn token(client: &Client, id: &Identity) -> Result<Option<Token>, Error> {
    let name = id.agent_secret();
    let api: Api<Secret> = Api::namespaced(client.clone(), &id.namespace);
    let found = api.get_opt(&name).await.map_err(|source| Error::Read {
        what: format!("Secret {name}"),
        source,
    })?;
    let secret = found.filter(|s| id.owns(&s.metadata));
    Ok(secret
        .and_then(|s| s.data?.remove(TOKEN_KEY))
        .and_then(|bytes| String::from_utf8(bytes.0).ok())
        .filter(|token| !token.is_empty())
        .map(Token))
}
