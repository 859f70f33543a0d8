//! How slots come and go among members that run: joins, moves, drains, deaths, lost leases.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::common::{
    PATIENCE, QUICK, Running, balance, client,
    faulty::{FaultyStore, Mood},
    member, owner_of,
    rings::presence,
    severable::{Reach, Severable},
};
use futures::future::join_all;
use readstates::{
    ownership::store::{MemoryRing, Presence, RingStore},
    store::{MemoryStore, Store},
};
use readstates_ring::{Slot, Stamp};
use serde_json::{Value, json};

struct RingWorld {
    store: Arc<dyn Store>,
    ring: Arc<dyn RingStore>,
}

impl RingWorld {
    fn new() -> Self {
        Self {
            store: Arc::new(MemoryStore::default()),
            ring: Arc::new(MemoryRing::default()),
        }
    }

    /// One that has joined: it has taken what was free.
    async fn member(&self, name: &str) -> Running {
        let member = member(name, Arc::clone(&self.store), Arc::clone(&self.ring)).await;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        member.server.ownership().wait_until_joined(deadline).await;
        member
    }
}

fn owned(member: &Running) -> u16 {
    member.server.ownership().status().owned
}

/// Waits until a member has so many slots: the one that it hands some to may know that before it does.
async fn owns(member: &Running, slots: u16) {
    let has = |status: &Value| status["ownership"]["owned"] == slots;
    member.until(&format!("the owner of {slots}"), has).await;
}

/// Counts one message after the other for a user through any of the members, each until it is said to
/// be done; every refusal must be one that says "later".
async fn count(urls: &[String], user: u64, stop: &AtomicBool) -> u64 {
    let client = client();
    let mut message = 0;
    while !stop.load(Ordering::SeqCst) {
        message += 1;
        let mut attempt = message as usize;
        loop {
            let url = &urls[attempt % urls.len()];
            attempt += 1;
            let body = json!({
                "channel_id": "20", "message_id": message.to_string(), "user_ids": [user.to_string()],
            });
            let answer = client
                .post(format!("{url}/v1/mentions"))
                .json(&body)
                .send()
                .await
                .unwrap();
            let status = answer.status().as_u16();
            let later = answer.headers().contains_key("retry-after");
            let answer: Value = answer.json().await.unwrap();
            if status == 200 && answer["failed"].as_array().unwrap().is_empty() {
                break;
            }
            let kind = match status {
                200 => answer["failed"][0]["type"].as_str().unwrap().to_owned(),
                status => {
                    assert!(status == 503 && later, "{status}: {answer}");
                    answer["type"].as_str().unwrap().to_owned()
                }
            };
            let harmless = ["slot-moving", "ring-disagreement", "no-owner"];
            assert!(harmless.iter().any(|name| kind.ends_with(name)), "{kind}");
        }
        // And one that goes through the way of single users.
        let url = &urls[message as usize % urls.len()];
        let path = format!("{url}/v1/users/{user}/read-states/10/ack");
        loop {
            let body = json!({"message_id": message.to_string()});
            let answer = client.post(&path).json(&body).send().await.unwrap();
            let status = answer.status().as_u16();
            if status == 200 {
                break;
            }
            assert!(
                status == 503 && answer.headers().contains_key("retry-after"),
                "{status}: {}",
                answer.text().await.unwrap()
            );
        }
    }
    message
}

/// What each of the users counted is what all members say.
async fn assert_counted(members: &[&Running], counted: &[(u64, u64)]) {
    for (index, &(user, messages)) in counted.iter().enumerate() {
        let member = members[index % members.len()];
        assert_eq!(member.state(user, 20).await, Some((0, messages)), "{user}");
        assert_eq!(member.state(user, 10).await, Some((messages, 0)), "{user}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_member_takes_everything_and_the_others_are_given_their_share() {
    let world = RingWorld::new();
    let first = world.member("chat-0").await;
    owns(&first, 1024).await;
    let (second, third) = (world.member("chat-1").await, world.member("chat-2").await);
    assert_eq!(owned(&second), 0);
    // A member that owns nothing still answers for every user.
    second.ack(1, 10, 5).await;
    assert_eq!(third.state(1, 10).await, Some((5, 0)));
    balance(&[&first, &second, &third]).await;
    let share = |status: &Value| matches!(status["ownership"]["owned"].as_u64(), Some(341 | 342));
    for member in [&first, &second, &third] {
        member.until("the owner of a third", share).await;
    }
    let shares = [owned(&first), owned(&second), owned(&third)];
    assert_eq!(shares.iter().sum::<u16>(), 1024, "{shares:?}");
    assert_eq!(third.state(1, 10).await, Some((5, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_join_and_leave_under_load_and_nothing_is_lost_or_done_twice() {
    let world = RingWorld::new();
    let first = world.member("chat-0").await;
    let second = world.member("chat-1").await;
    let urls = [first.url(""), second.url("")];
    let stop = AtomicBool::new(false);
    let users: Vec<u64> = (1..=24).collect();
    let load = join_all(users.iter().map(|&user| count(&urls, user, &stop)));
    let changes = async {
        balance(&[&first, &second]).await;
        let third = world.member("chat-2").await;
        balance(&[&first, &second, &third]).await;
        // Nothing was written yet: what moved was in memory alone.
        assert_eq!(third.status().await["store"]["healthy"], true);
        let me = third.server.ownership().me().incarnation().to_string();
        let drained = third
            .post("/admin/v1/drain", json!({"incarnation": me}))
            .await;
        assert_eq!(drained.status, 202, "{}", drained.text);
        third
            .until("drained", |status| status["ownership"]["owned"] == 0)
            .await;
        third
            .until("without users: they went along", |status| {
                status["users"] == 0
            })
            .await;
        assert_eq!(third.stop().await.unwritten_users, 0);
        stop.store(true, Ordering::SeqCst);
    };
    let (counted, ()) = tokio::join!(load, changes);
    let counted: Vec<(u64, u64)> = users.into_iter().zip(counted).collect();
    assert!(counted.iter().all(|&(_, messages)| messages > 1));
    assert_counted(&[&first, &second], &counted).await;
    let moved = first.get("/metrics").await.text;
    assert!(moved.contains("readstates_slots_taken_from_the_dead_total 0\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_hands_everything_on_warm_and_the_last_one_writes_it() {
    let database = FaultyStore::new();
    let world = RingWorld {
        store: Arc::clone(&database) as _,
        ring: Arc::new(MemoryRing::default()),
    };
    let first = world.member("chat-0").await;
    let second = world.member("chat-1").await;
    for user in 1..=50 {
        first.ack(user, 10, 100 + user).await;
    }
    let versions: Vec<u64> = join_all((1..=50).map(|user| first.version(user))).await;
    let loads = database.loads.load(Ordering::SeqCst);
    // A hand-over does not need the database.
    database.set(Mood::Away);
    assert_eq!(first.stop().await.unwritten_users, 0);
    owns(&second, 1024).await;
    let status = second.status().await;
    assert_eq!(status["dirty_users"], 50, "not written, but handed on");
    assert_eq!(status["ownership"]["taken_from_the_dead"], 0);
    for user in 1..=50 {
        assert_eq!(second.state(user, 10).await, Some((100 + user, 0)));
        assert_eq!(second.version(user).await, versions[user as usize - 1]);
    }
    assert_eq!(database.loads.load(Ordering::SeqCst), loads, "all was warm");
    database.set(Mood::Healthy);
    assert_eq!(second.stop().await.unwritten_users, 0);
    // A later member finds it in the database, at once: the second one has said its last word.
    let third = world.member("chat-0").await;
    owns(&third, 1024).await;
    assert_eq!(third.state(7, 10).await, Some((107, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slots_of_a_dead_member_are_taken_once_its_lease_is_over_and_no_version_comes_twice() {
    let world = RingWorld::new();
    let first = world.member("chat-0").await;
    let second = world.member("chat-1").await;
    for user in 1..=20 {
        first.ack(user, 10, 1).await;
    }
    first.post("/admin/v1/flush", json!({})).await.ok();
    for user in 1..=20 {
        // Acknowledged, and not written.
        first.ack(user, 10, 2).await;
    }
    let versions: Vec<u64> = join_all((1..=20).map(|user| first.version(user))).await;
    let died = std::time::Instant::now();
    // Looked at without a break: what is this member's is counted as taken in each status.
    let ownership = Arc::clone(second.server.ownership());
    let watched = std::thread::spawn(move || {
        loop {
            let status = ownership.status();
            if status.owned == 1024 {
                return (status.taken_from_the_dead, std::time::Instant::now());
            }
            assert!(died.elapsed() < PATIENCE, "still without slots");
            std::thread::yield_now();
        }
    });
    first.server.crash().await;
    let (taken, at) = tokio::task::spawn_blocking(|| watched.join().unwrap())
        .await
        .unwrap();
    assert!(at - died > QUICK.held, "after {:?}", at - died);
    assert_eq!(taken, 1024);
    for user in 1..=20 {
        assert_eq!(second.state(user, 10).await, Some((1, 0)), "the last write");
        second.ack(user, 10, 2).await;
        let version = second.version(user).await;
        assert!(version > versions[user as usize - 1], "user {user}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_lease_nothing_is_acknowledged_and_with_a_new_one_it_goes_on() {
    let world = RingWorld::new();
    let ring = Severable::new(&world.ring);
    let member = member("chat-0", world.store, Arc::clone(&ring) as _).await;
    member.ack(1, 10, 1).await;
    let number = member.server.ownership().routes().number();
    ring.set(Reach::ReadOnly);
    member
        .until("without a lease, and sealed", |status| {
            // Until the slots are sealed, what comes in is worked on and answered 504.
            status["ownership"]["lease_valid"] == false && status["ownership"]["sealed"] != 0
        })
        .await;
    for path in ["ack", "pins/ack"] {
        let path = format!("/v1/users/1/read-states/10/{path}");
        let body = json!({"message_id": 2, "last_pin_timestamp": "2026-01-01T00:00:00Z"});
        let mut body = body.as_object().unwrap().clone();
        body.retain(|key, _| (key == "message_id") != path.contains("pins"));
        let answer = member.post(&path, Value::Object(body)).await;
        answer.refused(503, "no-owner");
    }
    let read = member.get("/v1/users/1/read-states").await;
    read.refused(503, "no-owner");
    ring.set(Reach::There);
    member
        .until("back", |status| {
            status["ownership"]["sealed"] == 0 && status["ownership"]["lease_valid"] == true
        })
        .await;
    member.ack(1, 10, 2).await;
    assert_eq!(member.state(1, 10).await, Some((2, 0)), "nothing was lost");
    let now = member.server.ownership().routes().number();
    assert!(now > number, "under a new epoch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_of_a_later_epoch_is_not_served_until_a_higher_one_is_minted() {
    let world = RingWorld::new();
    // Ten minutes ahead: the ring was restored, or was elsewhere.
    let ahead = jiff::Timestamp::now().as_microsecond() + 600_000_000;
    let user = 7;
    {
        let member = world.member("chat-0").await;
        member.ack(user, 10, 5).await;
        assert_eq!(member.stop().await.unwritten_users, 0);
    }
    let stored = world.store.load(user).await.unwrap().unwrap();
    let stamp = Stamp::from_database(ahead);
    world.store.save(user, stored.bytes, stamp).await.unwrap();
    let member = world.member("chat-0").await;
    let path = format!("/v1/users/{user}/read-states/10/ack");
    let refused = member.post(&path, json!({"message_id": 6})).await;
    refused.refused(503, "no-owner");
    let slot = Slot::of_user(user);
    // Each look mints one above the other.
    let epoch = || {
        let routes = member.server.ownership().routes();
        routes.table().config(slot).unwrap().epoch()
    };
    let before = epoch();
    for _ in 0..500 {
        let answer = member.post(&path, json!({"message_id": 6})).await;
        if answer.status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(epoch() > before && epoch() >= stamp.epoch());
    assert_eq!(member.state(user, 10).await, Some((6, 0)));
    assert_eq!(member.stop().await.unwritten_users, 0);
    let written = world.store.load(user).await.unwrap().unwrap();
    assert!(written.stamp > stamp);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_of_one_name_are_two_members() {
    let world = RingWorld::new();
    let first = world.member("chat-0").await;
    let second = world.member("chat-0").await;
    balance(&[&first, &second]).await;
    owns(&first, 512).await;
    owns(&second, 512).await;
    let me = first.server.ownership().me().incarnation().to_string();
    let answer = second
        .post("/admin/v1/drain", json!({"incarnation": me}))
        .await;
    answer.refused(409, "another-incarnation");
    let headers = [("x-readstates-incarnation", me.as_str())];
    let method = reqwest::Method::POST;
    let answer = second
        .send(method, "/internal/v1/handoff", &headers, Some(vec![1]))
        .await;
    answer.refused(409, "another-incarnation");
    for user in 1..=20 {
        first.ack(user, 10, user).await;
        assert_eq!(second.state(user, 10).await, Some((user, 0)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_cannot_end_leaves_everything_where_it_was() {
    let world = RingWorld::new();
    let member = world.member("chat-0").await;
    for user in 1..=40 {
        member.ack(user, 10, user).await;
    }
    let table = Arc::clone(member.server.ownership().routes().table());
    let slots: Vec<Value> = (0..64)
        .map(|slot| {
            let epoch = table.config(Slot::new(slot).unwrap()).unwrap().epoch();
            json!({"slot": slot, "epoch": epoch.number()})
        })
        .collect();
    // It says that it lives, and cannot be reached.
    let url = "http://127.0.0.1:1";
    let silent = Presence {
        url: url.to_owned(),
        members: Some(url.to_owned()),
        ..presence("chat-1", 0xff, 1)
    };
    world.ring.renew(silent).await.unwrap();
    let destination = json!({"name": "chat-1", "incarnation": "00000000000000ff", "url": url});
    let body = json!({"destination": destination, "slots": slots});
    let answer = member.post("/admin/v1/moves", body.clone()).await;
    let accepted: Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(accepted, json!({"accepted": 64, "ignored": 0}));
    let again = member.post("/admin/v1/moves", body).await;
    assert!(again.text.contains("\"accepted\":0"), "one batch at a time");
    member
        .until("done with it", |status| {
            status["ownership"]["streaming"] == json!([])
        })
        .await;
    owns(&member, 1024).await;
    for user in 1..=40 {
        assert_eq!(member.state(user, 10).await, Some((user, 0)));
        member.ack(user, 10, user + 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_asked_for_a_slot_that_has_just_moved_looks_again() {
    let world = RingWorld::new();
    let members = vec![world.member("chat-0").await, world.member("chat-1").await];
    balance(&[&members[0], &members[1]]).await;
    let user = (1..).find(|&user| owner_of(&members, user) == 1).unwrap();
    let path = format!("/v1/users/{user}/read-states/10/ack");
    let body = json!({"message_id": 1}).to_string().into_bytes();
    let json = ("content-type", "application/json");
    let method = reqwest::Method::POST;
    let direct = [("x-readstates-direct", "1"), json];
    let problem = members[0]
        .send(method.clone(), &path, &direct, Some(body.clone()))
        .await
        .refused(421, "not-the-owner");
    assert_eq!(problem["owner"], "chat-1");
    let forwarded = [("x-readstates-forwarded", "chat-9"), json];
    members[0]
        .forwarded(method.clone(), &path, &forwarded, Some(body.clone()))
        .await
        .refused(503, "ring-disagreement");
    let owner = members[1]
        .forwarded(method, &path, &forwarded, Some(body))
        .await;
    assert_eq!(owner.status, 200, "{}", owner.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_came_dirty_counts_as_written_when_it_is() {
    let database = FaultyStore::new();
    let world = RingWorld {
        store: Arc::clone(&database) as _,
        ring: Arc::new(MemoryRing::default()),
    };
    let (first, second) = (world.member("chat-0").await, world.member("chat-1").await);
    for user in 1..=40 {
        first.ack(user, 10, 5).await;
    }
    balance(&[&first, &second]).await;
    let came = second.status().await["dirty_users"].as_u64().unwrap();
    assert!(came > 0, "some of 40 users moved with half of the slots");
    database.slow(Duration::ZERO, Duration::from_millis(100));
    let flushed = second.post("/admin/v1/flush", json!({})).await.ok();
    assert_eq!(flushed["flushed_users"], came);
    assert_eq!(second.status().await["dirty_users"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_users_move_with_what_is_dirty_and_what_is_not() {
    let world = RingWorld::new();
    let first = world.member("chat-0").await;
    let users: Vec<u64> = (1..=1000).collect();
    let body = json!({"channel_id": "20", "message_id": "5", "user_ids": users});
    first.post("/v1/mentions", body).await.ok();
    first.post("/admin/v1/flush", json!({})).await.ok();
    let some: HashSet<u64> = (1..=1000).step_by(3).collect();
    let body = json!({"channel_id": "20", "message_id": "6", "user_ids": some});
    first.post("/v1/mentions", body).await.ok();
    let second = world.member("chat-1").await;
    balance(&[&first, &second]).await;
    // What was released is dropped soon.
    let start = std::time::Instant::now();
    loop {
        let (a, b) = (first.status().await, second.status().await);
        let sum = |what: &str| a[what].as_u64().unwrap() + b[what].as_u64().unwrap();
        assert!(sum("dirty_users") >= some.len() as u64, "{a} {b}");
        if sum("users") == 1000 {
            assert_eq!(sum("dirty_users"), some.len() as u64);
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{a} {b}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for user in (1..=1000).step_by(7) {
        let count = 1 + u64::from(some.contains(&user));
        assert_eq!(
            second.state(user, 20).await,
            Some((0, count)),
            "user {user}"
        );
    }
    let loads = second.get("/metrics").await.text;
    assert!(loads.contains("readstates_loads_total 0\n"), "all was warm");
}
