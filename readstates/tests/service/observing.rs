//! What a member says of its requests: ids, traces, slow ones. And to which host a request must be.
//!
//! What is logged is logged for all of the process: one test here reads it.

use std::{sync::Arc, time::Duration};

use crate::{
    common::{NEVER, Running, alone, config, faulty::FaultyStore, of_ring, on, owner_of},
    lines::Lines,
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use readstates::{
    config::{ObserveConfig, ServeConfig},
    ownership::store::{MemoryRing, RingStore},
    store::{MemoryStore, Store},
    trace::Tracing,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const STATES: &str = "/v1/users/1/read-states";

#[tokio::test]
async fn an_id_comes_back_and_what_is_refused_has_one_in_any_case() {
    let members =
        crate::common::members(&["chat-0", "chat-1"], Arc::new(MemoryStore::default())).await;
    let owner = owner_of(&members, 1);
    for member in [&members[owner], &members[1 - owner]] {
        let given = [("x-request-id", "gateway-17")];
        let answer = member.send(Method::GET, STATES, &given, None).await;
        assert_eq!(answer.header("x-request-id"), Some("gateway-17"));
        let path = format!("{STATES}/99");
        let refused = member.send(Method::GET, &path, &given, None).await;
        assert_eq!(refused.header("x-request-id"), Some("gateway-17"));
        assert_eq!(
            refused.refused(404, "no-read-state")["request_id"],
            "gateway-17"
        );
        let refused = member.get(&path).await;
        let made = refused.refused(404, "no-read-state")["request_id"].clone();
        let made = made.as_str().unwrap();
        assert_eq!(
            (made.len(), refused.header("x-request-id")),
            (32, Some(made))
        );
        let bad = [("x-request-id", "a b")];
        let refused = member.send(Method::GET, &path, &bad, None).await;
        assert_ne!(refused.header("x-request-id"), Some("a b"));
    }
    // A request without an id that succeeds here gets none back; one that was forwarded can be found at both members.
    assert!(
        members[owner]
            .get(STATES)
            .await
            .header("x-request-id")
            .is_none()
    );
    assert!(
        members[1 - owner]
            .get(STATES)
            .await
            .header("x-request-id")
            .is_some()
    );
}

/// A member whose spans are in memory, of a ring with others.
async fn traced(name: &str, ring: &Arc<dyn RingStore>) -> (Running, InMemorySpanExporter) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone());
    let config = ServeConfig {
        observe: ObserveConfig {
            tracing: Some(Tracing::of(provider.build())),
            ..ObserveConfig::default()
        },
        ..of_ring(name)
    };
    let store = Arc::new(MemoryStore::default());
    (
        crate::common::among(store, Arc::clone(ring), config).await,
        exporter,
    )
}

/// The spans of this name that have ended, with the trace, the span and its parent.
fn spans(exporter: &InMemorySpanExporter, name: &str) -> Vec<(String, String, String)> {
    let spans = exporter.get_finished_spans().unwrap();
    let of_name = spans.into_iter().filter(|span| span.name == name);
    let ids = |span: SpanData| {
        (
            span.span_context.trace_id().to_string(),
            span.span_context.span_id().to_string(),
            span.parent_span_id.to_string(),
        )
    };
    of_name.map(ids).collect()
}

#[tokio::test]
async fn a_trace_goes_from_the_client_through_the_member_that_forwards_to_the_owner() {
    let ring: Arc<dyn RingStore> = Arc::new(MemoryRing::default());
    let (first, first_spans) = traced("chat-0", &ring).await;
    let (second, second_spans) = traced("chat-1", &ring).await;
    crate::common::balance(&[&first, &second]).await;
    let members = [first, second];
    let exporters = [first_spans, second_spans];
    let owner = owner_of(&members, 1);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [
        ("traceparent", &*parent),
        ("content-type", "application/json"),
    ];
    let ack = json!({"message_id": 5}).to_string().into_bytes();
    let mention = json!({"channel_id": 10, "message_id": 9, "user_ids": [1]});
    let mention = mention.to_string().into_bytes();
    for (route, path, body) in [
        (
            "POST /v1/users/{user}/read-states/{channel}/ack",
            format!("{STATES}/10/ack"),
            ack,
        ),
        ("POST /v1/mentions", "/v1/mentions".to_owned(), mention),
    ] {
        exporters.iter().for_each(InMemorySpanExporter::reset);
        let sent = members[1 - owner].send(Method::POST, &path, &headers, Some(body));
        sent.await.ok();
        let here = spans(&exporters[1 - owner], route);
        let forward = spans(&exporters[1 - owner], "forward");
        let there = spans(&exporters[owner], route);
        assert_eq!(
            (here.len(), forward.len(), there.len()),
            (1, 1, 1),
            "{route}"
        );
        for (of, _, _) in [&here[0], &forward[0], &there[0]] {
            assert_eq!(of, trace);
        }
        assert_eq!(here[0].2, "00f067aa0ba902b7");
        assert_eq!(forward[0].2, here[0].1);
        assert_eq!(there[0].2, forward[0].1);
    }
}

#[tokio::test]
async fn a_slow_request_has_a_line_with_its_id_and_a_flood_of_them_has_few() {
    let lines = Lines::default();
    let written = lines.clone();
    tracing_subscriber::fmt()
        .with_env_filter("slow=warn")
        .with_writer(move || written.clone())
        .json()
        .flatten_event(true)
        .init();
    let store = FaultyStore::new();
    store.slow(Duration::from_millis(200), Duration::ZERO);
    let config = ServeConfig {
        observe: ObserveConfig {
            slow_request: Some(Duration::from_millis(200)),
            tracing: None,
        },
        ..config(NEVER)
    };
    let member = on(store, config).await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let headers = [("x-request-id", "gateway-17"), ("traceparent", parent)];
    member
        .send(
            Method::GET,
            "/v1/users/7/read-states?since=5",
            &headers,
            None,
        )
        .await
        .ok();
    let text = lines.text();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["message"], "slow request");
    assert_eq!(line["request_id"], "gateway-17");
    assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(line["path"], "/v1/users/7/read-states");
    assert!(line["seconds"].as_f64().unwrap() >= 0.2);
    let herd = (100..400).map(|user| member.version(user));
    futures::future::join_all(herd).await;
    let text = lines.text();
    let said = text.lines().count();
    let page = member.get("/metrics").await.text;
    let counted = page
        .lines()
        .find_map(|line| line.strip_prefix("readstates_slow_requests_total "))
        .unwrap();
    let counted: usize = counted.parse().unwrap();
    assert!(
        counted > 300 && (20..200).contains(&said),
        "{said} of {counted}"
    );
}

/// The status and the body of the answer to these bytes.
async fn raw(member: &Running, request: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(member.server.http_address)
        .await
        .unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

#[tokio::test]
async fn a_request_says_once_to_which_host_it_is() {
    let member = alone().await;
    let get = format!("GET {STATES} HTTP/1.1\r\nconnection: close\r\n");
    for (host, part) in [
        ("", "Host is missing"),
        ("host: a\r\nhost: a\r\n", "Host is there twice"),
        ("host: a/b\r\n", "Host is no HOST"),
        ("host: a b\r\n", "Host is no HOST"),
    ] {
        let (status, body) = raw(&member, &format!("{get}{host}\r\n")).await;
        assert_eq!(status, 400, "{host:?}");
        let problem: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(problem["type"], "/problems/bad-value");
        assert!(
            problem["detail"].as_str().unwrap().contains(part),
            "{problem}"
        );
    }
    for host in ["host: chat:7400\r\n", "host: [::1]:7400\r\n", "host:\r\n"] {
        assert_eq!(
            raw(&member, &format!("{get}{host}\r\n")).await.0,
            200,
            "{host:?}"
        );
    }
    let old = format!("GET {STATES} HTTP/1.0\r\n\r\n");
    assert_eq!(raw(&member, &old).await.0, 200, "HTTP/1.0 had no Host");
}

#[tokio::test]
async fn what_alerts_are_about_is_counted_from_the_start() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let page = on(store, config(NEVER)).await.get("/metrics").await.text;
    for (route, method, success) in [
        ("/v1/users/{user}/read-states/{channel}/ack", "POST", "200"),
        ("/v1/users/{user}", "DELETE", "204"),
        ("/v1/batch", "POST", "200"),
    ] {
        for status in [success, "429", "500", "503", "504"] {
            let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{status}\"");
            let line = format!("readstates_requests_total{{{labels}}} 0\n");
            assert!(page.contains(&line), "{line}");
        }
    }
    for runtime in ["clients", "background"] {
        let workers = format!("readstates_runtime_workers{{runtime=\"{runtime}\"}} ");
        assert!(page.contains(&workers), "{page}");
    }
    assert!(page.contains("readstates_unreadable_blocks_total 0\n"));
    assert!(page.contains("readstates_build_info{version=\"0.1.0\"} 1\n"));
}
