//! Against real members in this process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::join_all;
use readstates::store::MemoryStore;
use readstates_client::{Client, Config, Routing};

use crate::{
    common::{self, Running, members},
    id,
};

async fn three() -> Vec<Running> {
    let store = Arc::new(MemoryStore::default());
    members(&["chat-0", "chat-1", "chat-2"], store).await
}

fn config(members: &[Running]) -> Config {
    Config::new(members.iter().map(|member| member.url(""))).unwrap()
}

async fn forwards(members: &[Running]) -> u64 {
    let mut sum = 0;
    for member in members {
        let metrics = member.get("/metrics").await.text;
        let count = metrics
            .lines()
            .find_map(|line| line.strip_prefix("readstates_forwards_total "));
        sum += count.unwrap().parse::<u64>().unwrap();
    }
    sum
}

#[tokio::test]
async fn answers_are_those_of_single_requests_and_owners_are_asked_themselves() {
    let members = three().await;
    let client = Client::start(config(&members)).unwrap();
    client.ring_after(0).await;
    let states = client.coalescing();
    let users = 1..=200_u64;
    let channel = id(10);

    let reads = users
        .clone()
        .map(|user| states.read_state(id(user), channel));
    assert!(
        join_all(reads)
            .await
            .into_iter()
            .all(|read| read.unwrap().is_none())
    );
    let mentions = users.clone().map(|user| {
        let first = states.mention(id(user), channel, id(100), Some(3));
        let again = states.mention(id(user), channel, id(100), Some(3));
        async { (first.await.unwrap(), again.await.unwrap()) }
    });
    assert!(
        join_all(mentions)
            .await
            .into_iter()
            .all(|counted| counted == (true, false))
    );
    let acks = users
        .clone()
        .map(|user| states.ack(id(user), channel, id(user)));
    for (user, acked) in users.clone().zip(join_all(acks).await) {
        let acked = acked.unwrap();
        let left = if user < 100 { 3 } else { 0 };
        assert!(acked.applied);
        assert_eq!(acked.read_state.mention_count, left, "user {user}");
        assert_eq!(acked.read_state.last_message_id, Some(id(user)));
    }
    let manual = states.ack_manual(id(1), channel, id(7), 5).await.unwrap();
    let state = client.read_state(id(1), channel).await.unwrap().unwrap();
    assert_eq!(manual.read_state, state);
    assert_eq!(
        states.read_state(id(1), channel).await.unwrap(),
        Some(state)
    );
    let again = states.ack(id(1), channel, id(7)).await.unwrap();
    assert_eq!((again.applied, again.version), (false, manual.version));
    assert_eq!(forwards(&members).await, 0);
}

#[tokio::test]
async fn through_any_member_all_are_answered() {
    let members = three().await;
    let client = Client::start(config(&members).routing(Routing::Seeds)).unwrap();
    let states = client.coalescing();
    let acks = (1..=300).map(|user| states.ack(id(user), id(2), id(user)));
    for acked in join_all(acks).await {
        assert!(acked.unwrap().applied);
    }
    assert!(forwards(&members).await > 0);
}

#[tokio::test]
async fn while_slots_move_every_operation_is_applied_and_in_order() {
    let store = Arc::new(MemoryStore::default());
    let ring: Arc<dyn readstates::ownership::store::RingStore> =
        Arc::new(readstates::ownership::store::MemoryRing::default());
    let first = common::member("chat-0", store.clone(), Arc::clone(&ring)).await;
    let client = Client::start(Config::new([first.url("")]).unwrap()).unwrap();
    client.ring_after(0).await;
    let states = client.coalescing();
    let stop = Arc::new(AtomicBool::new(false));
    // Each acknowledges one message after the other, and returns the last.
    let task = |user: u64| {
        let (states, stop) = (states.clone(), Arc::clone(&stop));
        tokio::spawn(async move {
            for message in 1.. {
                let acked = states.ack(id(user), id(2), id(message)).await.unwrap();
                assert_eq!(acked.read_state.last_message_id, Some(id(message)));
                if stop.load(Ordering::SeqCst) {
                    return message;
                }
            }
            unreachable!("there are enough messages")
        })
    };
    let tasks: Vec<_> = (1..=40).map(task).collect();
    let second = common::member("chat-1", store, ring).await;
    common::balance(&[&first, &second]).await;
    stop.store(true, Ordering::SeqCst);
    for (user, task) in (1..).zip(tasks) {
        let last = task.await.unwrap();
        let state = client.read_state(id(user), id(2)).await.unwrap().unwrap();
        assert_eq!(state.last_message_id, Some(id(last)));
    }
    assert!(second.status().await["users"].as_u64().unwrap() > 0);
}
