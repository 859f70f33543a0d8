//! Several members as processes, one of which is killed: what it had acknowledged is in the memory of another one.

use std::time::Duration;

use reqwest::Client;
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    process::readstates,
    serving::{Serving, serve_with},
};

/// Users in one round.
const USERS: u64 = 200;

async fn status(client: &Client, of: &Serving) -> Value {
    let status = client.get(format!("{}/admin/v1/status", of.admin)).send();
    status.await.unwrap().json().await.unwrap()
}

/// Has everything of a member written, and waits until every slot of it has a backup; returns the number of the ring.
async fn at_rest(client: &Client, of: &Serving) -> u64 {
    let flush = client.post(format!("{}/admin/v1/flush", of.admin)).send();
    assert!(flush.await.unwrap().status().is_success());
    loop {
        let status = status(client, of).await;
        let unprotected = &status["ownership"]["replication"]["unprotected"];
        if *unprotected == 0 && status["dirty_users"] == 0 {
            return status["ring_number"].as_u64().unwrap();
        }
        sleep(Duration::from_millis(50)).await;
    }
}

async fn ring_number(client: &Client, of: &Serving) -> u64 {
    status(client, of).await["ring_number"].as_u64().unwrap()
}

/// Nothing is written, and each member has a store of its own: what one had acknowledged is in its backup's memory alone.
#[tokio::test]
async fn what_a_killed_member_acknowledged_is_served_by_its_backup() {
    let folder = tempfile::tempdir().unwrap();
    let ring = format!("file:{}", folder.path().display());
    let member = |name| {
        let place = ["--store", "memory", "--ring", &ring, "--member", name];
        let lasting = ["--durability", "available", "--flush-mode", "interval"];
        serve_with(&[&place[..], &lasting, &["--flush-interval", "1h"]].concat())
    };
    let client = Client::builder()
        .tls_certs_only([])
        .pool_max_idle_per_host(0)
        .build()
        .unwrap();
    let (first, second) = (member("a"), member("b"));
    let (code, said, error) = readstates(&["rebalance", "--ring", &ring]);
    assert_eq!(code, 0, "{said}{error}");
    let mut users = 1..=USERS;
    let acknowledged = loop {
        let before = [
            at_rest(&client, &first).await,
            at_rest(&client, &second).await,
        ];
        let mut acknowledged = Vec::new();
        for (user, via) in users.clone().zip([&first, &second].into_iter().cycle()) {
            let ack = format!("{}/v1/users/{user}/read-states/10/ack", via.url);
            let body = serde_json::json!({"message_id": "100"});
            let answer = client.post(ack).json(&body).send().await.unwrap();
            if answer.status() == 200 {
                acknowledged.push(user);
            }
        }
        let after = [
            ring_number(&client, &first).await,
            ring_number(&client, &second).await,
        ];
        // On a busy machine a backup may be given up, and then everything is written: others are taken instead.
        if before == [after[0]; 2] && after[0] == after[1] {
            break acknowledged;
        }
        users = users.end() + 1..=users.end() + USERS;
    };
    assert!(!acknowledged.is_empty());
    second.kill();
    while status(&client, &first).await["ownership"]["owned"] != 1024 {
        sleep(Duration::from_millis(50)).await;
    }
    for user in acknowledged {
        let state = format!("{}/v1/users/{user}/read-states/10", first.url);
        let answer = loop {
            let answer = client.get(&state).send().await.unwrap();
            // It is not served yet, or the machine is busy.
            if answer.status() != 503 {
                break answer;
            }
        };
        let state: Value = answer.json().await.unwrap();
        assert_eq!(state["last_message_id"], "100", "user {user}: {state}");
    }
    let replication = status(&client, &first).await["ownership"]["replication"].take();
    assert_eq!(replication["lost_users"], 0);
    assert!(first.terminate());
}
