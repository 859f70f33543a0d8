//! Events in one order, with all else calm: what random seeds hardly ever do. Each scene holds with all rules, and breaks
//! a promise without the rule that it is about.

use std::{sync::Arc, time::Duration};

use readstates::ownership::store::RingStore;
use readstates_ring::{Incarnation, RingMember, RingTable, SLOTS, Stamp, Succession};
use tokio::{task::JoinSet, time::sleep};

use super::{
    clients::Client,
    events::{CLIENTS, compare, settle},
    process::Process,
    world::World,
};

/// What happens, and the rule that the scene is about.
pub(crate) const SCENES: [(&str, Scene); 3] = [
    ("R16", Scene::StolenByARestoredRing),
    ("R17", Scene::ForgottenByARestoredRing),
    ("R18", Scene::HandedByALateSwap),
];

/// A scene by its last event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scene {
    /// In a restored ring a process that is dead has taken all slots.
    StolenByARestoredRing,
    /// A member is cut off; others take its slots, write what they acknowledge, and die; the ring forgets them.
    ForgottenByARestoredRing,
    /// A swap that hands slots on is carried out after its sender has given it up. Meanwhile the lease of the
    /// destination has run out, and it runs out again before the destination serves.
    HandedByALateSwap,
}

impl Scene {
    /// Plays it; returns how many changes were acknowledged, or what is wrong.
    pub(crate) async fn play(self, world: &Arc<World>) -> Result<u64, String> {
        world.calm_down();
        for ordinal in 0..3 {
            Process::start(world, ordinal);
        }
        while world.owned() < u32::from(SLOTS) {
            sleep(Duration::from_millis(50)).await;
        }
        settle(world).await?;
        // Users are loaded, and what is acknowledged from then on is in memory alone.
        clients(world, 0, Duration::from_secs(2)).await;
        match self {
            Self::StolenByARestoredRing => stolen(world).await?,
            Self::ForgottenByARestoredRing => forgotten(world).await?,
            Self::HandedByALateSwap => handed_late(world).await?,
        }
        settle(world).await?;
        compare(world).await
    }
}

/// All clients work for so long; each time they are others, with channels of their own.
async fn clients(world: &Arc<World>, shift: u64, length: Duration) {
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let until = world.now() + length;
        clients.spawn(Client::shifted(world, number, shift).run(until));
    }
    while clients.join_next().await.is_some() {}
}

async fn unwritten_changes(world: &Arc<World>) {
    world.set_database_away(true);
    clients(world, 1, Duration::from_millis(1_500)).await;
}

async fn until(what: impl Fn() -> bool) -> Result<(), String> {
    for _ in 0..60_000 {
        if what() {
            return Ok(());
        }
        sleep(Duration::from_millis(1)).await;
    }
    Err("the scene does not come to its next event within a minute".to_owned())
}

async fn table(world: &World) -> Result<Arc<RingTable>, String> {
    let current = world.ring.get().await.map_err(|error| error.to_string())?;
    Ok(current.ok_or("there is no ring")?.table)
}

async fn stolen(world: &Arc<World>) -> Result<(), String> {
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

async fn forgotten(world: &Arc<World>) -> Result<(), String> {
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

async fn handed_late(world: &Arc<World>) -> Result<(), String> {
    let owners = world.living();
    // It owns nothing yet, so that it takes nothing again when its lease has run out.
    let destination = Process::start(world, 3);
    until(|| *destination.ownership.joined().borrow()).await?;
    unwritten_changes(world).await;
    let users = |process: &&Arc<Process>| process.engine.totals().users;
    let Some(origin) = owners.iter().max_by_key(users) else {
        return Err("no member lives".to_owned());
    };
    let (from, to) = (origin.life.incarnation, destination.life.incarnation);
    let routes = Arc::clone(origin.ownership.routes().table());
    let slots: Vec<_> = routes.owned_by(from).collect();
    // Those of all members: the one that was asked for first is carried out first.
    world.hold_swaps(true);
    let begun = origin.ownership.begin_move(to, &slots).await;
    if begun.is_err() {
        return Err(format!("the move does not begin: {begun:?}"));
    }
    until(|| origin.ownership.status().sealed > 0 && world.held_swaps() > 0).await?;
    world.cut_off(to, true);
    until(|| !destination.ownership.status().lease_valid).await?;
    world.cut_off(to, false);
    until(|| destination.ownership.status().lease_valid).await?;
    // The origin has waited for its swap for as long as it does.
    sleep(Duration::from_secs(1)).await;
    world.hold_swaps(false);
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
