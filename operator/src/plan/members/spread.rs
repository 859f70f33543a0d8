//! Chooses slots to move so that every member has its share: a batch at a time, between two members, as few as
//! possible.

use readstates_api::admin::{MAX_MOVED_SLOTS, MoveDestination, MovedSlot, MovesRequest};
use readstates_ring::{
    Incarnation,
    moves::{self, Live, Move},
    planner::Candidate,
};

use super::{
    action::{MemberAction, Next},
    moving,
    view::{Pod, View},
};
use crate::{names::ports, plan::WaitingOn, spec::ValidatedCluster, templates};

/// The next batch, or what it waits for; `None` when every member that takes slots has its share.
pub(super) fn next(view: &View<'_>) -> Option<Next> {
    if view.may_come() {
        return Some(Next::Wait(view.not_ready(view.cluster.replicas)));
    }
    if let Some(waiting) = unsettled(view).or_else(|| moving::waiting(view)) {
        return Some(Next::Wait(waiting));
    }
    let (batch, from, to) = batch(view)?;
    if from.seen.mutual_tls != to.seen.mutual_tls {
        // Pods of the release before neither take from those of this one nor give: first they are replaced.
        return None;
    }
    let owner = from.member()?;
    let request = MovesRequest {
        destination: destination(view.cluster, to)?,
        slots: slots(&batch),
    };
    let waiting = WaitingOn::Moving {
        moves: format!(
            "{} of {} slots are to move from {} to {}",
            batch.slots.len(),
            view.owned_by(owner.incarnation),
            from.name(),
            to.name()
        ),
    };
    let action = MemberAction::Move {
        pod: from.reference(),
        request,
    };
    Some(Next::Do(action, waiting))
}

/// Slots that members have yet to take: those that never had an owner, and those of processes that are gone.
fn unsettled(view: &View<'_>) -> Option<WaitingOn> {
    let unowned = view.unowned();
    if unowned > 0 {
        return Some(WaitingOn::Unowned { slots: unowned });
    }
    let lives = |incarnation: Incarnation, name: &str| {
        let same = |pod: &Pod<'_>| {
            let unknown = pod.says.is_some() && pod.member().is_none() && pod.name() == name;
            unknown || pod.member().is_some_and(|m| m.incarnation == incarnation)
        };
        view.pods.values().any(same)
    };
    let members = view.table.members().iter();
    members
        .filter(|member| !lives(member.incarnation(), member.name()))
        .map(|member| WaitingOn::Takeover {
            member: member.name().to_owned(),
            slots: view.owned_by(member.incarnation()),
        })
        .next()
}

/// The next batch with the pods of its ends.
pub(super) fn batch<'v, 'a>(view: &'v View<'a>) -> Option<(Move, &'v Pod<'a>, &'v Pod<'a>)> {
    let takers: Vec<_> = view.wanted().filter(|pod| pod.takes_slots()).collect();
    let live: Vec<_> = takers
        .iter()
        .filter_map(|pod| {
            Some(Live {
                incarnation: pod.member()?.incarnation,
                candidate: Candidate {
                    name: pod.name().to_owned(),
                    ordinal: u16::try_from(pod.ordinal).ok(),
                    zone: pod.seen.zone.clone(),
                },
            })
        })
        .collect();
    let batch = moves::next_batch(view.table, &live, MAX_MOVED_SLOTS)?;
    let pod_of = |incarnation: Incarnation| {
        let is = |pod: &&&Pod<'_>| pod.member().is_some_and(|m| m.incarnation == incarnation);
        takers.iter().find(is).copied()
    };
    let (from, to) = (pod_of(batch.from)?, pod_of(batch.to)?);
    Some((batch, from, to))
}

fn destination(cluster: &ValidatedCluster, pod: &Pod<'_>) -> Option<MoveDestination> {
    let id = &cluster.id;
    let host = id.pod_host(&id.cache(), pod.ordinal, &id.cache_members());
    Some(MoveDestination {
        name: pod.name().to_owned(),
        incarnation: pod.member()?.incarnation.to_string(),
        url: format!("{}://{host}:{}", templates::scheme(cluster), ports::HTTP),
        zone: pod.seen.zone.clone(),
    })
}

fn slots(batch: &Move) -> Vec<MovedSlot> {
    let moved = batch.slots.iter().map(|&(slot, epoch)| MovedSlot {
        slot: slot.number(),
        epoch: epoch.number(),
    });
    moved.collect()
}
