//! Members with backups that are told to stop: what only they have is written before they end, or they say what is not.

use std::{sync::Arc, time::Duration};

use readstates_ring::{SLOTS, Slot};
use tokio::time::sleep;

use super::{
    balance,
    replicated::{USERS, ack_all, all_are_backed, nothing_is_lost, until, with_ring},
    world::{Member, PausedWorld},
};
use crate::common::severable::{Reach, Severable};

/// Two members that back each other and have acknowledged changes that are not written, and the store of their ring.
async fn two_that_acknowledged() -> (PausedWorld, Arc<Severable>, Member, Member) {
    let (mut world, ring) = with_ring();
    let severable = Severable::new(&world.ring);
    world.ring = Arc::clone(&severable) as _;
    let (first, second) = (world.member().await, world.member().await);
    balance(&[&first, &second]).await;
    all_are_backed(&ring, &[&first, &second]).await;
    ack_all(&[&first, &second], 5).await;
    (world, severable, first, second)
}

/// A member that begins with the database alone has what was acknowledged.
async fn the_database_has_everything(world: &mut PausedWorld) {
    let third = world.member().await;
    until("taken over", async || third.owned() == SLOTS).await;
    nothing_is_lost(&[&third], 5).await;
}

#[tokio::test(start_paused = true)]
async fn the_last_member_writes_what_it_was_promoted_with_before_it_ends() {
    let (mut world, _, first, second) = two_that_acknowledged().await;
    world.kill(&first);
    until("promoted", async || second.owned() == SLOTS).await;
    // It has not loaded yet what it was promoted with, and no other member lives to take it.
    assert!(second.ownership.inherited_users() > 0);
    let ended = second.ownership.stop(Duration::from_secs(60)).await;
    assert!(ended.everything_is_written(), "{ended:?}");
    world.kill(&second);
    the_database_has_everything(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn the_backup_of_a_dead_owner_does_not_end_before_the_ring_is_back_and_promotes_it() {
    let (mut world, ring, first, second) = two_that_acknowledged().await;
    ring.set(Reach::Away);
    world.kill(&first);
    let (ended, ()) = tokio::join!(second.ownership.stop(Duration::from_secs(80)), async {
        sleep(Duration::from_secs(40)).await;
        ring.set(Reach::There);
    });
    assert!(ended.everything_is_written(), "{ended:?}");
    world.kill(&second);
    the_database_has_everything(&mut world).await;
}

#[tokio::test(start_paused = true)]
async fn the_backup_of_a_dead_owner_says_how_many_users_it_takes_with_it() {
    let (world, ring, first, second) = two_that_acknowledged().await;
    let routes = first.ownership.routes();
    let me = first.ownership.me().incarnation();
    let owned = |user: &u64| {
        let config = routes.table().config(Slot::of_user(*user));
        config.is_some_and(|config| config.owner() == me)
    };
    let of_first = USERS.filter(owned).count() as u64;
    assert!(of_first > 0);
    ring.set(Reach::Away);
    world.kill(&first);
    let ended = second.ownership.stop(Duration::from_secs(40)).await;
    assert_eq!(
        (ended.unwritten_users, ended.entrusted_users),
        (0, of_first)
    );
    world.kill(&second);
}
