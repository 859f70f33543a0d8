//! `POST /v1/batch` in version 3: read states of another system.

use std::sync::Arc;

use crate::{
    common::{
        Answer, NEVER, Running, SOON, alone, config,
        faulty::{FaultyStore, Mood},
        members, on, owner_of,
    },
    earlier::refuses_frames,
};
use readstates::{
    access::{AccessConfig, token},
    config::ServeConfig,
    store::MemoryStore,
};
use readstates_api::{
    Id, ReadState,
    batch::{
        MEDIA_TYPE,
        v3::{self, Import, ImportOutcome},
    },
};
use readstates_client::{Client, Config};
use reqwest::Method;

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn row(user: u64, channel: u64, message: u64) -> Import {
    Import {
        user: id(user),
        channel: id(channel),
        last_message_id: Id::new(message),
        mention_count: 0,
        counted_through: None,
        flags: None,
        last_viewed: 0,
        last_pin_timestamp: None,
    }
}

async fn post(member: &Running, headers: &[(&str, &str)], rows: &[Import]) -> Answer {
    let frame = v3::encode_request(rows.iter().map(Import::to_bytes));
    let headers = [&[("content-type", MEDIA_TYPE)], headers].concat();
    member
        .send(Method::POST, "/v1/batch", &headers, Some(frame))
        .await
}

async fn import(member: &Running, rows: &[Import]) -> Vec<ImportOutcome> {
    let answer = post(member, &[], rows).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), Some(MEDIA_TYPE));
    v3::parse_answer(&answer.bytes).unwrap()
}

#[tokio::test]
async fn an_import_sets_what_is_absent_and_clients_stay_ahead() {
    let member = alone().await;
    let full = Import {
        mention_count: 3,
        counted_through: Some(id(120)),
        flags: Some(6),
        last_viewed: 4112,
        last_pin_timestamp: Some("2026-05-04T03:02:01.5Z".parse().unwrap()),
        ..row(1, 10, 100)
    };
    member.ack(1, 11, 500).await;
    let rows = [full, row(1, 11, 400), row(1, 12, 7), full];
    let outcomes = import(&member, &rows).await;
    let (applied, ignored) = (ImportOutcome::Applied, ImportOutcome::Ignored);
    assert_eq!(outcomes, [applied, ignored, applied, ignored]);
    let state = member.get("/v1/users/1/read-states/10").await.ok();
    let state: ReadState = serde_json::from_value(state).unwrap();
    let expected = ReadState {
        channel_id: id(10),
        last_message_id: Some(id(100)),
        mention_count: 3,
        flags: 6,
        last_viewed: 4112,
        last_pin_timestamp: full.last_pin_timestamp,
        version: state.version,
    };
    assert_eq!(state, expected);
    assert_eq!(member.state(1, 11).await, Some((500, 0)));
    // A client reads on, and the same rows come again.
    member.ack(1, 10, 130).await;
    let version = member.version(1).await;
    assert_eq!(import(&member, &rows).await, [ignored; 4]);
    assert_eq!(member.state(1, 10).await, Some((130, 0)));
    assert_eq!(member.version(1).await, version);
}

#[tokio::test]
async fn a_record_that_makes_no_sense_is_bad_and_the_others_are_done() {
    let member = alone().await;
    let mut bad = row(1, 10, 5).to_bytes();
    bad[0] = 1;
    let frame = v3::encode_request([bad, row(2, 10, 5).to_bytes()].into_iter());
    let headers = [("content-type", MEDIA_TYPE)];
    let answer = member.send(Method::POST, "/v1/batch", &headers, Some(frame.clone()));
    let outcomes = v3::parse_answer(&answer.await.bytes).unwrap();
    assert_eq!(outcomes, [ImportOutcome::Bad, ImportOutcome::Applied]);
    let cut = frame[..frame.len() - 1].to_vec();
    let answer = member.send(Method::POST, "/v1/batch", &headers, Some(cut));
    answer.await.refused(400, "malformed-body");
}

#[tokio::test]
async fn any_member_imports_for_the_users_of_all() {
    let store = Arc::new(MemoryStore::default());
    let members = members(&["chat-0", "chat-1", "chat-2"], store).await;
    let rows: Vec<Import> = (1..=200).map(|user| row(user, 10, user)).collect();
    let outcomes = import(&members[1], &rows).await;
    assert_eq!(outcomes, [ImportOutcome::Applied; 200]);
    for user in 1..=200 {
        let owner = &members[owner_of(&members, user)];
        assert_eq!(owner.state(user, 10).await, Some((user, 0)));
    }
    let metrics = members[1].get("/metrics").await.text;
    assert!(metrics.contains("readstates_forwards_total 2"), "{metrics}");
}

#[tokio::test]
async fn the_client_sends_rows_to_their_owners() {
    let store = Arc::new(MemoryStore::default());
    let members = members(&["chat-0", "chat-1"], store).await;
    let config = Config::new([members[0].url("").trim_end_matches('/')]).unwrap();
    let client = Client::start(config).unwrap();
    client.ring_after(0).await;
    let rows: Vec<Import> = (1..=100).map(|user| row(user, 10, user)).collect();
    let imported = client.import(&rows).await;
    assert_eq!(imported.outcomes, [ImportOutcome::Applied; 100]);
    assert!(imported.error.is_none());
    for member in &members {
        let metrics = member.get("/metrics").await.text;
        assert!(metrics.contains("readstates_forwards_total 0"), "{metrics}");
    }
}

#[tokio::test]
async fn rows_of_an_owner_that_does_not_know_the_version_say_so_and_the_others_are_done() {
    let store = Arc::new(MemoryStore::default());
    let mut members = members(&["chat-0", "chat-1"], store).await;
    let user_of = |owner| (1..).find(|&user| owner_of(&members, user) == owner);
    let (mine, theirs) = (user_of(0).unwrap(), user_of(1).unwrap());
    let old = members.pop().unwrap().server;
    let address = old.members_address.unwrap();
    old.crash().await;
    // The frame's last record ends with a pin at 7 ms.
    let _old = refuses_frames(address, b"RSB3").await;
    let last = Import {
        last_pin_timestamp: Some("1970-01-01T00:00:00.007Z".parse().unwrap()),
        ..row(theirs, 11, 5)
    };
    let rows = [row(theirs, 10, 5), row(mine, 10, 5), last];
    let outcomes = import(&members[0], &rows).await;
    let too_old = ImportOutcome::OwnerTooOld;
    assert_eq!(outcomes, [too_old, ImportOutcome::Applied, too_old]);
}

#[tokio::test]
async fn an_import_needs_more_than_the_right_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.yaml");
    let caller = |name: &str, verbs: &str| {
        let hash = token::hash(&format!("secret-of-{name}"));
        format!("- {{name: {name}, verbs: [{verbs}], tokens: [\"{hash}\"]}}\n")
    };
    let callers = [
        caller("writer", "read, write, delete, admin-read"),
        caller("mover", "write, import"),
        caller("half", "import"),
    ];
    std::fs::write(&file, format!("callers:\n{}", callers.concat())).unwrap();
    let config = ServeConfig {
        access: Some(AccessConfig::new(file)),
        ..config(NEVER)
    };
    let member = on(Arc::new(MemoryStore::default()), config).await;
    let rows = [row(1, 10, 5)];
    let with = async |name: &str| {
        let token = format!("Bearer secret-of-{name}");
        post(&member, &[("authorization", &token)], &rows).await
    };
    let refused = with("writer").await.refused(403, "forbidden");
    assert!(refused["detail"].as_str().unwrap().contains("verb import"));
    let refused = with("half").await.refused(403, "forbidden");
    assert!(refused["detail"].as_str().unwrap().contains("verb write"));
    let done = with("mover").await;
    let outcomes = v3::parse_answer(&done.bytes).unwrap();
    assert_eq!(
        outcomes,
        [ImportOutcome::Applied],
        "nothing was done before"
    );
}

#[tokio::test]
async fn while_the_database_is_away_rows_of_users_who_are_not_in_memory_wait() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(NEVER)).await;
    member.ack(1, 10, 1).await;
    store.set(Mood::Away);
    let rows = [row(1, 10, 2), row(2, 10, 2)];
    let outcomes = import(&member, &rows).await;
    assert_eq!(outcomes, [ImportOutcome::Applied, ImportOutcome::NotTaken]);
    store.set(Mood::Healthy);
    let outcomes = import(&member, &rows).await;
    assert_eq!(outcomes, [ImportOutcome::Ignored, ImportOutcome::Applied]);
}

/// One user with as many channels as there may be: more changes than may be unwritten, so that some are taken only once
/// the store has the others.
async fn full() -> Running {
    let member = on(Arc::new(MemoryStore::default()), config(SOON)).await;
    let mut rows: Vec<Import> = (1..=100_000).map(|channel| row(1, channel, 5)).collect();
    while !rows.is_empty() {
        let part: Vec<Import> = rows.drain(..rows.len().min(20_000)).collect();
        let outcomes = import(&member, &part).await;
        for (row, outcome) in part.iter().zip(outcomes) {
            match outcome {
                ImportOutcome::Applied => {}
                ImportOutcome::NotTaken => rows.push(*row),
                other => panic!("{other:?}"),
            }
        }
    }
    member
}

#[tokio::test]
async fn a_user_with_the_most_read_states_is_imported_and_one_more_is_refused() {
    let member = full().await;
    let outcomes = import(&member, &[row(1, 100_001, 5), row(1, 7, 9)]).await;
    assert_eq!(outcomes, [ImportOutcome::Full, ImportOutcome::Applied]);
    assert_eq!(member.state(1, 100_000).await, Some((5, 0)));
}

/// Another member may have deleted the user by then.
#[tokio::test]
async fn a_member_without_its_lease_does_not_say_that_a_user_is_full() {
    let member = full().await;
    // It does not notice: nothing is sealed.
    member.server.ownership().end();
    let outcomes = import(&member, &[row(1, 100_001, 5), row(1, 7, 9)]).await;
    assert_eq!(outcomes, [ImportOutcome::NotTaken, ImportOutcome::Unknown]);
}
