//! What the nodes say of the keyspace of read states: whether there is one, and how many copies it has.

use readstates_agent::wire::Facts;

use super::{Sight, health};
use crate::world::Seen;

/// How Cassandra names the nodes that it could not ask, in place of a version of the schema.
pub(super) const UNREACHABLE: &str = "UNREACHABLE";

/// The copies that the keyspace has, by the word of a node that serves; none: there is no such keyspace.
///
/// # Errors
/// Why that is not known.
pub(super) fn found(sight: &Sight<'_>) -> Result<Option<i32>, String> {
    let mut unknown = "no node that serves has been asked yet".to_owned();
    for (pod, seen) in &sight.world.nodes.facts {
        if !health::last_view(sight, pod).is_ok_and(|view| view.serves().is_some()) {
            continue;
        }
        match seen {
            Seen::Unknown(why) => unknown = format!("{pod} cannot be asked: {why}"),
            Seen::Known(Facts {
                schema_versions,
                schema_nodes: _,
                keyspaces,
            }) => {
                // One whose disk is lost is not waited for: it is rebuilt by this number.
                let versions = schema_versions.iter().map(String::as_str);
                let versions: Vec<_> = versions.filter(|v| *v != UNREACHABLE).collect();
                if versions.len() > 1 {
                    let versions = versions.join(", ");
                    return Err(format!("the nodes do not agree on the schema ({versions})"));
                }
                let own = keyspaces.iter().find(|k| k.name == sight.database.keyspace);
                return Ok(own.map(|keyspace| keyspace.replication_factor));
            }
        }
    }
    Err(unknown)
}

/// Whether there is a keyspace: the schema Job has made it, or it was found.
pub(super) fn has_keyspace(sight: &Sight<'_>) -> bool {
    sight.world.schema.is_some() || sight.world.replication.is_some()
}

/// Why nothing may rest on the number of copies yet: there is a keyspace, or may be one, and what it has is not on record.
///
/// # Errors
/// In words.
pub(super) fn on_record(sight: &Sight<'_>) -> Result<(), String> {
    if sight.world.replication.is_some() {
        return Ok(());
    }
    match found(sight) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err("how many copies there are is put on record first".to_owned()),
        Err(why) => Err(format!("how many copies there are is not known: {why}")),
    }
}
