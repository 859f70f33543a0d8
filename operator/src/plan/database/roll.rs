//! Changed pods: one at a time over all racks, the next one only when all nodes see each other up. What only a
//! different operator version would change waits for consent; and a change may cure what an earlier one has broken.

use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use super::{
    DatabaseWait, Named, NodesStep, Sight, as_wanted, consent, health, on_its_way, outdated,
    repair, super_disks, upgrade, version,
};
use crate::{
    plan::{WaitingOn, maintenance},
    spec::Rack,
    templates::Template,
    world::{PodSeen, StatefulSetSeen},
};

pub(super) struct Rollout {
    pub(super) template: Template,
    /// The request that its pods are restarted for.
    pub(super) restarted: Option<String>,
    pub(super) partition: i32,
    /// Whether nothing of it is left to do, or what is left has a time of its own.
    pub(super) complete: bool,
    pub(super) waiting: Option<DatabaseWait>,
}

impl Rollout {
    /// The rack as it is.
    fn held(seen: &StatefulSetSeen, complete: bool, waiting: Option<DatabaseWait>) -> Self {
        Self {
            template: Template::as_seen(seen),
            restarted: seen.restarted().cloned(),
            partition: seen.partition,
            complete,
            waiting,
        }
    }
}

pub(super) fn decide(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    rack: &Rack,
    seen: &StatefulSetSeen,
    turns: &mut Turns,
) -> Rollout {
    if sight.cluster.lacks_certificates() {
        // What pods would be given is not known: they stay as they are.
        return Rollout::held(seen, false, None);
    }
    if as_wanted(sight, rack, seen) {
        return go_on(sight, nodes, (rack, seen), turns, Template::Wanted);
    }
    if let Some(update) = consent::lacking(sight, seen) {
        nodes.update = Some(update);
        // A restart that was asked for brings no other template.
        return go_on(sight, nodes, (rack, seen), turns, Template::as_seen(seen));
    }
    if let Some(trouble) = version::against(sight, seen) {
        nodes.trouble.get_or_insert(trouble);
        return go_on(sight, nodes, (rack, seen), turns, Template::as_seen(seen));
    }
    if upgrade::must_wait(sight, nodes, seen) {
        return go_on(sight, nodes, (rack, seen), turns, Template::as_seen(seen));
    }
    begin(sight, nodes, rack, seen, turns)
}

/// Another template: written when its first pod may be restarted.
fn begin(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    rack: &Rack,
    seen: &StatefulSetSeen,
    turns: &mut Turns,
) -> Rollout {
    turns.due = true;
    let top = (seen.replicas - 1).max(0);
    let next = sight.name(rack, top);
    let rolling = |why| DatabaseWait::Rolling {
        pod: next.clone(),
        why,
    };
    let started = |partition| Rollout {
        template: Template::Wanted,
        restarted: request(sight, seen),
        partition,
        complete: false,
        waiting: Some(rolling(None)),
    };
    match turns.may_take(sight, nodes) {
        Ok(()) if turns.all_before => match restart_waits(sight, &next) {
            Some(waits) => {
                turns.waits.get_or_insert(waits);
                Rollout::held(seen, true, None)
            }
            None => {
                turns.taken = true;
                started(top)
            }
        },
        Ok(()) => {
            let why = "an earlier rack is not ready".to_owned();
            Rollout::held(seen, false, Some(rolling(Some(why))))
        }
        Err(why) => match only_broken(sight, nodes, rack) {
            Some((_, pod)) if upgrade::must_join(sight, nodes, seen, pod) => {
                Rollout::held(seen, false, Some(rolling(Some(why))))
            }
            Some((ordinal, _)) => {
                turns.taken = true;
                started(ordinal.min(top))
            }
            None => Rollout::held(seen, false, Some(rolling(Some(why)))),
        },
    }
}

/// The template is the one to have: on to the next pod that is not of it.
fn go_on(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    (rack, seen): (&Rack, &StatefulSetSeen),
    turns: &mut Turns,
    template: Template,
) -> Rollout {
    let stay = |partition, waiting: Option<DatabaseWait>| Rollout {
        template,
        restarted: seen.restarted().cloned(),
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
        let resting = stay(rest(seen), None);
        // A request changes the template, which no pod may get before its turn.
        return if seen.revised && seen.partition >= seen.replicas {
            Rollout {
                restarted: request(sight, seen),
                ..resting
            }
        } else {
            resting
        };
    };
    cure(sight, nodes, rack, seen);
    let allowed = ordinal >= seen.partition;
    let why = turns.may_take(sight, nodes).err();
    if why.is_none()
        && !allowed
        && let Some(waits) = restart_waits(sight, &pod.name)
    {
        turns.waits.get_or_insert(waits);
        return stay(seen.partition, None);
    }
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

/// Deletes a broken pod that may have another template: its StatefulSet's controller waits for it to become ready before
/// it gives it the one that would make it so.
fn cure(sight: &Sight<'_>, nodes: &mut NodesStep, rack: &Rack, seen: &StatefulSetSeen) {
    if let Some((broken, pod)) = only_broken(sight, nodes, rack)
        && outdated(pod, seen)
        && broken >= seen.partition
        && let Some(uid) = pod.uid.clone()
    {
        nodes.pods_to_delete.push(Named {
            name: pod.name.clone(),
            uid,
        });
    }
}

/// What the restart of a pod that serves waits for, in an otherwise good moment.
fn restart_waits(sight: &Sight<'_>, pod: &str) -> Option<WaitingOn> {
    let pods = &sight.world.database_pods;
    maintenance::waits(sight.cluster, sight.world, pods, pod, sight.now)
}

/// The request that the pods of this rack are restarted for.
fn request(sight: &Sight<'_>, seen: &StatefulSetSeen) -> Option<String> {
    let asked = sight.world.consent.restart_database.as_ref();
    maintenance::request(asked, seen.restarted()).cloned()
}

/// The partition of a rack where nothing is to be restarted: above all pods, so that a template changed by hand
/// (`kubectl rollout restart`) reaches none of them before it is their turn. 0 until the last update is complete: a
/// pod that is recreated would get the template before it.
fn rest(seen: &StatefulSetSeen) -> i32 {
    if seen.revised { seen.replicas } else { 0 }
}

/// Whose turn it is to be restarted, over all racks.
pub(super) struct Turns {
    /// Whether every rack before this one is as wanted.
    pub(super) all_before: bool,
    /// Whether this round's turn has been given.
    pub(super) taken: bool,
    /// Whether another template is to be written, which makes pods outdated.
    pub(super) due: bool,
    /// What the next restart waits for, if it is only the time or other clusters.
    pub(super) waits: Option<WaitingOn>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            all_before: true,
            taken: false,
            due: false,
            waits: None,
        }
    }
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
    if let Some(why) = repair::against(sight, nodes) {
        return Err(why);
    }
    health::check(sight, &nodes.records, None)?;
    if let Some(why) = upgrade::against_restart(sight, nodes) {
        return Err(why);
    }
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

/// The one pod of the database that is not ready, if it is in this rack and all others are well: restarting it costs
/// nothing.
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
        DatabaseNodeState::Joining
        | DatabaseNodeState::Member
        | DatabaseNodeState::Replacing
        | DatabaseNodeState::Repairing => false,
    };
    if record.is_some_and(goes) {
        // It is leaving, not broken: restarted, it would have to start over, or come up on what it has left.
        return None;
    }
    let others_are_well = health::check(sight, &nodes.records, record);
    let others_move = moves(sight, nodes).is_some_and(|r| r.name != pod.name);
    (place.name == rack.name && !pod.terminating && !others_move && others_are_well.is_ok())
        .then_some((ordinal, pod))
}
