//! Changed pods: one at a time over all racks, the next one only when all nodes see each other up. What an
//! operator of another version would change waits until somebody consents; and a change may cure what an
//! earlier one has broken.

use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use super::{
    DatabaseWait, Named, NodesStep, Sight, Template, as_wanted, health, on_its_way, outdated,
    super_disks,
};
use crate::{
    build,
    observe::{PodSeen, StatefulSetSeen},
    validate::Rack,
};

pub(super) struct Roll {
    pub(super) template: Template,
    pub(super) partition: i32,
    /// Whether nothing of it is left to do.
    pub(super) complete: bool,
    pub(super) waiting: Option<DatabaseWait>,
}

pub(super) fn decide(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    rack: &Rack,
    seen: &StatefulSetSeen,
    turns: &mut Turns,
) -> Roll {
    let held = |complete, waiting| Roll {
        template: Template::as_seen(seen),
        partition: seen.partition,
        complete,
        waiting,
    };
    if sight.cluster.lacks_certificates() {
        // What pods would be given is not known: they stay as they are.
        return held(false, None);
    }
    if as_wanted(sight, rack, seen) {
        return go_on(sight, nodes, rack, seen, turns);
    }
    // The user's wish is the same: it is the operator that is another one.
    let ours = seen
        .spec_hash
        .as_ref()
        .is_none_or(|s| *s == sight.database.spec_hash);
    let name = build::update_name(sight.cluster, sight.database);
    if ours && sight.world.consent.update.as_ref() != Some(&name) {
        nodes.update = Some(name);
        return held(true, None);
    }
    let top = (seen.replicas - 1).max(0);
    let next = sight.name(rack, top);
    let rolling = |why| DatabaseWait::Rolling {
        pod: next.clone(),
        why,
    };
    let started = |partition| Roll {
        template: Template::Wanted,
        partition,
        complete: false,
        waiting: Some(rolling(None)),
    };
    match turns.may_take(sight, nodes) {
        Ok(()) if turns.all_before => {
            turns.taken = true;
            started(top)
        }
        Ok(()) => held(
            false,
            Some(rolling(Some("an earlier rack is not ready".to_owned()))),
        ),
        Err(why) => match only_broken(sight, nodes, rack) {
            Some((ordinal, _)) => {
                turns.taken = true;
                started(ordinal.min(top))
            }
            None => held(false, Some(rolling(Some(why)))),
        },
    }
}

/// The template is the wanted one: on to the next pod that is not.
fn go_on(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    rack: &Rack,
    seen: &StatefulSetSeen,
    turns: &mut Turns,
) -> Roll {
    let stay = |partition, waiting: Option<DatabaseWait>| Roll {
        template: Template::Wanted,
        partition,
        complete: waiting.is_none(),
        waiting,
    };
    if !seen.observed {
        // Which revision is the current one is not known yet.
        let pod = sight.name(rack, (seen.replicas - 1).max(0));
        return stay(
            seen.partition,
            Some(DatabaseWait::Rolling { pod, why: None }),
        );
    }
    let next = sight
        .pods_of(rack)
        .filter(|(_, pod)| outdated(pod, seen))
        .last();
    let Some((ordinal, pod)) = next else {
        return stay(rest(seen), None);
    };
    if let Some((broken, pod)) = only_broken(sight, nodes, rack)
        && outdated(pod, seen)
        && broken >= seen.partition
        && let Some(uid) = pod.uid.clone()
    {
        // The StatefulSet's controller waits for a broken pod to become ready before it gives it the template
        // that would make it so.
        nodes.pods_to_delete.push(Named {
            name: pod.name.clone(),
            uid,
        });
    }
    let allowed = ordinal >= seen.partition;
    let why = turns.may_take(sight, nodes).err();
    turns.taken = true;
    let partition = if why.is_none() {
        ordinal
    } else {
        seen.partition
    };
    let waiting = DatabaseWait::Rolling {
        pod: pod.name.clone(),
        why: why.filter(|_| !allowed),
    };
    stay(partition, Some(waiting))
}

/// The partition of a rack where nothing is to be restarted: above all pods, so that a template that somebody else has
/// changed (`kubectl rollout restart`) reaches none of them before it is their turn. Not before the last update is
/// complete: a pod that was made anew would get the template before it.
fn rest(seen: &StatefulSetSeen) -> i32 {
    if seen.revised { seen.replicas } else { 0 }
}

/// Whose turn it is to be restarted, over all racks.
pub(super) struct Turns {
    /// Whether every rack before this one is as wanted.
    pub(super) all_before: bool,
    /// Whether this round's turn has been given.
    pub(super) taken: bool,
}

impl Turns {
    /// Whether one more pod may be restarted.
    fn may_take(&self, sight: &Sight<'_>, nodes: &NodesStep) -> Result<(), String> {
        if self.taken {
            return Err("another rack has its turn".to_owned());
        }
        may_turn(sight, nodes)
    }
}

fn may_turn(sight: &Sight<'_>, nodes: &NodesStep) -> Result<(), String> {
    if !sight.no_pod_turns() {
        return Err("a pod is being restarted".to_owned());
    }
    if let Some(record) = moves(sight, nodes) {
        return Err(format!("{} is on its way in or out", record.name));
    }
    health::check(sight, &nodes.records, None)?;
    if let Some(pod) = unready(sight).next() {
        return Err(format!("{} is not ready", pod.name));
    }
    if let Some((pod, judged)) = super_disks::at_risk(sight).next() {
        return Err(format!("the super-disk of {pod}: {}", judged.message));
    }
    Ok(())
}

/// The node that is on its way, or was by the record: an operator that finds that one may send it on.
fn moves<'a>(sight: &'a Sight<'_>, nodes: &'a NodesStep) -> Option<&'a DatabaseNode> {
    on_its_way(&nodes.records).or_else(|| on_its_way(&sight.world.records))
}

fn unready<'a>(sight: &Sight<'a>) -> impl Iterator<Item = &'a PodSeen> {
    sight.world.database_pods.iter().filter(|p| !p.ready)
}

/// The one pod of the database that is not ready, if it is in this rack and everybody else is well: to restart
/// it costs nothing.
fn only_broken<'a>(
    sight: &Sight<'a>,
    nodes: &NodesStep,
    rack: &Rack,
) -> Option<(i32, &'a PodSeen)> {
    let mut broken = unready(sight);
    let (Some(pod), None) = (broken.next(), broken.next()) else {
        return None;
    };
    let (place, ordinal) = sight.place(&pod.name)?;
    let record = nodes.records.iter().find(|r| r.name == pod.name);
    let goes = |r: &DatabaseNode| match r.state {
        DatabaseNodeState::Leaving | DatabaseNodeState::Left => true,
        DatabaseNodeState::Joining | DatabaseNodeState::Member | DatabaseNodeState::Replacing => {
            false
        }
    };
    if record.is_some_and(goes) {
        // It is not broken, it goes: restarted, it would have to begin anew, or come up on what it has left.
        return None;
    }
    let others_are_well = health::check(sight, &nodes.records, record);
    let others_move = moves(sight, nodes).is_some_and(|r| r.name != pod.name);
    (place.name == rack.name && !pod.terminating && !others_move && others_are_well.is_ok())
        .then_some((ordinal, pod))
}
