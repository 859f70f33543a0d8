//! Requests that are large, or more than a limit lets in: refused before they are worked on.

use std::sync::Arc;

use super::{ACK, Raw, in_use, limited, limited_on, until_in_use};
use crate::common::{PATIENCE, Running, of_ring, on};
use futures::future::{BoxFuture, FutureExt};
use readstates::{
    config::{Limits, ServeConfig},
    store::{MemoryStore, Store, StoreError, Stored},
};
use readstates_api::{
    Id,
    admin::StoreKind,
    batch::{BatchEncoder, Record, RecordOperation},
};
use readstates_ring::Stamp;
use reqwest::Method;
use serde_json::json;
use tokio::{io::AsyncWriteExt, sync::Semaphore};

#[tokio::test]
async fn the_work_on_a_batch_is_counted_before_it_is_done() {
    let member = limited(Limits {
        max_buffered_bytes: 1 << 20,
        ..Limits::DEFAULT
    })
    .await;
    let record = |user: u64| Record {
        user: Id::new(user).unwrap(),
        channel: Id::new(10).unwrap(),
        message: Id::new(100).unwrap(),
        operation: RecordOperation::Ack,
    };
    let send = async |records: u64| {
        let mut frame = BatchEncoder::with_capacity(20_000);
        (1..=records).for_each(|user| frame.push(&record(user)));
        let headers = [("content-type", "application/vnd.readstates.batch")];
        let body = frame.finish();
        member
            .send(Method::POST, "/v1/batch", &headers, Some(body))
            .await
    };
    // 640 KiB, which fit, and 4 MiB of work, which does not.
    send(20_000).await.refused(503, "overloaded");
    assert_eq!(send(1000).await.status, 200);
    until_in_use(&member, "buffered-bytes", |used| used == 0).await;
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let member = limited(Limits::DEFAULT).await;
    let head =
        |headers: &str| format!("GET /v1/users/1/read-states HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
    let many: String = (0..101).map(|n| format!("x-{n}: 1\r\n")).collect();
    let long = format!("x-long: {}\r\n", "x".repeat(17 << 10));
    let endless = format!("x-long: {}", "x".repeat(80 << 10));
    for head in [head(&many), head(&long), endless] {
        let mut client = Raw::connect(&member).await;
        if head.starts_with('x') {
            client
                .send("GET /v1/users/1/read-states HTTP/1.1\r\n")
                .await;
        }
        let _ = client.0.write_all(head.as_bytes()).await;
        let answer = client.rest().await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
            "{answer}"
        );
    }
    let mut client = Raw::connect(&member).await;
    client.send(&head(&long)).await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert_eq!(member.get("/livez").await.status, 200);
}

#[tokio::test]
async fn bodies_together_are_bounded_and_small_ones_always_fit() {
    let member = limited(Limits {
        max_buffered_bytes: 100_000,
        body_timeout: PATIENCE,
        ..Limits::DEFAULT
    })
    .await;
    let slow = sends_in_part(&member, 90_000).await;
    let large = vec![b' '; 20_000];
    let json = [("content-type", "application/json")];
    let path = "/v1/users/1/read-states/10/ack";
    let refused = member
        .send(Method::POST, path, &json, Some(large.clone()))
        .await;
    refused.refused(503, "overloaded");
    member.ack(1, 10, 5).await;
    drop(slow);
    until_in_use(&member, "buffered-bytes", |bytes| bytes == 0).await;
    let read = member.send(Method::POST, path, &json, Some(large)).await;
    read.refused(400, "malformed-body");
}

/// A client that has sent so many bytes of a longer body.
async fn sends_in_part(member: &Running, bytes: u64) -> Raw {
    let mut client = Raw::connect(member).await;
    let head = format!("{ACK}content-length: {}\r\n\r\n", bytes + 1000);
    client.send(&head).await;
    client.send(&" ".repeat(bytes as usize)).await;
    until_in_use(member, "buffered-bytes", |used| used == bytes).await;
    client
}

/// A user whose read states are an answer that counts.
async fn has_many_channels(member: &Running, user: u64) -> String {
    let item = |channel: u64| json!({"channel_id": channel, "message_id": 1});
    let channels: Vec<_> = (1..=300).map(item).collect();
    let path = format!("/v1/users/{user}/read-states");
    let body = json!({"read_states": channels});
    member.post(&format!("{path}/ack-bulk"), body).await.ok();
    path
}

#[tokio::test]
async fn bodies_that_are_announced_and_not_sent_keep_nobody_out() {
    let member = limited(Limits {
        max_buffered_bytes: 1 << 20,
        body_timeout: PATIENCE,
        ..Limits::DEFAULT
    })
    .await;
    let path = has_many_channels(&member, 1).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut client = Raw::connect(&member).await;
        let head = format!("{ACK}expect: 100-continue\r\ncontent-length: 500000\r\n\r\n");
        client.send(&head).await;
        // Its body is waited for.
        let answer = client.answer().await;
        assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
        silent.push(client);
    }
    assert_eq!(in_use(&member, "buffered-bytes").await, 0);
    let answer = member.get(&path).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.bytes.len() > 20_000, "{}", answer.bytes.len());
    drop(silent);
}

#[tokio::test]
async fn clients_that_fill_the_memory_for_bodies_keep_no_member_out() {
    let limits = Limits {
        max_buffered_bytes: 100_000,
        body_timeout: PATIENCE,
        ..Limits::DEFAULT
    };
    let config = ServeConfig {
        limits,
        ..of_ring("local")
    };
    let member = on(Arc::new(MemoryStore::default()), config).await;
    let path = has_many_channels(&member, 1).await;
    let slow = sends_in_part(&member, 95_000).await;
    member.get(&path).await.refused(503, "overloaded");
    // An offer of a member that the ring does not list, which is only known once all of it has been read.
    let offer = json!({"origin": 1, "transfer": 1, "slots": [[0, 0]]}).to_string();
    let offer = format!("\u{1}{offer}{}", " ".repeat(1 << 20));
    let me = member.server.ownership().me().incarnation().to_string();
    let headers = [("x-readstates-incarnation", me.as_str())];
    let handoff = "/internal/v1/handoff";
    let answer = member.forwarded(Method::POST, handoff, &headers, Some(offer.into_bytes()));
    answer.await.refused(409, "not-a-member");
    assert_eq!(in_use(&member, "message-bytes").await, 0);
    drop(slow);
}

/// A store that gives no block until it is told to.
#[derive(Debug)]
struct Stuck(Semaphore);

impl Store for Stuck {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn load(&self, _: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async {
            let _ = self.0.acquire().await.unwrap();
            Ok(None)
        }
        .boxed()
    }

    fn save(&self, _: u64, _: Vec<u8>, _: Stamp) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

#[tokio::test]
async fn over_a_limit_a_request_is_refused_before_its_body_is_sent() {
    let store = Arc::new(Stuck(Semaphore::new(0)));
    let member = limited_on(
        store.clone(),
        Limits {
            max_changes: 1,
            ..Limits::DEFAULT
        },
    )
    .await;
    let waiting = member.ack(1, 10, 5);
    let others = async {
        until_in_use(&member, "changes", |used| used == 1).await;
        let mut client = Raw::connect(&member).await;
        client
            .send(&format!("{ACK}content-length: 1000\r\n\r\n"))
            .await;
        let answer = client.answer().await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
        assert!(answer.contains("/problems/overloaded"), "{answer}");
        // Other classes have limits of their own.
        assert_eq!(member.get("/v1/ring").await.status, 200);
        store.0.add_permits(100);
    };
    let (applied, ()) = futures::future::join(waiting, others).await;
    assert_eq!(applied["applied"], true);
    assert_eq!(in_use(&member, "changes").await, 0);
    let page = member.get("/metrics").await.text;
    assert!(page.contains("readstates_limit_refusals_total{limit=\"changes\"} 1\n"));
    assert!(page.contains("readstates_refusals_total{type=\"overloaded\"} 1\n"));
}

#[tokio::test]
async fn the_requests_that_one_member_forwards_are_bounded() {
    let store = Arc::new(Stuck(Semaphore::new(0)));
    let limits = Limits {
        max_per_member: 1,
        ..Limits::DEFAULT
    };
    let config = ServeConfig {
        limits,
        ..of_ring("local")
    };
    let member = on(store.clone(), config).await;
    let forwarded = [("x-readstates-forwarded", "local")];
    let path = "/v1/users/1/read-states";
    let waiting = member.forwarded(Method::GET, path, &forwarded, None);
    let others = async {
        until_in_use(&member, "from-local", |used| used == 1).await;
        let refused = member.forwarded(Method::GET, path, &forwarded, None).await;
        refused.refused(503, "overloaded");
        store.0.add_permits(100);
    };
    let (answer, ()) = futures::future::join(waiting, others).await;
    assert_eq!(answer.status, 200);
}
