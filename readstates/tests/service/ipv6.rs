//! Members where there is only IPv6, and where there are both families.

use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::Value;

use crate::{
    common::client,
    process::readstates,
    serving::{self, Serving, serve_at},
};

/// Any free port of this machine, by its IPv6 address.
const HERE: &str = "[::1]:0";

/// What is answered to a request that is sent as clients do: again while slots are on their way to a member that has
/// just started.
async fn answered(request: RequestBuilder) -> Value {
    let mut last = String::new();
    for _ in 0..300 {
        let answer = request.try_clone().unwrap().send().await.unwrap();
        let status = answer.status();
        last = answer.text().await.unwrap();
        if status != StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(status, StatusCode::OK, "{last}");
            return serde_json::from_str(&last).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not answered: {last}");
}

async fn ack(base: &str, user: u64) {
    answered(serving::ack(&client(), base, user, 100)).await;
}

/// The last message read, as this address tells it.
async fn last_read(base: &str, user: u64) -> Value {
    let state = answered(serving::state(&client(), base, user)).await;
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
    let ring = client().get(format!("{}/v1/ring", second.url));
    let ring = serving::answer(ring).await;
    let members = ring["members"].as_array().unwrap();
    assert!(!members.is_empty());
    for member in members {
        let url = member["url"].as_str().unwrap();
        assert!(
            [&first.url, &second.url].iter().any(|known| *known == url),
            "{ring}"
        );
    }
    // Waits until the second one, which takes no slots before it has compared clocks, has its share.
    let (status, said, error) = readstates(&["rebalance", "--ring", &place]);
    assert_eq!(status, 0, "{said}{error}");
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
