//! Members that answer late or not at all: how often slots get other backups for it, and how soon.

use std::{ops::Range, sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{
    backed::{all_named, pair},
    clients, until,
};
use crate::world::World;

/// Milliseconds by which a message is late that is hardly ever borne: an owner waits 800 ms for an answer at most.
const LATE: Range<u64> = 300..3_000;
/// Those that are always borne once they are known: a frame and its answer may both be as late.
const A_LITTLE_LATE: Range<u64> = 250..380;
/// While clients work.
const BUSY: Duration = Duration::from_secs(20);

/// For how long a member is late by more than is borne.
const STARVED: Duration = Duration::from_secs(600);
/// How often a slot gets a backup in that time at most: each of the two others rests for 1, 2, 4 .. 128, 128, 128 s, so that eleven
/// rests of each begin.
const MOST_NAMED: u64 = 22;
/// How far epochs come further ahead of the time at most. They are furthest when the eighth rests begin, after 127 s: two processes, each
/// named and dropped eight times, at 16.8 s an epoch.
const MOST_AHEAD: Duration = Duration::from_secs(2 * 8 * 2 * 17 - 127);

/// A member is late again and again, as owner and as backup, by more than is borne; then it is not.
pub(super) async fn member_starves(world: &Arc<World>) -> Result<(), String> {
    let [owner, starved] = pair(world).await?;
    let (ends, before) = (world.now() + STARVED, world.ahead());
    world.most_named();
    world.starve(starved.life.incarnation, LATE);
    clients(world, 1, BUSY).await;
    let mut ahead = Duration::ZERO;
    while world.now() < ends {
        sleep(Duration::from_secs(1)).await;
        ahead = ahead.max(world.ahead().saturating_sub(before));
    }
    let named = world.most_named();
    println!("a slot got {named} backups in {STARVED:?}, epochs were {ahead:?} ahead");
    if named > MOST_NAMED || ahead > MOST_AHEAD {
        return Err(format!(
            "a slot got {named} backups, and epochs were {ahead:?} ahead"
        ));
    }
    if owner.life.is_dead() || starved.life.is_dead() {
        return Err("a member that was slow was taken for dead".to_owned());
    }
    world.feed_all();
    // The longest rest is less than three minutes.
    for _ in 0..3 {
        if all_named(world).await.is_ok() {
            return Ok(());
        }
    }
    Err("slots have no backups though no member is slow".to_owned())
}

/// How often a slot gets a backup if lateness is known: each of the two others is given up after 200 ms, and at most once more
/// when frame and answer are late for the first time.
const MOST_NAMED_KNOWN: u64 = 4;

/// A member is late again and again, as owner and as backup, by less than is borne.
pub(super) async fn member_is_usually_late(world: &Arc<World>) -> Result<(), String> {
    let [_, late] = pair(world).await?;
    world.most_named();
    world.starve(late.life.incarnation, A_LITTLE_LATE);
    clients(world, 1, BUSY).await;
    sleep(Duration::from_secs(100)).await;
    let named = world.most_named();
    println!("a slot got {named} backups in two minutes");
    world.feed_all();
    match named {
        // With none no message was late.
        1..=MOST_NAMED_KNOWN => all_named(world).await,
        _ => Err(format!("a slot got {named} backups in two minutes")),
    }
}

/// From the moment at which no member is late any more until every slot has a backup, though those that were late rest: a message
/// is under way for three seconds, all answers are in time for five, the clock catches up with two epochs, and seeds.
const TRIED: Duration = Duration::from_secs(3 + 5 + 34 + 3);

/// All members are late again and again, by more than is borne, and changes are refused without a backup; then none is.
pub(super) async fn all_starve(world: &Arc<World>) -> Result<(), String> {
    for process in world.living() {
        world.starve(process.life.incarnation, LATE);
    }
    clients(world, 1, BUSY).await;
    sleep(STARVED - BUSY).await;
    world.feed_all();
    let fed = world.now();
    all_named(world).await?;
    let took = world.now() - fed;
    println!("all slots have a backup after {took:?}");
    match took <= TRIED {
        true => Ok(()),
        false => Err(format!("backups took {took:?}")),
    }
}

/// From the death of a backup until its owners have another: a heartbeat leaves within 250 ms, is late after 200, the ring is
/// asked twice, and between is a seed; looks are 50 ms apart.
const REPLACED: Duration = Duration::from_secs(1);

/// A backup dies: those that live back one another before they know that it is dead.
pub(super) async fn backup_dies(world: &Arc<World>) -> Result<(), String> {
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
