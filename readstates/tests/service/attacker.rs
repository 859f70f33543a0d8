//! An attacker without credentials at every port of a member: nothing it sends changes anything, and what
//! it sends is counted as refused.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::{Answer, PATIENCE, Running, members, owner_of};
use proptest::{
    prelude::{Strategy, any, prop},
    strategy::ValueTree,
    test_runner::TestRunner,
};
use readstates::store::MemoryStore;
use readstates_ring::Slot;
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const HANDOFF: &str = "/internal/v1/handoff";

async fn two() -> Vec<Running> {
    members(&["chat-0", "chat-1"], Arc::new(MemoryStore::default())).await
}

/// A user of the member at this place.
fn user_of(members: &[Running], owner: usize) -> u64 {
    (1..)
        .find(|&user| owner_of(members, user) == owner)
        .unwrap()
}

/// A message about slots, addressed as the published ring allows it.
async fn hand_off(to: &Running, message: Vec<u8>) -> Answer {
    let me = to.server.ownership().me().incarnation().to_string();
    let headers = [("x-readstates-incarnation", me.as_str())];
    to.forwarded(Method::POST, HANDOFF, &headers, Some(message))
        .await
}

fn message(kind: u8, body: &serde_json::Value) -> Vec<u8> {
    [&[kind][..], body.to_string().as_bytes()].concat()
}

async fn counter(member: &Running, line: &str) -> u64 {
    let page = member.get("/metrics").await.text;
    let line = page.lines().find_map(|found| found.strip_prefix(line));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

/// The request line as written, on a connection of its own; returns the status.
async fn raw(address: std::net::SocketAddr, method: &str, path: &[u8]) -> u16 {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = [
        method.as_bytes(),
        b" ",
        path,
        b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    ];
    let _ = socket.write_all(&head.concat()).await;
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1);
    status.map_or(0, |status| status.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_ring_takes_nothing_from_anybody() {
    let members = two().await;
    for user in 1..=50 {
        members[0].ack(user, 10, user).await;
    }
    let member = &members[0];
    let before = member.status().await;
    let evil =
        json!({"name": "evil", "incarnation": "00000000000000ff", "url": "http://127.0.0.1:1"});
    let table = json!({
        "number": u64::MAX, "members": [evil], "owners": vec![0; 1024],
        "epochs": vec![(1_i64 << 38) - 1; 1024],
    });
    hand_off(member, message(4, &table))
        .await
        .refused(400, "malformed-body");
    // A hint is looked into, and comes to nothing.
    let hint = [&[4][..], &u64::MAX.to_le_bytes()].concat();
    assert_eq!(hand_off(member, hint).await.status, 200);
    let after = member.status().await;
    for what in ["ring_number", "users", "dirty_users"] {
        assert_eq!(after[what], before[what], "{what}");
    }
    assert_eq!(after["ownership"]["owned"], 512);
    for user in 1..=50 {
        assert_eq!(members[1].state(user, 10).await, Some((user, 0)));
    }
    let refused = "readstates_refusals_total{type=\"malformed-body\"} ";
    assert_eq!(counter(member, refused).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_number_of_hints_is_answered_in_time_and_changes_nothing() {
    let members = two().await;
    let hint = [&[4][..], &u64::MAX.to_le_bytes()].concat();
    let began = Instant::now();
    let hints = (0..200).map(|_| hand_off(&members[0], hint.clone()));
    for answer in futures::future::join_all(hints).await {
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    // Those that come together share one read.
    assert!(began.elapsed() < PATIENCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offers_of_strangers_close_a_member_to_nobody() {
    let members = two().await;
    let second = &members[1];
    for origin in 1..=20_u64 {
        let offer = |slots| json!({"origin": origin, "transfer": 1, "slots": slots});
        hand_off(second, message(1, &offer(json!([]))))
            .await
            .refused(400, "malformed-body");
        hand_off(second, message(1, &offer(json!([[0, 0]]))))
            .await
            .refused(409, "not-a-member");
    }
    let refused = "readstates_refusals_total{type=\"not-a-member\"} ";
    assert_eq!(counter(second, refused).await, 20);
    let me = members[0].server.ownership().me().incarnation().to_string();
    let drained = members[0]
        .post("/admin/v1/drain", json!({"incarnation": me}))
        .await;
    assert_eq!(drained.status, 202, "{}", drained.text);
    second
        .until("the owner of all", |status| {
            status["ownership"]["owned"] == 1024
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_of_a_fake_origin_are_not_taken_in() {
    let members = two().await;
    let (mine, theirs) = (user_of(&members, 0), user_of(&members, 1));
    members[0].ack(mine, 10, 7).await;
    members[1].ack(theirs, 10, 8).await;
    let part = |origin: u64, user: u64| {
        let mut out = vec![3];
        out.extend(origin.to_le_bytes());
        out.extend(1_u64.to_le_bytes());
        out.extend(0_u32.to_le_bytes());
        out.extend(1_u32.to_le_bytes());
        out.extend(user.to_le_bytes());
        out.push(1);
        // Age, then an empty block, which takes the user away; then a digest.
        out.extend([0; 4 + 4 + 8]);
        out
    };
    let owner = |member: &Running| member.server.ownership().me().incarnation().bits();
    // From no member, from the owner of other slots, and from the owner itself in a transfer that it never announced.
    for origin in [1, owner(&members[0]), owner(&members[1])] {
        for user in [mine, theirs] {
            hand_off(&members[0], part(origin, user))
                .await
                .refused(400, "bad-value");
        }
    }
    // An owner offers what is another's: none of it is taken.
    let config = members[0].server.ownership().routes();
    let slot = Slot::of_user(mine);
    let epoch = config.table().config(slot).unwrap().epoch().number();
    let offer = json!({
        "origin": owner(&members[1]), "transfer": 1, "slots": [[slot.number(), epoch]],
    });
    let answer = hand_off(&members[0], message(1, &offer)).await;
    assert_eq!(answer.text, "{\"slots\":[]}");
    assert_eq!(members[1].state(mine, 10).await, Some((7, 0)));
    assert_eq!(members[0].state(theirs, 10).await, Some((8, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_to_live_members_and_to_where_those_say_they_are() {
    let members = two().await;
    let foreign = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", foreign.local_addr().unwrap());
    let table = Arc::clone(members[0].server.ownership().routes().table());
    let me = members[0].server.ownership().me().incarnation();
    let (slot, epoch) = table.owned_by(me).next().unwrap();
    let order = |incarnation: &str| {
        json!({
            "destination": {"name": "chat-1", "incarnation": incarnation, "url": url},
            "slots": [{"slot": slot.number(), "epoch": epoch.number()}],
        })
    };
    let unknown = members[0]
        .post("/admin/v1/moves", order("00000000000000ff"))
        .await;
    unknown.refused(409, "not-a-member");
    // The last of the moves that made the two equal is known from the ring before its sender has let go.
    members[0]
        .until("down to half of the slots", |status| {
            status["ownership"]["owned"] == 512
        })
        .await;
    let known = members[1].server.ownership().me().incarnation().to_string();
    let moved = members[0].post("/admin/v1/moves", order(&known)).await;
    assert_eq!(moved.status, 202, "{}", moved.text);
    // A busy machine may give a move up; the operator orders it again, and so does this test.
    let ordered = Instant::now();
    while members[1].status().await["ownership"]["owned"] != 513 {
        let sender = members[0].status().await;
        assert!(ordered.elapsed() < PATIENCE, "not moved: {sender}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        members[0].post("/admin/v1/moves", order(&known)).await;
    }
    let heard = tokio::time::timeout(Duration::ZERO, foreign.accept()).await;
    assert!(heard.is_err(), "the URL of the request was used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_says_it_is_a_member_is_a_client() {
    let members = two().await;
    let theirs = user_of(&members, 1);
    let headers = [
        ("x-readstates-forwarded", "chat-1"),
        ("x-readstates-incarnation", "0000000000000001"),
    ];
    let path = format!("/v1/users/{theirs}/read-states");
    for _ in 0..20 {
        let answer = members[0].send(Method::GET, &path, &headers, None).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    let in_use = "readstates_limit_refusals_total{limit=\"from-chat-1\"} ";
    assert_eq!(counter(&members[0], in_use).await, 0);
    assert_eq!(counter(&members[0], "readstates_forwards_total ").await, 20);
}

/// Malformed and odd paths of a user's channel.
fn odd_paths() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "\\",
        "..",
        "/",
        "%2e%2e",
        "%2E",
        "%5c",
        "%2f",
        "%00",
        ";",
        "?",
        "?since=1",
        "#",
        "6",
        "10",
        "ack",
        "pins/ack",
        "+1",
        "-1",
        "0",
        "18446744073709551616",
        "00000000000000000001",
        "read-states",
        "summary",
        " ",
        "%",
        "\u{e9}",
        "@",
        ":",
        "//",
        "metrics",
    ]);
    let piece = pieces.prop_map(|piece| piece.as_bytes().to_vec());
    let noise = prop::collection::vec(any::<u8>(), 0..4);
    let noise = noise.prop_map(|mut bytes| {
        bytes.retain(|byte| !matches!(byte, b'\r' | b'\n'));
        bytes
    });
    prop::collection::vec(proptest::prop_oneof![4 => piece, 1 => noise], 0..8)
        .prop_map(|pieces| pieces.concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_path_is_a_member_that_forwards_it_answers_what_the_owner_answers() {
    let members = two().await;
    let theirs = user_of(&members, 1);
    let neighbour = (1_000_000..)
        .find(|&user| owner_of(&members, user) == 1)
        .unwrap();
    members[1].ack(neighbour, 10, 9).await;
    let (via, owner) = (
        members[0].server.http_address,
        members[1].server.http_address,
    );
    let known = [
        format!("..\\..\\{neighbour}"),
        format!("..%5c..%5c{neighbour}"),
        format!("%2e%2e/%2e%2e/{neighbour}"),
        format!("../../{neighbour}"),
        format!("..\\..\\{neighbour}\\read-states\\10"),
        "..\\..\\..\\..\\metrics".to_owned(),
    ];
    let mut runner = TestRunner::deterministic();
    let odd = odd_paths();
    let odd = (0..300).map(|_| odd.new_tree(&mut runner).unwrap().current());
    let odd: Vec<Vec<u8>> = odd.collect();
    let tails = known.map(String::into_bytes).into_iter().chain(odd);
    for tail in tails {
        for method in ["GET", "DELETE", "POST"] {
            for base in [
                format!("/v1/users/{theirs}/read-states/"),
                format!("/v1/users/{theirs}"),
            ] {
                let path = [base.as_bytes(), &tail].concat();
                let shown = String::from_utf8_lossy(&path).into_owned();
                // The owner first: a deletion may change what is there, once.
                let direct = raw(owner, method, &path).await;
                let forwarded = raw(via, method, &path).await;
                assert_eq!(forwarded, direct, "{method} {shown}");
            }
        }
    }
    assert_eq!(members[1].state(neighbour, 10).await, Some((9, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_watchers_keep_no_probe_waiting() {
    let member = crate::common::alone().await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(
            TcpStream::connect(member.server.watch_address)
                .await
                .unwrap(),
        );
    }
    for _ in 0..10 {
        assert_eq!(member.get("/livez").await.status, 200);
    }
    let cut = counter(&member, "readstates_watchers_cut_total ").await;
    assert!(cut >= 200 - 64, "{cut}");
}
