//! Members die, and what they have under way lives on.

use std::{sync::Arc, time::Duration};

use readstates_ledger::Status;
use readstates_ring::Slot;
use tokio::time::sleep;

use super::{clients, until};
use crate::{
    clients::{Client, HOT},
    late::{Batch, Kind},
    process::Process,
    world::World,
};

/// The message of the one mention that each client sends.
pub(super) const MENTION: u64 = 1;

/// A name is free again while its process lives: Kubernetes deletes the pod of a node that is silent.
pub(super) async fn two_under_one_name(world: &Arc<World>) -> Result<(), String> {
    let first = Arc::clone(&world.living()[0]);
    let second = Process::start(world, 0);
    until(|| *second.ownership.joined().borrow()).await?;
    clients(world, 1, Duration::from_secs(2)).await;
    world.is_over(&first).await;
    first.die().await;
    // Longer than until a member is taken for dead.
    sleep(Duration::from_secs(8)).await;
    Ok(())
}

/// One user. The first owner applies a change, and its client does not hear of it; the second one applies another; the
/// third one is asked for the first change once more, and finds it.
pub(super) async fn written_late(world: &Arc<World>) -> Result<(), String> {
    let (mut one, mut other) = (Client::shifted(world, 0, 1), Client::shifted(world, 1, 2));

    let first = owner(world).await?;
    first.engine.flush_all().await;
    let of_first = world.late.hold(Kind::Writes(first.life.incarnation));
    world.lose_answers(true);
    one.send(HOT, MENTION).await;
    world.lose_answers(false);
    write_late(world, &first, of_first).await?;
    world.is_over(&first).await;
    first.die().await;

    let second = owner(world).await?;
    let of_second = world.late.hold(Kind::Writes(second.life.incarnation));
    acknowledged(other.send(HOT, MENTION).await)?;
    write_late(world, &second, of_second).await?;
    land(world, of_first).await?;
    world.is_over(&second).await;
    second.die().await;

    owner(world).await?;
    acknowledged(one.send(HOT, MENTION).await)?;
    world.late.let_go(of_second);
    for client in [one, other] {
        client.end();
    }
    Ok(())
}

pub(super) fn acknowledged(status: Status) -> Result<(), String> {
    match status {
        Status::Acknowledged(_) => Ok(()),
        Status::Unknown | Status::NothingDone => {
            Err(format!("a change was not acknowledged: {status:?}"))
        }
    }
}

/// The process that serves the user, once there is one.
pub(super) async fn owner(world: &Arc<World>) -> Result<Arc<Process>, String> {
    let slot = Slot::of_user(HOT);
    let serves = |process: &Arc<Process>| process.ownership.enter(slot).is_some();
    until(|| world.living().iter().any(serves)).await?;
    let found = world.living().into_iter().find(serves);
    found.ok_or_else(|| "the owner of the user is gone".to_owned())
}

/// A process writes what it has, and hears that it failed.
pub(super) async fn write_late(
    world: &World,
    process: &Process,
    batch: Batch,
) -> Result<(), String> {
    process.engine.flush_all().await;
    match world.late.count(batch) {
        0 => Err(format!("{process:?} has written nothing")),
        1.. => Ok(()),
    }
}

/// What a process wrote late lands.
pub(super) async fn land(world: &World, batch: Batch) -> Result<(), String> {
    let before = world.stored(HOT).await;
    world.late.let_go(batch);
    // Nothing is under way but this.
    sleep(Duration::from_millis(1)).await;
    match world.stored(HOT).await == before {
        true => Err("the late write has not changed what is stored".to_owned()),
        false => Ok(()),
    }
}
