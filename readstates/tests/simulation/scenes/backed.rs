//! Slots have backups, and an owner dies with what is in its memory and in its backup's alone.

use std::{sync::Arc, time::Duration};

use readstates_ring::{Slot, replication::SILENCE};
use tokio::time::sleep;

use super::{
    clients,
    deaths::{MENTION, acknowledged, land, owner, write_late},
    table, until,
};
use crate::{
    clients::{Client, HOT},
    late::Kind,
    process::Process,
    world::World,
};

/// A slot would get a backup, or be handed on, within this time.
const SOON: Duration = Duration::from_secs(3);
/// A client that asks so often has asked each member, as good as surely.
const OFTEN: usize = 20;

/// Every slot has a backup.
pub(super) async fn all_named(world: &World) -> Result<(), String> {
    let named = || {
        let table = world.table();
        table.is_some_and(|table| table.configs().all(|(_, it)| it.backup().is_some()))
    };
    until(named).await
}

/// The owner of the user of all clients, and its backup.
pub(super) async fn pair(world: &Arc<World>) -> Result<[Arc<Process>; 2], String> {
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
    clients(world, 1, Duration::from_secs(2)).await;
    world.is_over(&owner).await;
    owner.die().await;
    world.set_database_away(false);
    // Not as long as until it is taken for dead itself.
    world.cut_off(backup.life.incarnation, true);
    sleep(SILENCE).await;
    world.cut_off(backup.life.incarnation, false);
    Ok(())
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

/// An owner dies while the database is away; the promoted one can write nothing of what it was promoted with. Returns that
/// one.
async fn promoted_without_database(world: &Arc<World>) -> Result<Arc<Process>, String> {
    let [first, _] = pair(world).await?;
    world.set_database_away(true);
    clients(world, 1, Duration::from_secs(1)).await;
    world.is_over(&first).await;
    first.die().await;
    owner(world).await
}

/// The promoted owner dies, too, as soon as the ring names another backup.
pub(super) async fn promoted_twice(world: &Arc<World>) -> Result<(), String> {
    let second = promoted_without_database(world).await?;
    let is_named = || backup(world, Slot::of_user(HOT)).is_some();
    let soon = world.now() + SOON;
    until(|| is_named() || world.now() >= soon).await?;
    // It gets one once it has written.
    world.set_database_away(is_named());
    until(is_named).await?;
    world.is_over(&second).await;
    second.die().await;
    world.set_database_away(false);
    Ok(())
}

/// The promoted owner is asked to hand on what it has.
pub(super) async fn moved_when_promoted(world: &Arc<World>) -> Result<(), String> {
    let second = promoted_without_database(world).await?;
    let me = second.life.incarnation;
    let living = world.living();
    let others = living.iter().map(|process| process.life.incarnation);
    let to = others.into_iter().find(|&it| it != me);
    let to = to.ok_or("no other member lives")?;
    let slots: Vec<_> = table(world).await?.owned_by(me).collect();
    // It refuses those of which the database lacks something.
    let _ = second.ownership.begin_move(to, &slots).await;
    sleep(SOON).await;
    world.set_database_away(false);
    Ok(())
}

/// An owner and its backup do not hear of each other, and the owner does not hear of the ring; it keeps its lease. The backup
/// is promoted. Then a client asks both for what it knows, which changes nothing but the promoted one's version.
pub(super) async fn zombie_answers(world: &Arc<World>) -> Result<(), String> {
    let mut client = Client::shifted(world, 0, 1);
    let [zombie, backup] = pair(world).await?;
    let (from, to) = (zombie.life.incarnation, backup.life.incarnation);
    acknowledged(client.send(HOT, MENTION).await)?;
    zombie.engine.flush_all().await;
    world.blind(from, true);
    world.break_link(from, to, true);
    world.break_link(to, from, true);
    until(|| backup.ownership.enter(Slot::of_user(HOT)).is_some()).await?;
    for _ in 0..OFTEN {
        client.send(HOT, MENTION).await;
        client.read(HOT).await;
    }
    world.break_link(from, to, false);
    world.break_link(to, from, false);
    world.blind(from, false);
    client.end();
    Ok(())
}
