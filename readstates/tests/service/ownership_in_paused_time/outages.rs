//! The ring store is away, and no member dies: nothing that was acknowledged is lost, however long it takes.
//!
//! An ordinary test run tries each length once; `READSTATES_OUTAGES=20` so many times, at different moments of the
//! members' rounds.

use std::{collections::BTreeMap, env, sync::Arc, time::Duration};

use readstates::block::Outcome;
use tokio::time::{Instant, sleep};

use super::{
    balance,
    replicated::{all_are_backed, with_ring},
    world::{Member, PausedWorld, Said},
};
use crate::common::severable::{Reach, Severable};

const USERS: u64 = 60;
/// Seconds for which the store was away in the runs that lost acknowledged changes, and some more.
const LENGTHS: [u64; 8] = [8, 12, 16, 20, 25, 30, 40, 60];

fn runs() -> u64 {
    let runs = env::var("READSTATES_OUTAGES").ok();
    runs.map_or(1, |runs| runs.parse().unwrap())
}

/// Three members that have a third each, and what each can reach.
async fn three() -> (PausedWorld, Vec<Member>, Vec<Arc<Severable>>) {
    three_of(PausedWorld::new()).await
}

async fn three_of(mut world: PausedWorld) -> (PausedWorld, Vec<Member>, Vec<Arc<Severable>>) {
    let ring = Arc::clone(&world.ring);
    let (mut members, mut reaches) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let severable = Severable::new(&ring);
        world.ring = Arc::clone(&severable) as _;
        members.push(world.member().await);
        reaches.push(severable);
    }
    balance(&members.iter().collect::<Vec<_>>()).await;
    (world, members, reaches)
}

/// The runtime goes on with the next world.
fn end(members: &[Member]) {
    for member in members {
        member.ownership.end();
        member.engine.stop();
    }
}

/// Acknowledges a message for a user at its owner; returns the outcome if the owner said that it was done.
async fn ack(members: &[Member], user: u64, message: u64) -> Option<Outcome> {
    let mut first = 0;
    for _ in 0..4 {
        match members[first].ack(user, message).await {
            Said::Done(outcome, _) => return Some(outcome),
            Said::AskAnother(owner) => {
                let is = |member: &Member| member.ownership.me().incarnation() == owner;
                first = members.iter().position(is)?;
            }
            Said::Later(_) | Said::Unknown => return None,
        }
    }
    None
}

/// What users were told, while something goes on for so long.
async fn told_meanwhile(members: &[Member], length: Duration) -> BTreeMap<u64, u64> {
    let (mut told, began) = (BTreeMap::new(), Instant::now());
    let mut message = 10;
    while began.elapsed() < length {
        message += 1;
        let user = 1 + message % USERS;
        if ack(members, user, message).await.is_some() {
            told.insert(user, message);
        }
        sleep(Duration::from_millis(70)).await;
    }
    told
}

/// Waits until every slot is served, and returns the users who have lost what was acknowledged.
async fn lost(members: &[Member], told: &BTreeMap<u64, u64>) -> Vec<u64> {
    let began = Instant::now();
    loop {
        let statuses: Vec<_> = members.iter().map(|it| it.ownership.status()).collect();
        let owned: u16 = statuses.iter().map(|status| status.owned).sum();
        let served = |status: &readstates_api::admin::OwnershipStatus| {
            status.lease_valid && status.sealed + status.receiving == 0
        };
        if owned == 1024 && statuses.iter().all(served) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{statuses:?}");
        sleep(Duration::from_millis(100)).await;
    }
    let mut lost = Vec::new();
    for (&user, &message) in told {
        let mut said = None;
        for _ in 0..20 {
            said = ack(members, user, message).await;
            if said.is_some() {
                break;
            }
            sleep(Duration::from_millis(200)).await;
        }
        match said {
            Some(Outcome::Ignored) => {}
            Some(_) => lost.push(user),
            None => panic!("user {user} is not served though all is calm"),
        }
    }
    lost
}

fn taken_from_the_dead(members: &[Member]) -> u64 {
    let taken = members.iter().map(|member| member.ownership.status());
    taken.map(|status| status.taken_from_the_dead).sum()
}

async fn away_for_all(reach: Reach, seconds: u64, run: u64) {
    let (_world, members, reaches) = three().await;
    let mut told = told_meanwhile(&members, Duration::from_secs(5)).await;
    sleep(Duration::from_millis(run * 157)).await;
    reaches.iter().for_each(|it| it.set(reach));
    told.extend(told_meanwhile(&members, Duration::from_secs(seconds)).await);
    // Not in the order in which they lost it.
    for place in [2, 0, 1] {
        reaches[place].set(Reach::There);
        sleep(Duration::from_millis(run * 31 % 700)).await;
    }
    let lost = lost(&members, &told).await;
    let what = format!("{reach:?} for {seconds} s, run {run}");
    assert_eq!(told.len() as u64, USERS, "{what}");
    assert!(lost.is_empty(), "{what}: {} of {USERS}", lost.len());
    assert_eq!(taken_from_the_dead(&members), 0, "{what}: no member died");
    end(&members);
}

#[tokio::test(start_paused = true)]
async fn a_ring_store_that_is_away_for_everybody_costs_nothing_that_was_acknowledged() {
    for seconds in LENGTHS {
        for run in 0..runs() {
            away_for_all(Reach::Away, seconds, run).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_ring_store_that_answers_nobody_or_takes_no_renewals_costs_nothing_either() {
    for seconds in [12, 16, 30] {
        for run in 0..runs() {
            away_for_all(Reach::Silent, seconds, run).await;
            away_for_all(Reach::ReadOnly, seconds, run).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_member_acknowledged_that_is_cut_off_alone_is_in_the_database_before_others_take_over()
 {
    for (seconds, reach) in [
        (16, Reach::Away),
        (20, Reach::Silent),
        (40, Reach::ReadOnly),
    ] {
        for run in 0..runs() {
            let (_world, members, reaches) = three().await;
            let mut told = told_meanwhile(&members, Duration::from_secs(5)).await;
            sleep(Duration::from_millis(run * 157)).await;
            reaches[1].set(reach);
            // Until its lease is over it goes on acknowledging.
            told.extend(told_meanwhile(&members, Duration::from_secs(seconds)).await);
            reaches[1].set(Reach::There);
            told.extend(told_meanwhile(&members, Duration::from_secs(5)).await);
            let lost = lost(&members, &told).await;
            let what = format!("{reach:?} for {seconds} s, run {run}");
            assert!(lost.is_empty(), "{what}: {lost:?}");
            assert!(taken_from_the_dead(&members) > 0, "{what}: others went on");
            end(&members);
        }
    }
}

/// An owner without a lease answers nothing, and its backup hears its frames all the time.
#[tokio::test(start_paused = true)]
async fn the_slots_of_a_member_with_backups_that_is_cut_off_alone_are_served_before_it_is_back() {
    for reach in [Reach::ReadOnly, Reach::Away] {
        for run in 0..runs() {
            let (world, ring) = with_ring();
            let (_world, members, reaches) = three_of(world).await;
            all_are_backed(&ring, &members.iter().collect::<Vec<_>>()).await;
            let mut told = told_meanwhile(&members, Duration::from_secs(5)).await;
            sleep(Duration::from_millis(run * 157)).await;
            reaches[1].set(reach);
            // Until it is taken for dead, and its backups have waited for its last permission.
            told.extend(told_meanwhile(&members, Duration::from_secs(20)).await);
            let served = told_meanwhile(&members, Duration::from_secs(20)).await;
            let what = format!("{reach:?}, run {run}");
            assert_eq!(served.len() as u64, USERS, "{what}");
            told.extend(served);
            reaches[1].set(Reach::There);
            told.extend(told_meanwhile(&members, Duration::from_secs(5)).await);
            let lost = lost(&members, &told).await;
            assert!(lost.is_empty(), "{what}: {lost:?}");
            assert_eq!(taken_from_the_dead(&members), 0, "{what}: backups had all");
            end(&members);
        }
    }
}

/// None of them can be promoted, and when the first has its lease again, the others have theirs soon.
#[tokio::test(start_paused = true)]
async fn a_ring_store_that_takes_no_renewals_makes_no_slot_with_a_backup_change_hands() {
    let (world, ring) = with_ring();
    let (_world, members, reaches) = three_of(world).await;
    all_are_backed(&ring, &members.iter().collect::<Vec<_>>()).await;
    let owned = || members.iter().map(Member::owned).collect::<Vec<_>>();
    let before = owned();
    let mut told = told_meanwhile(&members, Duration::from_secs(5)).await;
    reaches.iter().for_each(|it| it.set(Reach::ReadOnly));
    told.extend(told_meanwhile(&members, Duration::from_secs(30)).await);
    for place in [2, 0, 1] {
        reaches[place].set(Reach::There);
        sleep(Duration::from_millis(600)).await;
    }
    let lost = lost(&members, &told).await;
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(owned(), before);
    end(&members);
}

#[tokio::test(start_paused = true)]
async fn slots_of_the_dead_are_counted_though_the_answer_to_their_swap_was_lost() {
    let (world, members, reaches) = three().await;
    let heir = &members[1];
    let of_the_dead = u64::from(1024 - heir.owned());
    assert!(of_the_dead > 0);
    reaches[1].set(Reach::LosesAnswer);
    world.kill(&members[0]);
    world.kill(&members[2]);
    while reaches[1].is(Reach::LosesAnswer) {
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(heir.ownership.status().taken_from_the_dead, 0);
    // For longer than the heir tries to learn what became of its swap.
    sleep(Duration::from_secs(20)).await;
    reaches[1].set(Reach::There);
    while heir.owned() < 1024 {
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(heir.ownership.status().taken_from_the_dead, of_the_dead);
    end(&members);
}
