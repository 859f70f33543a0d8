//! The program as a person or a kubelet runs it: flags, output, signals, exit status.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use readstates_api::{
    Id,
    batch::{BatchEncoder, MEDIA_TYPE, Record, RecordOperation, RecordOutcome, parse_answer},
};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::{
    common::{PATIENCE, client},
    process::readstates,
    serving::{Serving, ack, answer, read_states, serve_with, state},
};

/// (succeeded, standard output, standard error)
fn output(arguments: &[&str]) -> (bool, String, String) {
    let (status, out, error) = readstates(arguments);
    (status == 0, out, error)
}

fn serve(store: &str) -> Serving {
    serve_with(&["--store", store])
}

#[tokio::test]
async fn sigterm_writes_everything_and_the_next_start_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    let started = Instant::now();
    let first = serve(&store);
    let client = client();
    answer(ack(&client, &first.url, 1, 100)).await;
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "it answers soon after its start"
    );
    assert!(first.terminate());

    let second = serve(&store);
    let state = answer(state(&client, &second.url, 1)).await;
    assert_eq!(state["last_message_id"], "100");
    let (succeeded, _, error) = output(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--store",
        &store,
    ]);
    assert!(
        !succeeded && error.contains("in use by another process"),
        "{error}"
    );
    assert!(second.terminate());
}

#[tokio::test]
async fn what_was_flushed_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    let first = serve(&store);
    let client = client();
    for user in 1..=50 {
        answer(ack(&client, &first.url, user, user)).await;
    }
    let flushed = answer(client.post(format!("{}/admin/v1/flush", first.admin))).await;
    // Some may have been written before: as soon as the pace allowed.
    assert_eq!(flushed["failed_users"], 0);
    first.kill();

    let second = serve(&store);
    for user in 1..=50_u64 {
        let state = answer(state(&client, &second.url, user)).await;
        assert_eq!(state["last_message_id"], user.to_string());
    }
    assert!(second.terminate());
}

/// Users whose acknowledgements come together.
const BATCHED: std::ops::RangeInclusive<u64> = 1001..=1064;

/// Acknowledges the same message for all of them, and then the next, until nobody answers; returns the last message
/// that was applied to all.
async fn batches(
    client: reqwest::Client,
    url: String,
    first: u64,
    answered: Arc<Semaphore>,
) -> u64 {
    let id = |number: u64| Id::new(number).unwrap();
    let (mut last, mut count) = (0, 0);
    for message in first.. {
        let mut frame = BatchEncoder::default();
        for user in BATCHED {
            frame.push(&Record {
                operation: RecordOperation::Ack,
                user: id(user),
                channel: id(10),
                message: id(message),
            });
        }
        let request = client
            .post(format!("{url}/v1/batch"))
            .header("content-type", MEDIA_TYPE)
            .body(frame.finish());
        let Ok(answer) = request.send().await else {
            break;
        };
        let is_answer = answer.status() == 200;
        let Ok(answer) = answer.bytes().await else {
            break;
        };
        let applied = |outcome| outcome == RecordOutcome::Applied;
        // A disk that took too long leaves an outcome open: that is no acknowledgement.
        if is_answer && parse_answer(&answer).unwrap().all(applied) {
            last = message;
            count += 1;
            answered.add_permits(usize::from(count == 3));
        }
    }
    last
}

/// Many clients at once, killed in the midst of it, again and again; the store is never written to.
#[tokio::test]
async fn what_was_acknowledged_survives_kills_without_a_flush() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    let flags = [
        "--store",
        &store,
        "--flush-mode",
        "interval",
        "--flush-interval",
        "1h",
    ];
    let client = client();
    // By user: the last message whose acknowledgement was answered, and the version then.
    let mut held = vec![(0_u64, 0_u64); 40];
    let mut in_batches = 0;
    for round in 1..=3_u64 {
        let member = serve_with(&flags);
        for (user, &(message, version)) in held.iter().enumerate() {
            let all = answer(client.get(read_states(&member.url, user as u64 + 1))).await;
            let number = |value: &Value| value.as_str().map_or(0, |text| text.parse().unwrap());
            let last: u64 = number(&all["read_states"][0]["last_message_id"]);
            assert!(
                last >= message,
                "user {} has lost {message}: {all}",
                user + 1
            );
            assert!(number(&all["version"]) >= version, "{all}");
        }
        for user in BATCHED {
            let answer = state(&client, &member.url, user).send().await.unwrap();
            let state: Value = answer.json().await.unwrap();
            let last = state["last_message_id"].as_str();
            let last: u64 = last.map_or(0, |text| text.parse().unwrap());
            assert!(
                last >= in_batches,
                "user {user} has lost {in_batches}: {state}"
            );
        }
        let answered = Arc::new(Semaphore::new(0));
        let callers = held.iter().enumerate().map(|(user, &before)| {
            let (url, user) = (member.url.clone(), user as u64 + 1);
            let (client, answered) = (client.clone(), Arc::clone(&answered));
            tokio::spawn(async move {
                let (mut held, mut count) = (before, 0);
                for message in round * 1_000_000.. {
                    let Ok(answer) = ack(&client, &url, user, message).send().await else {
                        break;
                    };
                    let is_answer = answer.status() == 200;
                    let Ok(answer) = answer.json::<Value>().await else {
                        break;
                    };
                    // A disk that took too long leaves the outcome open: that is no acknowledgement.
                    if !is_answer {
                        continue;
                    }
                    assert_eq!(answer["applied"], true, "{answer}");
                    let version = answer["version"].as_str().unwrap().parse().unwrap();
                    held = (message, version);
                    count += 1;
                    answered.add_permits(usize::from(count == 3));
                }
                held
            })
        });
        let callers: Vec<_> = callers.collect();
        let batches = tokio::spawn(batches(
            client.clone(),
            member.url.clone(),
            round * 1_000_000,
            Arc::clone(&answered),
        ));
        // In the midst of it, and not before everybody was answered some times.
        let everybody = answered.acquire_many(held.len() as u32 + 1);
        let everybody = tokio::time::timeout(Duration::from_secs(120), everybody).await;
        everybody.unwrap().unwrap().forget();
        member.kill();
        in_batches = batches.await.unwrap();
        held.clear();
        for caller in callers {
            held.push(caller.await.unwrap());
        }
    }
}

/// What the journal is for; and a folder that had one is still read when none is asked for any more.
#[tokio::test]
async fn without_a_journal_a_kill_loses_what_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    let flags = |durability| {
        let interval = ["--flush-mode", "interval", "--flush-interval", "1h"];
        ["--store", &store, "--durability", durability]
            .into_iter()
            .chain(interval)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let client = client();
    for (user, durability, found) in [(1, "journal", 200), (2, "interval", 404)] {
        let flags = flags(durability);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let first = serve_with(&flags);
        answer(ack(&client, &first.url, user, 100)).await;
        first.kill();
        let second = serve_with(&["--store", &store, "--durability", "interval"]);
        let answer = state(&client, &second.url, user).send().await;
        assert_eq!(answer.unwrap().status(), found, "{durability}");
        assert!(second.terminate());
    }
}

#[tokio::test]
async fn what_a_killed_process_left_in_its_journal_is_in_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (store, other) = (
        format!("embedded:{}", path("store")),
        format!("embedded:{}", path("other")),
    );
    let interval = ["--flush-mode", "interval", "--flush-interval", "1h"];
    let first = serve_with(&[&["--store", &store], &interval[..]].concat());
    let client = client();
    let acked = answer(ack(&client, &first.url, 1, 100)).await;
    first.kill();

    let backups = path("backups");
    let place = ["--backups", backups.as_str()];
    for command in [
        &["backup", "create", "--store", &store][..],
        &["backup", "verify"],
        &["backup", "restore", "--store", &other],
    ] {
        let (succeeded, said, error) = output(&[command, &place].concat());
        assert!(succeeded, "{command:?}: {said}{error}");
    }
    let second = serve(&other);
    let all = answer(client.get(read_states(&second.url, 1))).await;
    assert_eq!(all["read_states"][0]["last_message_id"], "100");
    assert_eq!(all["version"], acked["version"]);
    assert!(second.terminate());
}

#[test]
fn wrong_flags_end_with_one_line_that_names_the_flag() {
    for (arguments, part) in [
        (
            &["serve", "--capacity-states", "0"][..],
            "--capacity-states: 0 keeps nothing",
        ),
        (
            &["serve", "--listen", "203.0.113.1:1"],
            "--listen: failed to listen on 203.0.113.1:1",
        ),
        (&["serve", "--log-level", "a=b=c"], "--log-level"),
        (
            &["schema", "--store", "memory", "--replication", "dc1=1"],
            "--store: memory has no schema",
        ),
        (
            &["schema", "--store", "cql://db/ks", "--replication", "dc1"],
            "--replication",
        ),
    ] {
        let (succeeded, _, error) = output(arguments);
        assert!(!succeeded, "{arguments:?}");
        assert!(error.contains(part), "{arguments:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

#[test]
fn a_schema_without_a_database_fails_in_time_and_says_why() {
    let store = "cql://127.0.0.1:1/readstates";
    let flags = [
        "schema",
        "--store",
        store,
        "--replication",
        "dc1=1",
        "--timeout",
        "0s",
    ];
    let (succeeded, _, error) = output(&flags);
    assert!(
        !succeeded && error.contains("failed to open a session"),
        "{error}"
    );
}

#[test]
fn help_teaches_with_examples_and_openapi_prints_json() {
    let (succeeded, help, _) = output(&["serve", "--help"]);
    assert!(succeeded);
    for part in [
        "Examples:",
        "curl",
        "READSTATES_STORE",
        "embedded:readstates-data",
    ] {
        assert!(help.contains(part), "{part} is missing in\n{help}");
    }
    let (succeeded, document, _) = output(&["openapi"]);
    assert!(succeeded);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["info"]["title"], "Readstates");
    let (succeeded, document, _) = output(&["openapi", "--admin"]);
    assert!(succeeded);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert!(document["paths"]["/admin/v1/drain"].is_object());
}

#[tokio::test]
async fn members_of_a_folder_are_one_cluster_and_rebalance_gives_a_newcomer_its_share() {
    let folder = tempfile::tempdir().unwrap();
    let ring = format!("file:{}", folder.path().display());
    let member = |name| serve_with(&["--store", "memory", "--ring", &ring, "--member", name]);
    // A rebalance may take longer than a member keeps an idle connection.
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .pool_max_idle_per_host(0)
        .build()
        .unwrap();
    // The member that hands slots on may be the last to know that the other one has them.
    let owns = async |of: &Serving, slots: u64| {
        let began = Instant::now();
        loop {
            let status = answer(client.get(format!("{}/admin/v1/status", of.admin))).await;
            if status["ownership"]["owned"] == slots {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not {slots}: {status}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let first = member("a");
    // It has taken everything before there is another one.
    owns(&first, 1024).await;
    let second = member("b");
    for user in 1..=50 {
        answer(ack(&client, &first.url, user, 100)).await;
    }
    let (succeeded, said, error) = output(&["rebalance", "--ring", &ring]);
    assert!(succeeded, "{said}{error}");
    assert!(said.contains("64 slots from a to b"), "{said}");
    assert!(said.ends_with("balanced: a 512, b 512\n"), "{said}");
    owns(&first, 512).await;
    owns(&second, 512).await;
    // The blocks came along: each member has a store of its own, which the other cannot read.
    for (user, via) in (1..=50).zip([&first, &second].into_iter().cycle()) {
        let state = answer(state(&client, &via.url, user)).await;
        assert_eq!(state["last_message_id"], "100", "user {user}");
    }
    let (succeeded, said, _) = output(&["rebalance", "--ring", &ring]);
    assert!(
        succeeded && said.lines().count() == 1,
        "again there is nothing to do: {said}"
    );
    // A member that leaves hands on everything.
    assert!(first.terminate());
    owns(&second, 1024).await;
    assert!(second.terminate());
}

#[test]
fn a_ring_that_cannot_be_balanced_is_refused_with_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let ring = format!("file:{}", folder.path().display());
    for (ring, words) in [
        ("memory", "give file:DIR"),
        ("kubernetes", "the operator does this"),
        (ring.as_str(), "give the folder that the members were given"),
    ] {
        let (succeeded, _, error) = output(&["rebalance", "--ring", ring]);
        assert!(!succeeded && error.contains(words), "{error}");
    }
}
