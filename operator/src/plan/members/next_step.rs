//! Decides which pod goes next, if any, and otherwise whether slots are to be spread.

use super::{
    action::{MemberAction, Next},
    leaving::{self, Holds},
    spread,
    view::{Pod, View},
};
use crate::{
    plan::WaitingOn,
    world::{Growth, Member},
};

/// Decides. The order is: let what was begun end; fewer pods; pods that are not ready and have another
/// template; slots; capacity, and memory for it; pods that serve and have another template.
pub(super) fn next(view: &View<'_>) -> Next {
    if !view.observed() {
        return Next::Wait(view.not_ready(view.cluster.replicas));
    }
    if let Some(pod) = view.stopping().first() {
        return Next::Wait(stopping(view, pod));
    }
    if let Some(next) = begun(view) {
        return next;
    }
    let replaced = |pod: &&Pod<'_>| !pod.seen.terminating && (pod.draining() || view.outdated(pod));
    let to_replace = || view.wanted().filter(replaced);
    if let Some(pod) = to_replace().find(|pod| pod.draining()) {
        return replace(view, pod);
    }
    if view.current > view.cluster.replicas {
        return fewer(view);
    }
    if let Some(pod) = to_replace().find(|pod| !pod.seen.ready) {
        return replace(view, pod);
    }
    if let Some(next) = spread::next(view) {
        return next;
    }
    if let Some((pod, member)) = view.other_capacity() {
        return capacity(view, pod, member);
    }
    if let Some(next) = memory(view) {
        return next;
    }
    let restart = to_replace().max_by_key(|pod| pod.ordinal);
    let waits = restart.and_then(|pod| view.restart_waits(pod));
    if let Some(pod) = restart.filter(|_| waits.is_none()) {
        return replace(view, pod);
    }
    if !view.others_ready(view.cluster.replicas) {
        return Next::Wait(view.not_ready(view.cluster.replicas));
    }
    waits.map_or(Next::Nothing, Next::Wait)
}

/// What a process can be told, it is not replaced for.
fn capacity(view: &View<'_>, pod: &Pod<'_>, member: &Member) -> Next {
    let to = view.cluster.cache.capacity_states;
    let action = MemberAction::Capacity {
        pod: pod.reference(),
        states: u64::try_from(to).unwrap_or_default(),
    };
    let waiting = WaitingOn::Capacity {
        member: pod.name().to_owned(),
        from: member.capacity,
        to,
    };
    Next::Do(action, waiting)
}

/// Memory that a pod can get while it runs, it is not replaced for. Nothing stops for it, so no window is waited for.
fn memory(view: &View<'_>) -> Option<Next> {
    let waiting = |pod: &Pod<'_>, memory, words: Option<&String>| WaitingOn::Memory {
        pod: pod.name().to_owned(),
        memory,
        words: words.cloned(),
    };
    let possible = |(_, how, _): &(&Pod<'_>, &Growth, u64)| **how == Growth::Possible;
    if let Some((pod, _, memory)) = view.growing().find(possible) {
        let action = MemberAction::Grow {
            pod: pod.reference(),
            memory,
        };
        return Some(Next::Do(action, waiting(pod, memory, None)));
    }
    let (pod, how, memory) = view.growing().next()?;
    let words = match how {
        Growth::Possible => None,
        Growth::Asked { since: _, words } => words.as_ref(),
        Growth::NotNow(why) | Growth::Refused(why) => Some(why),
    };
    Some(Next::Wait(waiting(pod, memory, words)))
}

/// A pod that was told to go drains by itself.
fn stopping(view: &View<'_>, pod: &Pod<'_>) -> WaitingOn {
    match pod.member() {
        Some(member) => WaitingOn::Draining {
            member: pod.name().to_owned(),
            owned: view.owned_by(member.incarnation),
            dirty: member.dirty,
        },
        None => WaitingOn::CacheStopped {
            pods: view
                .stopping()
                .iter()
                .map(|p| p.name().to_owned())
                .collect(),
        },
    }
}

/// A drain that is under way, whatever is wanted by now: it cannot be taken back, and two at once would
/// leave few to take.
fn begun(view: &View<'_>) -> Option<Next> {
    let draining = view.pods.values().filter(|pod| pod.draining());
    draining
        .map(|pod| (pod, leaving::holds(view, pod)))
        .find_map(|(pod, holds)| match holds {
            Holds::Waits(waiting) => {
                // With no taker for its slots it would drain for ever.
                let cold = pod.member().and_then(|m| leaving::cold(view, pod, m));
                Some(cold.unwrap_or(Next::Wait(waiting)))
            }
            Holds::Nothing | Holds::Undrained(_) => None,
        })
}

/// The highest ordinal goes, since it is the one that lower replicas take away.
fn fewer(view: &View<'_>) -> Next {
    let top = view.current - 1;
    let name = format!("{}-{top}", view.cluster.id.cache());
    let Some(pod) = view.pods.get(&top) else {
        return match view.owned_under(&name) {
            0 => Next::Lower,
            slots => Next::Wait(WaitingOn::Takeover {
                member: name,
                slots,
            }),
        };
    };
    match leaving::holds(view, pod) {
        Holds::Nothing => Next::Lower,
        Holds::Undrained(member) => leaving::drain(view, pod, member),
        Holds::Waits(waiting) => Next::Wait(waiting),
    }
}

/// The pod goes, and its StatefulSet makes another from the template of now. Without a process
/// there is nothing to wait for: the next one cannot come before this pod is gone.
fn replace(view: &View<'_>, pod: &Pod<'_>) -> Next {
    let delete = || {
        let action = MemberAction::Delete {
            pod: pod.reference(),
        };
        Next::Do(action, view.not_ready(view.cluster.replicas))
    };
    if pod.says.is_none() {
        return delete();
    }
    match leaving::holds(view, pod) {
        Holds::Nothing => delete(),
        Holds::Undrained(member) => leaving::drain(view, pod, member),
        Holds::Waits(waiting) => Next::Wait(waiting),
    }
}
