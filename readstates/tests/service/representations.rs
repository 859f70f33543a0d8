//! Read states in JSON and as rows, compressed and not, of small and of large users, from the owner and by way of another
//! member: always the same.

use std::sync::Arc;

use readstates::store::MemoryStore;
use readstates_api::{ReadStates, rows};
use reqwest::Method;
use serde_json::json;

use crate::common::{Answer, Running, alone, members, owner_of};

const ROWS: (&str, &str) = ("accept", rows::MEDIA_TYPE);
const ZSTD: (&str, &str) = ("accept-encoding", "zstd");
/// Past those which a snapshot is made of.
const MANY: u64 = 1500;

/// A user with so many states, of which some have mentions and pins, and some were deleted.
async fn fill(member: &Running, user: u64, states: u64) {
    let channels: Vec<u64> = (1..=states + 3).collect();
    for some in channels.chunks(1000) {
        let items = some
            .iter()
            .map(|channel| json!({"channel_id": channel, "message_id": channel * 7}));
        let body = json!({"read_states": items.collect::<Vec<_>>()});
        let path = format!("/v1/users/{user}/read-states/ack-bulk");
        member.post(&path, body).await.ok();
    }
    let body = json!({"channel_id": 1, "message_id": 99, "user_ids": [user]});
    member.post("/v1/mentions", body).await.ok();
    let pins = format!("/v1/users/{user}/read-states/2/pins/ack");
    let body = json!({"last_pin_timestamp": "2023-11-19T17:30:00.123Z"});
    member.post(&pins, body).await.ok();
    for channel in states + 1..=states + 3 {
        let path = format!("/v1/users/{user}/read-states/{channel}");
        member.delete(&path).await.ok();
    }
}

/// The read states of an answer in any form.
fn read(answer: &Answer) -> ReadStates {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("vary"), Some("accept, accept-encoding"));
    let body = match answer.header("content-encoding") {
        None => answer.bytes.clone(),
        Some("zstd") => zstd::bulk::decompress(&answer.bytes, 8 << 20).unwrap(),
        Some(other) => panic!("{other} was not asked for"),
    };
    match answer.header("content-type").unwrap() {
        rows::MEDIA_TYPE => rows::parse(&body).unwrap(),
        "application/json" => serde_json::from_slice(&body).unwrap(),
        other => panic!("{other} was not asked for"),
    }
}

#[tokio::test]
async fn all_forms_say_the_same_whoever_is_asked() {
    let members = members(&["chat-0", "chat-1"], Arc::new(MemoryStore::default())).await;
    for (user, states) in [(1, 0), (2, 5), (3, 64), (4, 65), (5, MANY)] {
        fill(&members[0], user, states).await;
        let path = format!("/v1/users/{user}/read-states");
        let version = members[0].version(user).await;
        let since = version.saturating_sub(70);
        let queries = [
            String::new(),
            "?since=1".to_owned(),
            format!("?since={since}"),
            format!("?since={version}"),
            "?limit=50&after=2".to_owned(),
            "?limit=1000".to_owned(),
        ];
        for query in queries {
            let path = format!("{path}{query}");
            let plain = read(&members[0].get(&path).await);
            for member in &members {
                for headers in [&[ROWS][..], &[ZSTD], &[ROWS, ZSTD]] {
                    let answer = member.send(Method::GET, &path, headers, None).await;
                    assert_eq!(read(&answer), plain, "{path} {headers:?}");
                    assert_eq!(answer.header("etag"), Some(&*format!("\"{version}\"")));
                    let is_rows = answer.header("content-type") == Some(rows::MEDIA_TYPE);
                    assert_eq!(is_rows, headers.contains(&ROWS));
                }
            }
        }
    }
}

#[tokio::test]
async fn rows_are_a_quarter_of_the_json_and_what_is_compressed_is_shorter() {
    let member = alone().await;
    fill(&member, 1, MANY).await;
    let length = async |headers: &[(&str, &str)]| {
        let path = "/v1/users/1/read-states";
        let answer = member.send(Method::GET, path, headers, None).await;
        let states = read(&answer).read_states.len();
        assert_eq!(states as u64, MANY);
        answer.bytes.len()
    };
    let json = length(&[]).await;
    let rows = length(&[ROWS]).await;
    assert!(rows * 3 < json, "{rows} of {json}");
    assert!(length(&[ZSTD]).await * 3 < json);
    assert!(length(&[ROWS, ZSTD]).await * 2 < rows);
}

#[tokio::test]
async fn what_is_not_known_is_answered_with_json_and_what_has_not_changed_with_nothing() {
    let members = members(&["chat-0", "chat-1"], Arc::new(MemoryStore::default())).await;
    fill(&members[0], 1, MANY).await;
    let path = "/v1/users/1/read-states";
    for headers in [
        &[
            ("accept", "text/html, */*;q=0.1"),
            ("accept-encoding", "gzip, br"),
        ][..],
        &[("accept", "application/vnd.readstates.rows;q=0")],
        &[(
            "accept",
            "application/vnd.readstates.rows;q=0.5, application/json",
        )],
    ] {
        let answer = members[0].send(Method::GET, path, headers, None).await;
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("content-encoding"), None);
    }
    let version = format!("\"{}\"", members[0].version(1).await);
    for member in &members {
        let headers = [ROWS, ZSTD, ("if-none-match", &*version)];
        let answer = member.send(Method::GET, path, &headers, None).await;
        assert_eq!((answer.status.as_u16(), answer.bytes.len()), (304, 0));
    }
    // A refusal is a problem, in whatever form the states would have been.
    let other = 1 - owner_of(&members, 1);
    let headers = [ROWS, ZSTD, ("x-readstates-direct", "1")];
    let answer = members[other].send(Method::GET, path, &headers, None).await;
    answer.refused(421, "not-the-owner");
}
