//! Callers of the API port: who gets in, with what, and who does not. Real servers on the loopback.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::common::{Answer, NEVER, PATIENCE, Running, config, on};
use readstates::{
    access::{AccessConfig, token},
    store::MemoryStore,
};
use readstates_api::{
    Id,
    batch::{
        MEDIA_TYPE, Record, RecordOperation,
        v2::{self, Row},
    },
};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::Instant};

/// How often members of these tests look at their file.
const LOOK: Duration = Duration::from_millis(20);

/// A member with an access file.
struct Guarded {
    member: Running,
    file: PathBuf,
    _folder: TempDir,
}

/// (Name, verbs, tokens, what else its entry says.)
type Entry<'a> = (&'a str, &'a str, &'a [&'a str], &'a str);

fn text(entries: &[Entry<'_>]) -> String {
    let entry = |(name, verbs, tokens, more): &Entry<'_>| {
        let hashes: Vec<_> = tokens
            .iter()
            .map(|of| token::hash(of).to_string())
            .collect();
        format!("- {{name: {name}, verbs: [{verbs}], tokens: {hashes:?}{more}}}\n")
    };
    let entries: String = entries.iter().map(entry).collect();
    format!("callers:\n{entries}")
}

async fn guarded(entries: &[Entry<'_>]) -> Guarded {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.yaml");
    fs::write(&file, text(entries)).unwrap();
    let access = AccessConfig {
        reload_every: LOOK,
        ..AccessConfig::new(file.clone())
    };
    let config = readstates::config::ServeConfig {
        access: Some(access),
        ..config(NEVER)
    };
    Guarded {
        member: on(Arc::new(MemoryStore::default()), config).await,
        file,
        _folder: folder,
    }
}

impl Guarded {
    async fn ask(&self, method: Method, path: &str, token: Option<&str>) -> Answer {
        let header = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(header.as_deref().map(|header| ("authorization", header)));
        let body = match path {
            _ if method != Method::POST => None,
            "/v1/mentions" => {
                Some(json!({"channel_id": "2", "message_id": "9", "user_ids": ["1"]}).to_string())
            }
            "/v1/batch" => Some(String::new()),
            path if path.ends_with("bulk") => {
                Some(json!({"read_states": [{"channel_id": "2", "message_id": "9"}]}).to_string())
            }
            path if path.ends_with("pins/ack") => {
                Some(json!({"last_pin_timestamp": "2026-01-01T00:00:00Z"}).to_string())
            }
            _ => Some(json!({"message_id": "9"}).to_string()),
        };
        self.member
            .send(method, path, &headers, body.map(String::into_bytes))
            .await
    }

    async fn get(&self, token: &str) -> Answer {
        self.ask(Method::GET, "/v1/users/1/read-states", Some(token))
            .await
    }

    /// Puts another file in place of the one that is there, at once.
    fn write(&self, text: &str) {
        let new = self.file.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    /// Waits until a caller has so many requests under way.
    async fn until_in_use(&self, caller: &str, requests: usize) {
        let start = Instant::now();
        let line = format!("readstates_caller_in_use{{caller=\"{caller}\"}} {requests}\n");
        loop {
            let page = self.member.get("/metrics").await.text;
            if page.contains(&line) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "no {line}{page}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until a token is answered like this.
    async fn until(&self, token: &str, status: u16) {
        let start = Instant::now();
        loop {
            let answer = self.get(token).await;
            if answer.status.as_u16() == status {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{token}: {}", answer.text);
            tokio::time::sleep(LOOK).await;
        }
    }
}

const ROUTES: [(Method, &str, &str); 11] = [
    (Method::GET, "/v1/users/1/read-states", "read"),
    (Method::GET, "/v1/users/1/read-states/2", "read"),
    (Method::GET, "/v1/users/1/summary", "read"),
    (Method::GET, "/v1/ring", "read"),
    (Method::POST, "/v1/users/1/read-states/2/ack", "write"),
    (Method::POST, "/v1/users/1/read-states/2/pins/ack", "write"),
    (Method::POST, "/v1/users/1/read-states/ack-bulk", "write"),
    (Method::POST, "/v1/mentions", "write"),
    (Method::POST, "/v1/batch", "write"),
    (Method::DELETE, "/v1/users/1/read-states/2", "delete"),
    (Method::DELETE, "/v1/users/1", "delete"),
];

#[tokio::test]
async fn every_route_wants_a_caller_with_its_verb() {
    let member = guarded(&[
        ("reader", "read", &["token-read"], ""),
        ("writer", "write", &["token-write"], ""),
        ("deleter", "delete", &["token-delete"], ""),
    ])
    .await;
    for (method, path, verb) in &ROUTES {
        for token in [None, Some("wrong"), Some("token-rea")] {
            let answer = member.ask(method.clone(), path, token).await;
            answer.refused(401, "unauthenticated");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{path}");
        }
        for other in ["read", "write", "delete"] {
            let answer = member
                .ask(method.clone(), path, Some(&format!("token-{other}")))
                .await;
            if other == *verb {
                assert!(!matches!(answer.status.as_u16(), 401 | 403), "{path}");
            } else {
                let problem = answer.refused(403, "forbidden");
                let detail = problem["detail"].as_str().unwrap();
                assert!(detail.contains(&format!("verb {verb}")), "{detail}");
            }
        }
    }
}

#[tokio::test]
async fn a_batch_of_a_caller_that_may_not_read_reads_nothing_and_its_changes_are_made() {
    let member = guarded(&[
        ("writer", "write", &["token-write"], ""),
        ("both", "read, write", &["token-both"], ""),
    ])
    .await;
    let id = |number| Id::new(number).unwrap();
    let (user, channel) = (id(1), id(2));
    let ack = Record {
        operation: RecordOperation::Ack,
        user,
        channel,
        message: id(9),
    };
    let entries = [v2::Entry::Read { user, channel }, v2::Entry::Change(ack)];
    let batch = async |token: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [
            ("content-type", MEDIA_TYPE),
            ("authorization", &*authorization),
        ];
        let frame = v2::encode_request(entries.iter().map(v2::Entry::to_bytes));
        let answer = member
            .member
            .send(Method::POST, "/v1/batch", &headers, Some(frame))
            .await;
        v2::parse_answer(&answer.bytes).unwrap()
    };
    let rows = batch("token-write").await;
    assert_eq!(rows[0], Row::Forbidden);
    assert!(matches!(rows[1], Row::Applied { .. }));
    let rows = batch("token-both").await;
    assert!(matches!(rows[..], [Row::Found { .. }, Row::Ignored { .. }]));
}

#[tokio::test]
async fn what_is_refused_has_changed_nothing_and_read_no_body() {
    let member = guarded(&[("gateway", "read", &["good"], "")]).await;
    let path = "/v1/users/1/read-states/2/ack";
    for token in [None, Some("bad"), Some("good")] {
        let answer = member.ask(Method::POST, path, token).await;
        assert!(matches!(answer.status.as_u16(), 401 | 403));
    }
    assert_eq!(member.get("good").await.ok()["version"], "0");
    // A body that never comes is not waited for.
    let mut socket = TcpStream::connect(member.member.server.http_address)
        .await
        .unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut socket, &mut start)
        .await
        .unwrap();
    assert_eq!(&start, b"HTTP/1.1 401");
}

#[tokio::test]
async fn the_document_is_open_and_what_there_is_not_is_said_to_callers_only() {
    let member = guarded(&[("gateway", "read", &["good"], "")]).await;
    let get = |path, token| member.ask(Method::GET, path, token);
    assert_eq!(get("/openapi.json", None).await.status.as_u16(), 200);
    get("/v1/nothing", None)
        .await
        .refused(401, "unauthenticated");
    get("/v1/nothing", Some("good"))
        .await
        .refused(404, "no-route");
    let patch = member.ask(Method::PATCH, "/v1/users/1", None).await;
    patch.refused(401, "unauthenticated");
}

#[tokio::test]
async fn a_header_that_is_not_one_bearer_token_is_refused() {
    let member = guarded(&[("gateway", "read", &["good"], "")]).await;
    let path = "/v1/users/1/read-states";
    let tables: [&[(&str, &str)]; 6] = [
        &[("authorization", "good")],
        &[("authorization", "Basic good")],
        &[("authorization", "Bearer")],
        &[("authorization", "Bearer good good")],
        &[
            ("authorization", "Bearer good"),
            ("authorization", "Bearer good"),
        ],
        &[("x-authorization", "Bearer good")],
    ];
    for headers in tables {
        let answer = member.member.send(Method::GET, path, headers, None).await;
        answer.refused(401, "unauthenticated");
    }
    let lower = [("authorization", "bearer good")];
    let answer = member.member.send(Method::GET, path, &lower, None).await;
    assert_eq!(answer.status.as_u16(), 200);
}

#[tokio::test]
async fn two_tokens_are_valid_while_one_takes_the_place_of_the_other() {
    let entry = |tokens: &'static [&'static str]| [("gateway", "read", tokens, "")];
    let member = guarded(&entry(&["old"])).await;
    member.get("new").await.refused(401, "unauthenticated");
    member.write(&text(&entry(&["old", "new"])));
    member.until("new", 200).await;
    assert_eq!(member.get("old").await.status.as_u16(), 200);
    member.write(&text(&entry(&["new"])));
    member.until("old", 401).await;
    assert_eq!(member.get("new").await.status.as_u16(), 200);
}

#[tokio::test]
async fn a_broken_file_leaves_the_callers_that_were_there() {
    let member = guarded(&[("gateway", "read", &["good"], "")]).await;
    let metrics = || async { member.member.get("/metrics").await.text };
    let broken = "callers: [{name: gateway, verbs: [read], tokens: [good]}]";
    for (failures, broken) in [(1, broken), (2, "callers: [")] {
        member.write(broken);
        let failures = format!("readstates_access_reload_failures_total {failures}\n");
        let start = Instant::now();
        while !metrics().await.contains(&failures) {
            assert!(start.elapsed() < PATIENCE);
            tokio::time::sleep(LOOK).await;
        }
        assert_eq!(member.get("good").await.status.as_u16(), 200);
        assert!(
            metrics()
                .await
                .contains("readstates_access_file_current 0\n")
        );
    }
    member.write(&text(&[("gateway", "read", &["other"], "")]));
    member.until("other", 200).await;
    assert!(
        metrics()
            .await
            .contains("readstates_access_file_current 1\n")
    );
}

#[tokio::test]
async fn a_reload_under_load_refuses_nothing_that_is_valid_throughout() {
    let file = |round: usize| {
        let spare = format!("spare-{round}");
        text(&[
            ("gateway", "read, write", &["good"], ""),
            ("other", "read", &[&spare], ""),
        ])
    };
    let member = Arc::new(guarded(&[("gateway", "read, write", &["good"], "")]).await);
    let (over, asked) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (member, over, asked) =
                (Arc::clone(&member), Arc::clone(&over), Arc::clone(&asked));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let answer = member.get("good").await;
                    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 0..20 {
        member.write(&file(round));
        member.until(&format!("spare-{round}"), 200).await;
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(asked.load(Ordering::Relaxed) > 20);
}

#[tokio::test]
async fn a_caller_at_its_limit_is_told_so_and_another_is_not_affected() {
    let member = guarded(&[
        ("greedy", "read, write", &["greedy"], ", maxConcurrent: 2"),
        ("modest", "read, write", &["modest"], ""),
    ])
    .await;
    // Two acknowledgements whose bodies do not come take both places.
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut socket = TcpStream::connect(member.member.server.http_address)
            .await
            .unwrap();
        let head = "POST /v1/users/1/read-states/2/ack HTTP/1.1\r\nhost: a\r\nauthorization: Bearer greedy\r\n\
                    content-type: application/json\r\ncontent-length: 18\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        slow.push(socket);
    }
    // Nothing of this caller's is sent meanwhile: it would take the place of one of the two.
    member.until_in_use("greedy", 2).await;
    let answer = member.get("greedy").await;
    let problem = answer.refused(429, "caller-too-busy");
    assert!(problem["detail"].as_str().unwrap().contains("greedy has 2"));
    for _ in 0..20 {
        assert_eq!(member.get("modest").await.status.as_u16(), 200);
    }
    drop(slow);
    member.until("greedy", 200).await;
}

#[tokio::test]
async fn refusals_are_counted_by_status_and_type() {
    let member = guarded(&[("gateway", "read", &["good"], "")]).await;
    let delete = |token| member.ask(Method::DELETE, "/v1/users/1", token);
    delete(None).await.refused(401, "unauthenticated");
    delete(Some("good")).await.refused(403, "forbidden");
    let page = member.member.get("/metrics").await.text;
    for line in [
        "readstates_refusals_total{type=\"unauthenticated\"} 1\n",
        "readstates_refusals_total{type=\"forbidden\"} 1\n",
        "method=\"DELETE\",status=\"401\"} 1\n",
        "method=\"DELETE\",status=\"403\"} 1\n",
        "readstates_caller_limit{caller=\"gateway\"} 1024\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
}
