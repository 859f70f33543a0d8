//! The task that carries frames.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::{BoxFuture, FutureExt, ready};
use tokio::time::timeout;

use super::*;
use crate::replication::send::{Carry, keep_sending};

/// A way that loses some frames, and some answers.
struct Lossy {
    holding: Arc<Holding>,
    carried: Arc<AtomicU64>,
}

impl Carry for Lossy {
    fn carry(&self, frame: Vec<u8>) -> BoxFuture<'_, Option<Said>> {
        let carried = self.carried.fetch_add(1, Ordering::SeqCst);
        if carried.is_multiple_of(3) {
            return ready(None).boxed();
        }
        let Ok(Heard::Say(said)) = self.holding.receive(&frame) else {
            panic!("the frame is not accepted")
        };
        ready((carried % 3 == 1).then_some(said)).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn frames_are_sent_until_they_are_acknowledged_and_heartbeats_when_there_is_nothing() {
    let mut pair = Pair::new().backed();
    let carried = Arc::new(AtomicU64::new(0));
    let way = Lossy {
        holding: Arc::clone(&pair.holding),
        carried: Arc::clone(&carried),
    };
    let sends = tokio::spawn(keep_sending(Arc::clone(&pair.owner), BACKUP, way));
    for message in 10..60 {
        pair.change(&[ack(message)]);
        let deadline = Instant::now() + Duration::from_secs(1);
        let settled = pair.owner.settled(USER, Answer::Change, true, deadline);
        assert_eq!(settled.await, Settled::Backed, "{message}");
    }
    // Without changes, answers stay permitted.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(pair.is_settled(Answer::Read).await);
    }
    let (before, has) = (carried.load(Ordering::SeqCst), pair.block.clone());
    assert!(before > 50 * 2, "{before}");
    sends.abort();
    assert_eq!(pair.promoted().await, has);
}

#[tokio::test(start_paused = true)]
async fn whoever_sends_ends_when_its_backup_is_forgotten() {
    let pair = Pair::new();
    let way = Lossy {
        holding: Arc::clone(&pair.holding),
        carried: Arc::default(),
    };
    let sends = keep_sending(Arc::clone(&pair.owner), BACKUP, way);
    timeout(Duration::from_secs(1), sends).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_taken_for_dead_and_comes_back_is_told_everything_again() {
    let mut pair = Pair::new();
    assert!(pair.owner.seed(slot(), BACKUP));
    pair.exchange();
    pair.swap(OWNER, None, Succession::TakenOver);
    pair.owner.learned(slot(), &pair.config, false);
    assert!(pair.holding.learned(slot(), pair.config, None).is_none());
    assert!(pair.owner.forget(BACKUP));
    assert_eq!(
        pair.owner.streams(),
        0,
        "nothing is kept of an ended process"
    );
    pair.change(&[ack(9)]);
    let mut pair = pair.backed();
    let has = pair.block.clone();
    assert_eq!(pair.promoted().await, has);
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_an_owner_that_ended_is_forgotten_once_nothing_needs_it() {
    let mut pair = Pair::new().backed();
    pair.holding.forget(|_| true);
    assert_eq!(pair.holding.senders(), 1, "it owns a slot");
    // What it sends goes on where it was.
    pair.change(&[ack(9)]);
    pair.exchange();
    let has = pair.block.clone();
    assert_eq!(pair.promoted().await, has);
    pair.holding.forget(|it| it != OWNER);
    assert_eq!(pair.holding.senders(), 1, "it lives");
    pair.holding.forget(|_| true);
    assert_eq!(pair.holding.senders(), 0);
    // A frame that was under way all the time.
    pair.change(&[ack(10)]);
    let late = pair.leave();
    let said = pair.arrive(&late);
    pair.owner.acknowledged(BACKUP, &late, Some(&said));
    assert!(!pair.is_settled(Answer::Change).await);
    assert!(pair.holding.slots().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_for_before_a_later_config_is_not_asked_for_after_it() {
    let mut pair = Pair::new();
    assert!(pair.owner.seed(slot(), BACKUP));
    pair.owner.seeded(slot());
    pair.exchange();
    assert_eq!(pair.owner.name(slot()), Some(BACKUP));
    assert!(pair.owner.may_ask_for(slot(), BACKUP));
    pair.swap(OWNER, None, Succession::Handed);
    pair.owner.learned(slot(), &pair.config, true);
    assert!(!pair.owner.may_ask_for(slot(), BACKUP));
    assert_eq!(pair.owner.name(slot()), Some(BACKUP), "once more");
    assert!(pair.owner.may_ask_for(slot(), BACKUP));
}
