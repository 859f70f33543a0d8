//! Audit lines: what is written about deletions, orders and refusals, and what never is.
//!
//! One test in a process of its own: what is logged is logged for all of it.

use std::{fs, sync::Arc};

use crate::{
    common::{NEVER, config, on},
    lines::Lines,
};
use readstates::{
    access::{AccessConfig, token},
    config::ServeConfig,
    store::MemoryStore,
};
use readstates_api::{
    Id,
    batch::{
        MEDIA_TYPE, Record, RecordOperation,
        v2::{self, Entry},
        v3::{self, Import},
    },
};
use reqwest::Method;
use serde_json::Value;

#[tokio::test]
async fn deletions_orders_and_refusals_have_a_line_each_and_a_flood_has_few() {
    let lines = Lines::default();
    let written = lines.clone();
    tracing_subscriber::fmt()
        .with_env_filter("audit=info")
        .with_writer(move || written.clone())
        .json()
        .flatten_event(true)
        .init();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.yaml");
    let entry = |name: &str, verb: &str, of: &str| {
        format!(
            "- {{name: {name}, verbs: [{verb}], tokens: [\"{}\"]}}\n",
            token::hash(of)
        )
    };
    let reader = entry("reader", "read", "secret-of-reader");
    let janitor = entry("janitor", "delete", "secret-of-janitor");
    let writer = entry("writer", "write", "secret-of-writer");
    let mover = entry("mover", "write, import", "secret-of-mover");
    fs::write(&file, format!("callers:\n{reader}{janitor}{writer}{mover}")).unwrap();
    let config = ServeConfig {
        access: Some(AccessConfig::new(file)),
        ..config(NEVER)
    };
    let member = on(Arc::new(MemoryStore::default()), config).await;
    let delete = async |token: &str| {
        let header = format!("Bearer {token}");
        let headers = [("authorization", &*header)];
        let answer = member.send(Method::DELETE, "/v1/users/7", &headers, None);
        answer.await.status.as_u16()
    };
    assert_eq!(delete("secret-of-janitor").await, 204);
    assert_eq!(delete("secret-of-reader").await, 403);
    assert_eq!(delete("secret-of-nobody").await, 401);
    member
        .send(Method::POST, "/admin/v1/flush", &[], None)
        .await;
    // Work that is done, and reads that are refused: one line for the frame.
    let id = |id: u64| Id::new(id).unwrap();
    let (user, channel) = (id(7), id(10));
    let ack = Record {
        operation: RecordOperation::Ack,
        user,
        channel,
        message: id(3),
    };
    let read = Entry::Read { user, channel };
    let entries = [read, Entry::Change(ack), read];
    let frame = v2::encode_request(entries.iter().map(Entry::to_bytes));
    let headers = [
        ("content-type", MEDIA_TYPE),
        ("authorization", "Bearer secret-of-writer"),
    ];
    let answer = member.send(Method::POST, "/v1/batch", &headers, Some(frame));
    assert_eq!(answer.await.status, 200);
    // An import that is done, and one that is refused as a whole.
    let import = Import {
        user: id(8),
        channel,
        last_message_id: Some(id(3)),
        mention_count: 0,
        counted_through: None,
        flags: None,
        last_viewed: 0,
        last_pin_timestamp: None,
    };
    for (token, status) in [("secret-of-mover", 200), ("secret-of-writer", 403)] {
        let frame = v3::encode_request([import.to_bytes(); 2].into_iter());
        let header = format!("Bearer {token}");
        let headers = [("content-type", MEDIA_TYPE), ("authorization", &*header)];
        let answer = member.send(Method::POST, "/v1/batch", &headers, Some(frame));
        assert_eq!(answer.await.status, status);
    }
    let of = |line: &Value| {
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        assert_eq!(line["target"], "audit");
        assert!(!text("timestamp").is_empty());
        let status = line["status"].as_u64().unwrap();
        (text("message"), text("who"), text("user"), status)
    };
    let about = |message: &str, who: &str, user: &str, status: u64| {
        (message.to_owned(), who.to_owned(), user.to_owned(), status)
    };
    let found: Vec<_> = lines.read().iter().map(of).collect();
    let expected = [
        about("deletion of a user", "janitor", "7", 204),
        about("refused", "reader", "", 403),
        about("refused", "anonymous", "", 401),
        about("admin order", "operator", "", 200),
        about("refused", "writer", "", 403),
        about("import", "mover", "", 200),
        about("refused", "writer", "", 403),
    ];
    assert_eq!(found, expected);
    let imported = &lines.read()[5];
    assert_eq!(
        (&imported["records"], &imported["applied"]),
        (&2.into(), &1.into())
    );
    let why = lines.read()[6]["why"].as_str().unwrap().to_owned();
    assert_eq!(
        why,
        "writer lacks the verb import; add it to the caller's verbs"
    );
    for line in lines.read() {
        assert_eq!(line["request_id"].as_str().unwrap().len(), 32, "{line}");
    }
    assert!(
        lines.read()[1]["from"]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:")
    );
    for _ in 0..200 {
        assert_eq!(delete("secret-of-nobody").await, 401);
    }
    let more = lines.read().len() - found.len();
    assert!((1..100).contains(&more), "{more} lines");
    assert!(!lines.text().contains("secret"), "{}", lines.text());
}
