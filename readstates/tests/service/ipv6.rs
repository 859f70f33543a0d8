//! Members where there is only IPv6, and where there are both families.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::program::{Serving, serve_at};

/// Any free port of this machine, by its IPv6 address.
const HERE: &str = "[::1]:0";

fn client() -> Client {
    let client = Client::builder().no_proxy().tls_certs_only([]);
    client.build().unwrap()
}

fn read_states(base: &str, user: u64) -> String {
    format!("{base}/v1/users/{user}/read-states")
}

/// Sends a request as clients do: again while slots are on their way to a member that has just started.
async fn answered(request: RequestBuilder) -> Response {
    let mut last = String::new();
    for _ in 0..300 {
        let answer = request.try_clone().unwrap().send().await.unwrap();
        if answer.status() != StatusCode::SERVICE_UNAVAILABLE {
            return answer;
        }
        last = answer.text().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not answered: {last}");
}

async fn ack(base: &str, user: u64) {
    let url = format!("{}/10/ack", read_states(base, user));
    let request = client().post(url).json(&json!({ "message_id": "100" }));
    assert_eq!(answered(request).await.status(), StatusCode::OK);
}

/// The last message read, as this address tells it.
async fn last_read(base: &str, user: u64) -> Value {
    let request = client().get(format!("{}/10", read_states(base, user)));
    let answer = answered(request).await;
    assert_eq!(answer.status(), StatusCode::OK, "user {user} at {base}");
    let state: Value = answer.json().await.unwrap();
    state["last_message_id"].clone()
}

#[tokio::test]
async fn members_that_have_only_ipv6_forward_to_each_other_and_hand_on_what_they_own() {
    let ring = tempfile::tempdir().unwrap();
    let place = format!("file:{}", ring.path().display());
    let member = |name: &str| -> Serving {
        let member = ["--member", name, "--ring", &place, "--store", "memory"];
        serve_at(HERE, HERE, &member)
    };
    let (first, second) = (member("chat-0"), member("chat-1"));
    for member in [&first, &second] {
        assert!(member.url.starts_with("http://[::1]:"), "{}", member.url);
    }
    for user in 1..=20 {
        ack(&first.url, user).await;
        assert_eq!(last_read(&second.url, user).await, "100");
    }
    // What the ring tells clients is an address that they can use.
    let ring: Value = client()
        .get(format!("{}/v1/ring", second.url))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let members = ring["members"].as_array().unwrap();
    assert!(!members.is_empty());
    for member in members {
        let url = member["url"].as_str().unwrap();
        assert!(
            [&first.url, &second.url].iter().any(|known| *known == url),
            "{ring}"
        );
    }
    // Their stores are apart: the second one knows only what it was handed.
    assert!(first.terminate());
    for user in 1..=20 {
        assert_eq!(last_read(&second.url, user).await, "100");
    }
}

#[tokio::test]
async fn every_address_of_ipv6_is_every_address_of_ipv4_too() {
    let member = serve_at("[::]:0", HERE, &["--store", "memory"]);
    let (_, port) = member.url.rsplit_once(':').unwrap();
    let (old, new) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://[::1]:{port}"),
    );
    ack(&old, 1).await;
    assert_eq!(last_read(&new, 1).await, "100");
    ack(&new, 2).await;
    assert_eq!(last_read(&old, 2).await, "100");
}
