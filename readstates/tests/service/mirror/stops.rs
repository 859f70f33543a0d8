//! What a stop of the mirror waits for, and what it says of writes that are left.

use std::{sync::atomic::Ordering, time::Duration};

use http::Method;
use tokio::time::{sleep, timeout};

use super::{
    DROPPED,
    world::{Gate, Mirroring, Old, Ours},
};
use crate::common::{PATIENCE, SOON, alone, client};

#[tokio::test]
async fn a_full_queue_drops_writes_and_holds_up_no_caller_and_a_stop_says_what_is_left() {
    let (old, member) = (Old::start().await, alone().await);
    let ours = Ours::start(&member).await;
    let more = [
        "--queue",
        "2",
        "--drain-timeout",
        "200ms",
        "--deadline",
        "1h",
    ];
    let mirror = Mirroring::start(&old.url, &ours.url, &more);
    ours.set(Gate::Held);
    for user in 1..=5 {
        mirror.ack(user, 10, 100).await;
    }
    mirror.until(DROPPED, 3).await;
    assert_eq!(mirror.metric("readstates_mirror_queue_length").await, 2);
    let (status, summary) = mirror.stop();
    assert_eq!(status, 4);
    assert!(
        summary.contains("0 mirrored, 0 failed, 3 dropped"),
        "{summary}"
    );
}

#[tokio::test]
async fn a_stop_sends_what_waits_first() {
    let (old, member) = (Old::start().await, alone().await);
    let ours = Ours::start(&member).await;
    let mirror = Mirroring::start(&old.url, &ours.url, &["--deadline", "60s"]);
    ours.set(Gate::Held);
    for user in 1..=5 {
        mirror.ack(user, 10, 100).await;
    }
    let url = mirror.url.clone();
    let stopped = tokio::task::spawn_blocking(move || mirror.stop());
    until_closed(&url).await;
    // What waits is still there.
    assert_eq!(member.state(1, 10).await, None);
    ours.set(Gate::Open);
    let (status, summary) = stopped.await.unwrap();
    assert_eq!(status, 0, "{summary}");
    assert!(summary.contains("5 mirrored"), "{summary}");
    for user in 1..=5 {
        assert_eq!(member.state(user, 10).await, Some((100, 0)));
    }
}

/// Waits until nobody listens there any more.
async fn until_closed(url: &str) {
    let closed = async { while client().get(url).send().await.is_ok() {} };
    timeout(PATIENCE, closed).await.unwrap();
}

/// Sends an acknowledgement of a user to an old system that hangs; returns once it is there.
async fn ack_that_hangs(old: &Old, mirror: &Mirroring, user: u64) {
    old.hangs.store(true, Ordering::SeqCst);
    let before = old.received.lock().unwrap().len();
    let ack = mirror.request(Method::POST, "/channels/10/messages/100/ack");
    // Whether the caller learns of it is another matter.
    tokio::spawn(ack.header("x-user", user).send());
    let is_there = async {
        while old.received.lock().unwrap().len() == before {
            sleep(SOON).await;
        }
    };
    timeout(PATIENCE, is_there).await.unwrap();
}

#[tokio::test]
async fn a_stop_waits_for_writes_that_the_old_system_answers_late() {
    let (old, member) = (Old::start().await, alone().await);
    let ours = Ours::start(&member).await;
    // Requests under way have a third of that.
    let more = ["--drain-timeout", "9s", "--deadline", "60s"];
    let mirror = Mirroring::start(&old.url, &ours.url, &more);
    ours.set(Gate::Held);
    mirror.ack(1, 10, 100).await;
    ack_that_hangs(&old, &mirror, 2).await;
    let url = mirror.url.clone();
    let stopped = tokio::task::spawn_blocking(move || mirror.stop());
    until_closed(&url).await;
    sleep(Duration::from_secs(4)).await;
    old.hangs.store(false, Ordering::SeqCst);
    ours.set(Gate::Open);
    let (status, summary) = stopped.await.unwrap();
    assert_eq!(status, 0, "{summary}");
    let all = "2 mirrored, 0 failed, 0 dropped";
    assert!(summary.contains(all), "{summary}");
    for user in [1, 2] {
        assert_eq!(member.state(user, 10).await, Some((100, 0)));
    }
}

#[tokio::test]
async fn a_stop_does_not_forget_a_write_that_the_old_system_never_answers() {
    let (old, member) = (Old::start().await, alone().await);
    let more = ["--drain-timeout", "300ms"];
    let mirror = Mirroring::start(&old.url, &member.url(""), &more);
    ack_that_hangs(&old, &mirror, 1).await;
    let stopped = tokio::task::spawn_blocking(move || mirror.stop());
    let (status, summary) = stopped.await.unwrap();
    assert_eq!(status, 4, "{summary}");
}
