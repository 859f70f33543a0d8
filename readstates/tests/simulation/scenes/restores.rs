//! The ring goes back to what it was.

use std::{sync::Arc, time::Duration};

use readstates_ring::{Incarnation, RingMember, RingTable, SLOTS, Stamp, Succession};
use tokio::time::sleep;

use super::{clients, table, until, unwritten_changes};
use crate::{process::Process, world::World};

pub(super) async fn taken(world: &Arc<World>) -> Result<(), String> {
    let past = table(world).await?;
    let living = world.living();
    let (serves, leave) = (&living[0], &living[1..]);
    for process in leave {
        let ended = process.leave(Duration::from_secs(12)).await;
        if ended.is_some_and(|ended| !ended.everything_is_written()) {
            return Err(format!("{process:?} has not written everything"));
        }
    }
    until(|| world.owned() == u32::from(SLOTS)).await?;
    // Users are in the memory of the last one.
    clients(world, 1, Duration::from_secs(1)).await;

    world.blind(serves.life.incarnation, true);
    world.put_back(Arc::unwrap_or_clone(past)).await;
    let other = Process::start(world, 3);
    let other = other.life.incarnation;
    let names = |table: Arc<RingTable>| table.owned_by(other).count() > 0;
    until(|| world.table().is_some_and(names)).await?;
    clients(world, 2, Duration::from_secs(2)).await;
    world.blind(serves.life.incarnation, false);
    Ok(())
}

pub(super) async fn stolen(world: &Arc<World>) -> Result<(), String> {
    unwritten_changes(world).await;
    let thief = RingMember::new("sim-9", Incarnation::new(9), "http://sim-9", None);
    let thief = thief.map_err(|error| error.to_string())?;
    let now = table(world).await?;
    let epochs: Vec<_> = now.configs().map(|(slot, it)| (slot, it.epoch())).collect();
    // Above every epoch that a member holds.
    let highest = epochs.iter().map(|&(_, epoch)| epoch).max();
    let micros = highest.map_or(0, |epoch| Stamp::new(epoch, 0).as_database());
    let asked: Vec<_> = epochs
        .into_iter()
        .map(|(slot, it)| (slot, Some(it)))
        .collect();
    let stolen = now.swap(&asked, &thief, Succession::TakenOver, micros);
    world
        .put_back(stolen.map_err(|error| error.to_string())?)
        .await;
    sleep(Duration::from_secs(1)).await;
    world.set_database_away(false);
    // Longer than until a member is taken for dead.
    sleep(Duration::from_secs(8)).await;
    Ok(())
}

pub(super) async fn forgotten(world: &Arc<World>) -> Result<(), String> {
    let past = table(world).await?;
    let living = world.living();
    let (cut_off, others) = (&living[0], &living[1..]);
    world.cut_off(cut_off.life.incarnation, true);
    let owned = |it: &Arc<Process>| u32::from(it.ownership.status().owned);
    until(|| others.iter().map(owned).sum::<u32>() == u32::from(SLOTS)).await?;
    until(|| others.iter().all(|it| it.ownership.status().sealed == 0)).await?;
    clients(world, 1, Duration::from_secs(2)).await;
    for process in others {
        process.engine.flush_all().await;
        world.is_over(process).await;
        process.die().await;
    }
    world.put_back(Arc::unwrap_or_clone(past)).await;
    world.cut_off(cut_off.life.incarnation, false);
    // Longer than until a member is taken for dead.
    sleep(Duration::from_secs(8)).await;
    Ok(())
}
