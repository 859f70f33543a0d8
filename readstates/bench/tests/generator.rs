//! The generator against members in this process: what it says must be what they say.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::{net::SocketAddr, sync::Arc, thread, time::Duration};

use clap::Parser;
use readstates::{
    config::ServeConfig,
    ownership::store::MemoryRing,
    server::{Listeners, Server},
    store::MemoryStore,
};
use readstates_bench::{
    BenchArgs, BenchError, measure, metrics,
    process::{CPU_SECONDS, RESIDENT_BYTES},
    report::Report,
};
use tokio::runtime::Runtime;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

/// A member that is alone, on a runtime of its own.
struct Member {
    runtime: Runtime,
    address: SocketAddr,
    watch: SocketAddr,
}

impl Member {
    fn start() -> Self {
        let config = ServeConfig {
            drain_timeout: Duration::from_secs(1),
            workers: 2.try_into().unwrap(),
            ..ServeConfig::alone_in_memory()
        };
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(async {
            let listeners = Listeners::bind(&config).unwrap();
            let store = Arc::new(MemoryStore::default());
            let ring = Arc::new(MemoryRing::default());
            Server::start(&config, store, ring, listeners)
                .await
                .unwrap()
        });
        let (address, watch) = (server.http_address, server.watch_address);
        // It serves for as long as its runtime lives.
        std::mem::forget(server);
        Self {
            runtime,
            address,
            watch,
        }
    }

    fn bench(&self, flags: &[&str]) -> Result<Report, BenchError> {
        let url = format!("http://{}", self.address);
        let words = ["bench", "--url", &url]
            .into_iter()
            .chain(flags.iter().copied());
        measure(&Cli::try_parse_from(words).unwrap().bench)
    }

    /// A metric without labels.
    fn metric(&self, name: &str) -> f64 {
        let text = self.runtime.block_on(async {
            let answer = reqwest::get(format!("http://{}/metrics", self.watch))
                .await
                .unwrap();
            answer.text().await.unwrap()
        });
        metrics::parse(&text)[name]
    }
}

#[test]
fn what_it_counts_is_what_the_member_counts() {
    let member = Member::start();
    let report = member
        .bench(&[
            "--rate",
            "250",
            "--duration",
            "4s",
            "--warmup",
            "0s",
            "--users",
            "50",
            "--mix",
            "ack=3,mention=1,read=1",
            "--metrics",
            &format!("http://{}", member.watch),
            "--process",
            &std::process::id().to_string(),
        ])
        .unwrap();
    assert_eq!(
        report.requests, 1000,
        "every request of the schedule is accounted for"
    );
    let operations = &report.operations;
    assert!(operations.failed.is_empty(), "{operations:?}");
    assert!(
        operations.reads > 100 && operations.applied > 600,
        "{operations:?}"
    );
    assert_eq!(
        operations.applied as f64,
        member.metric("readstates_operations_applied_total")
    );
    assert_eq!(
        operations.ignored as f64,
        member.metric("readstates_operations_ignored_total")
    );
    let by_second: Vec<u64> = report
        .windows
        .iter()
        .map(|second| second.requests)
        .collect();
    assert_eq!(by_second, [250; 4]);
    assert!(report.latency.p50 > 0.0 && report.latency.max >= report.latency.p999);
    // On a busy machine, a second may go without.
    let mut samples = report
        .windows
        .iter()
        .filter_map(|second| second.metrics.as_ref());
    let sampled = samples.next().expect("no second has a sample");
    assert!(sampled["readstates_operations_applied_total"] > 0.0);
    // Generator and member are this process.
    assert!(sampled[RESIDENT_BYTES] > 1e6);
    assert!(sampled.contains_key(CPU_SECONDS));
}

#[test]
fn a_check_finds_everything_that_was_acknowledged() {
    let member = Member::start();
    let report = member
        .bench(&[
            "--check",
            "--rate",
            "800",
            "--duration",
            "2s",
            "--warmup",
            "0s",
            "--users",
            "20",
            "--threads",
            "2",
        ])
        .unwrap();
    let check = report.check.unwrap();
    assert!(check.holds(), "{check:?}");
    assert_eq!(
        (check.sent, check.acknowledged, check.users),
        (1600, 1600, 20)
    );
}

#[test]
fn requests_that_a_stalled_service_did_not_answer_are_all_timed_and_counted() {
    // It takes connections and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    thread::spawn(move || silent.incoming().collect::<Vec<_>>());
    let url = format!("http://{address}");
    let words = [
        "bench",
        "--url",
        &url,
        "--rate",
        "100",
        "--duration",
        "1s",
        "--warmup",
        "0s",
        "--connections",
        "4",
        "--timeout",
        "400ms",
    ];
    let error = measure(&Cli::try_parse_from(words).unwrap().bench).unwrap_err();
    let BenchError::NothingSucceeded { failures, .. } = &error else {
        panic!("{error}");
    };
    // 4 connections, each given up after 0.4 s: the rest was due and could not be sent.
    let counts: Vec<u64> = failures
        .split(", ")
        .map(|part| part.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 100, "{failures}");
    assert!(
        failures.contains("timeout") && failures.contains("never sent"),
        "{failures}"
    );
}

#[test]
fn nobody_there_is_said_with_the_next_step() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{free}");
    let words = [
        "bench",
        "--url",
        &url,
        "--rate",
        "50",
        "--duration",
        "1s",
        "--warmup",
        "0s",
        "--timeout",
        "300ms",
    ];
    let error = measure(&Cli::try_parse_from(words).unwrap().bench)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("is there a member at") && error.contains(&url),
        "{error}"
    );
}
