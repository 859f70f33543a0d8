//! The conditions, each from what it is about.

use readstates_operator_api::{
    conditions::{
        Condition,
        ConditionStatus::{self, False, True, Unknown},
        ConditionType, Reason,
    },
    labels,
};
use readstates_ring::SLOTS;

use super::{
    Decided, Report, access, backups, certificates, reason_and_words, repairs, restore, stopped,
    super_disks, takeovers,
};
use crate::{
    apply::{Blocked, Refusal},
    plan::{RingState, RolloutStep, WaitingOn, ring_state, served},
    spec::{Store, ValidatedCluster},
    world::{JobOutcome, RingSeen, Seen, World},
};

pub(super) fn conditions(report: &Report<'_>) -> Vec<Condition> {
    let cluster = report.spec.as_ref().ok().map(|d| d.cluster);
    let has_super_disks = cluster.is_some_and(has_super_disks);
    let super_disks = has_super_disks.then(|| super_disks::condition(report.world));
    let decided = report.spec.as_ref().ok();
    let repaired = decided.and_then(|d| repairs::condition(d, report.world, report.now));
    let mut conditions: Vec<_> = [
        available(report.world),
        progressing(report),
        degraded(report).unwrap_or_else(|| {
            Condition::new(
                ConditionType::Degraded,
                False,
                Reason::AsExpected,
                "nothing is wrong",
            )
        }),
        cluster.map_or_else(
            || unseen(ConditionType::CacheReady),
            |c| cache(c, report.world),
        ),
        cluster.map_or_else(
            || unseen(ConditionType::DatabaseReady),
            |c| database(c, report.world),
        ),
        cluster.map_or_else(|| unseen(ConditionType::RingStable), |c| ring(c, report)),
        report
            .spec
            .as_ref()
            .map_or_else(|_| unseen(ConditionType::RequiresUpdate), requires_update),
        report
            .spec
            .as_ref()
            .map_or_else(|_| unseen(ConditionType::RollingOut), rolling_out),
        takeovers::condition(takeovers::entries(report).as_deref()),
        report
            .spec
            .as_ref()
            .map_or_else(|_| unseen(ConditionType::ApiOpen), access::api_open),
        certificates::expiring(report.world, report.now),
    ]
    .into_iter()
    .chain(cluster.and_then(|c| backups::condition(c, report.world)))
    .chain(super_disks)
    .chain(repaired)
    .chain(restore::condition(report))
    .collect();
    if report.ending.is_none() {
        stopped::tell(&mut conditions, report);
    }
    conditions
}

fn has_super_disks(cluster: &ValidatedCluster) -> bool {
    match &cluster.store {
        Store::Managed(database) => database.super_disk.is_some(),
        Store::External(_) | Store::Embedded(_) => false,
    }
}

/// An operator that would make pods differently does not restart them by itself.
fn requires_update(decided: &Decided<'_>) -> Condition {
    let of = |status, reason, message: String| {
        Condition::new(ConditionType::RequiresUpdate, status, reason, message)
    };
    let database = decided.plan.database.update.as_ref().map(|name| {
        format!(
            "this operator would change the database pods; they are restarted one by one once the annotation \
             {}={name} is set",
            labels::UPDATE_DATABASE
        )
    });
    let cache = decided.plan.cache.as_ref().and_then(|c| c.update.as_ref());
    let cache = cache.map(|name| {
        format!(
            "this operator would change the cache pods; they are replaced one by one, each when it has handed on what \
             it owns, once the annotation {}={name} is set",
            labels::UPDATE_CACHE
        )
    });
    let words: Vec<_> = database.into_iter().chain(cache).collect();
    if words.is_empty() {
        let message = "the database pods and cache pods are as this operator makes them";
        return of(False, Reason::UpToDate, message.to_owned());
    }
    of(True, Reason::UpdateAvailable, words.join("; "))
}

/// Whether it counts among the clusters that restart pods: what `Rollouts` counts them by.
fn rolling_out(decided: &Decided<'_>) -> Condition {
    let (status, reason, message) = match &decided.plan.rollout {
        // Others would wait for a place that this one may not use for long.
        RolloutStep::Takes if decided.done.failed.is_some() => (
            False,
            Reason::AsExpected,
            "no serving pod is being restarted",
        ),
        RolloutStep::Idle => (
            False,
            Reason::AsExpected,
            "no serving pod is being restarted",
        ),
        RolloutStep::Waits { words } => (False, Reason::WaitsForOtherClusters, words.as_str()),
        RolloutStep::Takes | RolloutStep::Goes => (
            True,
            Reason::RestartingPods,
            "serving pods are restarted, one after another",
        ),
    };
    Condition::new(ConditionType::RollingOut, status, reason, message)
}

fn unseen(type_: ConditionType) -> Condition {
    Condition::new(
        type_,
        Unknown,
        Reason::InvalidSpec,
        "the spec is invalid, see Degraded",
    )
}

/// Each owner answers for its slots, so one that is not ready is a share of users that is not served:
/// available needs all of them.
fn available(world: &World) -> Condition {
    let served = served(world);
    let all = served == usize::from(SLOTS);
    let reason = if all {
        Reason::Serving
    } else {
        Reason::NotServing
    };
    let message = format!("{served} of {SLOTS} slots of users are served");
    Condition::new(ConditionType::Available, all.into(), reason, message)
}

fn progressing(report: &Report<'_>) -> Condition {
    let of = |status, reason, message: String| {
        Condition::new(ConditionType::Progressing, status, reason, message)
    };
    if let Some(waiting) = report.ending {
        let (reason, message) = reason_and_words(waiting);
        return of(True, reason, message);
    }
    let decided = match &report.spec {
        Ok(decided) => decided,
        Err(invalid) => return of(False, Reason::InvalidSpec, invalid.to_string()),
    };
    if decided.cluster.paused {
        let message = "spec.paused is true: nothing is changed and nothing put back; certificates of running \
                       processes are renewed";
        return of(False, Reason::Paused, message.to_owned());
    }
    match (decided.waiting(), blocked(decided)) {
        (_, Some((reason, message))) => of(False, reason, message),
        (Some(waiting), None) => {
            let (reason, message) = reason_and_words(&waiting);
            of(True, reason, message)
        }
        (None, None) => of(
            False,
            Reason::Reconciled,
            "everything is as the spec says".to_owned(),
        ),
    }
}

/// What a person has to cure; `None` when there is nothing.
pub(super) fn degraded(report: &Report<'_>) -> Option<Condition> {
    let (reason, message) = match &report.spec {
        Err(invalid) => (Reason::InvalidSpec, invalid.to_string()),
        Ok(decided) => blocked(decided)
            .or_else(|| certificates_trouble(decided))
            .or_else(|| database_trouble(decided))
            .or_else(|| super_disks::trouble(report.world))
            .or_else(|| schema_failed(decided))
            .or_else(|| restore::trouble(decided))
            .or_else(|| store_unhealthy(report.world))
            .or_else(|| clock_skew(report.world))
            .or_else(|| access::trouble(decided))?,
    };
    Some(Condition::new(
        ConditionType::Degraded,
        True,
        reason,
        message,
    ))
}

/// Every object that could not be written, by the reason of the first one.
fn blocked(decided: &Decided<'_>) -> Option<(Reason, String)> {
    let said = |refusal: &Refusal| match &refusal.why {
        Blocked::Leftover { .. } => None,
        Blocked::Conflict { object, owner } => {
            let message = decided.cluster.id.conflict(object, owner.as_deref());
            Some((Reason::NameConflict, message))
        }
        Blocked::Rejected { object, message } => Some((
            Reason::ApplyRejected,
            format!("the API server refused {object}: {message}"),
        )),
    };
    let mut all = decided.done.applied.refusals().iter().filter_map(said);
    let (reason, first) = all.next()?;
    let words = all.fold(first, |words, (_, next)| format!("{words}; {next}"));
    Some((reason, words))
}

/// Certificates that a person has to put right. One that is still to be made is only waited for.
fn certificates_trouble(decided: &Decided<'_>) -> Option<(Reason, String)> {
    match &decided.plan.waiting {
        Some(
            wait @ (WaitingOn::CertificateUsable { .. }
            | WaitingOn::CertManager { .. }
            | WaitingOn::IdentityTaken { .. }
            | WaitingOn::Clock { .. }),
        ) => Some((wait.reason(), wait.to_string())),
        _ => None,
    }
}

fn database_trouble(decided: &Decided<'_>) -> Option<(Reason, String)> {
    let planned = decided.plan.database.trouble.as_ref();
    let trouble = planned.or(decided.done.trouble.as_ref())?;
    Some((trouble.reason(), trouble.to_string()))
}

fn schema_failed(decided: &Decided<'_>) -> Option<(Reason, String)> {
    let failed = decided.plan.problem.as_ref()?;
    Some((
        Reason::SchemaFailed,
        format!("Job {} failed: {}", failed.job, failed.message),
    ))
}

fn store_unhealthy(world: &World) -> Option<(Reason, String)> {
    world.members.iter().find_map(|(name, seen)| match seen {
        Seen::Known(member) => {
            let problem = member.store_problem.as_ref()?;
            Some((
                Reason::StoreUnhealthy,
                format!("{name} cannot use the database: {problem}"),
            ))
        }
        Seen::Unknown(_) => None,
    })
}

/// Cache pods on machines whose clocks nothing confirms: they take no slots.
fn clock_skew(world: &World) -> Option<(Reason, String)> {
    let wrong = world.members.iter().filter_map(|(name, seen)| match seen {
        Seen::Known(member) => {
            let ahead = member.ownership.clock_ahead_seconds?;
            let (seconds, way) = (ahead.unsigned_abs(), ["ahead", "behind"]);
            Some(format!(
                "{name} is {seconds} s {}",
                way[usize::from(ahead < 0)]
            ))
        }
        Seen::Unknown(_) => None,
    });
    let wrong: Vec<String> = wrong.collect();
    (!wrong.is_empty()).then(|| {
        let message = format!(
            "the clock of the machine of {} of the other cache pods' clocks and the API server's: it takes no slots \
             until the machine's clock is set (NTP)",
            wrong.join(", of ")
        );
        (Reason::ClockSkew, message)
    })
}

fn cache(cluster: &ValidatedCluster, world: &World) -> Condition {
    let ready = world.cache.as_ref().map_or(0, |c| c.ready);
    let all = ready == cluster.replicas
        && world
            .cache
            .as_ref()
            .is_some_and(|c| c.observed && c.replicas == cluster.replicas);
    let reason = if all {
        Reason::AllReady
    } else {
        Reason::CacheNotReady
    };
    let message = format!(
        "{ready} cache pods are ready, {} are wanted",
        cluster.replicas
    );
    Condition::new(ConditionType::CacheReady, all.into(), reason, message)
}

fn database(cluster: &ValidatedCluster, world: &World) -> Condition {
    let of = |status: ConditionStatus, reason, message: String| {
        Condition::new(ConditionType::DatabaseReady, status, reason, message)
    };
    // Cache pods, and so a ring, exist only once there was a schema.
    let schema_done = world.ring != RingSeen::Absent
        || world.schema.is_some()
        || world
            .jobs
            .values()
            .any(|job| matches!(job.outcome, JobOutcome::Succeeded));
    let no_schema = || {
        of(
            False,
            Reason::SchemaPending,
            "keyspace and table are not there yet".to_owned(),
        )
    };
    match &cluster.store {
        Store::Embedded(_) => of(
            True,
            Reason::Embedded,
            "the cache pod's own volume".to_owned(),
        ),
        Store::External(_) if !schema_done => no_schema(),
        Store::External(_) => match store_unhealthy(world) {
            Some((reason, message)) => of(False, reason, message),
            None => of(
                True,
                Reason::External,
                "keyspace and table are there".to_owned(),
            ),
        },
        Store::Managed(database) => {
            let unready = database.racks.iter().find_map(|rack| {
                let seen = world.racks.get(&rack.name);
                let ready = seen.map_or(0, |s| s.ready);
                (ready < rack.members || !seen.is_some_and(|s| s.settled)).then(|| {
                    WaitingOn::Rack {
                        rack: rack.name.clone(),
                        ready,
                        members: rack.members,
                        trouble: None,
                    }
                })
            });
            match unready {
                Some(rack) => of(False, rack.reason(), rack.to_string()),
                None if !schema_done => no_schema(),
                None => of(True, Reason::AllReady, "all members are ready".to_owned()),
            }
        }
    }
}

fn ring(cluster: &ValidatedCluster, report: &Report<'_>) -> Condition {
    let state = ring_state(cluster, report.world, report.now);
    let (status, reason) = match &state {
        RingState::Stable { .. } => (True, Reason::Stable),
        RingState::Changing(reason, _) => (False, *reason),
        RingState::Unknown(_) => (Unknown, Reason::NotObserved),
    };
    Condition::new(ConditionType::RingStable, status, reason, state.to_string())
}
