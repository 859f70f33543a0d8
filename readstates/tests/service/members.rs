//! Three members in one process: any of them answers for every user.
//!
//! How slots come and go is in `ownership.rs`.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::common::{
    Running, alone, among, balance, faulty::FaultyStore, members, of_ring, owner_of,
};
use readstates::{
    config::ServeConfig,
    ownership::store::{MemoryRing, RingStore},
    store::MemoryStore,
};
use readstates_api::RingDocument;
use reqwest::Method;
use serde_json::json;

async fn three() -> Vec<Running> {
    members(
        &["chat-0", "chat-1", "chat-2"],
        Arc::new(MemoryStore::default()),
    )
    .await
}

#[tokio::test]
async fn what_one_member_was_told_every_member_knows() {
    let members = three().await;
    for user in 1..=30 {
        let told = &members[user as usize % 3];
        told.ack(user, 10, 100 + user).await;
    }
    for user in 1..=30 {
        for member in &members {
            assert_eq!(
                member.state(user, 10).await,
                Some((100 + user, 0)),
                "user {user}"
            );
        }
    }
    for (index, member) in members.iter().enumerate() {
        let owned = (1..=30)
            .filter(|&user| owner_of(&members, user) == index)
            .count();
        assert_eq!(
            member.status().await["users"],
            owned,
            "only owners keep users"
        );
    }
}

#[tokio::test]
async fn a_forwarded_request_is_answered_as_if_the_owner_had_been_asked() {
    let members = three().await;
    let user = (1..).find(|&user| owner_of(&members, user) == 2).unwrap();
    let path = format!("/v1/users/{user}/read-states");
    members[0].ack(user, 10, 1).await;
    let direct = members[2].get(&path).await;
    let forwarded = members[0].get(&path).await;
    assert_eq!(forwarded.text, direct.text);
    for header in ["etag", "content-type", "x-readstates-ring"] {
        assert_eq!(forwarded.header(header), direct.header(header), "{header}");
    }
    let tag = [("if-none-match", direct.header("etag").unwrap())];
    assert_eq!(
        members[0].send(Method::GET, &path, &tag, None).await.status,
        304
    );
    let problem = members[0]
        .post(&format!("{path}/10/ack"), json!({"message_id": "x"}))
        .await;
    assert_eq!(
        problem.refused(400, "malformed-body")["pointer"],
        "/message_id"
    );
    members[0]
        .get(&format!("{path}/999"))
        .await
        .refused(404, "no-read-state");
    let deleted = members[0].delete(&format!("{path}/10")).await.ok();
    assert_eq!(deleted["applied"], true);
    assert_eq!(
        members[0].delete(&format!("/v1/users/{user}")).await.status,
        204
    );
}

/// Behind a port mapping, the address that a member listens on is none that others can use.
#[tokio::test]
async fn members_reach_each_other_where_each_says_that_it_is_reached() {
    let mapped = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", mapped.local_addr().unwrap());
    let ring: Arc<dyn RingStore> = Arc::new(MemoryRing::default());
    let mut members = Vec::new();
    for (name, members_advertise) in [("chat-0", None), ("chat-1", Some(url))] {
        let config = ServeConfig {
            members_advertise,
            ..of_ring(name)
        };
        let store = Arc::new(MemoryStore::default());
        members.push(among(store, Arc::clone(&ring), config).await);
    }
    let behind = members[1].server.members_address.unwrap();
    let passed = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&passed);
    let mapping = tokio::spawn(async move {
        loop {
            let (mut near, _) = mapped.accept().await.unwrap();
            let mut far = tokio::net::TcpStream::connect(behind).await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    // The stores are apart: what the second member owns came to it from the first one.
    members[0].ack(1, 10, 100).await;
    balance(&members.iter().collect::<Vec<_>>()).await;
    assert_ne!(passed.load(Ordering::Relaxed), 0, "slots were handed on");
    let user = (1..).find(|&user| owner_of(&members, user) == 1).unwrap();
    members[0].ack(user, 10, 100).await;
    assert_eq!(members[0].state(user, 10).await, Some((100, 0)));
    assert_eq!(members[1].state(user, 10).await, Some((100, 0)));
    mapping.abort();
}

#[tokio::test]
async fn a_client_that_chose_the_owner_itself_is_told_when_it_chose_wrong() {
    let members = three().await;
    let user = (1..).find(|&user| owner_of(&members, user) == 1).unwrap();
    let path = format!("/v1/users/{user}/read-states");
    let direct = [("x-readstates-direct", "1")];
    assert_eq!(
        members[1]
            .send(Method::GET, &path, &direct, None)
            .await
            .status,
        200
    );
    let problem = members[0]
        .send(Method::GET, &path, &direct, None)
        .await
        .refused(421, "not-the-owner");
    assert_eq!(problem["owner"], "chat-1");
    assert_eq!(
        problem["owner_url"],
        format!("http://{}", members[1].server.http_address)
    );
    let number = members[0].server.ownership().routes().number();
    assert_eq!(problem["ring_number"], number);
}

#[tokio::test]
async fn a_forwarded_request_is_never_forwarded_again() {
    let members = three().await;
    let user = (1..).find(|&user| owner_of(&members, user) == 1).unwrap();
    let forwarded = [("x-readstates-forwarded", "chat-2")];
    let path = format!("/v1/users/{user}/read-states");
    let problem = members[0]
        .forwarded(Method::GET, &path, &forwarded, None)
        .await;
    problem.refused(503, "ring-disagreement");
    let body =
        json!({"channel_id": 1, "message_id": 1, "user_ids": (1..=30).collect::<Vec<u64>>()});
    let headers = [
        ("x-readstates-forwarded", "chat-2"),
        ("content-type", "application/json"),
    ];
    let body = body.to_string().into_bytes();
    let answer = members[0]
        .forwarded(Method::POST, "/v1/mentions", &headers, Some(body))
        .await
        .ok();
    let mine = (1..=30)
        .filter(|&user| owner_of(&members, user) == 0)
        .count();
    assert_eq!(answer["applied"], mine);
    let failed = answer["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 30 - mine);
    assert!(
        failed
            .iter()
            .all(|user| user["type"] == "/problems/ring-disagreement"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_mention_reaches_the_users_of_all_members_with_one_request_to_each() {
    let members = three().await;
    let users: Vec<String> = (1..=300_u64).map(|user| user.to_string()).collect();
    let body = json!({"channel_id": "10", "message_id": "100", "user_ids": users});
    let answer = members[1].post("/v1/mentions", body.clone()).await.ok();
    assert_eq!(answer, json!({"applied": 300, "ignored": 0, "failed": []}));
    assert_eq!(
        members[2].post("/v1/mentions", body).await.ok()["ignored"],
        300
    );
    for user in (1..=300).step_by(37) {
        assert_eq!(members[0].state(user, 10).await, Some((0, 1)));
    }
    let metrics = members[1].get("/metrics").await.text;
    assert!(metrics.contains("readstates_forwards_total 2"), "{metrics}");
}

#[tokio::test]
async fn users_of_a_member_that_is_down_fail_alone_and_say_so() {
    let mut members = three().await;
    let users: Vec<u64> = (1..=60).collect();
    let owned = |user: &&u64| owner_of(&members, **user) == 2;
    let expected: HashSet<String> = users.iter().filter(owned).map(u64::to_string).collect();
    let lost = expected.iter().next().unwrap().clone();
    members.remove(2).server.crash().await;
    let path = format!("/v1/users/{lost}/read-states/10/ack");
    let problem = members[0].post(&path, json!({"message_id": 1})).await;
    problem.refused(503, "owner-unreachable");
    let body = json!({"channel_id": "10", "message_id": "100", "user_ids": users});
    let answer = members[0].post("/v1/mentions", body).await.ok();
    let failed: HashSet<String> = answer["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|user| {
            assert_eq!(user["type"], "/problems/owner-unreachable");
            user["user_id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(failed, expected);
    assert_eq!(answer["applied"], 60 - expected.len());
}

#[tokio::test]
async fn all_members_publish_the_same_owners() {
    let members = three().await;
    let mut rings: Vec<RingDocument> = Vec::new();
    for member in &members {
        rings.push(serde_json::from_value(member.get("/v1/ring").await.ok()).unwrap());
    }
    assert!(
        rings
            .windows(2)
            .all(|pair| pair[0].owners == pair[1].owners)
    );
    let mut names: Vec<&str> = rings[0]
        .members
        .iter()
        .map(|member| member.name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["chat-0", "chat-1", "chat-2"]);
    let known = rings[1].members.iter();
    assert!(known.clone().all(|member| member.incarnation.is_some()));
}

#[tokio::test]
async fn a_client_waits_for_the_next_ring_and_gets_it_when_slots_move() {
    let members = three().await;
    let number = members[0].server.ownership().routes().number();
    let path = format!("/v1/ring?after={number}");
    let waits = members[0].get(&path);
    let moves = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let me = members[2].server.ownership().me().incarnation().to_string();
        let drained = members[2].post("/admin/v1/drain", json!({"incarnation": me}));
        assert_eq!(drained.await.status, 202);
    };
    let (next, ()) = tokio::join!(waits, moves);
    let next: RingDocument = serde_json::from_value(next.ok()).unwrap();
    assert!(next.number > number);
}

#[tokio::test]
async fn a_member_that_is_alone_never_forwards() {
    let member = alone().await;
    let direct = [("x-readstates-direct", "1")];
    for user in 1..=20 {
        let path = format!("/v1/users/{user}/read-states");
        assert_eq!(
            member.send(Method::GET, &path, &direct, None).await.status,
            200
        );
    }
}

#[tokio::test]
async fn nobody_works_on_for_a_client_that_has_stopped_waiting() {
    let store = FaultyStore::new();
    let members = members(&["chat-0", "chat-1"], Arc::clone(&store) as _).await;
    // Clients wait for a second, the database takes a minute.
    const SLOW: Duration = Duration::from_secs(60);
    store.slow(SLOW, Duration::ZERO);
    let waits = [("x-readstates-timeout", "1000")];
    for owner in [0, 1] {
        let user = (1..)
            .find(|&user| owner_of(&members, user) == owner)
            .unwrap();
        let path = format!("/v1/users/{user}/read-states");
        let asked = Instant::now();
        let read = members[0].send(Method::GET, &path, &waits, None).await;
        assert_eq!(read.status, 503, "{}", read.text);
        let headers = [waits[0], ("content-type", "application/json")];
        let body = json!({"message_id": "7"}).to_string().into_bytes();
        let ack = members[0]
            .send(
                Method::POST,
                &format!("{path}/10/ack"),
                &headers,
                Some(body),
            )
            .await;
        ack.refused(504, "outcome-unknown");
        assert!(asked.elapsed() < SLOW, "it waited for the database");
    }
}

#[tokio::test]
async fn a_time_to_wait_that_is_none_is_refused() {
    let member = alone().await;
    for none in ["0", "-1", "1.5", "600001", "soon", ""] {
        let headers = [("x-readstates-timeout", none)];
        let answer = member
            .send(Method::GET, "/v1/users/1/read-states", &headers, None)
            .await;
        let problem = answer.refused(400, "bad-value");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("give 1 to 600000 milliseconds"), "{detail}");
    }
    let headers = [("x-readstates-timeout", "600000")];
    let answer = member
        .send(Method::GET, "/v1/users/1/read-states", &headers, None)
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}
