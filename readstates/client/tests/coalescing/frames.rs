//! When frames leave, and what is in them.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use readstates_client::{Client, Config};
use tokio::time::sleep;

use crate::{
    fake::{Asked, Fake, Reply, ring_of, ring_reply},
    id,
    rows::{entries, frames, handle, member, rows, shared, well},
};

const MOMENT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_lone_operation_leaves_at_once_and_each_gets_its_own_answer() {
    let member = member(|_, entries| rows(entries, well)).await;
    let states = handle(&member, LONG);
    let acked = states.ack(id(1), id(2), id(30)).await.unwrap();
    assert!(acked.applied);
    assert_eq!(acked.read_state.channel_id, id(2));
    assert_eq!(acked.read_state.last_message_id, Some(id(30)));
    let manual = states.ack_manual(id(1), id(2), id(20), 4).await.unwrap();
    assert_eq!(manual.read_state.last_message_id, Some(id(20)));
    assert!(states.mention(id(1), id(2), id(40), None).await.unwrap());
    let read = states.read_state(id(1), id(9)).await.unwrap().unwrap();
    assert_eq!(read.channel_id, id(9));
    assert_eq!(frames(&member), [[30], [20], [40], [0]]);
}

#[tokio::test]
async fn what_comes_while_two_frames_are_under_way_shares_the_next() {
    let member = member(|_, entries| rows(entries, well).after(MOMENT)).await;
    let states = handle(&member, LONG);
    let call = |user: u64| {
        let states = states.clone();
        tokio::spawn(async move { states.ack(id(user), id(2), id(user)).await.map(drop) })
    };
    let first = call(1);
    sleep(MOMENT / 5).await;
    let second = call(2);
    sleep(MOMENT / 5).await;
    let others: Vec<_> = (3..=100).map(call).collect();
    for call in [first, second].into_iter().chain(others) {
        call.await.unwrap().unwrap();
    }
    let frames = frames(&member);
    assert_eq!(frames[..2], [[1], [2]]);
    assert_eq!(frames[2..], [(3..=100).collect::<Vec<u64>>()]);
    assert_eq!(member.most_at_once.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn operations_of_one_user_go_one_after_the_other_also_when_one_is_not_taken() {
    let seen = AtomicUsize::new(0);
    let member = member(
        move |_, entries| match seen.fetch_add(1, Ordering::SeqCst) {
            1 => rows(entries, |_| readstates_api::batch::v2::Row::NotTaken),
            _ => rows(entries, well),
        },
    )
    .await;
    let states = handle(&member, LONG);
    let calls = (1..=4).map(|message| states.ack(id(1), id(2), id(message)));
    for acked in join_all(calls).await {
        acked.unwrap();
    }
    assert_eq!(frames(&member), [[1], [2], [2], [3], [4]]);
}

#[tokio::test]
async fn a_thousand_tasks_need_few_requests() {
    let member = member(|_, entries| rows(entries, well)).await;
    let states = handle(&member, LONG);
    let calls = (1..=1000).map(|user| states.ack(id(user), id(2), id(user)));
    for (user, acked) in (1..).zip(join_all(calls).await) {
        let state = acked.unwrap().read_state;
        assert_eq!(state.last_message_id, Some(id(user)));
    }
    assert!(frames(&member).len() <= 4);
}

/// The first member owns everybody and never answers; then the ring names the second.
#[tokio::test]
async fn what_waits_for_an_owner_goes_to_the_next_one_with_the_ring() {
    let second = Fake::start(|asked: &Asked| rows(&entries(asked).unwrap(), well)).await;
    let urls = Mutex::new(Vec::<String>::new());
    let ((moved, has_moved), (urls, known)) = (shared(AtomicBool::new(false)), shared(urls));
    let first = Fake::start(move |asked: &Asked| {
        let urls = known.lock().unwrap();
        let number = 1 + u64::from(has_moved.load(Ordering::SeqCst));
        if asked.path.starts_with("/v1/ring") {
            return ring_reply(asked, &ring_of(number, &urls[number as usize - 1]));
        }
        Reply::Silence
    })
    .await;
    *urls.lock().unwrap() = vec![first.url.clone(), second.url.clone()];
    let config = Config::new([&first.url]).unwrap().deadline(LONG);
    let client = Client::start(config).unwrap();
    client.ring_after(0).await;
    let states = client.coalescing();
    let ack = |user: u64| {
        let states = states.clone();
        tokio::spawn(async move { states.ack(id(user), id(2), id(user)).await.map(drop) })
    };
    // Two frames without an answer.
    let lost = [ack(1), {
        sleep(MOMENT).await;
        ack(2)
    }];
    sleep(MOMENT).await;
    let waiting: Vec<_> = (3..=50).map(ack).collect();
    sleep(MOMENT).await;
    assert!(frames(&second).is_empty());
    moved.store(true, Ordering::SeqCst);
    for call in waiting {
        call.await.unwrap().unwrap();
    }
    assert_eq!(frames(&second).concat().len(), 48);
    lost.iter().for_each(|call| call.abort());
}
