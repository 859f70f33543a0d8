//! What a member says about itself is what `METRICS.md` says that it says.

use std::sync::Arc;

use crate::common::{NEVER, alone, config, on, tls};
use readstates::{config::ServeConfig, store::MemoryStore};
use readstates_metrics::table_of;

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
    let said = table_of(&page);
    for row in &said {
        let ours = row.starts_with("| `readstates_") || row.starts_with("| `process_");
        assert!(ours, "{row}");
    }
    let documented: Vec<&str> = include_str!("../../METRICS.md")
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert_eq!(said, documented, "METRICS.md and /metrics differ");
}

#[tokio::test]
async fn latencies_are_kept_by_operation_in_21_buckets_and_are_there_before_the_first_request() {
    let member = alone().await;
    let ack = "route=\"/v1/users/{user}/read-states/{channel}/ack\",method=\"POST\"";
    let count = |page: &str, count| {
        page.contains(&format!(
            "readstates_request_seconds_count{{{ack}}} {count}\n"
        ))
    };
    let page = member.get("/metrics").await.text;
    assert!(count(&page, 0), "{page}");
    for message in 1..=20 {
        member.ack(1, 10, message).await;
    }
    let page = member.get("/metrics").await.text;
    assert!(count(&page, 20), "{page}");
    for bound in ["0.00001", "0.01", "30", "+Inf"] {
        let bucket = format!("readstates_request_seconds_bucket{{{ack},le=\"{bound}\"}} ");
        assert!(page.contains(&bucket), "{bucket}: {page}");
    }
    let family = format!("readstates_request_seconds_bucket{{{ack},");
    let buckets = page.lines().filter(|line| line.starts_with(&family));
    assert_eq!(buckets.count(), 21);
}

/// An alert on a counter sees its first increase only if it was 0 before.
#[tokio::test]
async fn what_never_happened_is_counted_as_0() {
    let member = alone().await;
    let page = member.get("/metrics").await.text;
    let counters = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"));
    for counter in counters {
        let samples = page.lines().any(|line| {
            line.strip_prefix(counter)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        // Without an access file there are no callers to count for.
        assert!(
            samples || counter == "readstates_caller_limit_refusals_total",
            "{counter} has no sample: {page}"
        );
    }
    for (method, route, success) in [
        ("GET", "/v1/users/{user}/read-states", "200"),
        ("DELETE", "/v1/users/{user}", "204"),
        ("POST", "/v1/batch", "200"),
    ] {
        for status in [success, "429", "500", "503", "504"] {
            let sample = format!(
                "readstates_requests_total{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}} 0\n"
            );
            assert!(page.contains(&sample), "{sample}: {page}");
        }
    }
}
