//! Real members over HTTP, several clients that ask about the same users at once, and slots that move meanwhile: what
//! was answered has an order.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::common::{Running, balance, client, member};
use futures::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates::{ownership::store::MemoryRing, store::MemoryStore};
use readstates_ledger::{Action, Answer, Event, History, Order};
use serde_json::{Value, json};

const CLIENTS: u64 = 4;
const USERS: std::ops::RangeInclusive<u64> = 1..=8;

fn any(random: &mut StdRng) -> Action {
    let (channel, message) = (random.random_range(1..=2), random.random_range(1..60));
    match random.random_range(0..100) {
        0..35 => Action::Ack { channel, message },
        35..60 => Action::Manual { channel, message },
        60..68 => Action::Delete { channel },
        68..72 => Action::Erase,
        _ => Action::Read,
    }
}

/// What is answered; `None` when nothing was done.
async fn ask(client: &reqwest::Client, url: &str, user: u64, action: Action) -> Option<Answer> {
    let states = format!("{url}/v1/users/{user}/read-states");
    let request = match action {
        Action::Ack { channel, message } => client
            .post(format!("{states}/{channel}/ack"))
            .json(&json!({"message_id": message.to_string()})),
        Action::Manual { channel, message } => {
            let body =
                json!({"message_id": message.to_string(), "manual": true, "mention_count": 0});
            client.post(format!("{states}/{channel}/ack")).json(&body)
        }
        Action::Delete { channel } => client.delete(format!("{states}/{channel}")),
        Action::Erase => client.delete(format!("{url}/v1/users/{user}")),
        Action::Read => client.get(states),
    };
    let Ok(answered) = request.send().await else {
        return Some(Answer::Unknown);
    };
    let status = answered.status().as_u16();
    let body: Value = match status {
        204 => return Some(Answer::Done),
        _ => answered.json().await.unwrap_or_default(),
    };
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    match status {
        200 if action == Action::Read => {
            let states = body["read_states"].as_array().unwrap();
            let of = |state: &Value| {
                let last = number(&state["last_message_id"]).unwrap_or(0);
                (number(&state["channel_id"]).unwrap(), last)
            };
            Some(Answer::States {
                states: states.iter().map(of).collect::<BTreeMap<_, _>>(),
                version: number(&body["version"]).unwrap(),
            })
        }
        200 => Some(Answer::Changed {
            applied: body["applied"].as_bool().unwrap(),
            version: number(&body["version"]).unwrap(),
        }),
        503 => {
            let kind = body["type"].as_str().unwrap_or_default();
            let nothing = ["slot-moving", "ring-disagreement", "no-owner"];
            let nothing = nothing.iter().any(|name| kind.ends_with(name));
            (!nothing).then_some(Answer::Unknown)
        }
        _ => Some(Answer::Unknown),
    }
}

async fn work(number: u64, urls: &[String], began: Instant, stop: &AtomicBool) -> History {
    let (client, mut history) = (client(), History::default());
    let mut random = StdRng::seed_from_u64(number);
    while !stop.load(Ordering::SeqCst) {
        let user = random.random_range(USERS);
        let url = &urls[random.random_range(0..urls.len())];
        let action = any(&mut random);
        let sent = began.elapsed();
        let answer = ask(&client, url, user, action).await;
        let answered = began.elapsed();
        if let Some(answer) = answer.filter(|it| action != Action::Read || *it != Answer::Unknown) {
            let event = Event {
                action,
                sent,
                answered,
                answer,
            };
            history.add(user, event);
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(1..20))).await;
    }
    history
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_are_told_at_once_has_an_order_while_slots_move_and_members_leave() {
    let (store, ring) = (
        Arc::new(MemoryStore::default()),
        Arc::new(MemoryRing::default()),
    );
    let join = |name: &'static str| {
        let (store, ring) = (Arc::clone(&store), Arc::clone(&ring));
        async move { member(name, store, ring).await }
    };
    let first: Running = join("chat-0").await;
    let second = join("chat-1").await;
    let urls = [first.url(""), second.url("")];
    let (began, stop) = (Instant::now(), AtomicBool::new(false));
    let clients = join_all((0..CLIENTS).map(|number| work(number, &urls, began, &stop)));
    let moves = async {
        for _ in 0..2 {
            balance(&[&first, &second]).await;
            let third = join("chat-2").await;
            balance(&[&first, &second, &third]).await;
            assert_eq!(third.stop().await.unwritten_users, 0);
        }
        stop.store(true, Ordering::SeqCst);
    };
    let (histories, ()) = tokio::join!(clients, moves);
    let mut history = History::default();
    histories.into_iter().for_each(|it| history.take(it));
    assert!(history.answered() > 50, "{}", history.answered());
    for (user, order) in history.check() {
        assert_eq!(order, Order::Linearizable, "user {user}");
    }
}
