//! Slots have backups, and an owner dies with what is in its memory and in its backup's alone.

use std::{sync::Arc, time::Duration};

use readstates_ring::{SLOTS, Slot};
use tokio::time::sleep;

use super::{
    clients,
    deaths::{MENTION, acknowledged, land, owner, write_late},
    until,
};
use crate::{
    clients::{Client, HOT},
    late::Kind,
    process::Process,
    world::World,
};

/// Every slot has a backup.
pub(super) async fn all_named(world: &World) -> Result<(), String> {
    let named = || {
        let table = world.table();
        table.is_some_and(|table| table.configs().all(|(_, it)| it.backup().is_some()))
    };
    until(named).await
}

/// The owner of the user of all clients, and its backup.
async fn pair(world: &Arc<World>) -> Result<[Arc<Process>; 2], String> {
    let owner = owner(world).await?;
    let slot = Slot::of_user(HOT);
    until(|| backup(world, slot).is_some()).await?;
    let backup = backup(world, slot).ok_or("the backup is gone")?;
    Ok([owner, backup])
}

fn backup(world: &World, slot: Slot) -> Option<Arc<Process>> {
    world.find(world.table()?.config(slot)?.backup()?)
}

/// An owner's frames do not arrive, and it reaches neither the ring, to go on without its backup, nor the database.
pub(super) async fn frames_do_not_arrive(world: &Arc<World>) -> Result<(), String> {
    let [owner, backup] = pair(world).await?;
    let (from, to) = (owner.life.incarnation, backup.life.incarnation);
    world.set_database_away(true);
    world.cut_off(from, true);
    let frames = world.late.hold(Kind::Messages { from, to });
    let death = async {
        // The backup permits answers for longer than this.
        sleep(Duration::from_millis(1_500)).await;
        world.is_over(&owner).await;
        owner.die().await;
        world.late.lose(frames);
        world.set_database_away(false);
    };
    tokio::join!(clients(world, 1, Duration::from_secs(1)), death);
    Ok(())
}

/// An owner is dead for all others before its backup asks to be promoted; and that one does not reach the ring then.
pub(super) async fn backup_is_late(world: &Arc<World>) -> Result<(), String> {
    let [owner, backup] = pair(world).await?;
    world.set_database_away(true);
    world.cut_off(owner.life.incarnation, true);
    // Its lease lasts for longer than this.
    clients(world, 1, Duration::from_millis(1_500)).await;
    world.is_over(&owner).await;
    owner.die().await;
    world.set_database_away(false);
    // Not as long as until a member is taken for dead.
    world.cut_off(backup.life.incarnation, true);
    sleep(Duration::from_secs(3)).await;
    world.cut_off(backup.life.incarnation, false);
    Ok(())
}

/// For how long a member is starved.
const STARVED: Duration = Duration::from_secs(600);
/// How often a slot gets a backup in that time, on average. Without rests it is every few seconds until naming stops.
const MOST_NAMED: u64 = 8;
/// How far epochs come ahead of the time: half of what stops the naming of backups.
const MOST_AHEAD: Duration = Duration::from_secs(450);

/// A member answers late again and again, as owner and as backup; then it does not.
pub(super) async fn starves(world: &Arc<World>) -> Result<(), String> {
    let [owner, starved] = pair(world).await?;
    let before = world.named();
    world.starve(starved.life.incarnation, true);
    clients(world, 1, Duration::from_secs(20)).await;
    sleep(STARVED - Duration::from_secs(20)).await;
    let (named, ahead) = (world.named() - before, world.ahead());
    println!("{named} backups named in {STARVED:?}, epochs {ahead:?} ahead");
    if named > MOST_NAMED * u64::from(SLOTS) {
        return Err(format!("{named} backups were named"));
    }
    if ahead > MOST_AHEAD {
        return Err(format!("epochs are {ahead:?} ahead"));
    }
    if owner.life.is_dead() || starved.life.is_dead() {
        return Err("a member that was slow was taken for dead".to_owned());
    }
    world.starve(starved.life.incarnation, false);
    // Minutes: the longest rest, and a little.
    for _ in 0..3 {
        if all_named(world).await.is_ok() {
            return Ok(());
        }
    }
    Err("slots have no backups though no member is slow".to_owned())
}

/// From the death of a backup until its owners have another: 200 ms until it is given up, and the seed.
const REPLACED: Duration = Duration::from_secs(1);

/// A backup dies: those that live back one another before they know that it is dead.
pub(super) async fn dies(world: &Arc<World>) -> Result<(), String> {
    let [_, backup] = pair(world).await?;
    let dead = backup.life.incarnation;
    world.is_over(&backup).await;
    backup.die().await;
    let died = world.now();
    let replaced = || {
        let table = world.table();
        table.is_some_and(|table| {
            let mut others = table.configs().filter(|(_, it)| it.owner() != dead);
            others.all(|(_, it)| it.backup().is_some_and(|backup| backup != dead))
        })
    };
    until(replaced).await?;
    let took = world.now() - died;
    println!("all have another backup after {took:?}");
    match took <= REPLACED {
        true => Ok(()),
        false => Err(format!("other backups took {took:?}")),
    }
}

/// One user. An owner dies, and its last write lands when the promoted one has acknowledged another change, which is
/// in memory alone; then that one dies.
pub(super) async fn written_late(world: &Arc<World>) -> Result<(), String> {
    let (mut one, mut other) = (Client::shifted(world, 0, 1), Client::shifted(world, 1, 2));
    let [first, backup] = pair(world).await?;
    first.engine.flush_all().await;
    // The backup hears of it.
    sleep(Duration::from_millis(500)).await;
    let (from, to) = (first.life.incarnation, backup.life.incarnation);
    let of_first = world.late.hold(Kind::Writes(from));
    let frames = world.late.hold(Kind::Messages { from, to });
    world.cut_off(from, true);
    let write = async {
        sleep(Duration::from_millis(500)).await;
        write_late(world, &first, of_first).await
    };
    let (_, written) = tokio::join!(one.send(HOT, MENTION), write);
    written?;
    world.is_over(&first).await;
    first.die().await;
    world.late.lose(frames);

    let [second, _] = pair(world).await?;
    let of_second = world.late.hold(Kind::Writes(second.life.incarnation));
    acknowledged(other.send(HOT, MENTION).await)?;
    land(world, of_first).await?;
    world.is_over(&second).await;
    second.die().await;
    world.late.lose(of_second);

    owner(world).await?;
    acknowledged(one.send(HOT, MENTION).await)?;
    for client in [one, other] {
        client.end();
    }
    Ok(())
}
