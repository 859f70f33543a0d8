//! The ring store forgets what was written last, or everything, and no member dies: members that serve go on serving,
//! and nothing that was acknowledged is lost.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates::{
    block::Outcome,
    ownership::store::{MemoryRing, RingStore, Swapped},
};
use readstates_ring::{RingTable, SLOTS, Slot};
use tokio::time::{Instant, sleep, timeout};

use super::world::{Member, PausedWorld, Said};
use crate::common::severable::{Reach, Severable};

pub(super) const USERS: std::ops::RangeInclusive<u64> = 1..=100;

/// A world, and its ring, which a test can get at.
pub(super) fn with_ring() -> (PausedWorld, Arc<MemoryRing>) {
    let (mut world, ring) = (PausedWorld::new(), Arc::new(MemoryRing::default()));
    world.ring = Arc::clone(&ring) as _;
    (world, ring)
}

pub(super) async fn table(ring: &MemoryRing) -> Arc<RingTable> {
    ring.get().await.unwrap().unwrap().table
}

pub(super) async fn restore(ring: &MemoryRing, past: RingTable) {
    let version = ring.get().await.unwrap().map(|current| current.version);
    let swapped = ring.compare_and_swap(version, past).await;
    assert!(matches!(swapped, Ok(Swapped::Taken(_))));
}

/// Leaves like a member that is told to stop: everything is handed on and written, and it says so.
async fn leave(world: &PausedWorld, member: &Member) {
    let ended = member.ownership.stop(Duration::from_secs(60)).await;
    assert!(ended.handed_on);
    assert_eq!(ended.unwritten_users, 0);
    world.kill(member);
}

/// All users acknowledge a message, nothing of which is in the database yet.
pub(super) async fn ack_all(member: &Member, message: u64) {
    for user in USERS {
        let said = member.ack(user, message).await;
        assert!(
            matches!(said, Said::Done(Outcome::Applied, _)),
            "{user}: {said:?}"
        );
    }
}

/// Waits until every slot is served by one of these.
pub(super) async fn settled(members: &[&Member]) {
    let settles = async {
        loop {
            let status = || members.iter().map(|member| member.ownership.status());
            let owned: u16 = status().map(|it| it.owned).sum();
            if owned == SLOTS && status().all(|it| it.sealed == 0 && it.lease_valid) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(120), settles).await.unwrap();
}

/// The message is there for all users: acknowledging it again changes nothing.
pub(super) async fn nothing_is_lost(members: &[&Member], message: u64) {
    assert_eq!(lost(members, message).await, [0; 0]);
}

/// The users for whom the message is not there. One member serves each user.
pub(super) async fn lost(members: &[&Member], message: u64) -> Vec<u64> {
    let mut lost = Vec::new();
    for user in USERS {
        let mut outcomes = Vec::new();
        for member in members {
            if let Said::Done(outcome, _) = member.ack(user, message).await {
                outcomes.push(outcome);
            }
        }
        match outcomes[..] {
            [Outcome::Ignored] => {}
            [_] => lost.push(user),
            _ => panic!("user {user}: {outcomes:?}"),
        }
    }
    lost
}

/// A member owns everything, has acknowledged what is not written, and got all of it from one that has left since.
async fn heir(world: &mut PausedWorld, ring: &MemoryRing) -> (Member, Arc<RingTable>) {
    let first = world.member().await;
    let second = world.member().await;
    let past = table(ring).await;
    assert_eq!(first.owned(), SLOTS);
    leave(world, &first).await;
    settled(&[&second]).await;
    ack_all(&second, 5).await;
    (second, past)
}

#[tokio::test(start_paused = true)]
async fn whoever_serves_keeps_its_slots_when_a_restored_ring_gives_them_to_a_process_that_has_just_started()
 {
    let (mut world, ring) = with_ring();
    let (second, past) = heir(&mut world, &ring).await;
    // In that table the first member, which has left, owns everything: a process that starts now takes its share at
    // once, at epochs that may be the same.
    restore(&ring, RingTable::clone(&past)).await;
    let third = world.member().await;
    settled(&[&second, &third]).await;
    nothing_is_lost(&[&second, &third], 5).await;
    assert_eq!(
        second.owned(),
        SLOTS,
        "no member died, and no slot was moved"
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_serves_keeps_its_slots_when_somebody_has_taken_them_before_it_looks() {
    let (mut world, ring) = with_ring();
    let (second, past) = heir(&mut world, &ring).await;
    // As left by a thief that has died since: all slots taken, at the epochs at which the second one serves, and later.
    let thief = readstates_ring::RingMember::new(
        "chat-9",
        readstates_ring::Incarnation::new(9),
        "http://chat-9",
        None,
    );
    let asked: Vec<_> = past
        .configs()
        .map(|(slot, config)| (slot, Some(config.epoch())))
        .collect();
    let how = readstates_ring::Succession::TakenOver;
    let stolen = past.swap(&asked, &thief.unwrap(), how, world.unix_micros());
    let stolen = stolen.unwrap();
    let slot = Slot::of_user(1);
    let epoch = |table: &RingTable| table.config(slot).unwrap().epoch();
    assert_eq!(epoch(&stolen), epoch(&*table(&ring).await), "given twice");
    restore(&ring, stolen).await;
    ack_all(&second, 6).await;
    sleep(Duration::from_secs(60)).await;
    settled(&[&second]).await;
    nothing_is_lost(&[&second], 6).await;
    let now = table(&ring).await;
    assert_eq!(now.members().len(), 1);
    assert_eq!(
        now.members()[0].incarnation(),
        second.ownership.me().incarnation()
    );
}

#[tokio::test(start_paused = true)]
async fn a_ring_that_is_deleted_is_put_back_by_those_who_live_and_nobody_takes_anything() {
    for made_anew in [false, true] {
        let (mut world, ring) = with_ring();
        let (second, _) = heir(&mut world, &ring).await;
        let before = table(&ring).await;
        ring.delete();
        if made_anew {
            // As the operator does.
            restore(&ring, RingTable::empty(before.number() + 7)).await;
        }
        let third = world.member().await;
        settled(&[&second, &third]).await;
        nothing_is_lost(&[&second, &third], 5).await;
        assert_eq!(second.owned(), SLOTS);
        let now = table(&ring).await;
        assert!(now.number() > before.number());
        assert!(now.configs().eq(before.configs()), "at the same epochs");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_forgotten_a_member_that_lives_waits_for_it() {
    let (mut world, ring) = with_ring();
    let (second, past) = heir(&mut world, &ring).await;
    // Everything is restored: the process that came since, too.
    restore(&ring, RingTable::clone(&past)).await;
    ring.forget(second.ownership.me().incarnation())
        .await
        .unwrap();
    sleep(Duration::from_secs(4)).await;
    let third = world.member().await;
    settled(&[&second, &third]).await;
    nothing_is_lost(&[&second, &third], 5).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_restored_ring_gives_again_is_above_every_epoch_that_the_dead_have_said() {
    let (mut world, ring) = with_ring();
    let (second, past) = heir(&mut world, &ring).await;
    let before = table(&ring).await;
    world.kill(&second);
    // The ring knows of one slot at an epoch as high as those that it has forgotten.
    let (slot, config) = past.configs().last().unwrap();
    let owner = past.owner(slot).unwrap().clone();
    let how = readstates_ring::Succession::TakenOver;
    let later = world.unix_micros() + (1 << 25);
    let past = past.swap(&[(slot, Some(config.epoch()))], &owner, how, later);
    restore(&ring, past.unwrap()).await;
    let third = world.member().await;
    settled(&[&third]).await;
    let now = table(&ring).await;
    for (slot, config) in now.configs() {
        let known = before.config(slot).unwrap().epoch();
        assert!(config.epoch() > known, "slot {slot}: {config:?}, {known}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_was_cut_off_begins_with_the_database_when_the_ring_has_forgotten_who_served_meanwhile()
 {
    let (mut world, ring) = with_ring();
    let reach = Severable::new(&world.ring);
    world.ring = Arc::clone(&reach) as _;
    let first = world.member().await;
    world.ring = Arc::clone(&ring) as _;
    ack_all(&first, 5).await;
    let past = table(&ring).await;
    reach.set(Reach::Away);
    let second = world.member().await;
    settled(&[&second]).await;
    ack_all(&second, 6).await;
    second.engine.flush_all().await;
    world.kill(&second);
    // Exactly what the first one knows: only the last word of the dead one shows that the ring was restored.
    restore(&ring, RingTable::clone(&past)).await;
    reach.set(Reach::There);
    settled(&[&first]).await;
    nothing_is_lost(&[&first], 6).await;
    let (now, known) = (table(&ring).await, second.ownership.routes());
    for (slot, config) in now.configs() {
        let given = known.table().config(slot).unwrap().epoch();
        assert!(config.epoch() > given, "slot {slot}: {config:?}, {given}");
    }
}

/// A member has handed all slots to a second one, which waits for the agreement of a third one.
struct NotServedYet {
    ring: Arc<MemoryRing>,
    /// As it was before.
    past: Arc<RingTable>,
    members: [Member; 3],
    to_third: Arc<Severable>,
}

/// Message 5 is acknowledged and not written. The third member does not say what it has seen of the ring.
async fn not_served_yet() -> (PausedWorld, NotServedYet) {
    let (mut world, ring) = with_ring();
    let first = world.member().await;
    let (to_second, to_third) = (Severable::new(&world.ring), Severable::new(&world.ring));
    world.ring = Arc::clone(&to_second) as _;
    let second = world.member().await;
    world.ring = Arc::clone(&to_third) as _;
    let third = world.member().await;
    ack_all(&first, 5).await;
    let past = table(&ring).await;
    // The second one confirms, and its lease runs out before the first one hears of that.
    let network = &world.network;
    network
        .last_parts_answered_after
        .store(11, Ordering::SeqCst);
    let mine = past.owned_by(first.ownership.me().incarnation());
    let slots: Vec<_> = mine.collect();
    let to = second.ownership.me().incarnation();
    assert_eq!(first.ownership.begin_move(to, &slots).await, Ok(SLOTS));
    sleep(Duration::from_millis(500)).await;
    assert_eq!(second.ownership.status().receiving, SLOTS);
    to_second.set(Reach::Away);
    sleep(Duration::from_millis(9_900)).await;
    // It renews it before it is taken for dead.
    to_third.set(Reach::Silent);
    to_second.set(Reach::There);
    while !first.ownership.status().streaming.is_empty() {
        sleep(Duration::from_millis(20)).await;
    }
    let status = second.ownership.status();
    assert_eq!(
        (first.owned(), status.owned, status.sealed),
        (0, SLOTS, SLOTS)
    );
    // It loses its lease once more and takes the slots again: the ring is on another line, and the third member, which
    // lives, does not say that it has seen that.
    let line = table(&ring).await.line();
    to_second.set(Reach::Away);
    to_third.set(Reach::There);
    sleep(Duration::from_millis(10_200)).await;
    to_third.set(Reach::Silent);
    to_second.set(Reach::There);
    let taken_again = async {
        while table(&ring).await.line() == line {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(5), taken_again).await.unwrap();
    assert_eq!(second.ownership.status().sealed, SLOTS);
    let members = [first, second, third];
    let handed = NotServedYet {
        ring,
        past,
        members,
        to_third,
    };
    (world, handed)
}

#[tokio::test(start_paused = true)]
async fn what_was_handed_to_a_member_that_does_not_serve_yet_is_written_by_the_one_that_handed_it_on()
 {
    let (_world, handed) = not_served_yet().await;
    let NotServedYet {
        ring,
        past,
        members: [first, second, third],
        to_third,
    } = handed;
    // A member that waits for agreement begins with the database when it sees that the ring has forgotten its line.
    restore(&ring, RingTable::clone(&past)).await;
    to_third.set(Reach::There);
    settled(&[&first, &second, &third]).await;
    nothing_is_lost(&[&first, &second, &third], 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_before_it_serves_what_it_received_leaves_that_to_its_origin() {
    let (world, handed) = not_served_yet().await;
    let [first, second, third] = &handed.members;
    let ended = second.ownership.stop(Duration::from_secs(2)).await;
    assert!(!ended.handed_on);
    assert_eq!(ended.unwritten_users, 0, "nothing of its own is lost");
    world.kill(second);
    let presences = handed.ring.presences().await.unwrap();
    let me = second.ownership.me().incarnation();
    let said = presences.iter().find(|it| it.incarnation == me);
    assert!(
        said.is_some_and(|said| !said.gone),
        "others would begin with the database while the origin writes: {said:?}"
    );
    handed.to_third.set(Reach::There);
    settled(&[first, third]).await;
    nothing_is_lost(&[first, third], 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_hands_on_what_it_received_once_the_others_agree() {
    let (world, handed) = not_served_yet().await;
    let [first, second, third] = &handed.members;
    let agrees = async {
        // Longer than batches of which nothing is taken are tried.
        sleep(Duration::from_secs(2)).await;
        handed.to_third.set(Reach::There);
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    world
        .network
        .last_parts_answered_after
        .store(0, Ordering::SeqCst);
    let (drained, ()) = tokio::join!(second.ownership.drain(deadline), agrees);
    assert!(drained);
    world.kill(second);
    settled(&[first, third]).await;
    nothing_is_lost(&[first, third], 5).await;
}
