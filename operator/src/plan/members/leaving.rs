//! Decides whether a pod may go: when it holds nothing, that is, no slot according to itself and to the ring, and no
//! change that is not in the database. Unknown does not count as nothing.

use super::{
    action::{MemberAction, Next},
    moving,
    view::{Pod, View},
};
use crate::{
    plan::WaitingOn,
    world::{Member, Seen},
};

/// What is known of what a pod holds.
pub(super) enum Holds<'a> {
    /// Nothing, proven.
    Nothing,
    /// Slots perhaps, and it was not asked to hand them on yet.
    Undrained(&'a Member),
    /// It is handing on, or it cannot be known.
    Waits(WaitingOn),
}

/// What `pod` holds.
pub(super) fn holds<'a>(view: &View<'_>, pod: &Pod<'a>) -> Holds<'a> {
    let name = pod.name().to_owned();
    let under_name = view.owned_under(&name);
    match pod.says {
        // No process: what one had in memory is gone. The others will soon take the owner of its slots for dead.
        None if under_name == 0 => Holds::Nothing,
        None => Holds::Waits(WaitingOn::Takeover {
            member: name,
            slots: under_name,
        }),
        // Never ready and never an owner: it has acknowledged nothing.
        Some(Seen::Unknown(_)) if !pod.seen.ready && under_name == 0 => Holds::Nothing,
        Some(Seen::Unknown(why)) => Holds::Waits(WaitingOn::Unproven {
            member: name,
            why: why.clone(),
        }),
        Some(Seen::Known(member)) if !member.ownership.draining && !member.ownership.gone => {
            Holds::Undrained(member)
        }
        Some(Seen::Known(member)) => drained(view, pod, member),
    }
}

fn drained<'a>(view: &View<'_>, pod: &Pod<'_>, member: &Member) -> Holds<'a> {
    let by_ring = view.owned_by(member.incarnation);
    let owned = usize::from(member.ownership.owned).max(by_ring);
    let member_name = pod.name().to_owned();
    if owned == 0 && member.dirty == 0 && !member.in_flight() {
        return Holds::Nothing;
    }
    if owned == 0
        && let Some(problem) = &member.store_problem
    {
        return Holds::Waits(WaitingOn::StoreBeforeStop {
            member: member_name,
            dirty: member.dirty,
            problem: problem.clone(),
        });
    }
    Holds::Waits(WaitingOn::Draining {
        member: member_name,
        owned,
        dirty: member.dirty,
    })
}

/// Asks `pod` to hand on what it owns, if another pod can take it and nothing else moves.
pub(super) fn drain(view: &View<'_>, pod: &Pod<'_>, member: &Member) -> Next {
    let takers = view
        .wanted()
        .any(|other| other.ordinal != pod.ordinal && other.takes_slots());
    if !takers {
        return alone(view, pod, member);
    }
    // One that serves and will come back goes only while all others serve; one that is not wanted any
    // more waits only for those that may still come.
    let comes_back = pod.ordinal < view.cluster.replicas;
    let enough = view.others_ready(pod.ordinal) || !(comes_back || view.may_come());
    if pod.seen.ready && !enough {
        return Next::Wait(view.not_ready(view.cluster.replicas));
    }
    if let Some(moving) = moving::waiting(view) {
        return Next::Wait(moving);
    }
    if let Some(next) = cold(view, pod, member) {
        return next;
    }
    let action = MemberAction::Drain {
        pod: pod.reference(),
        incarnation: member.incarnation.to_string(),
    };
    let waiting = WaitingOn::Draining {
        member: pod.name().to_owned(),
        owned: view.owned_by(member.incarnation),
        dirty: member.dirty,
    };
    Next::Do(action, waiting)
}

/// A pod of the previous release, while one of this release may take slots: pods of one release take nothing from those
/// of the other, and we cannot tell which one it would ask. It writes what it holds and is told to stop, which makes it
/// write the rest; then the pods that are there take its slots. `None`: it drains like any other.
pub(super) fn cold(view: &View<'_>, pod: &Pod<'_>, member: &Member) -> Option<Next> {
    let newer = |other: &&Pod<'_>| other.takes_slots() && other.seen.mutual_tls;
    if pod.seen.mutual_tls || pod.seen.terminating || !view.pods.values().any(|p| newer(&p)) {
        return None;
    }
    let problem = member.store_problem.clone();
    if let Some(problem) = problem.filter(|_| member.dirty > 0) {
        return Some(Next::Wait(WaitingOn::StoreBeforeStop {
            member: pod.name().to_owned(),
            dirty: member.dirty,
            problem,
        }));
    }
    let waiting = WaitingOn::DrainingCold {
        member: pod.name().to_owned(),
        owned: view.owned_by(member.incarnation),
        dirty: member.dirty,
    };
    let action = MemberAction::FlushAndDelete {
        pod: pod.reference(),
    };
    Some(Next::Do(action, waiting))
}

/// A pod whose slots no other pod can take: it writes what it holds, and takes the slots again when it comes back.
/// While other pods exist or are wanted, they are waited for.
fn alone(view: &View<'_>, pod: &Pod<'_>, member: &Member) -> Next {
    if view.current > 1 || view.cluster.replicas > 1 {
        return Next::Wait(view.not_ready(view.cluster.replicas));
    }
    if let Some(problem) = member.store_problem.clone().filter(|_| member.dirty > 0) {
        return Next::Wait(WaitingOn::StoreBeforeStop {
            member: pod.name().to_owned(),
            dirty: member.dirty,
            problem,
        });
    }
    let action = MemberAction::FlushAndDelete {
        pod: pod.reference(),
    };
    let waiting = WaitingOn::Draining {
        member: pod.name().to_owned(),
        owned: view.owned_by(member.incarnation),
        dirty: member.dirty,
    };
    Next::Do(action, waiting)
}
