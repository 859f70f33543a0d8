//! Pages of the read states of users who have many.

use std::{collections::BTreeMap, sync::Arc};

use crate::common::{Running, alone, members, owner_of};
use readstates::store::MemoryStore;
use reqwest::Method;
use serde_json::{Value, json};

const STATES: u64 = 2500;

/// User 1 gets states of channels 1 to so many; some of them do not fit a row.
async fn fill(member: &Running, states: u64) {
    let channels: Vec<u64> = (1..=states).collect();
    for some in channels.chunks(1000) {
        let items = some
            .iter()
            .map(|channel| json!({"channel_id": channel, "message_id": 5}));
        let body = json!({"read_states": items.collect::<Vec<_>>()});
        member
            .post("/v1/users/1/read-states/ack-bulk", body)
            .await
            .ok();
    }
    for channel in (1..=states).step_by(7) {
        let body = json!({"channel_id": channel, "message_id": 9, "user_ids": [1]});
        member.post("/v1/mentions", body).await.ok();
    }
}

fn states(answer: &Value) -> Vec<Value> {
    answer["read_states"].as_array().unwrap().clone()
}

/// All pages, beginning with this one.
async fn pages(member: &Running, first: &str) -> Vec<Value> {
    let (mut pages, mut path) = (Vec::new(), first.to_owned());
    loop {
        let answer = member.get(&path).await;
        let link = answer.header("link").map(str::to_owned);
        let page = answer.ok();
        assert_eq!(page["partial"], false);
        assert_eq!(link.is_some(), page.get("next").is_some());
        pages.push(page);
        let Some(link) = link else { return pages };
        let (next, rel) = link[1..].split_once('>').unwrap();
        assert_eq!(rel, "; rel=\"next\"");
        path = next.to_owned();
    }
}

#[tokio::test]
async fn the_pages_are_all_read_states_in_their_order_whoever_is_asked() {
    let members = members(&["chat-0", "chat-1"], Arc::new(MemoryStore::default())).await;
    fill(&members[0], STATES).await;
    let all = members[0].get("/v1/users/1/read-states").await.ok();
    assert!(all.get("next").is_none());
    for (limit, count) in [(1000, 3), (900, 3), (498, 6), (64, 40)] {
        for member in [0, 1] {
            let path = format!("/v1/users/1/read-states?limit={limit}");
            let pages = pages(&members[member], &path).await;
            assert_eq!(pages.len(), count, "{limit}");
            let paged: Vec<Value> = pages.iter().flat_map(states).collect();
            assert_eq!(paged, states(&all), "{limit}");
            assert!(pages.iter().all(|page| page["version"] == all["version"]));
        }
    }
    let last = members[1]
        .get("/v1/users/1/read-states?after=2499")
        .await
        .ok();
    assert_eq!(states(&last).len(), 1);
    let beyond = members[1]
        .get("/v1/users/1/read-states?after=2500&limit=5")
        .await
        .ok();
    assert_eq!((states(&beyond).len(), beyond.get("next")), (0, None));
}

#[tokio::test]
async fn what_changed_since_the_first_page_brings_the_pages_together() {
    let member = alone().await;
    fill(&member, 300).await;
    let page = async |after: u64| {
        let path = format!("/v1/users/1/read-states?limit=100&after={after}");
        member.get(&path).await.ok()
    };
    let first = member.get("/v1/users/1/read-states?limit=100").await.ok();
    assert_eq!(first["next"], "100");
    // Behind, before and at the place of the reader.
    member.delete("/v1/users/1/read-states/50").await.ok();
    member.delete("/v1/users/1/read-states/100").await.ok();
    member.delete("/v1/users/1/read-states/250").await.ok();
    member.ack(1, 60, 7).await;
    member.ack(1, 260, 7).await;
    let (second, third) = (page(100).await, page(200).await);
    member.ack(1, 1_000, 7).await;
    let since = first["version"].as_str().unwrap();
    let since = member
        .get(&format!("/v1/users/1/read-states?since={since}"))
        .await
        .ok();
    assert_eq!(since["partial"], true);
    let of = |answer: &Value| -> BTreeMap<String, Value> {
        let keyed = |state: Value| (state["channel_id"].as_str().unwrap().to_owned(), state);
        states(answer).into_iter().map(keyed).collect()
    };
    let mut together = of(&first);
    together.extend(of(&second));
    together.extend(of(&third));
    for channel in since["deleted"].as_array().unwrap() {
        together.remove(channel.as_str().unwrap());
    }
    together.extend(of(&since));
    assert_eq!(
        together,
        of(&member.get("/v1/users/1/read-states").await.ok())
    );
}

#[tokio::test]
async fn a_page_has_the_users_etag_and_is_not_sent_to_whoever_has_it() {
    let members = members(&["chat-0", "chat-1"], Arc::new(MemoryStore::default())).await;
    fill(&members[0], 200).await;
    let path = "/v1/users/1/read-states?limit=100&after=50";
    let member = &members[1 - owner_of(&members, 1)];
    let etag = member.get(path).await.header("etag").unwrap().to_owned();
    let known = [("if-none-match", &*etag)];
    let unchanged = member.send(Method::GET, path, &known, None).await;
    assert_eq!((unchanged.status.as_u16(), unchanged.text.len()), (304, 0));
    member.ack(1, 1, 100).await;
    assert_eq!(
        member.send(Method::GET, path, &known, None).await.status,
        200
    );
}

#[tokio::test]
async fn a_page_that_makes_no_sense_is_refused() {
    let member = alone().await;
    for (query, part) in [
        ("limit=0", "1 to 1000"),
        ("limit=1001", "1 to 1000"),
        ("limit=x", "limit in the query is \"x\""),
        ("after=0", "after is 0"),
        ("limit=5&limit=6", "twice"),
        ("since=1&limit=5", "since goes without"),
        ("size=5", "since=NUMBER and limit=NUMBER and after=NUMBER"),
    ] {
        let refused = member
            .get(&format!("/v1/users/1/read-states?{query}"))
            .await;
        let detail = refused.refused(400, "bad-value")["detail"].to_string();
        let detail = detail.replace("\\\"", "\"");
        assert!(detail.contains(part), "{query}: {detail}");
    }
}
