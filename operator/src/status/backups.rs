//! Whether slots have backups in other cache pods, in a condition.

use readstates_operator_api::conditions::{
    Condition,
    ConditionStatus::{False, True, Unknown},
    ConditionType, Reason,
};

use crate::{
    spec::ValidatedCluster,
    world::{Seen, World},
};

/// Present only if the spec asks for backups.
pub(super) fn condition(cluster: &ValidatedCluster, world: &World) -> Option<Condition> {
    let durability = cluster.cache.durability?;
    if !durability.replicates() {
        return None;
    }
    let of = |status, reason, message| {
        Condition::new(ConditionType::Replicated, status, reason, message)
    };
    let told = world.members.iter().map(|(name, seen)| match seen {
        Seen::Known(member) => (name, member.ownership.replication),
        Seen::Unknown(_) => (name, None),
    });
    let told: Vec<_> = told.collect();
    let known = told
        .iter()
        .filter_map(|(name, told)| Some((*name, (*told)?)));
    let not_kept = known.clone().find(|(_, told)| told.store_drops_backups);
    if let Some((name, _)) = not_kept {
        let message = format!(
            "the API server does not keep the backups that {name} names: its definition of ReadStateRing is of an \
             earlier release; apply the definitions of this one"
        );
        return Some(of(False, Reason::BackupsNotKept, message));
    }
    let unprotected = known.clone().filter(|(_, told)| told.unprotected > 0);
    let unprotected: Vec<String> = unprotected
        .map(|(name, told)| {
            let (slots, seconds) = (told.unprotected, told.unprotected_seconds);
            format!("{slots} slots of {name} for {seconds} s")
        })
        .collect();
    if !unprotected.is_empty() {
        let message = format!(
            "without a backup: {}; a crash of that cache pod loses what it acknowledged and has not written",
            unprotected.join(", ")
        );
        return Some(of(False, Reason::Unprotected, message));
    }
    let silent: Vec<&str> = told
        .iter()
        .filter(|(_, told)| told.is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    if told.is_empty() || !silent.is_empty() {
        let message = match told.is_empty() {
            true => "there are no cache pods".to_owned(),
            false => format!("not known of {}", silent.join(", ")),
        };
        return Some(of(Unknown, Reason::NotObserved, message));
    }
    Some(of(
        True,
        Reason::AllBacked,
        "every slot has a backup in another cache pod".to_owned(),
    ))
}
