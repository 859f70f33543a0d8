//! Swaps of the ring that are carried out late, after the member that asked for them was told that they failed:
//! whatever has happened meanwhile, nothing that was acknowledged is lost with no member but those that died.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates::ownership::store::MemoryRing;
use readstates_ring::{SLOTS, Succession, model::MUTANTS};
use tokio::{
    runtime::Builder,
    time::{sleep, timeout},
};

use super::{
    restores::{ack_all, lost, nothing_is_lost, restore, settled, table, with_ring},
    world::{Member, PausedWorld},
};
use crate::common::{
    faulty::{FaultyStore, Mood},
    severable::{Reach, Severable},
};

/// Three members, the first of which owns everything, with what each can reach.
struct Three {
    ring: Arc<MemoryRing>,
    database: Arc<FaultyStore>,
    members: [Member; 3],
    reaches: [Arc<Severable>; 3],
}

/// Message 5 is acknowledged, and the database is away.
async fn three() -> (PausedWorld, Three) {
    let (mut world, ring) = with_ring();
    let database = FaultyStore::new();
    world.store = Arc::clone(&database) as _;
    let there = Arc::clone(&world.ring);
    let reaches = [(); 3].map(|()| Severable::new(&there));
    let mut members = Vec::new();
    for reach in &reaches {
        world.ring = Arc::clone(reach) as _;
        members.push(world.member().await);
    }
    let Ok(members) = <[Member; 3]>::try_from(members) else {
        panic!("three reaches")
    };
    ack_all(&members[0], 5).await;
    database.set(Mood::Away);
    let three = Three {
        ring,
        database,
        members,
        reaches,
    };
    (world, three)
}

/// Plays a scene in paused time with all rules, and then without one: only then users lose what was acknowledged.
fn holds_by<S: Future<Output = Vec<u64>>>(rule: &str, scene: impl Fn() -> S) {
    let play = || {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(scene())
    };
    assert_eq!(play(), [0; 0]);
    let mutant = MUTANTS.into_iter().find(|mutant| mutant.name == rule);
    let lost = mutant.unwrap().with(play);
    assert!(!lost.is_empty(), "nothing is lost without {rule}");
}

async fn until(what: impl Fn() -> bool) {
    let comes = async {
        while !what() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), comes).await.unwrap();
}

fn move_all(from: &Member, to: &Member) -> impl Future<Output = ()> {
    let routes = Arc::clone(from.ownership.routes().table());
    let slots: Vec<_> = routes.owned_by(from.ownership.me().incarnation()).collect();
    let (from, to) = (Arc::clone(&from.ownership), to.ownership.me().incarnation());
    async move { assert_eq!(from.begin_move(to, &slots).await, Ok(SLOTS)) }
}

/// The second member has asked for the slots of the first one, which it took for dead, and the ring has not carried
/// that out. The first one has come back, has acknowledged message 6, and takes its slots again since a move has
/// failed: that is not carried out yet either.
async fn taken_over_late() -> (PausedWorld, Three) {
    let (world, three) = three().await;
    let [first, second, _] = &three.members;
    let [to_first, to_second, to_third] = &three.reaches;
    to_first.set(Reach::Away);
    to_second.set(Reach::LateSwaps);
    to_third.set(Reach::LateSwaps);
    until(|| !to_second.late_swaps().is_empty()).await;
    let asked = to_second.late_swaps().swap_remove(0);
    let me = second.ownership.me().incarnation();
    assert!(asked.owned_by(me).count() > 0);
    assert!(
        asked
            .configs()
            .all(|(_, it)| it.owner() != me || it.inherits().is_none())
    );
    to_first.set(Reach::There);
    settled(&[first]).await;
    ack_all(first, 6).await;
    to_third.set(Reach::There);
    world
        .network
        .loses_confirmations
        .store(true, Ordering::SeqCst);
    to_first.set(Reach::LateSwaps);
    move_all(first, second).await;
    until(|| !to_first.late_swaps().is_empty()).await;
    assert_eq!(first.ownership.status().sealed, SLOTS);
    (world, three)
}

#[tokio::test(start_paused = true)]
async fn a_take_over_that_is_carried_out_after_its_owner_came_back_changes_nothing() {
    let (_world, three) = taken_over_late().await;
    let [first, second, third] = &three.members;
    let before = table(&three.ring).await;
    assert_eq!(three.reaches[1].carry_out_late_swaps().await, 0);
    assert_eq!(table(&three.ring).await, before);
    assert_eq!(three.reaches[0].carry_out_late_swaps().await, 1);
    three.database.set(Mood::Healthy);
    for reach in &three.reaches {
        reach.set(Reach::There);
    }
    settled(&[first, second, third]).await;
    nothing_is_lost(&[first, second, third], 6).await;
}

#[test]
fn a_member_that_takes_its_slots_again_keeps_them_whatever_a_restored_ring_says() {
    holds_by("R16", restored_while_retaking);
}

async fn restored_while_retaking() -> Vec<u64> {
    let (world, three) = taken_over_late().await;
    let [first, second, third] = &three.members;
    // As if the store had been restored to when the take-over was asked for, and the second member had taken all again
    // since.
    let taken = three.reaches[1].late_swaps().swap_remove(0);
    let epochs = taken.configs().map(|(slot, it)| (slot, Some(it.epoch())));
    let (epochs, how): (Vec<_>, _) = (epochs.collect(), Succession::TakenOver);
    let later = world.unix_micros() + (1 << 28);
    let taken = taken.swap(&epochs, second.ownership.me(), how, later);
    restore(&three.ring, taken.unwrap()).await;
    sleep(Duration::from_millis(500)).await;
    three.database.set(Mood::Healthy);
    for reach in &three.reaches {
        reach.set(Reach::There);
    }
    settled(&[first, second, third]).await;
    lost(&[first, second, third], 6).await
}

/// A slot is handed to a member that dies, by a swap that lands so many seconds after it was asked for.
async fn handed_to_the_dead(seconds: u64) -> Vec<u64> {
    let (world, three) = three().await;
    let [first, second, third] = &three.members;
    let to_first = &three.reaches[0];
    to_first.set(Reach::LateSwaps);
    move_all(first, second).await;
    until(|| !to_first.late_swaps().is_empty()).await;
    assert_eq!(second.ownership.status().receiving, SLOTS);
    sleep(Duration::from_secs(seconds)).await;
    world.kill(second);
    assert_eq!(to_first.carry_out_late_swaps().await, 1);
    let owner = second.ownership.me().incarnation();
    assert_eq!(table(&three.ring).await.owned_by(owner).count(), 1024);
    sleep(Duration::from_millis(100)).await;
    to_first.set(Reach::There);
    three.database.set(Mood::Healthy);
    settled(&[first, third]).await;
    lost(&[first, third], 5).await
}

#[tokio::test(start_paused = true)]
async fn what_is_handed_on_by_a_swap_that_lands_while_the_ring_is_asked_is_kept_until_it_is_written()
 {
    assert_eq!(handed_to_the_dead(1).await, [0; 0]);
}

#[test]
fn what_is_handed_on_by_a_swap_that_lands_late_is_kept_until_it_is_written() {
    // After the origin has given up to ask the ring, and after it has given up once to write.
    for seconds in [12, 40] {
        holds_by("R18", || handed_to_the_dead(seconds));
    }
}

#[test]
fn a_member_that_has_not_served_what_it_received_does_not_say_so_when_its_lease_is_over() {
    holds_by("R18", received_and_not_served);
}

async fn received_and_not_served() -> Vec<u64> {
    let (world, three) = three().await;
    let [first, second, third] = &three.members;
    let [to_first, to_second, _] = &three.reaches;
    // The second one confirms, and its lease runs out before the first one hears of that.
    let network = &world.network;
    network
        .last_parts_answered_after
        .store(13, Ordering::SeqCst);
    to_first.set(Reach::LateSwaps);
    move_all(first, second).await;
    until(|| second.ownership.status().receiving == SLOTS).await;
    to_second.set(Reach::Away);
    until(|| !second.ownership.status().lease_valid).await;
    to_second.set(Reach::There);
    until(|| second.ownership.status().lease_valid).await;
    to_second.set(Reach::ReadOnly);
    until(|| !to_first.late_swaps().is_empty()).await;
    to_first.set(Reach::RenewsOnly);
    assert_eq!(to_first.carry_out_late_swaps().await, 1);
    until(|| second.ownership.status().owned == SLOTS).await;
    to_second.set(Reach::Away);
    assert_eq!(second.ownership.status().sealed, SLOTS);
    // It has not served any of them when its lease runs out once more. Then the first one learns of the ring.
    until(|| !second.ownership.status().lease_valid).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!(second.ownership.status().sealed, SLOTS);
    assert_eq!(network.hints_answered.load(Ordering::SeqCst), 0);
    to_first.set(Reach::There);
    until(|| network.hints_answered.load(Ordering::SeqCst) > 0).await;
    sleep(Duration::from_millis(100)).await;
    three.database.set(Mood::Healthy);
    settled(&[first, third]).await;
    lost(&[first, third], 5).await
}
