//! Slots move from one member to another, and what belongs to that is late or lost.

use std::{sync::Arc, time::Duration};

use readstates_ring::{Epoch, Slot};
use tokio::time::sleep;

use super::{begin_move, busiest, clients, table, until, unwritten_changes};
use crate::{
    late::Kind,
    process::{Process, TIMING},
    world::World,
};

pub(super) async fn handed_late(world: &Arc<World>) -> Result<(), String> {
    // It owns nothing yet, so that it takes nothing again when its lease has run out.
    let (origin, slots, destination) = origin_and_destination(world).await?;
    unwritten_changes(world).await;
    let (from, to) = (origin.life.incarnation, destination.life.incarnation);
    let swaps = world.late.hold(Kind::Swaps);
    begin_move(&origin, to, &slots).await?;
    until(|| origin.ownership.status().sealed > 0 && world.late.count(swaps) > 0).await?;
    world.cut_off(to, true);
    until(|| !destination.ownership.status().lease_valid).await?;
    world.cut_off(to, false);
    until(|| destination.ownership.status().lease_valid).await?;
    // The origin has waited for its swap for as long as it does.
    sleep(Duration::from_secs(1)).await;
    world.late.let_go(swaps);
    until(|| destination.ownership.status().sealed > 0).await?;
    if table(world).await?.owned_by(from).count() > 0 {
        return Err("the late swap was not carried out".to_owned());
    }
    world.cut_off(to, true);
    sleep(Duration::from_secs(3)).await;
    world.set_database_away(false);
    sleep(Duration::from_secs(6)).await;
    world.cut_off(to, false);
    sleep(Duration::from_secs(3)).await;
    Ok(())
}

/// The destination has what was sealed and is silent about it; the origin takes the slots again, and moves them once
/// more.
pub(super) async fn last_part_of_the_move_before(world: &Arc<World>) -> Result<(), String> {
    let (origin, slots, destination) = origin_and_destination(world).await?;
    let (from, to) = (origin.life.incarnation, destination.life.incarnation);
    let link = Kind::Messages { from, to };
    let status = || origin.ownership.status();

    let offer = world.late.hold(link);
    begin_move(&origin, to, &slots).await?;
    until(|| world.late.count(offer) > 0).await?;
    let blocks = world.late.hold(link);
    world.late.let_go(offer);
    until(|| world.late.count(blocks) > 0).await?;
    clients(world, 1, Duration::from_millis(300)).await;
    let last_part = world.late.hold(link);
    world.late.let_go(blocks);
    until(|| world.late.count(last_part) > 0).await?;
    // It has said it several times, and takes the slots again.
    until(|| status().streaming.is_empty() && status().sealed == 0).await?;
    let (_, slots) = busiest(std::slice::from_ref(&origin))?;

    let offer = world.late.hold(link);
    begin_move(&origin, to, &slots).await?;
    until(|| world.late.count(offer) > 0).await?;
    let blocks = world.late.hold(link);
    world.late.let_go(offer);
    until(|| world.late.count(blocks) > 0).await?;
    // These changes are not among the blocks that were sent: they are in the last part of this move.
    clients(world, 2, Duration::from_millis(300)).await;
    let next_last_part = world.late.hold(link);
    world.late.let_go(blocks);
    until(|| world.late.count(next_last_part) > 0).await?;
    world.late.let_go(last_part);
    // As long as a message takes.
    sleep(Duration::from_millis(20)).await;
    world.late.let_go(next_last_part);
    until(|| status().streaming.is_empty() && status().sealed == 0).await?;
    if table(world).await?.owned_by(to).count() == 0 {
        return Err("the second move was not completed".to_owned());
    }
    Ok(())
}

/// The origin has asked the ring to name the destination, and has heard nothing for as long as it waits for that.
pub(super) async fn handed_after_giving_up(world: &Arc<World>) -> Result<(), String> {
    let (origin, slots, destination) = origin_and_destination(world).await?;
    let (from, to) = (origin.life.incarnation, destination.life.incarnation);
    let swaps = world.late.hold(Kind::Swaps);
    begin_move(&origin, to, &slots).await?;
    until(|| origin.ownership.status().sealed > 0 && world.late.count(swaps) > 0).await?;
    until(|| origin.ownership.status().streaming.is_empty()).await?;
    clients(world, 1, Duration::from_millis(1_500)).await;
    // The destination is the first to see it.
    world.cut_off(from, true);
    world.late.let_go(swaps);
    until(|| destination.ownership.status().owned > 0).await?;
    if table(world).await?.owned_by(from).count() > 0 {
        return Err("the late swap was not carried out".to_owned());
    }
    clients(world, 2, Duration::from_secs(1)).await;
    world.cut_off(from, false);
    Ok(())
}

/// The origin has asked the ring to name the destination, and the ring never does.
pub(super) async fn handed_by_a_lost_swap(world: &Arc<World>) -> Result<(), String> {
    let (origin, slots, destination) = origin_and_destination(world).await?;
    unwritten_changes(world).await;
    let swaps = world.late.hold(Kind::Swaps);
    begin_move(&origin, destination.life.incarnation, &slots).await?;
    until(|| origin.ownership.status().sealed > 0 && world.late.count(swaps) > 0).await?;
    // What it frees by now is freed.
    sleep(Duration::from_millis(100)).await;
    world.set_database_away(false);
    // As long as it waits for its swap.
    sleep(TIMING.held).await;
    world.late.lose(swaps);
    Ok(())
}

type Move = (Arc<Process>, Vec<(Slot, Epoch)>, Arc<Process>);

/// The member with the most users in memory, its slots, and a member that has just joined and owns nothing.
async fn origin_and_destination(world: &Arc<World>) -> Result<Move, String> {
    let owners = world.living();
    let destination = Process::start(world, 3);
    until(|| *destination.ownership.joined().borrow()).await?;
    let (origin, slots) = busiest(&owners)?;
    Ok((origin, slots, destination))
}
