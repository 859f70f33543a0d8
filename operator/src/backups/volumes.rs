//! A backup by VolumeSnapshots, carried out: pods are told to flush, and VolumeSnapshots are made and deleted.

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
    runtime::controller::Action,
};
use readstates_operator_api::{
    BackupMade, BackupPhase, NodeSnapshot, ReadStateBackup, ReadStateBackupStatus,
    ReadStateCluster, ReadStateRing,
    conditions::{Condition, ConditionStatus, ConditionType, Reason},
    labels,
};

use super::{LOOK_AGAIN, api, is_final, status, work::delete};
use crate::{
    admin::AdminClient,
    connections::PodClients,
    context::Context,
    error::Error,
    observe,
    plan::{self, ClusterSeen, Named, Obstacle, VolumesStep},
    spec::{BackupOwner, Identity},
    templates::SnapshotWish,
    volume_snapshot::VolumeSnapshot,
    words::chain,
    world::{PodSeen, RingSeen, SnapshotSeen, World},
};

/// How often a backup that is under way is looked at.
const LOOK_SOON: std::time::Duration = std::time::Duration::from_secs(2);

/// What came of a step.
#[derive(Default)]
struct Done {
    /// All cache pods had written, from then on.
    flushed: Option<Timestamp>,
    /// What did not succeed.
    trouble: Option<(Reason, String)>,
}

/// Brings a backup by VolumeSnapshots one step nearer to its end, and says how it is.
pub(super) async fn reconcile(
    ctx: &Context,
    backup: &ReadStateBackup,
    owner: &BackupOwner,
    class: Option<&String>,
) -> Result<Action, Error> {
    let before = backup.status.as_ref();
    let name = &backup.spec.cluster;
    let found = observe::backup_owner::<ReadStateCluster>(&ctx.client, &owner.id.namespace, name);
    let cluster = found.await?;
    let valid = plan::whole_cluster(name, cluster.as_ref(), &ctx.images);
    let mut seen = None;
    if let (Ok(_), Some(cluster)) = (&valid, &cluster) {
        let id = Identity::of(cluster)?;
        let identity = observe::identity(&ctx.client, &id, cluster).await?;
        let of_it = ctx.connections.of(&id.uid, identity.own.as_ref());
        let world = Box::pin(observe::observe(ctx, &id, cluster, identity, &of_it)).await?;
        seen = Some((id, world, of_it));
    }
    let found = observe::backup_snapshots(&ctx.client, &owner.id.namespace, &owner.id.name);
    let (snapshots, none) = match found.await? {
        Ok(snapshots) => (snapshots, None),
        Err(words) => (Vec::new(), Some(words)),
    };
    let now = Timestamp::now();
    let step = match none {
        Some(words) => VolumesStep::Blocked(Obstacle::refuse(Reason::BackupUnsupported, words)),
        None => {
            let seen = ClusterSeen {
                cluster: valid.as_ref().map_err(Clone::clone),
                world: seen.as_ref().map(|(_, world, _)| world),
            };
            plan::volumes_step(owner, class, before, &seen, &snapshots, now)
        }
    };
    let done = match &seen {
        Some(seen) => carry_out(ctx, owner, &step, seen, now).await?,
        None => Done::default(),
    };
    let status = told(owner, before, &step, &done, &snapshots, now);
    let after = status.phase;
    status::publish(ctx, backup, before, &status).await?;
    Ok(match after {
        phase if is_final(phase) => Action::await_change(),
        // What failed is not told again at once.
        BackupPhase::Running if !matches!(step, VolumesStep::FlushNodes { failed: true, .. }) => {
            Action::requeue(LOOK_SOON)
        }
        _ => Action::requeue(LOOK_AGAIN),
    })
}

async fn carry_out(
    ctx: &Context,
    owner: &BackupOwner,
    step: &VolumesStep,
    (id, world, clients): &(Identity, World, PodClients),
    now: Timestamp,
) -> Result<Done, Error> {
    let waits = |words: String| Done {
        trouble: Some((Reason::ClusterNotReady, words)),
        ..Done::default()
    };
    match step {
        VolumesStep::FlushCache(pods) => {
            let words = flush(clients, pods).await;
            if let Some(words) = words {
                return Ok(waits(words));
            }
            // A slot that moved meanwhile may have left what it held with a pod that had flushed before.
            if !owners_are(ctx, id, &world.ring).await? {
                return Ok(waits("slots moved while cache pods flushed".to_owned()));
            }
            Ok(Done {
                flushed: Some(now),
                trouble: None,
            })
        }
        VolumesStep::FlushNodes {
            orders,
            words: _,
            failed: _,
        } => {
            let told = orders.iter().map(async |(pod, order)| {
                let told = ctx.agents.flush(clients, pod, order).await;
                told.err().map(|why| format!("{}: {why}", pod.name))
            });
            let refused: Vec<_> = join_all(told).await.into_iter().flatten().collect();
            Ok(match refused.is_empty() {
                true => Done::default(),
                false => waits(refused.join("; ")),
            })
        }
        VolumesStep::Take(wishes) => {
            for SnapshotWish { node: _, snapshot } in wishes {
                if let Some(refused) = make(ctx, owner, snapshot).await? {
                    return Ok(Done {
                        trouble: Some(refused),
                        ..Done::default()
                    });
                }
            }
            Ok(Done::default())
        }
        VolumesStep::StartOver(given_up) => {
            for Named { name, uid } in given_up {
                let params = DeleteParams::default();
                delete::<VolumeSnapshot>(ctx, owner, (name, uid), params).await?;
            }
            Ok(Done::default())
        }
        VolumesStep::Blocked(_)
        | VolumesStep::Wait(_)
        | VolumesStep::Complete { .. }
        | VolumesStep::Failed(_) => Ok(Done::default()),
    }
}

/// Has every cache pod write what it holds; why one has not.
async fn flush(clients: &PodClients, pods: &[PodSeen]) -> Option<String> {
    let admin = &AdminClient::new(clients);
    let asked = pods.iter().map(async |pod| {
        let peer = match pod.peer() {
            Ok(peer) => peer,
            Err(why) => return Some(format!("{}: {why}", pod.name)),
        };
        match admin.flush(peer).await {
            Ok(answer) if answer.failed_users == 0 => None,
            Ok(answer) => Some(format!(
                "{} could not write {} users",
                pod.name, answer.failed_users
            )),
            Err(error) => Some(format!("{}: {}", pod.name, chain(&error))),
        }
    });
    let failed: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
    (!failed.is_empty()).then(|| format!("cache pods could not flush: {}", failed.join("; ")))
}

/// Whether every slot has the owner now that it had before, without having had another in between.
async fn owners_are(ctx: &Context, id: &Identity, before: &RingSeen) -> Result<bool, Error> {
    let name = id.cache();
    let rings: Api<ReadStateRing> = api(ctx, Some(&id.namespace));
    let found = rings.get_opt(&name).await.map_err(|source| Error::Read {
        what: format!("ReadStateRing {name}"),
        source,
    })?;
    let now = RingSeen::of(found.as_ref());
    let both = before.table().zip(now.table());
    Ok(both.is_some_and(|(before, now)| before.configs().eq(now.configs())))
}

/// Makes one; why it may not be made.
async fn make(
    ctx: &Context,
    owner: &BackupOwner,
    snapshot: &VolumeSnapshot,
) -> Result<Option<(Reason, String)>, Error> {
    let snapshots: Api<VolumeSnapshot> = api(ctx, Some(&owner.id.namespace));
    let params = PostParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PostParams::default()
    };
    let name = snapshot.name_any();
    match snapshots.create(&params, snapshot).await {
        Ok(_) => {
            tracing::info!(name, namespace = owner.id.namespace, "made");
            Ok(None)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let found = snapshots.get_opt(&name).await;
            let found = found.map_err(|source| Error::Read {
                what: format!("VolumeSnapshot {name}"),
                source,
            })?;
            let is_ours = found.is_none_or(|found| owner.id.owns(&found.metadata));
            Ok((!is_ours).then(|| {
                let words = format!(
                    "VolumeSnapshot {name} exists already: delete it, or give this ReadStateBackup another name"
                );
                (Reason::NameConflict, words)
            }))
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => Ok(Some((
            Reason::ApplyRejected,
            format!(
                "the API server refused VolumeSnapshot {name}: {}",
                status.message
            ),
        ))),
        Err(source) => Err(Error::Write {
            what: format!("VolumeSnapshot {name}"),
            source,
        }),
    }
}

/// The status of a backup by VolumeSnapshots.
fn told(
    owner: &BackupOwner,
    before: Option<&ReadStateBackupStatus>,
    step: &VolumesStep,
    done: &Done,
    snapshots: &[SnapshotSeen],
    now: Timestamp,
) -> ReadStateBackupStatus {
    use BackupPhase::{Complete, Failed, Refused, Running, Waiting};
    let running = |words: String| (Running, Reason::BackupRunning, words);
    let (phase, reason, words) = match (step, &done.trouble) {
        (_, Some((reason @ Reason::ClusterNotReady, words))) => (Waiting, *reason, words.clone()),
        (_, Some((reason, words))) => (Refused, *reason, words.clone()),
        (VolumesStep::Blocked(obstacle), None) => {
            let phase = if obstacle.refused { Refused } else { Waiting };
            (phase, obstacle.reason, obstacle.words.clone())
        }
        (VolumesStep::FlushCache(_), None) => {
            running("cache pods have written what they held".to_owned())
        }
        (VolumesStep::FlushNodes { words, .. }, None) => running(words.clone()),
        (VolumesStep::Take(wishes), None) => {
            running(format!("{} VolumeSnapshots were made", wishes.len()))
        }
        (VolumesStep::Wait(words), None) => running(words.clone()),
        (VolumesStep::StartOver(_), None) => running(
            "it begins again, since not all VolumeSnapshots could be made soon after the flush"
                .to_owned(),
        ),
        (VolumesStep::Complete { nodes, flushed }, None) => {
            let words = format!(
                "the VolumeSnapshots of {nodes} database nodes have everything that was acknowledged before {flushed:.0}"
            );
            (Complete, Reason::BackupComplete, words)
        }
        (VolumesStep::Failed(words), None) => {
            let words = format!("{words}. Create another ReadStateBackup when that is cured");
            (Failed, Reason::BackupFailed, words)
        }
    };
    let bad = match phase {
        Failed | Refused => Some((reason, words.clone())),
        Waiting | Running | Complete => None,
    };
    let complete = ConditionStatus::from(phase == Complete);
    let conditions = [
        Condition::new(ConditionType::Complete, complete, reason, words),
        status::degraded(bad),
    ];
    let begins_again = matches!(step, VolumesStep::StartOver(_));
    let old = before.filter(|_| !begins_again);
    let named = match step {
        // On record from now on, whether or not all could be made.
        VolumesStep::Take(wishes) => wishes
            .iter()
            .map(|SnapshotWish { node, snapshot }| NodeSnapshot {
                node: node.clone(),
                name: snapshot.name_any(),
                content: None,
                taken: None,
            })
            .collect(),
        _ => old.map_or_else(Vec::new, |old| old.volume_snapshots.clone()),
    };
    let finished = || {
        let taken = snapshots.iter().filter_map(|s| s.taken).max();
        Time(taken.unwrap_or(now))
    };
    ReadStateBackupStatus {
        observed_generation: Some(owner.id.generation),
        conditions: status::since(&conditions, before.map(|b| &b.conditions), owner, now),
        phase,
        job: None,
        backup: (phase == Complete).then(|| BackupMade {
            finished: finished(),
            id: None,
            users: None,
            bytes: None,
            stored_bytes: None,
            new_stored_bytes: None,
        }),
        flushed: done
            .flushed
            .map(Time)
            .or_else(|| old.and_then(|old| old.flushed.clone())),
        volume_snapshots: named
            .into_iter()
            .map(|node| with_what_is_seen(node, snapshots))
            .collect(),
    }
}

fn with_what_is_seen(node: NodeSnapshot, snapshots: &[SnapshotSeen]) -> NodeSnapshot {
    let seen = snapshots.iter().find(|seen| seen.name == node.name);
    match seen {
        Some(seen) => NodeSnapshot {
            content: seen.content.clone().or(node.content),
            taken: seen.taken.map(Time).or(node.taken),
            ..node
        },
        None => node,
    }
}
