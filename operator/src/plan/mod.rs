//! Decides what to do next. In: a validated cluster, what was observed, the time. Out: [`Plan`].
//! Pure: the same world gives the same plan, and nothing is kept between two plans.
//!
//! ```text
//! identity and certificates good ─▶ racks ready, one after another ─▶ Secrets there ─▶ schema Job succeeded
//!     ─▶ backup restored, if it begins with one ─▶ members of the cache
//! ```
//! Each arrow waits; what it waits for is a value, [`WaitingOn`].

mod access;
mod backups;
mod certificates;
mod credentials;
mod database;
mod identity;
mod maintenance;
mod members;
mod migration;
mod restore;
mod rollout;
mod stop;
mod stopped;
mod waiting;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use self::rollout::Tier;
pub use self::{
    access::{Admitted, CallersStep, Proof, Refused},
    backups::{
        BackupResults, BackupSeen, BackupStep, ClusterSeen, Obstacle, ScheduleSeen, TimesStep,
        VolumesStep, backup_results, backup_source, backup_step, overdue, times_step, volumes_step,
        whole_cluster,
    },
    credentials::SecretsToMake,
    database::{
        DatabaseTrouble, DatabaseWait, Evictions, Growth, Kept, Named, NodesStep, Order,
        SuperDisksStep, VolumeEntry, internode_stage,
    },
    identity::{AUTHORITY_VALID, IdentityStep, LEAF_VALID, missing as missing_identity, roles},
    members::{
        CachePlan, MemberAction, PodRef, RingState, ring_state, served, slots_moving, taken_over,
    },
    migration::{MigrationAction, MigrationPlan, MoveInput, MoveRecord, migration},
    restore::{RestoreState, RestoreStep},
    rollout::RolloutStep,
    stop::{Elapsed, STOP_LIMIT, StopStep, stop},
    stopped::{StopStage, stage as stop_stage},
    waiting::WaitingOn,
};
use crate::{
    spec::ValidatedCluster,
    templates::{self, RackStep},
    world::{JobOutcome, JobSeen, World},
};

/// How long a failed schema Job stays to be read before it is made again.
const SCHEMA_RETRY: Duration = Duration::from_mins(5);

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Racks whose StatefulSet may be written now, and how.
    pub racks: Vec<RackStep>,
    /// What to do with the nodes of the database.
    pub database: NodesStep,
    pub secrets: SecretsToMake,
    /// The callers of the API, and which of them are refused.
    pub callers: CallersStep,
    /// Whether cert-manager is to be asked for the certificates for CQL.
    pub certificate: bool,
    /// Whether cert-manager is to be asked for the certificate of the API.
    pub api_certificate: bool,
    /// Whether cert-manager is to be asked for what processes prove themselves by.
    pub ask_identity: bool,
    /// The next stage of the rotation of the certificate authority.
    pub identity: Option<IdentityStep>,
    /// What to do about super-disks.
    pub super_disks: SuperDisksStep,
    /// Whether the schema Job should exist.
    pub schema_job: bool,
    /// The restore that a new cluster begins with.
    pub restore: RestoreStep,
    /// Volume claims to make, with copies of the volumes of a database.
    pub claims_to_make: Vec<PersistentVolumeClaim>,
    /// Jobs of schema and restore to delete.
    pub jobs_to_delete: Vec<JobToDelete>,
    /// The cache; `None` while it may not be written.
    pub cache: Option<CachePlan>,
    /// What the next step waits for.
    pub waiting: Option<WaitingOn>,
    /// What a person has to cure.
    pub problem: Option<SchemaFailed>,
    /// The database and keyspace that are proven to be there, for the record.
    pub schema_proven: Option<String>,
    /// Whether it counts among the clusters that restart pods.
    pub rollout: RolloutStep,
}

/// A Job that is not needed any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobToDelete {
    pub name: String,
    /// Its UID: exactly this one, not a later one of the same name.
    pub uid: String,
}

/// A schema Job that gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFailed {
    /// Its name.
    pub job: String,
    /// Its last words.
    pub message: String,
}

impl Plan {
    /// Whether anything is to be done but to write what should be there.
    #[must_use]
    pub fn acts(&self) -> bool {
        let NodesStep {
            records: _,
            upgrade: _,
            replication: _,
            orders,
            claims_to_delete,
            claims_to_grow,
            pods_to_delete,
            trouble: _,
            update: _,
            repair_waits: _,
        } = &self.database;
        let members = self.cache.as_ref().is_some_and(|c| c.action.is_some());
        members
            || !orders.is_empty()
            || !claims_to_delete.is_empty()
            || !claims_to_grow.is_empty()
            || !pods_to_delete.is_empty()
            || !self.jobs_to_delete.is_empty()
            || !self.claims_to_make.is_empty()
    }
}

#[must_use]
pub fn plan(cluster: &ValidatedCluster, world: &World, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let identity = identity::decide(cluster, world, now);
    let certificates = certificates::decide(cluster, world);
    let api = certificates::of_api(cluster, world);
    let credentials = credentials::decide(cluster, world);
    let stage = stop_stage(cluster, world, now);
    let mut racks = if stage.stops_database() {
        database::stop(cluster, world, now)
    } else {
        database::decide(cluster, world, now)
    };
    if stage == StopStage::Runs {
        let copies = restore::copies(cluster, world);
        if copies.waiting.is_some() {
            racks.racks.clear();
            racks.waiting = copies.waiting;
        }
        plan.claims_to_make = copies.make;
    }
    let is_up = racks.waiting.is_none();
    let schema = if certificates.waiting.is_some() {
        // What a Job would be given is not known, so it cannot be told which Jobs are superseded.
        SchemaStep::default()
    } else {
        let may_start = credentials.waiting.is_none() && is_up;
        schema(cluster, world, may_start, now)
    };
    // What mounts a Secret is written once it is there; pods that go mount none.
    if identity.blocked.is_none() || stage.stops_database() {
        plan.racks = racks.racks;
    }
    plan.identity = identity.step;
    plan.ask_identity = identity.ask;
    plan.database = racks.nodes;
    plan.secrets = credentials.make;
    plan.callers = access::decide(cluster, world);
    plan.certificate = certificates.ask;
    plan.api_certificate = api.ask;
    plan.super_disks = racks.super_disks;
    plan.schema_job = schema.job;
    plan.jobs_to_delete = schema.delete;
    plan.problem = schema.problem;
    plan.schema_proven = schema.proven;
    let (mut members_wait, mut members_outdated) = (None, false);
    let secrets = identity.blocked.is_none()
        && certificates.waiting.is_none()
        && api.waiting.is_none()
        && credentials.waiting.is_none();
    let runs = stage == StopStage::Runs && !cluster.paused;
    let has_keyspace = is_up && schema.may_serve && schema.done;
    let restore = restore::decide(cluster, world, runs && secrets && has_keyspace, now);
    if secrets && schema.may_serve && restore.step.state.may_serve() {
        let decision = members::decide(cluster, world, schema.done, now);
        plan.cache = decision.plan;
        (members_wait, members_outdated) = (decision.waiting, decision.outdated);
    }
    let tier = |outdated, waiting| Tier { outdated, waiting };
    let tiers = [
        tier(members_outdated, members_wait.as_ref()),
        tier(racks.outdated, racks.restart.as_ref()),
    ];
    plan.rollout = rollout::decide(cluster, world, &stage, tiers);
    plan.restore = restore.step;
    plan.jobs_to_delete.extend(restore.delete);
    if stage != StopStage::Runs {
        return stopping(plan, &stage, racks.waiting, world);
    }
    if let Some(wait) = stopped::start_waits(cluster, world) {
        plan.cache = plan.cache.map(CachePlan::without_pods);
        members_wait = Some(wait);
    }
    plan.waiting = identity
        .blocked
        .or(certificates.waiting)
        .or(api.waiting)
        .or(racks.waiting)
        .or(credentials.waiting)
        .or(schema.waiting)
        .or(restore.waiting)
        .or(members_wait)
        .or(racks.restart)
        .or(racks.upkeep)
        .or(identity.waiting);
    plan
}

/// The same for a cluster that is to stop: how far that is comes first, and nothing else is begun.
fn stopping(mut plan: Plan, stage: &StopStage, racks: Option<WaitingOn>, world: &World) -> Plan {
    (plan.cache, plan.waiting) = match stage {
        StopStage::Runs | StopStage::Cache => stopped::cache(world),
        StopStage::Writers => (stopped::cache(world).0, stop::still_written(world)),
        StopStage::Database => (None, racks),
        StopStage::Stopped { .. } => (None, None),
    };
    if stage.stops_database() {
        plan.schema_job = false;
        plan.jobs_to_delete.clear();
    }
    plan
}

#[derive(Default)]
struct SchemaStep {
    /// Whether the very Job that is wanted has succeeded: pods of the wanted template have what they need.
    done: bool,
    /// Whether the keyspace is there: pods of the template that they have go on.
    may_serve: bool,
    /// The keyspace, if it is there.
    proven: Option<String>,
    job: bool,
    delete: Vec<JobToDelete>,
    waiting: Option<WaitingOn>,
    problem: Option<SchemaFailed>,
}

/// The Job's name comes from all that goes into it: another spec or image is another Job. Any other goes before it
/// starts, so that two never disagree about the keyspace. That the keyspace is there is on record from the first Job
/// that has made it on: a later one that has to wait, or fails, never keeps the cache from being looked after.
fn schema(
    cluster: &ValidatedCluster,
    world: &World,
    may_start: bool,
    now: Timestamp,
) -> SchemaStep {
    let Some(wanted) = templates::schema_job_name(cluster) else {
        return SchemaStep {
            done: true,
            may_serve: true,
            ..SchemaStep::default()
        };
    };
    let store = templates::wanted_store(cluster);
    let made = |job: &JobSeen| job.makes == store && job.outcome == JobOutcome::Succeeded;
    let proven = world.schema == store || world.jobs.values().any(made);
    let others: Vec<_> = world
        .jobs
        .iter()
        .filter(|(name, _)| **name != wanted)
        .collect();
    let mut step = SchemaStep {
        delete: others
            .iter()
            .filter(|_| may_start)
            .filter_map(|(name, job)| to_delete(name, job))
            .collect(),
        may_serve: proven,
        proven: store.filter(|_| proven),
        ..SchemaStep::default()
    };
    let pending = |trouble| {
        Some(WaitingOn::Schema {
            job: wanted.clone(),
            trouble,
        })
    };
    match world.jobs.get(&wanted).map(|job| (job, &job.outcome)) {
        None => {
            step.job = may_start && others.is_empty();
            step.waiting = pending(None);
        }
        Some((_, JobOutcome::Going)) => step.waiting = pending(None),
        Some((_, JobOutcome::Running { trouble })) => {
            step.job = true;
            step.waiting = pending(trouble.clone());
        }
        // One that was made late by an operator before may have altered the keyspace since.
        Some((job, JobOutcome::Succeeded)) if may_start && !others.is_empty() => {
            step.delete.extend(to_delete(&wanted, job));
            step.waiting = pending(None);
        }
        Some((_, JobOutcome::Succeeded)) => {
            step.job = true;
            step.done = true;
            step.may_serve = true;
            step.proven = templates::wanted_store(cluster);
        }
        Some((job, JobOutcome::Failed { at, message })) => {
            if now.duration_since(*at).unsigned_abs() >= SCHEMA_RETRY {
                step.delete.extend(to_delete(&wanted, job));
            }
            step.waiting = pending(None);
            step.problem = Some(SchemaFailed {
                job: wanted.clone(),
                message: message.clone(),
            });
        }
    }
    step
}

fn to_delete(name: &str, job: &JobSeen) -> Option<JobToDelete> {
    let delete = JobToDelete {
        name: name.to_owned(),
        uid: job.uid.clone(),
    };
    (job.outcome != JobOutcome::Going).then_some(delete)
}

#[cfg(test)]
mod tests;
