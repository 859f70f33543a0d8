//! What a member says about itself is what `METRICS.md` says that it says.

use std::sync::Arc;

use crate::common::{NEVER, alone, config, on, tls};
use readstates::{config::ServeConfig, store::MemoryStore};

#[tokio::test]
async fn every_metric_is_documented_with_its_kind_and_meaning_and_none_else() {
    let cluster = "chat.talk".parse().unwrap();
    let authority = tls::authority(&cluster);
    let config = ServeConfig {
        tls: Some(tls::member(&authority, &cluster)),
        ..config(NEVER)
    };
    let member = on(Arc::new(MemoryStore::default()), config).await;
    member.ack(1, 10, 5).await;
    let page = member.get("/metrics").await.text;
    let helps = page
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let kinds = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut said: Vec<String> = helps
        .zip(kinds)
        .map(|((name, help), (same, kind))| {
            assert_eq!(name, same);
            let ours = name.starts_with("readstates_") || name.starts_with("process_");
            assert!(ours, "{name}");
            format!("| `{name}` | {kind} | {help} |")
        })
        .collect();
    said.sort();
    let documented: Vec<&str> = include_str!("../../METRICS.md")
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(said, documented, "METRICS.md and /metrics differ");
}

#[tokio::test]
async fn latencies_are_kept_by_operation_from_a_microsecond_up() {
    let member = alone().await;
    for message in 1..=20 {
        member.ack(1, 10, message).await;
    }
    let page = member.get("/metrics").await.text;
    let ack = "route=\"/v1/users/{user}/read-states/{channel}/ack\",method=\"POST\"";
    let count = format!("readstates_request_seconds_count{{{ack}}} 20\n");
    assert!(page.contains(&count), "{page}");
    let first = format!("readstates_request_seconds_bucket{{{ack},le=\"0.000001\"}} 0\n");
    assert!(page.contains(&first), "{page}");
    let all = format!("readstates_request_seconds_bucket{{{ack},le=\"33.554432\"}} 20\n");
    assert!(page.contains(&all), "{page}");
    let buckets = page.lines().filter(|line| {
        line.starts_with("readstates_request_seconds_bucket") && line.contains("/ack\"")
    });
    assert_eq!(buckets.count(), 97);
}
