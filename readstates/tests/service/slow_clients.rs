//! Clients that are slow or many: what they hold, and for how long.

mod limits;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::{NEVER, PATIENCE, Running, config, on};
use readstates::{
    config::{Limits, ServeConfig},
    store::{MemoryStore, Store},
};
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

/// Short enough for a test, long enough for a busy machine to do something in time.
const SHORT: Duration = Duration::from_secs(2);
const ACK: &str = "POST /v1/users/1/read-states/10/ack HTTP/1.1\r\nhost: a\r\n\
    content-type: application/json\r\n";

async fn limited(limits: Limits) -> Running {
    limited_on(Arc::new(MemoryStore::default()), limits).await
}

async fn limited_on(store: Arc<dyn Store>, limits: Limits) -> Running {
    let config = ServeConfig {
        limits,
        ..config(NEVER)
    };
    on(store, config).await
}

/// A client that speaks for itself.
struct Raw(TcpStream);

impl Raw {
    async fn connect(member: &Running) -> Self {
        Self(
            TcpStream::connect(member.server.http_address)
                .await
                .unwrap(),
        )
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// All that comes until the other side closes.
    async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut bytes)).await;
        // A reset is an end as well.
        let _ = read.expect("the connection is closed");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// One answer without a body, or with one that is short.
    async fn answer(&mut self) -> String {
        let mut bytes = vec![0; 4096];
        let read = tokio::time::timeout(PATIENCE, self.0.read(&mut bytes)).await;
        bytes.truncate(read.expect("an answer").unwrap());
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends on, a byte at a time, until the other side closes; how long that took.
    async fn trickle(mut self) -> Duration {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if self.0.write_all(b"x").await.is_err() {
                return started.elapsed();
            }
            let mut byte = [0];
            let pause = SHORT / 8;
            let read = tokio::time::timeout(pause, self.0.read(&mut byte)).await;
            if let Ok(Ok(0) | Err(_)) = read {
                return started.elapsed();
            }
        }
        panic!("the connection is still open");
    }
}

async fn in_use(member: &Running, limit: &str) -> u64 {
    let page = member.get("/metrics").await.text;
    let name = format!("readstates_limit_in_use{{limit=\"{limit}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name} in\n{page}"))
        .parse()
        .unwrap()
}

async fn until_in_use(member: &Running, limit: &str, holds: impl Fn(u64) -> bool) {
    let started = Instant::now();
    loop {
        let used = in_use(member, limit).await;
        if holds(used) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{used} of {limit} in use");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_head_that_trickles_in_is_cut_off() {
    let member = limited(Limits {
        header_timeout: SHORT,
        ..Limits::DEFAULT
    })
    .await;
    let mut slow = Raw::connect(&member).await;
    slow.send("GET /v1/users/1/read-states HTTP/1.1\r\nx-slow: ")
        .await;
    let open = slow.trickle().await;
    assert!(open < 10 * SHORT, "{open:?}");
    // The second head of a connection as well.
    let mut slow = Raw::connect(&member).await;
    slow.send("GET /v1/users/1/read-states HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    assert!(slow.answer().await.starts_with("HTTP/1.1 200 OK\r\n"));
    slow.send("GET /v1/users/1/read-states HTTP/1.1\r\nx-slow: ")
        .await;
    let open = slow.trickle().await;
    assert!(open < 10 * SHORT, "{open:?}");
}

#[tokio::test]
async fn a_connection_without_requests_is_closed_and_one_with_requests_is_not() {
    let member = limited(Limits {
        idle_timeout: SHORT,
        ..Limits::DEFAULT
    })
    .await;
    let mut silent = Raw::connect(&member).await;
    let mut busy = Raw::connect(&member).await;
    let started = Instant::now();
    while started.elapsed() < 3 * SHORT {
        busy.send("GET /v1/users/1/read-states HTTP/1.1\r\nhost: a\r\n\r\n")
            .await;
        assert!(busy.answer().await.contains("200 OK"));
        tokio::time::sleep(SHORT / 8).await;
    }
    assert_eq!(silent.rest().await, "", "the silent one");
    assert_eq!(busy.rest().await, "", "the one that was busy");
}

#[tokio::test]
async fn a_body_that_trickles_in_holds_no_place_and_is_refused() {
    let member = limited(Limits {
        max_changes: 1,
        body_timeout: SHORT,
        ..Limits::DEFAULT
    })
    .await;
    let mut slow = Raw::connect(&member).await;
    slow.send(&format!(
        "{ACK}expect: 100-continue\r\ncontent-length: 19\r\n\r\n"
    ))
    .await;
    // Its body is waited for.
    assert!(slow.answer().await.starts_with("HTTP/1.1 100 "));
    slow.send("{\"mess").await;
    member.ack(1, 10, 5).await;
    let answer = slow.rest().await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("did not arrive within"), "{answer}");
    assert_eq!(member.state(1, 10).await, Some((5, 0)));
}

#[tokio::test]
async fn an_answer_that_is_not_read_is_given_up_and_its_memory_is_free_again() {
    let member = limited(Limits {
        answer_timeout: SHORT,
        ..Limits::DEFAULT
    })
    .await;
    // Far more than the buffers of two sockets.
    let items = 100;
    for hundred in 0..300_u64 {
        let item = |index| json!({"channel_id": hundred * items + index + 1, "message_id": 1});
        let bulk: Vec<_> = (0..items).map(item).collect();
        let path = "/v1/users/1/read-states/ack-bulk";
        member.post(path, json!({"read_states": bulk})).await.ok();
    }
    let mut reader = Raw::connect(&member).await;
    reader
        .send("GET /v1/users/1/read-states HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    until_in_use(&member, "buffered-bytes", |bytes| bytes > 4_000_000).await;
    until_in_use(&member, "buffered-bytes", |bytes| bytes == 0).await;
    let whole = member.get("/v1/users/1/read-states").await.text.len();
    let rest = reader.rest().await;
    assert!(
        rest.len() < whole,
        "{} of {whole} bytes were sent",
        rest.len()
    );
}

#[tokio::test]
async fn one_connection_too_many_is_told_so_and_closed() {
    let member = limited(Limits {
        max_connections: 1,
        ..Limits::DEFAULT
    })
    .await;
    let mut first = Raw::connect(&member).await;
    first
        .send("GET /v1/users/1/read-states HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    assert!(first.answer().await.contains("200 OK"));
    // A request in flight: no connection is idle, so none can give its place up.
    first
        .send(&format!("{ACK}content-length: 100\r\n\r\n"))
        .await;
    let refused = Raw::connect(&member).await.rest().await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    // The operator still gets in.
    member.status().await;
    drop(first);
    let started = Instant::now();
    loop {
        let mut next = Raw::connect(&member).await;
        // It may be refused, and closed, before this is sent.
        let request =
            b"GET /v1/users/1/read-states HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let _ = next.0.write_all(request).await;
        if next.rest().await.contains("200 OK") {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "the place is not free again");
    }
}

/// Asks once, on a new connection from this address.
async fn asks_from(member: &Running, address: &str) -> String {
    let mut raw = connected_from(member, address).await;
    let request = b"GET /v1/users/1/summary HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    // It may be refused, and closed, before this is sent.
    let _ = raw.0.write_all(request).await;
    raw.rest().await
}

async fn connected_from(member: &Running, address: &str) -> Raw {
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind(SocketAddr::new(address.parse().unwrap(), 0))
        .unwrap();
    Raw(socket.connect(member.server.http_address).await.unwrap())
}

#[tokio::test]
async fn clients_that_connect_and_ask_nothing_keep_nobody_out() {
    let member = limited(Limits {
        max_connections: 3,
        max_connections_per_source: Some(3),
        idle_timeout: 10 * PATIENCE,
        ..Limits::DEFAULT
    })
    .await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(Raw::connect(&member).await);
    }
    // Once they have been idle for a while, a client that asks is served.
    let started = Instant::now();
    while !asks_from(&member, "127.0.0.1").await.contains("200 OK") {
        assert!(
            started.elapsed() < PATIENCE,
            "no idle connection gives its place up"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // All of them are still open at this end.
    drop(idle);
}

#[tokio::test]
async fn one_source_cannot_take_all_connections() {
    let member = limited(Limits {
        max_connections: 4,
        ..Limits::DEFAULT
    })
    .await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut raw = connected_from(&member, "127.0.0.2").await;
        raw.send(&format!("{ACK}content-length: 100\r\n\r\n")).await;
        busy.push(raw);
    }
    until_in_use(&member, "connections", |used| used == 2).await;
    assert!(
        asks_from(&member, "127.0.0.2")
            .await
            .starts_with("HTTP/1.1 503 ")
    );
    assert!(asks_from(&member, "127.0.0.1").await.contains("200 OK"));
    drop(busy);
}

#[tokio::test]
async fn who_waits_for_the_next_ring_is_answered_at_the_latest_when_the_member_stops() {
    let member = limited(Limits {
        max_ring_waiters: 1,
        ..Limits::DEFAULT
    })
    .await;
    assert_eq!(member.get("/v1/ring?after=0").await.ok()["number"], 1);
    for query in ["after=x", "after=", "before=1"] {
        let path = format!("/v1/ring?{query}");
        member.get(&path).await.refused(400, "bad-value");
    }
    let mut waiting = Raw::connect(&member).await;
    waiting
        .send("GET /v1/ring?after=1 HTTP/1.1\r\nhost: a\r\n\r\n")
        .await;
    until_in_use(&member, "ring-waiters", |used| used == 1).await;
    member
        .get("/v1/ring?after=1")
        .await
        .refused(503, "overloaded");
    let stopping = member.stop();
    let (_, answer) = futures::future::join(stopping, waiting.rest()).await;
    assert!(answer.starts_with("HTTP/1.1 304 "), "{answer}");
    assert!(answer.contains("etag: \"1\"\r\n"), "{answer}");
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let member = limited(Limits::DEFAULT).await;
    member.ack(1, 10, 5).await;
    let path = "/v1/users/1/read-states";
    let get = member.get(path).await;
    let head = member.send(Method::HEAD, path, &[], None).await;
    assert_eq!((head.status, head.text.as_str()), (get.status, ""));
    for header in ["etag", "content-type", "content-length"] {
        assert_eq!(head.header(header), get.header(header), "{header}");
    }
}
