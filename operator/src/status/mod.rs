//! Tells what was seen and decided: conditions, columns, events. In: everything the steps before
//! produced. Out: a status, written only when it differs from the one that is there.

mod access;
mod backups;
mod certificates;
mod columns;
mod conditions;
mod event;
mod events;
mod internode_tls;
mod nodes;
mod repairs;
mod replication;
mod restore;
mod stopped;
mod super_disks;
mod takeovers;
mod upgrade;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api,
    api::{Patch, PatchParams},
    runtime::events::EventType,
};
use readstates_operator_api::{
    DatabaseNode, DatabaseReplication, DatabaseUpgrade, ReadStateCluster, ReadStateClusterStatus,
    SchemaStatus, Waiting,
    conditions::Reason,
    labels::{self, Component},
};
use readstates_ring::SLOTS;
use serde_json::json;

use crate::{
    apply::{Blocked, CarriedOut},
    context::Context,
    error::Error,
    plan::{self, Plan, WaitingOn},
    spec::{Identity, ValidatedCluster},
    super_disk,
    telemetry::{self, Outcome},
    validate::InvalidSpec,
    world::{Seen, World},
};

/// What one reconcile came to.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The cluster.
    pub id: &'a Identity,
    pub before: Option<&'a ReadStateClusterStatus>,
    /// What was seen.
    pub world: &'a World,
    /// What the spec turned out to be.
    pub spec: Result<Decided<'a>, &'a InvalidSpec>,
    /// What the end of a deleted cluster waits for, whatever its spec says.
    pub ending: Option<&'a WaitingOn>,
    /// When it was looked at.
    pub now: Timestamp,
}

/// What was decided and done for a valid spec.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The parsed spec.
    pub cluster: &'a ValidatedCluster,
    pub plan: &'a Plan,
    /// How carrying it out went.
    pub done: &'a CarriedOut,
}

impl Report<'_> {
    fn waiting(&self) -> Option<WaitingOn> {
        let decided = || self.spec.as_ref().ok().and_then(Decided::waiting);
        self.ending.cloned().or_else(decided)
    }
}

impl Decided<'_> {
    /// Whether the records of the database stay as they are: nothing is being done about its nodes.
    fn keeps_records(&self) -> bool {
        self.cluster.paused || self.done.nodes_wait
    }

    /// The records to keep.
    fn records(&self, world: &World) -> Vec<DatabaseNode> {
        if self.keeps_records() {
            world.records.clone()
        } else {
            self.plan.database.records.clone()
        }
    }

    /// The change of the database's release to keep.
    fn upgrade(&self, world: &World) -> Option<DatabaseUpgrade> {
        if self.keeps_records() {
            world.upgrade.clone()
        } else {
            self.plan.database.upgrade.clone()
        }
    }

    /// The copies of each read state to keep.
    fn replication(&self, world: &World) -> Option<DatabaseReplication> {
        if self.keeps_records() {
            world.replication.clone()
        } else {
            self.plan.database.replication.clone()
        }
    }

    /// What is waited for; while paused nothing but what failed all the same, since nothing else is being done.
    fn waiting(&self) -> Option<WaitingOn> {
        if let Some(words) = &self.done.failed {
            let words = words.clone();
            return Some(WaitingOn::AnotherAttempt { words });
        }
        if self.cluster.paused {
            return None;
        }
        let leftover = self
            .done
            .applied
            .refusals()
            .iter()
            .find_map(|r| match &r.why {
                Blocked::Leftover { object } => Some(WaitingOn::Leftover {
                    object: object.clone(),
                }),
                Blocked::Conflict { .. } | Blocked::Rejected { .. } => None,
            });
        leftover.or_else(|| self.plan.waiting.clone())
    }
}

/// The status that `report` amounts to.
#[must_use]
pub fn status(report: &Report<'_>) -> ReadStateClusterStatus {
    let Report {
        id,
        before,
        world,
        spec,
        ending: _,
        now,
    } = report;
    let now = *now;
    let old = before.map(|b| b.conditions.as_slice()).unwrap_or_default();
    let conditions = conditions::conditions(report)
        .into_iter()
        .map(|c| c.to_metav1(old, Some(id.generation), now))
        .collect();
    let waiting = report.waiting();
    let takeovers = takeovers::entries(report);
    let database_nodes = spec
        .as_ref()
        .map_or_else(|_| world.records.clone(), |decided| decided.records(world));
    ReadStateClusterStatus {
        observed_generation: Some(id.generation),
        conditions,
        replicas: i32::try_from(world.cache_pods.len()).unwrap_or(i32::MAX),
        selector: labels::selector_text(&id.name, Component::Cache),
        cache: spec.map_or_else(|_| String::new(), |d| columns::cache(d.cluster, world)),
        database: spec.map_or_else(|_| String::new(), |d| columns::database(d.cluster, world)),
        states: steady(before.and_then(|b| b.states), sum(world, |m| m.states)),
        dirty: steady(before.and_then(|b| b.dirty), sum(world, |m| m.dirty)),
        ring_number: world
            .ring
            .table()
            .map(|table| i64::try_from(table.number()).unwrap_or(i64::MAX))
            .or(world.last_ring_number),
        last_repaired: repairs::last(&database_nodes),
        database_nodes,
        database_upgrade: spec
            .as_ref()
            .map_or_else(|_| world.upgrade.clone(), |d| d.upgrade(world)),
        database_replication: spec
            .as_ref()
            .map_or_else(|_| world.replication.clone(), |d| d.replication(world)),
        database_internode_tls: spec.as_ref().map_or_else(
            |_| before.and_then(|b| b.database_internode_tls),
            |d| internode_tls::stage(d, *before),
        ),
        schema: schema(report),
        restore: restore::entry(report).map(Box::new),
        database_free_gib: nodes::free_gib(world),
        super_disks: super_disks::entries(world, *before, now),
        slots: format!("{}/{SLOTS}", plan::served(world)),
        slots_moving: plan::slots_moving(world),
        slots_taken_over: takeovers.as_deref().map(takeovers::slots),
        takeovers: takeovers.unwrap_or_default(),
        certificates: certificates::entries(world),
        monitoring: before.and_then(|b| b.monitoring.clone()),
        waiting_on: waiting.map(|w| waiting_entry(&w, *before, now)),
    }
}

/// How it ended, for metrics.
#[must_use]
pub fn outcome(report: &Report<'_>) -> Outcome {
    if conditions::degraded(report).is_some() {
        return Outcome::Degraded;
    }
    let waiting = report.waiting();
    waiting.map_or(Outcome::Done, |w| Outcome::Waiting(w.reason()))
}

/// Writes the status if it says something new, and publishes events for what changed.
///
/// # Errors
/// When the API server does not take it.
pub async fn publish(
    ctx: &Context,
    cluster: &ReadStateCluster,
    status: &ReadStateClusterStatus,
) -> Result<(), Error> {
    if cluster.status.as_ref() == Some(status) {
        return Ok(());
    }
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let namespace = cluster.metadata.namespace.clone().unwrap_or_default();
    let what = format!("the status of {name}");
    let api: Api<ReadStateCluster> = Api::namespaced(ctx.client.clone(), &namespace);
    let patch = json!({
        "apiVersion": <ReadStateCluster as kube::Resource>::api_version(&()),
        "kind": <ReadStateCluster as kube::Resource>::kind(&()),
        // Not onto a cluster created again under this name meanwhile; and not over what was recorded since this one was
        // read.
        "metadata": {
            "uid": cluster.metadata.uid,
            "resourceVersion": cluster.metadata.resource_version,
        },
        "status": status,
    });
    let params = PatchParams::apply(labels::MANAGER).force();
    match api.patch_status(&name, &params, &Patch::Apply(patch)).await {
        Ok(_) => {}
        Err(kube::Error::Api(gone)) if gone.code == 404 => return Ok(()),
        Err(source) => return Err(Error::Write { what, source }),
    }
    let taken = events::newly_taken_over(cluster.status.as_ref(), status);
    if let Some(slots) = taken {
        telemetry::taken_over(slots);
    }
    for disk in super_disks::changes(cluster.status.as_ref(), status) {
        telemetry::super_disk_changed(super_disk::reason(disk.state));
    }
    events::publish(ctx, cluster, status).await;
    Ok(())
}

/// Publishes an event that no status tells.
pub async fn tell(
    ctx: &Context,
    cluster: &ReadStateCluster,
    type_: EventType,
    reason: Reason,
    words: &str,
) {
    let event = event::event(type_, reason.as_str(), "Stop", words);
    events::send(ctx, cluster, &[event]).await;
}

/// Since when: kept while it is the same reason, and about the same pod.
fn waiting_entry(
    waiting: &WaitingOn,
    before: Option<&ReadStateClusterStatus>,
    now: Timestamp,
) -> Waiting {
    let reason = waiting.reason().to_string();
    let pod = match waiting {
        WaitingOn::Database(wait) => wait.pod().map(str::to_owned),
        _ => None,
    };
    let since = before
        .and_then(|b| b.waiting_on.as_ref())
        .filter(|old| old.reason == reason && old.pod == pod)
        .map_or(Time(now), |old| old.since.clone());
    Waiting {
        reason,
        message: waiting.to_string(),
        pod,
        since,
    }
}

/// The keyspace that is proven to be there; what is on record, while none is.
fn schema(report: &Report<'_>) -> Option<SchemaStatus> {
    let before = report.before.and_then(|b| b.schema.clone());
    let proven = report
        .spec
        .as_ref()
        .ok()
        .and_then(|d| d.plan.schema_proven.clone());
    match proven {
        Some(store) if before.as_ref().is_none_or(|b| b.store != store) => Some(SchemaStatus {
            store,
            since: Time(report.now),
        }),
        Some(_) | None => before,
    }
}

/// The number before, as long as the current one differs little: otherwise the status would be written at every look
/// under traffic. A change to or from zero is shown at once.
fn steady(before: Option<i64>, now: Option<i64>) -> Option<i64> {
    const PART: i64 = 8;
    let little = |before: i64, now: i64| {
        before > 0 && now > 0 && (now - before).saturating_abs() <= before / PART
    };
    match (before, now) {
        (Some(before), Some(now)) if little(before, now) => Some(before),
        _ => now,
    }
}

/// A sum over all members, or nothing when one that is ready could not be asked: a part is not the
/// sum.
fn sum(world: &World, of: impl Fn(&crate::world::Member) -> i64) -> Option<i64> {
    let ready = |name: &str| world.cache_pods.iter().any(|p| p.name == name && p.ready);
    let mut sum = 0_i64;
    for (name, seen) in &world.members {
        match seen {
            Seen::Known(member) => sum = sum.saturating_add(of(member)),
            Seen::Unknown(_) if ready(name) => return None,
            Seen::Unknown(_) => {}
        }
    }
    Some(sum)
}

/// The reason of a wait, as conditions use it.
fn reason_and_words(waiting: &WaitingOn) -> (Reason, String) {
    (waiting.reason(), waiting.to_string())
}

#[cfg(test)]
mod tests;
