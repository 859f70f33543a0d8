//! `readstates mirror` between callers, a small old system and a member.

mod stops;
mod world;

use std::sync::atomic::Ordering;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use self::world::{Gate, Mirroring, Old, Ours, ROUTES, behind_tls, routes_file};
use crate::{
    authority::Authority,
    common::{PATIENCE, SOON, alone},
    process,
};

/// Nobody listens there.
const NOBODY: &str = "http://127.0.0.1:1";

const FAILED: &str = "readstates_mirror_writes_total{result=\"failed\"}";
const DROPPED: &str = "readstates_mirror_writes_total{result=\"dropped\"}";
const TOO_LARGE: &str = "readstates_mirror_writes_total{result=\"too_large\"}";
const UNREADABLE: &str = "readstates_mirror_writes_total{result=\"unreadable\"}";
const UNKNOWN: &str = "readstates_mirror_writes_total{result=\"unknown\"}";
const EQUAL: &str = "readstates_mirror_comparisons_total{result=\"equal\"}";
const DIFFERENT: &str = "readstates_mirror_comparisons_total{result=\"different\"}";
const SERVED: &str = "readstates_mirror_served_total";
const FALLBACKS: &str = "readstates_mirror_fallbacks_total";
const PROVEN: &str = "readstates_mirror_proven_users";

fn states(by: &str, of: &[(u64, u64, u64)]) -> Value {
    let state = |&(channel, message, count): &(u64, u64, u64)| {
        let last = (message != 0).then(|| message.to_string());
        json!({"id": channel.to_string(), "last": last, "count": count})
    };
    let states: Vec<Value> = of.iter().map(state).collect();
    json!({"by": by, "read_states": states})
}

#[tokio::test]
async fn callers_get_the_old_answers_while_the_service_is_away() {
    let old = Old::start().await;
    old.set(1, 10, 100, 2);
    // So long that a caller who waited for the service would be noticed.
    let mirror = Mirroring::start(
        &old.url,
        NOBODY,
        &["--deadline", "1h", "--drain-timeout", "1ms"],
    );
    let all = async {
        let body = vec![7_u8; 3 << 20];
        let request = mirror.request(Method::POST, "/any/%7Bpath%7D?a=1&b=%20");
        let request = request
            .header("authorization", "Bearer secret")
            .header("connection", "x-hop");
        let answer = request
            .header("x-hop", "1")
            .body(body.clone())
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 207);
        assert_eq!(answer.headers()["x-echo"], "/any/%7Bpath%7D");
        assert!(!answer.headers().contains_key("keep-alive"));
        assert!(answer.bytes().await.unwrap() == body);
        let received = old.received.lock().unwrap().pop().unwrap();
        assert_eq!(received.target, "/any/%7Bpath%7D?a=1&b=%20");
        assert_eq!(received.headers["authorization"], "Bearer secret");
        assert_eq!(
            received.headers["host"],
            mirror.url.trim_start_matches("http://")
        );
        assert!(!received.headers.contains_key("x-hop"));
        mirror.ack(1, 11, 200).await;
        let (status, read) = mirror.read("/users/1/states").await;
        assert_eq!(
            (status, read),
            (200, states("old", &[(10, 100, 2), (11, 200, 0)]))
        );
        old.fails_with.store(418, Ordering::SeqCst);
        assert_eq!(mirror.read("/users/1/states").await.0, 418);
        let upgrade = mirror
            .request(Method::GET, "/socket")
            .header("connection", "upgrade");
        let refused = upgrade.header("upgrade", "websocket").send().await.unwrap();
        assert_eq!(refused.status(), 501);
    };
    timeout(PATIENCE, all)
        .await
        .expect("nobody waits for the service");
    assert_eq!(
        mirror
            .metric("readstates_mirror_requests_total{route=\"other\"}")
            .await,
        1
    );
    let (status, summary) = mirror.stop();
    assert_eq!(status, 4, "the write has not reached the service");
    assert!(summary.contains("GET /users/{user}/states: 2"), "{summary}");
}

#[tokio::test]
async fn an_old_system_that_is_away_is_said_to_be() {
    let member = alone().await;
    let mirror = Mirroring::start(NOBODY, member.url("").as_str(), &[]);
    assert_eq!(mirror.read("/users/1/states").await.0, 502);
    let ack = mirror
        .request(Method::POST, "/channels/1/messages/2/ack")
        .header("x-user", 1);
    assert_eq!(ack.send().await.unwrap().status(), 502);
    assert_eq!(
        mirror
            .metric("readstates_mirror_old_unanswered_total")
            .await,
        2
    );
    assert_eq!(mirror.stop().0, 0);
    assert_eq!(
        member.state(1, 1).await,
        None,
        "what the old system has not done is not sent"
    );
}

#[tokio::test]
async fn writes_reach_the_service_in_their_order_and_refused_ones_do_not() {
    let (old, member) = (Old::start().await, alone().await);
    let ours = Ours::start(&member).await;
    let mirror = Mirroring::start(&old.url, &ours.url, &[]);
    // They wait behind each other, and would overtake each other if they could.
    ours.set(Gate::Held);
    for to in 1..=20 {
        let unread = mirror
            .request(Method::PUT, "/channels/10/unread")
            .header("x-user", 1);
        let body = json!({"to": (1000 - to).to_string(), "count": to});
        assert_eq!(unread.json(&body).send().await.unwrap().status(), 200);
    }
    old.fails_with.store(403, Ordering::SeqCst);
    let refused = mirror
        .request(Method::PUT, "/channels/10/unread")
        .header("x-user", 1);
    let refused = refused.json(&json!({"to": "5"})).send().await.unwrap();
    assert_eq!(refused.status(), 403);
    old.fails_with.store(0, Ordering::SeqCst);
    let users: Vec<u64> = (1..=300).collect();
    let mention = json!({"channel": 11, "message": 2000, "users": users});
    let mention = mirror.request(Method::POST, "/mentions").json(&mention);
    assert_eq!(mention.send().await.unwrap().status(), 202);
    mirror.ack(2, 12, 50).await;
    let delete = mirror.request(Method::DELETE, "/users/2/12");
    assert_eq!(delete.send().await.unwrap().status(), 200);
    ours.set(Gate::Open);
    mirror.settled().await;
    assert_eq!(member.state(1, 10).await, Some((980, 20)));
    for user in [1, 2, 150, 300] {
        assert_eq!(member.state(user, 11).await, Some((0, 1)), "{user}");
    }
    assert_eq!(member.state(2, 12).await, None);
    let received = ours.received.lock().unwrap().clone();
    let acks = received
        .iter()
        .filter(|request| request.target.contains("/users/1/"));
    let acks: Vec<Value> = acks
        .map(|ack| serde_json::from_slice(&ack.body).unwrap())
        .collect();
    let order = acks
        .iter()
        .map(|ack| ack["message_id"].as_str().unwrap().to_owned());
    let expected = (1..=20).map(|to| (1000 - to).to_string());
    assert_eq!(order.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(mirror.metric(FAILED).await, 0);
}

#[tokio::test]
async fn a_difference_is_written_down_once_it_is_seen_twice_and_a_write_under_way_is_none() {
    let (old, member) = (Old::start().await, alone().await);
    let ours = Ours::start(&member).await;
    let mirror = Mirroring::start(&old.url, &ours.url, &[]);
    mirror.ack(1, 10, 100).await;
    mirror.settled().await;
    mirror.read("/users/1/states").await;
    mirror.until(EQUAL, 1).await;
    // A write that the old system has, and the service not yet.
    ours.set(Gate::Held);
    mirror.ack(1, 10, 101).await;
    old.received.lock().unwrap().clear();
    mirror.read("/users/1/states").await;
    // It is seen again and again, and counts never.
    let looks = async {
        while old.received.lock().unwrap().len() < 4 {
            sleep(SOON).await;
        }
    };
    timeout(PATIENCE, looks).await.unwrap();
    assert_eq!(mirror.metric(DIFFERENT).await, 0);
    ours.set(Gate::Open);
    mirror.settled().await;
    mirror.read("/users/1/states").await;
    mirror.until(EQUAL, 2).await;
    assert_eq!(mirror.metric(DIFFERENT).await, 0);
    // What did not come through the mirror.
    old.set(2, 11, 7, 0);
    old.set(2, 12, 8, 3);
    member.ack(2, 12, 8).await;
    member.ack(2, 13, 9).await;
    let read = mirror
        .request(Method::GET, "/users/2/states")
        .header("authorization", "secret");
    assert_eq!(read.send().await.unwrap().status(), 200);
    mirror.until(DIFFERENT, 1).await;
    for (kind, count) in [
        ("missing", 1),
        ("extra", 1),
        ("message", 0),
        ("mentions", 1),
    ] {
        let name = format!("readstates_mirror_differences_total{{kind=\"{kind}\"}}");
        assert_eq!(mirror.metric(&name).await, count, "{kind}");
    }
    let file = mirror.folder.path().join("differences.ndjson");
    let lines = loop {
        let text = std::fs::read_to_string(&file).unwrap();
        if text.ends_with('\n') && text.lines().count() == 3 {
            break text;
        }
        tokio::task::yield_now().await;
    };
    assert!(!lines.contains("secret"), "{lines}");
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["kind"], "missing");
    assert_eq!(
        (&first["user"], &first["channel"]),
        (&json!("2"), &json!("11"))
    );
    assert_eq!(first["old"], json!({"message": "7", "mentions": 0}));
    assert_eq!(first["ours"], Value::Null);
    assert_eq!(
        mirror.read("/users/1/states").await.1["by"],
        "old",
        "nobody is served"
    );
    assert_eq!(mirror.stop().0, 0);
}

#[tokio::test]
async fn a_share_is_served_in_the_old_shape_while_it_is_proven_and_back_at_once() {
    let (old, member) = (Old::start().await, alone().await);
    let ours = Ours::start(&member).await;
    let serve = ["--serve", "100", "--deadline", "300ms"];
    let mirror = Mirroring::start(&old.url, &ours.url, &serve);
    mirror.ack(1, 10, 100).await;
    let read = || mirror.read("/users/1/states");
    assert_eq!(
        read().await.1["by"],
        "old",
        "nothing is proven at the start"
    );
    mirror.until(PROVEN, 1).await;
    assert_eq!(read().await, (200, states("ours", &[(10, 100, 0)])));
    // Its own writes are there, however soon it reads.
    for message in 101..=110 {
        mirror.ack(1, 10, message).await;
        assert_eq!(read().await.1, states("ours", &[(10, message, 0)]));
    }
    // The old system says who may read, and its headers are there, but for those of its body.
    let who = mirror
        .request(Method::GET, "/users/1/states")
        .header("x-login", "no");
    assert_eq!(who.send().await.unwrap().status(), 401);
    let answer = mirror
        .request(Method::GET, "/users/1/states")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.headers()["x-old"], "yes");
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert!(!answer.headers().contains_key("etag"));
    // The service is away for a read: the old system's answer.
    ours.set(Gate::Closed);
    assert_eq!(read().await.1["by"], "old");
    assert_eq!(mirror.metric(FALLBACKS).await, 1);
    ours.set(Gate::Open);
    assert_eq!(read().await.1["by"], "ours");
    // It is away for a write: the old system's answers, until both are the same again.
    ours.set(Gate::Closed);
    mirror.ack(1, 10, 120).await;
    mirror.until(FAILED, 1).await;
    ours.set(Gate::Open);
    assert_eq!(read().await.1, states("old", &[(10, 120, 0)]));
    mirror.until(DIFFERENT, 1).await;
    assert_eq!(read().await.1, states("old", &[(10, 120, 0)]));
    mirror.ack(1, 10, 121).await;
    let equal = mirror.metric(EQUAL).await;
    read().await;
    mirror.until(EQUAL, equal + 1).await;
    mirror.until(PROVEN, 1).await;
    assert_eq!(read().await.1, states("ours", &[(10, 121, 0)]));
    let (status, summary) = mirror.stop();
    assert!(status == 0 && summary.contains("1 fell back"), "{summary}");
    // Back: the old system has had every write.
    let mirror = Mirroring::start(&old.url, &ours.url, &["--serve", "0"]);
    for _ in 0..3 {
        let (_, read) = mirror.read("/users/1/states").await;
        assert_eq!(read, states("old", &[(10, 121, 0)]));
    }
    assert_eq!(mirror.metric(SERVED).await, 0);
}

#[tokio::test]
async fn where_there_is_no_login_proven_users_do_without_the_old_system() {
    let (old, member) = (Old::start().await, alone().await);
    let mirror = Mirroring::start(&old.url, &member.url(""), &["--serve", "100"]);
    mirror.ack(1, 10, 100).await;
    mirror.read("/open/1/states").await;
    mirror.until(PROVEN, 1).await;
    old.fails_with.store(500, Ordering::SeqCst);
    let expected = states("ours", &[(10, 100, 0)]);
    assert_eq!(mirror.read("/open/1/states").await, (200, expected));
    assert_eq!(
        mirror.read("/users/1/states").await.0,
        500,
        "here it says who may read"
    );
    // A write whose outcome nobody knows: from now on the old system's answer.
    let unread = mirror
        .request(Method::PUT, "/channels/10/unread")
        .header("x-user", 1);
    let unread = unread.json(&json!({"to": "5"})).send().await.unwrap();
    assert_eq!(unread.status(), 500);
    assert_eq!(mirror.metric(UNKNOWN).await, 1);
    assert_eq!(mirror.read("/open/1/states").await.0, 500);
    // Nor whether one is done that is answered with another place to look at.
    old.fails_with.store(303, Ordering::SeqCst);
    let unread = mirror
        .request(Method::PUT, "/channels/10/unread")
        .header("x-user", 1);
    let unread = unread.json(&json!({"to": "5"})).send().await.unwrap();
    assert_eq!(unread.status(), 303);
    assert_eq!(mirror.metric(UNKNOWN).await, 2);
}

#[tokio::test]
async fn what_cannot_be_read_passes_through_and_nobody_is_proven_any_more() {
    let (old, member) = (Old::start().await, alone().await);
    let mirror = Mirroring::start(&old.url, &member.url(""), &["--serve", "100"]);
    for (body, counted) in [
        (
            json!({"to": "5", "count": 0, "pad": "x".repeat(2 << 20)}),
            TOO_LARGE,
        ),
        (json!({"to": "05", "count": 0}), UNREADABLE),
    ] {
        mirror.ack(1, 10, 100).await;
        mirror.settled().await;
        let proven = async {
            while mirror.metric(PROVEN).await == 0 {
                old.set(1, 10, 100, 0);
                mirror.read("/users/1/states").await;
            }
        };
        timeout(PATIENCE, proven).await.unwrap();
        let unread = mirror
            .request(Method::PUT, "/channels/10/unread")
            .header("x-user", 1);
        assert_eq!(unread.json(&body).send().await.unwrap().status(), 200);
        assert_eq!(mirror.metric(counted).await, 1);
        let (_, read) = mirror.read("/users/1/states").await;
        assert_eq!(read, states("old", &[(10, 5, 0)]), "it has the write");
    }
    assert_eq!(member.state(1, 10).await, Some((100, 0)));
}

#[tokio::test]
async fn what_is_there_twice_is_the_old_system_s_alone() {
    let (old, member) = (Old::start().await, alone().await);
    let mirror = Mirroring::start(&old.url, &member.url(""), &["--serve", "100"]);
    let ack = mirror.request(Method::POST, "/acks");
    let body = json!({"user": 2, "channel": 10, "message": 100});
    assert_eq!(ack.json(&body).send().await.unwrap().status(), 204);
    mirror.settled().await;
    mirror.read("/states?user=2").await;
    mirror.until(PROVEN, 1).await;
    let of_two = states("ours", &[(10, 100, 0)]);
    assert_eq!(mirror.read("/states?user=2").await, (200, of_two));
    // The old system lets user 1 in, whose number is the last.
    for query in ["user=2&user=1", "us%65r=2&user=1", "user=2&us%65r=1"] {
        let (_, read) = mirror.read(&format!("/states?{query}")).await;
        assert_eq!(read, states("old", &[]), "{query}");
    }
    let unreadable = mirror.metric(UNREADABLE).await;
    let ack = mirror.request(Method::POST, "/channels/10/messages/200/ack");
    let ack = ack.header("x-user", 2).header("x-user", 1);
    assert_eq!(ack.send().await.unwrap().status(), 204);
    let ack = mirror.request(Method::POST, "/acks");
    let body = r#"{"user": 2, "channel": 11, "message": 200, "\u0075ser": 1}"#;
    assert_eq!(ack.body(body).send().await.unwrap().status(), 204);
    assert_eq!(mirror.metric(UNREADABLE).await, unreadable + 2);
    mirror.settled().await;
    let (_, read) = mirror.read("/states?user=1").await;
    assert_eq!(read, states("old", &[(10, 200, 0), (11, 200, 0)]));
    for user in [1, 2] {
        assert_eq!(member.state(user, 11).await, None);
    }
    assert_eq!(member.state(2, 10).await, Some((100, 0)));
}

#[tokio::test]
async fn a_user_of_whom_a_mention_is_on_its_way_is_not_served_without_it() {
    let (old, member) = (Old::start().await, alone().await);
    let ours = Ours::start(&member).await;
    let serve = ["--serve", "100", "--deadline", "60s"];
    let mirror = Mirroring::start(&old.url, &ours.url, &serve);
    mirror.ack(1, 10, 100).await;
    let read = || mirror.read("/users/1/states");
    read().await;
    mirror.until(PROVEN, 1).await;
    assert_eq!(read().await.1, states("ours", &[(10, 100, 0)]));
    ours.set(Gate::Held);
    let mention = json!({"channel": 10, "message": 200, "users": [1]});
    let mention = mirror.request(Method::POST, "/mentions").json(&mention);
    assert_eq!(mention.send().await.unwrap().status(), 202);
    assert_eq!(read().await.1, states("old", &[(10, 100, 1)]));
    ours.set(Gate::Open);
    mirror.settled().await;
    // A comparison that has met the mention too often has left it open.
    read().await;
    mirror.until(PROVEN, 1).await;
    assert_eq!(read().await.1, states("ours", &[(10, 100, 1)]));
}

#[tokio::test]
async fn an_old_system_behind_tls_is_believed_by_its_certificate_alone() {
    let old = Old::start().await;
    old.set(1, 10, 100, 2);
    let member = alone().await;
    let authority = Authority::new();
    let (url, _tls) = behind_tls(&old.url, &authority.issue("localhost")).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, pem: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, pem).unwrap();
        file.display().to_string()
    };
    let (ca, other) = (
        file("ca.pem", &authority.pem),
        file("other.pem", &Authority::new().pem),
    );
    let mirror = Mirroring::start(&url, member.url("").as_str(), &["--old-ca-file", &ca]);
    mirror.ack(1, 11, 200).await;
    let both = states("old", &[(10, 100, 2), (11, 200, 0)]);
    assert_eq!(mirror.read("/users/1/states").await, (200, both));
    mirror.settled().await;
    assert_eq!(member.state(1, 11).await, Some((200, 0)));
    assert_eq!(mirror.stop().0, 0);

    // Of another CA, of a name that is not in the certificate, and of no CA that is named.
    let of_an_address = url.replace("localhost", "127.0.0.1");
    let received = old.received.lock().unwrap().len();
    for (url, more) in [
        (&url, vec!["--old-ca-file", &*other]),
        (&of_an_address, vec!["--old-ca-file", &*ca]),
        (&url, vec![]),
    ] {
        let mirror = Mirroring::start(url, NOBODY, &more);
        assert_eq!(
            mirror.read("/users/1/states").await.0,
            502,
            "{url} {more:?}"
        );
        assert_eq!(mirror.stop().0, 0);
    }
    assert_eq!(old.received.lock().unwrap().len(), received);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_listened_on() {
    let folder = tempfile::tempdir().unwrap();
    let with = |routes: &str, more: &[&str]| {
        let file = routes_file(folder.path(), routes);
        let fixed = ["mirror", "--listen", "127.0.0.1:0", "--routes", &file];
        process::readstates(&[&fixed, more].concat())
    };
    let old = ["--old", NOBODY];
    let twice = format!("{ROUTES}  - {{request: 'DELETE /users/{{user}}/*', does: delete}}\n");
    let (status, _, error) = with(&twice, &old);
    let line = twice.lines().count();
    assert_eq!(status, 3, "{error}");
    assert!(
        error.contains(&format!("routes.yaml: line {line}: routes[8]")),
        "{error}"
    );
    let (status, _, error) = with("routes:\n- {request: GET /x, does: red}\n", &old);
    assert!(status == 3 && error.contains("line 2"), "{error}");
    let deletes = "routes:\n- {request: 'DELETE /u/{user}', does: delete}\n";
    let (status, _, error) = with(deletes, &["--old", NOBODY, "--serve", "1"]);
    assert!(status == 3 && error.contains("does: read"), "{error}");
    let (status, _, error) = with(deletes, &["--old", "http://chat/api"]);
    assert!(status == 2 && error.contains("--old"), "{error}");
    let no_file = ["--old", "https://chat", "--old-ca-file", "/nowhere/ca.pem"];
    let (status, _, error) = with(deletes, &no_file);
    assert!(
        status != 0 && error.contains("--old-ca-file: failed to read /nowhere/ca.pem"),
        "{error}"
    );
    let (status, _, error) = with(deletes, &["--old", NOBODY, "--serve", "101"]);
    assert!(status == 2 && error.contains("percentage"), "{error}");
}
