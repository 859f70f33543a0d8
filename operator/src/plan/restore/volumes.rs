//! The copies of volumes that a new database begins with. In: the VolumeSnapshots of a backup. Out: the volume claims to
//! make from them, or why none may be made. Racks come after their claims: a StatefulSet would make empty ones.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::Time};
use kube::ResourceExt;
use readstates_operator_api::{RestorePhase, RestoreStatus, VolumesOf, conditions::Reason, labels};

use super::{RestoreState, has_had_members};
use crate::{
    plan::{WaitingOn, database},
    spec::{Database, Rack, RestoreWish, Store, ValidatedCluster},
    templates,
    world::{SnapshotOf, SnapshotSeen, World},
};

/// What is to be done before the first rack.
#[derive(Debug, Default)]
pub(in crate::plan) struct Copies {
    pub(in crate::plan) make: Vec<PersistentVolumeClaim>,
    /// What the racks wait for.
    pub(in crate::plan) waiting: Option<WaitingOn>,
}

pub(in crate::plan) fn copies(cluster: &ValidatedCluster, world: &World) -> Copies {
    let Some((backup, database)) = to_begin(cluster, world) else {
        return Copies::default();
    };
    match claims(cluster, world, database, backup) {
        Ok(make) => Copies {
            waiting: (!make.is_empty()).then(|| WaitingOn::Restore {
                reason: Reason::RestoreRunning,
                words: to_be_made(&make),
            }),
            make,
        },
        Err(words) => Copies {
            make: Vec::new(),
            waiting: Some(WaitingOn::Restore {
                reason: Reason::RestoreWaiting,
                words,
            }),
        },
    }
}

fn to_be_made(claims: &[PersistentVolumeClaim]) -> String {
    let names: Vec<_> = claims.iter().map(ResourceExt::name_any).collect();
    let names = names.join(", ");
    format!("volume claims are to be made from VolumeSnapshots: {names}")
}

/// Whether the logins are those in the copies: no others may be made.
pub(in crate::plan) fn keeps_logins(cluster: &ValidatedCluster, world: &World) -> bool {
    matches!(cluster.restore, Some(RestoreWish::Volumes(_)))
        && !world.restore.is_done()
        && !has_had_members(world)
}

/// How the restore stands, once its database may begin. `is_ready`: whether the keyspace can be used.
pub(super) fn state(
    cluster: &ValidatedCluster,
    world: &World,
    backup: &str,
    is_ready: bool,
    now: Timestamp,
) -> RestoreState {
    match copies(cluster, world).waiting {
        Some(WaitingOn::Restore {
            reason: Reason::RestoreWaiting,
            words,
        }) => return RestoreState::wait(words),
        Some(waiting) => return RestoreState::Moving(waiting.to_string()),
        None => {}
    }
    if !is_ready {
        let words = "the database starts on copies of the volumes".to_owned();
        return RestoreState::Moving(words);
    }
    let seen = world.restore.snapshots.iter().flatten().flatten();
    let of = seen.filter_map(|snapshot| snapshot.of.as_ref().ok()).next();
    RestoreState::Done(RestoreStatus {
        phase: RestorePhase::Restored,
        job: None,
        migration: None,
        backup: Some(backup.to_owned()),
        source: of.map(|of| format!("ReadStateCluster {}/{}", of.namespace, of.cluster)),
        backed_up: of.map(|of| Time(of.flushed)),
        users: None,
        restored: Some(Time(now)),
    })
}

/// The backup whose copies are still to be made; from the first node on, the database is what it is.
fn to_begin<'a>(cluster: &'a ValidatedCluster, world: &World) -> Option<(&'a str, &'a Database)> {
    let (Some(RestoreWish::Volumes(backup)), Store::Managed(database)) =
        (&cluster.restore, &cluster.store)
    else {
        return None;
    };
    let begins = !world.restore.is_done()
        && !has_had_members(world)
        && world.records.is_empty()
        && world.racks.is_empty();
    begins.then_some((backup, database))
}

/// The claims that are missing.
fn claims(
    cluster: &ValidatedCluster,
    world: &World,
    database: &Database,
    backup: &str,
) -> Result<Vec<PersistentVolumeClaim>, String> {
    let id = &cluster.id;
    let places = || {
        let racks = database.racks.iter();
        racks.flat_map(|rack| (0..rack.members).map(move |ordinal| (rack, ordinal)))
    };
    let name =
        |(rack, ordinal): (&Rack, i32)| id.claim(&format!("{}-{ordinal}", id.rack(&rack.name)));
    let found = match &world.restore.snapshots {
        Some(Ok(snapshots)) if snapshots.is_empty() => Err(format!(
            "there is no VolumeSnapshot with the label {}={backup} in this namespace",
            labels::BACKUP
        )),
        Some(Ok(snapshots)) => Ok(snapshots),
        Some(Err(words)) => Err(words.clone()),
        None => Err("the VolumeSnapshots were not looked for yet".to_owned()),
    };
    let is_copy = |place| {
        let claim = world.nodes.claims.get(&name(place));
        claim.is_some_and(|claim| claim.restored_from.is_some())
    };
    let snapshots = match found {
        Ok(snapshots) => snapshots,
        // A cluster that was restored and is created again goes on with its volumes, whatever became of the snapshots.
        Err(_) if places().all(is_copy) => return Ok(Vec::new()),
        Err(words) => return Err(words),
    };
    for snapshot in snapshots {
        suits(cluster, world, database, snapshot, &snapshots[0])?;
        let of = snapshot.of.as_ref().map_err(Clone::clone)?;
        if !places().any(|place| is_at(of, place)) {
            return Err(format!(
                "VolumeSnapshot {} is of node {} of rack {}, which spec.database.racks does not have: they must be those of \
                 the database that the backup is of, and can be changed when it is restored",
                snapshot.name, of.ordinal, of.rack
            ));
        }
    }
    let mut missing = Vec::new();
    for (rack, ordinal) in places() {
        let at = |s: &&SnapshotSeen| s.of.as_ref().is_ok_and(|of| is_at(of, (rack, ordinal)));
        let found: Vec<_> = snapshots.iter().filter(at).collect();
        let [snapshot] = found[..] else {
            return Err(format!(
                "there are {} VolumeSnapshots of node {ordinal} of rack {} in this namespace with the label {}={backup}, and \
                 it needs one",
                found.len(),
                rack.name,
                labels::BACKUP
            ));
        };
        let name = name((rack, ordinal));
        match world.nodes.claims.get(&name) {
            None => missing.push(templates::claim_from_snapshot(
                cluster, database, rack, name, snapshot,
            )),
            Some(claim) if claim.restored_from.as_ref() == Some(&snapshot.uid) => {}
            Some(_) => {
                return Err(format!(
                    "volume claim {name} is there and was not made from VolumeSnapshot {}: delete it, if its data is not \
                     needed any more",
                    snapshot.name
                ));
            }
        }
    }
    Ok(missing)
}

fn is_at(of: &SnapshotOf, (rack, ordinal): (&Rack, i32)) -> bool {
    of.rack == rack.name && of.ordinal == ordinal
}

/// Whether a database of this spec can begin with it, and with it beside the first one.
fn suits(
    cluster: &ValidatedCluster,
    world: &World,
    database: &Database,
    snapshot: &SnapshotSeen,
    first: &SnapshotSeen,
) -> Result<(), String> {
    let name = &snapshot.name;
    let of = snapshot.of.as_ref();
    let of = of.map_err(|why| format!("VolumeSnapshot {name} cannot be restored: {why}"))?;
    if snapshot.going {
        return Err(format!("VolumeSnapshot {name} is being deleted"));
    }
    if !snapshot.ready {
        let error = snapshot.error.as_ref().map(|error| format!(": {error}"));
        return Err(format!(
            "VolumeSnapshot {name} cannot be restored yet{}",
            error.unwrap_or_default()
        ));
    }
    let one = |of: &SnapshotOf| (of.namespace.clone(), of.cluster.clone(), of.flushed);
    if first.of.as_ref().is_ok_and(|first| one(first) != one(of)) {
        return Err(format!(
            "VolumeSnapshots {} and {name} are not of one backup",
            first.name
        ));
    }
    let SnapshotOf {
        namespace,
        cluster: source,
        image,
        ..
    } = of;
    let own = (&cluster.id.namespace, &cluster.id.name);
    let known = match &database.volumes_of {
        Some(VolumesOf { namespace, name }) => (namespace, name),
        None => own,
    };
    if known != (namespace, source) {
        return Err(format!(
            "VolumeSnapshot {name} is of ReadStateCluster {namespace}/{source}, whose name is in its data: set \
             spec.database.volumesOf to {{namespace: {namespace}, name: {source}}}{}",
            if database.volumes_of.is_none() {
                " in a new ReadStateCluster, since it cannot be added"
            } else {
                " in a new ReadStateCluster, since it cannot be changed"
            }
        ));
    }
    let accepted = world.consent.engine_version.as_ref() == Some(&database.image);
    if !accepted && !database::reads_disks_of(image, &database.image) {
        return Err(format!(
            "VolumeSnapshot {name} is of a database of {image}, and spec.database.image is {}: set the same one, and change \
             it when it is restored; or have it tried with the annotation {}={}",
            database.image,
            labels::ACCEPT_ENGINE_VERSION,
            database.image
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
