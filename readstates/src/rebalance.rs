//! `readstates rebalance`: asks owners to hand slots on until all members own as many, give or take one.
//!
//! For members on one machine, whose ring is in a folder; in Kubernetes the operator does this. It only asks:
//! a batch that an owner does not move within `PATIENCE` is planned again from the ring as it is then. Two of
//! these at once are safe.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use readstates_api::admin::{MAX_MOVED_SLOTS, MoveDestination, MovedSlot, MovesRequest};
use readstates_identity::Role;
use readstates_ring::{
    Epoch, Incarnation, RingTable, Slot,
    moves::{Live, Move, next_batch},
    planner::Candidate,
};
use reqwest::{Client, StatusCode};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    config::{RebalanceArgs, RingPlace},
    members_tls::{self, ClientError, TlsFolderError},
    ownership::store::{FileRing, Presence, RingStore, RingStoreError},
};

/// How long to listen for live members: a little longer than the time between two heartbeats of one process.
const LISTEN: Duration = Duration::from_secs(4);
/// How long a batch may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at the ring.
const LOOK: Duration = Duration::from_millis(100);
/// Batches that may fail one after the other.
const MOST_FAILURES: u32 = 3;

/// Why the ring was not balanced.
#[derive(Debug, thiserror::Error)]
pub enum RebalanceError {
    /// The ring is not in a folder.
    #[error(
        "--ring: give file:DIR; a ring in memory has one member, and in Kubernetes the operator does this"
    )]
    NoFolder,
    /// There is no ring in the folder.
    #[error("--ring: there is no ring in {0:?}; give the folder that the members were given")]
    NoRing(PathBuf),
    /// No member is alive.
    #[error("--ring: no member of the ring in {0:?} is alive")]
    NobodyLives(PathBuf),
    /// The operator's certificates cannot be used.
    #[error("--operator-tls-dir {}", folder.display())]
    Tls {
        folder: PathBuf,
        /// What is wrong with it.
        source: TlsFolderError,
    },
    /// There is no HTTP client for the members.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The ring cannot be read.
    #[error(transparent)]
    Ring(#[from] RingStoreError),
    /// The owner's admin port is not known, or not for others.
    #[error(
        "{0} does not say where its admin port is; start it with an --admin-listen that can be reached"
    )]
    NoAdmin(String),
    /// The owner could not be asked.
    #[error("failed to ask {member} to move slots")]
    Asked {
        member: String,
        source: reqwest::Error,
    },
    /// Too many batches failed.
    #[error("{from} has not handed {slots} slots to {to} within {} s, {MOST_FAILURES} times", PATIENCE.as_secs())]
    Stuck {
        from: String,
        to: String,
        slots: usize,
    },
}

/// Runs the command.
///
/// # Errors
/// When the members are not in balance in the end.
pub async fn run(args: RebalanceArgs) -> Result<(), RebalanceError> {
    let RingPlace::File(folder) = args.ring else {
        return Err(RebalanceError::NoFolder);
    };
    // Checked before it is opened, which would create it.
    if !folder.join("ring.json").exists() {
        return Err(RebalanceError::NoRing(folder));
    }
    let store = FileRing::open(&folder)?;
    let identity = match &args.operator_tls_dir {
        Some(folder) => {
            let identity = members_tls::read(folder, Role::Operator);
            Some(identity.map_err(|source| RebalanceError::Tls {
                folder: folder.clone(),
                source,
            })?)
        }
        None => None,
    };
    let client = members_tls::client(identity.as_deref()).map_err(ClientError::from)?;
    let client = client.build().map_err(ClientError::from)?;
    let mut failures = 0;
    let mut alive = living(&store).await?;
    loop {
        let Some(current) = store.get().await? else {
            return Err(RebalanceError::NoRing(folder));
        };
        if alive.is_empty() {
            return Err(RebalanceError::NobodyLives(folder));
        }
        let live: Vec<Live> = alive.values().map(live).collect();
        let Some(batch) = next_batch(&current.table, &live, MAX_MOVED_SLOTS) else {
            println!("balanced: {}", shares(&current.table, &alive));
            return Ok(());
        };
        // Both are in `alive`: it was planned from there.
        let (Some(from), Some(to)) = (alive.get(&batch.from), alive.get(&batch.to)) else {
            continue;
        };
        let (from, to) = (from.clone(), to.clone());
        let takes = ask(&client, &from, &to, &batch).await?;
        let deadline = Instant::now() + PATIENCE;
        if takes && timeout_at(deadline, moved(&store, &batch)).await.is_ok() {
            failures = 0;
            println!(
                "{} slots from {} to {}",
                batch.slots.len(),
                from.name,
                to.name
            );
            continue;
        }
        failures += 1;
        if failures == MOST_FAILURES {
            return Err(RebalanceError::Stuck {
                from: from.name,
                to: to.name,
                slots: batch.slots.len(),
            });
        }
        // A member may have died meanwhile.
        alive = living(&store).await?;
    }
}

/// The members that can own slots: those that renew their presence meanwhile, and are not leaving.
async fn living(store: &FileRing) -> Result<HashMap<Incarnation, Presence>, RebalanceError> {
    let before = store.presences().await?;
    sleep(LISTEN).await;
    let spoke = |now: &Presence| {
        let before = before
            .iter()
            .find(|then| then.incarnation == now.incarnation);
        before.is_none_or(|then| then.renewals < now.renewals)
    };
    let now = store.presences().await?;
    let living = now
        .into_iter()
        .filter(|now| spoke(now) && !now.draining && !now.gone);
    Ok(living
        .map(|presence| (presence.incarnation, presence))
        .collect())
}

fn live(presence: &Presence) -> Live {
    Live {
        incarnation: presence.incarnation,
        candidate: Candidate {
            name: presence.name.clone(),
            ordinal: presence.ordinal,
            zone: presence.zone.clone(),
        },
    }
}

/// Returns whether the owner takes the destination for a live member.
async fn ask(
    client: &Client,
    from: &Presence,
    to: &Presence,
    batch: &Move,
) -> Result<bool, RebalanceError> {
    let admin = from.admin.as_ref();
    let admin = admin.ok_or_else(|| RebalanceError::NoAdmin(from.name.clone()))?;
    let moved = |&(slot, epoch): &(Slot, Epoch)| MovedSlot {
        slot: slot.number(),
        epoch: epoch.number(),
    };
    let request = MovesRequest {
        destination: MoveDestination {
            name: to.name.clone(),
            incarnation: to.incarnation.to_string(),
            url: to.url.clone(),
            zone: to.zone.clone(),
        },
        slots: batch.slots.iter().map(moved).collect(),
    };
    let answered = async {
        let url = format!("{admin}/admin/v1/moves");
        let asked = client.post(url).json(&request).timeout(PATIENCE).send();
        let answer = asked.await?;
        if answer.status() == StatusCode::CONFLICT {
            return Ok(false);
        }
        answer.error_for_status()?;
        Ok(true)
    };
    answered.await.map_err(|source| RebalanceError::Asked {
        member: from.name.clone(),
        source,
    })
}

/// Returns once every slot of the batch has moved, by this request or another. Cancel-safe: it only looks.
async fn moved(store: &FileRing, batch: &Move) {
    loop {
        if let Ok(Some(current)) = store.get().await {
            let epoch = |slot| current.table.config(slot).map(|config| config.epoch());
            if batch.slots.iter().all(|&(slot, at)| epoch(slot) > Some(at)) {
                return;
            }
        }
        sleep(LOOK).await;
    }
}

/// `a 512, b 512`
fn shares(table: &RingTable, alive: &HashMap<Incarnation, Presence>) -> String {
    let owned = |member: &Presence| {
        let slots = table.owned_by(member.incarnation).count();
        format!("{} {slots}", member.name)
    };
    let mut shares: Vec<String> = alive.values().map(owned).collect();
    shares.sort();
    shares.join(", ")
}
