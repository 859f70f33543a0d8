//! One seed: members, clients and rebalancers start, things happen, all calms down, and the books are compared.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates::ownership::Ownership;
use readstates_api::admin::OwnershipStatus;
use readstates_ring::{
    Epoch, Slot,
    moves::{Live, next_batch},
    planner::Candidate,
};
use tokio::{task::JoinSet, time::sleep};

use super::{
    clients::Client,
    compare::{Held, MOST_SHOWN, compare},
    historians::{HISTORIANS, Historian},
    process::Process,
    world::World,
};

pub(crate) const CLIENTS: u64 = 4;
const MOST_MEMBERS: usize = 4;
/// How long things happen.
const EVENTFUL: Duration = Duration::from_secs(25);
/// How long the members may take to come to rest afterwards.
const SETTLES: Duration = Duration::from_secs(60);
/// Longer than any message or write is late.
const EVERYTHING_ARRIVES: Duration = Duration::from_secs(9);
const LEAVING: Duration = Duration::from_secs(12);
/// The most deaths (or what looks like one to the others) of a seed: what they excuse is not all there is.
const MOST_DEATHS: u32 = 2;
/// Too short for a member to be taken for dead.
const SHORT: std::ops::Range<u64> = 50..800;
/// Long enough for a member to be taken for dead.
const LONG: std::ops::Range<u64> = 6_000..9_000;

/// The result of a seed.
#[derive(Debug)]
pub(crate) struct Ran {
    /// How much was done, or what is wrong.
    pub(crate) outcome: Result<Held, String>,
    /// What happened, line by line.
    pub(crate) trace: Vec<String>,
    /// Stands for all of the trace.
    pub(crate) fingerprint: u64,
}

/// Runs a seed.
pub(crate) async fn run(world: &Arc<World>) -> Result<Held, String> {
    let seed = world.seed;
    for ordinal in 0..3 {
        Process::start(world, ordinal);
    }
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(Client::new(world, number).run(EVENTFUL + Duration::from_secs(2)));
    }
    for number in 0..HISTORIANS {
        clients.spawn(Historian::new(world, number).run(EVENTFUL + Duration::from_secs(2)));
    }
    let mut rebalancers = JoinSet::new();
    for _ in 0..2 {
        rebalancers.spawn(rebalance(Arc::clone(world)));
    }
    let mut beside = JoinSet::new();
    let mut deaths = 0;
    while world.now() < EVENTFUL {
        world.pass(200, 1_500).await;
        // In every other seed no member dies: nothing may be lost at all.
        // An owner and its backup may die together: then something is lost.
        let most = if world.backed { 1 } else { MOST_DEATHS };
        if seed % 2 == 1 && deaths < most && world.draw(0, 4) == 0 {
            deaths += 1;
            death(world, &mut beside).await;
        } else {
            event(world, &mut beside).await;
        }
    }
    world.calm_down();
    for process in world.living() {
        process.stops_at_work.store(false, Ordering::Relaxed);
    }
    world.say(|| "all is calm".to_owned());
    while beside.join_next().await.is_some() {}
    rebalancers.shutdown().await;
    // A member whose clock is right has to be there to take the slots without an owner.
    for ordinal in 4.. {
        if world
            .living()
            .iter()
            .any(|process| process.wrong_clock.is_none())
        {
            break;
        }
        Process::start(world, ordinal);
    }
    while clients.join_next().await.is_some() {}
    settle(world).await?;
    sleep(EVERYTHING_ARRIVES).await;
    compare(world).await
}

/// Something that members must bear without a loss.
async fn event(world: &Arc<World>, beside: &mut JoinSet<()>) {
    let living = world.living();
    if living.is_empty() {
        Process::start(world, 0);
        return;
    }
    let any = || Arc::clone(&living[world.draw(0, living.len() as u64) as usize]);
    let (one, other) = (any(), any());
    let there = Arc::clone(world);
    world.back_up();
    match world.draw(0, 11) {
        0 | 1 => {
            let free = (0..4).find(|ordinal| {
                let name = format!("sim-{ordinal}");
                living.iter().all(|process| process.name != name)
            });
            if let Some(ordinal) = free.filter(|_| living.len() < MOST_MEMBERS) {
                Process::start(world, ordinal);
            }
        }
        2 if living.len() > 1 => {
            world.say(|| format!("{one:?} is to leave"));
            beside.spawn(async move {
                let Some(ended) = one.leave(LEAVING).await else {
                    return;
                };
                there.say(|| format!("{one:?} has left: {ended:?}"));
                if !ended.everything_is_written() {
                    there.is_over(&one).await;
                    // An owner that is cut off from the ring is silent, and lives with what it acknowledged.
                    let owners_live = ended.unwritten_users == 0
                        && there.backs_one_that_is_cut_off(one.life.incarnation);
                    if there.seed.is_multiple_of(2) && !owners_live {
                        there.wrong(format!("{one:?} left without having written everything"));
                    }
                }
            });
        }
        3 => {
            let (from, to) = (one.life.incarnation, other.life.incarnation);
            let both = world.draw(0, 2) == 0;
            world.say(|| format!("nothing gets from {one:?} to {other:?}, or back: {both}"));
            world.break_link(from, to, true);
            if both {
                world.break_link(to, from, true);
            }
            beside.spawn(async move {
                there.pass(100, 6_000).await;
                there.say(|| format!("all gets from {one:?} to {other:?} and back"));
                there.break_link(from, to, false);
                there.break_link(to, from, false);
            });
        }
        // A member that reaches neither the ring nor the database cannot write what it will lose.
        4 if world.seed.is_multiple_of(2) && !world.is_anybody_cut_off() => {
            world.say(|| "the database is away".to_owned());
            world.set_database_away(true);
            world.pass(100, 2_500).await;
            world.set_database_away(false);
            world.say(|| "the database is back".to_owned());
        }
        5 if !world.is_cut_off(one.life.incarnation) => {
            world.say(|| format!("{one:?} stops for a moment"));
            one.life.stop(true);
            world.pass(SHORT.start, SHORT.end).await;
            one.life.stop(false);
            world.say(|| format!("{one:?} goes on"));
            world.pass(1_500, 2_500).await;
        }
        6 if !world.is_cut_off(one.life.incarnation) => {
            world.say(|| format!("{one:?} is cut off from the ring for a moment"));
            world.cut_off(one.life.incarnation, true);
            world.pass(SHORT.start, SHORT.end).await;
            world.cut_off(one.life.incarnation, false);
            world.say(|| format!("{one:?} reaches the ring again"));
            world.pass(1_500, 2_500).await;
        }
        7..11 => trouble_with_the_ring(world, one, beside).await,
        _ => {}
    }
}

/// The store of the ring is not as it should be, for longer than a lease lasts or for a moment; all members live, and
/// nothing may be lost.
async fn trouble_with_the_ring(world: &Arc<World>, one: Arc<Process>, beside: &mut JoinSet<()>) {
    let there = Arc::clone(world);
    match world.draw(0, 4) {
        0 => {
            world.say(|| "the ring is away".to_owned());
            world.set_ring_away(true);
            beside.spawn(async move {
                there.pass(500, LONG.end).await;
                there.set_ring_away(false);
                there.say(|| "the ring is back".to_owned());
            });
        }
        1 => {
            world.say(|| "the ring is slow".to_owned());
            world.set_ring_slow(true);
            beside.spawn(async move {
                there.pass(500, LONG.end).await;
                there.set_ring_slow(false);
                there.say(|| "the ring is as fast as before".to_owned());
            });
        }
        // An owner that is dead and a backup that cannot be promoted are two faults at once.
        2 if !world.is_cut_off(one.life.incarnation)
            && !one.life.is_stopped()
            && !world.is_the_last_with_something(&one) =>
        {
            world.say(|| format!("{one:?} is cut off from the ring for long"));
            world.cut_off(one.life.incarnation, true);
            beside.spawn(async move {
                there.pass(LONG.start, LONG.end).await;
                there.cut_off(one.life.incarnation, false);
                there.say(|| format!("{one:?} reaches the ring again"));
            });
        }
        3 if world.has_restores() => world.restore().await,
        _ => {}
    }
}

/// A member dies, or the others must believe that it has.
async fn death(world: &Arc<World>, beside: &mut JoinSet<()>) {
    let living = world.living();
    if living.is_empty() {
        return;
    }
    let one = Arc::clone(&living[world.draw(0, living.len() as u64) as usize]);
    match world.draw(0, 3) {
        0 => {
            world.say(|| format!("{one:?} dies"));
            world.is_over(&one).await;
            one.die().await;
        }
        1 => drop(beside.spawn(stop_for_long(Arc::clone(world), one))),
        _ => one.stops_at_work.store(true, Ordering::Relaxed),
    }
}

/// A member stops at once, and goes on when the others must believe that it is dead.
pub(crate) fn stop_for_long(
    world: Arc<World>,
    one: Arc<Process>,
) -> impl Future<Output = ()> + use<> {
    world.say(|| format!("{one:?} stops for long"));
    one.life.stop(true);
    async move {
        world.is_over(&one).await;
        world.pass(LONG.start, LONG.end).await;
        one.life.stop(false);
        world.say(|| format!("{one:?} goes on"));
    }
}

/// One of two rebalancers that do not know of each other, each with a ring that may be old: it asks for moves that
/// balance, and for moves at random.
async fn rebalance(world: Arc<World>) {
    loop {
        world.pass(200, 1_500).await;
        let living = world.living();
        if living.len() < 2 {
            continue;
        }
        let any = || &living[world.draw(0, living.len() as u64) as usize];
        let table = Arc::clone(any().ownership.routes().table());
        let most = world.draw(1, 65) as usize;
        if world.draw(0, 10) < 6 {
            let live: Vec<Live> = living.iter().map(|process| live(process)).collect();
            let Some(wish) = next_batch(&table, &live, most) else {
                continue;
            };
            let find = |incarnation| {
                living
                    .iter()
                    .find(|process| process.life.incarnation == incarnation)
            };
            if let (Some(from), Some(to)) = (find(wish.from), find(wish.to)) {
                ask_to_move(&world, from, &to.ownership, &wish.slots);
            }
        } else {
            let (from, to) = (any(), any());
            let mine: Vec<_> = table.owned_by(from.life.incarnation).collect();
            if from.life.incarnation == to.life.incarnation || mine.is_empty() {
                continue;
            }
            let first = world.draw(0, mine.len() as u64) as usize;
            let slots: Vec<_> = mine.into_iter().skip(first).take(most).collect();
            ask_to_move(&world, from, &to.ownership, &slots);
        }
    }
}

fn ask_to_move(
    world: &Arc<World>,
    from: &Arc<Process>,
    to: &Arc<Ownership>,
    slots: &[(Slot, Epoch)],
) {
    if from.life.is_stopped() {
        return;
    }
    let (world, from, slots) = (Arc::clone(world), Arc::clone(from), slots.to_vec());
    let to = to.me().incarnation();
    // It may look at the ring first, and be stopped there.
    tokio::spawn(async move {
        let begun = from.ownership.begin_move(to, &slots).await;
        world.say(|| format!("{from:?} moves {begun:?} of {} slots to {to}", slots.len()));
    });
}

fn live(process: &Process) -> Live {
    let ordinal = process
        .name
        .rsplit_once('-')
        .and_then(|(_, ordinal)| ordinal.parse().ok());
    Live {
        incarnation: process.life.incarnation,
        candidate: Candidate {
            name: process.name.clone(),
            ordinal,
            zone: None,
        },
    }
}

/// Waits until every slot is owned, served and known to be.
pub(crate) async fn settle(world: &Arc<World>) -> Result<(), String> {
    let deadline = world.now() + SETTLES;
    loop {
        let living = world.living();
        let statuses: Vec<_> = living
            .iter()
            .map(|process| process.ownership.status())
            .collect();
        let owned: u32 = statuses.iter().map(|status| u32::from(status.owned)).sum();
        let restless = !statuses.iter().all(is_at_rest);
        let restless = restless || living.iter().any(|process| process.life.is_stopped());
        let tables = living
            .iter()
            .map(|process| Arc::clone(process.ownership.routes().table()));
        let tables: Vec<_> = tables.collect();
        let same = tables.windows(2).all(|two| two[0] == two[1]);
        if owned == u32::from(readstates_ring::SLOTS) && !restless && same {
            return Ok(());
        }
        if world.now() > deadline {
            let numbers = tables.iter().map(|table| table.number());
            let numbers: Vec<u64> = numbers.collect();
            let (_, wrong) = world.books();
            return Err(format!(
                "not at rest after {SETTLES:?}: {statuses:?}, rings {numbers:?}, all the same: {same}; found until \
                 then: {:#?}",
                &wrong[..wrong.len().min(MOST_SHOWN)]
            ));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Serves what it owns and is in the middle of nothing.
fn is_at_rest(status: &OwnershipStatus) -> bool {
    let moving = status.sealed > 0 || status.receiving > 0 || !status.streaming.is_empty();
    status.lease_valid && !moving
}
