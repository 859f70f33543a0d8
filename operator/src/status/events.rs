//! Events on transitions: one when a condition changes its status, or degrades for another reason,
//! one when something else is waited for, or for another pod, one for each step of a database node, and one each time
//! slots were taken over. Their reasons are those of the conditions.

use kube::{
    Resource,
    runtime::events::{Event, EventType, Recorder},
};
use readstates_operator_api::{
    ReadStateCluster, ReadStateClusterStatus, conditions::ConditionType,
};

use super::{event::event, internode_tls, nodes, replication, super_disks, upgrade};
use crate::context::Context;

/// Publishes what is new in `after`. An event that cannot be published is logged: the status has been
/// written, and says the same.
pub(super) async fn publish(
    ctx: &Context,
    cluster: &ReadStateCluster,
    after: &ReadStateClusterStatus,
) {
    send(ctx, cluster, &news(cluster.status.as_ref(), after)).await;
}

pub(super) async fn send(ctx: &Context, cluster: &ReadStateCluster, events: &[Event]) {
    // One recorder for all would count an event again under the words of its first time.
    let recorder = Recorder::new(ctx.client.clone(), ctx.reporter.clone());
    for event in events {
        if let Err(error) = recorder.publish(event, &cluster.object_ref(&())).await {
            tracing::warn!(%error, reason = event.reason, "failed to publish an event");
        }
    }
}

/// The events that lead from one status to the next.
pub(super) fn news(
    before: Option<&ReadStateClusterStatus>,
    after: &ReadStateClusterStatus,
) -> Vec<Event> {
    let mut events = super_disks::news(before, after);
    events.extend(nodes::news(before, after));
    events.extend(upgrade::news(before, after));
    events.extend(replication::news(before, after));
    events.extend(internode_tls::news(before, after));
    for condition in &after.conditions {
        if condition.type_ == ConditionType::SuperDisksHealthy.as_str() {
            // Each super-disk has events of its own.
            continue;
        }
        if condition.type_ == ConditionType::TakenOver.as_str() {
            // Told each time the number grows, and not when it is forgotten.
            if newly_taken_over(before, after).is_some() {
                events.push(event(
                    EventType::Warning,
                    &condition.reason,
                    &condition.type_,
                    &condition.message,
                ));
            }
            continue;
        }
        if condition.type_ == ConditionType::RollingOut.as_str() {
            // What is waited for tells of each step of it.
            continue;
        }
        let old = before.and_then(|b| b.conditions.iter().find(|c| c.type_ == condition.type_));
        let degraded = condition.type_ == ConditionType::Degraded.as_str();
        let on = condition.status == "True";
        let changed = match old {
            Some(old) if degraded && on => old.status != "True" || old.reason != condition.reason,
            Some(old) => old.status != condition.status,
            // The first status: only what is remarkable.
            None => degraded && on,
        };
        // What cannot be told is no news: what made it so has an event of its own.
        let changed = changed && condition.status != "Unknown";
        // So has what is waited for.
        if changed && condition.type_ != ConditionType::Progressing.as_str() {
            let type_ = if on == degraded {
                EventType::Warning
            } else {
                EventType::Normal
            };
            events.push(event(
                type_,
                &condition.reason,
                &condition.type_,
                &condition.message,
            ));
        }
    }
    if let Some(waiting) = &after.waiting_on {
        let old = before.and_then(|b| b.waiting_on.as_ref());
        let other = old.is_none_or(|o| o.reason != waiting.reason || o.pod != waiting.pod);
        // What a node does has events of its own.
        if other && !nodes::tells(&waiting.reason) {
            events.push(event(
                EventType::Normal,
                &waiting.reason,
                "Wait",
                &waiting.message,
            ));
        }
    }
    events
}

/// How many slots more than before were taken over from the dead, by whichever process.
pub(super) fn newly_taken_over(
    before: Option<&ReadStateClusterStatus>,
    after: &ReadStateClusterStatus,
) -> Option<u64> {
    let before = before.map_or(&[][..], |before| &before.takeovers);
    let more = after.takeovers.iter().map(|now| {
        let then = before.iter().find(|then| then.process == now.process);
        now.slots - then.map_or(0, |then| then.slots)
    });
    u64::try_from(more.sum::<i64>())
        .ok()
        .filter(|more| *more > 0)
}
