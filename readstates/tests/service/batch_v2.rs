//! `POST /v1/batch` in version 2: reads, and the read states after each record.

use std::sync::Arc;

use crate::{
    common::{
        NEVER, Running, alone, config,
        faulty::{FaultyStore, Mood},
        members, on, owner_of,
    },
    earlier::refuses_frames,
};
use readstates::store::MemoryStore;
use readstates_api::{
    AckAnswer, Id, ReadState, Version,
    batch::{
        BatchEncoder, MEDIA_TYPE, RawRecord, Record, RecordOperation, RecordOutcome, parse_answer,
        v2::{self, Entry, Row},
    },
};
use reqwest::Method;
use serde_json::{Value, json};

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn change(operation: RecordOperation, user: u64, message: u64) -> RawRecord {
    let record = Record {
        operation,
        user: id(user),
        channel: id(10),
        message: id(message),
    };
    record.to_bytes()
}

fn ack(user: u64, message: u64) -> RawRecord {
    change(RecordOperation::Ack, user, message)
}

fn mention(user: u64, message: u64) -> RawRecord {
    change(RecordOperation::Mention { count: 1 }, user, message)
}

fn read(user: u64, channel: u64) -> RawRecord {
    let entry = Entry::Read {
        user: id(user),
        channel: id(channel),
    };
    entry.to_bytes()
}

async fn batch(member: &Running, records: &[RawRecord]) -> Vec<Row> {
    let frame = v2::encode_request(records.iter().copied());
    let headers = [("content-type", MEDIA_TYPE)];
    let answer = member.send(Method::POST, "/v1/batch", &headers, Some(frame));
    let answer = answer.await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), Some(MEDIA_TYPE));
    v2::parse_answer(&answer.bytes).unwrap()
}

/// What JSON says about an acknowledgement or a state.
fn parsed<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

#[tokio::test]
async fn rows_say_what_json_says() {
    let member = alone().await;
    let path = "/v1/users/1/read-states/10";
    let seen = json!({"message_id": "5", "flags": 6, "last_viewed": 4112});
    member.post(&format!("{path}/ack"), seen).await.ok();
    let pin = json!({"last_pin_timestamp": "2026-05-04T03:02:01.5Z"});
    member.post(&format!("{path}/pins/ack"), pin).await.ok();

    let rows = batch(
        &member,
        &[mention(1, 90), ack(1, 80), read(1, 10), ack(1, 80)],
    )
    .await;
    let state: ReadState = parsed(member.get(path).await.ok());
    assert_eq!(
        (state.mention_count, state.flags, state.last_viewed),
        (1, 6, 4112)
    );
    let again: AckAnswer = parsed(member.ack(1, 10, 80).await);
    let [
        Row::Applied { .. },
        Row::Applied {
            version,
            state: acked,
        },
        found,
        ignored,
    ] = rows[..]
    else {
        panic!("{rows:?}");
    };
    assert_eq!(acked.of_channel(id(10)), state);
    assert_eq!(
        (acked.of_channel(id(10)), version),
        (again.read_state, again.version)
    );
    assert_eq!(
        found,
        Row::Found {
            version,
            state: acked
        }
    );
    assert_eq!(
        ignored,
        Row::Ignored {
            version,
            state: acked
        }
    );
}

#[tokio::test]
async fn reads_see_what_was_changed_before_them_in_the_frame() {
    let member = alone().await;
    let mut unknown = ack(1, 1);
    unknown[0] = 5;
    let rows = batch(
        &member,
        &[
            read(1, 10),
            mention(1, 7),
            read(1, 10),
            unknown,
            ack(1, 7),
            read(1, 10),
            read(1, 11),
        ],
    )
    .await;
    let count = |row: &Row| match row {
        Row::Found { state, .. } => Some(state.mention_count),
        _ => None,
    };
    assert_eq!(
        rows[0],
        Row::Absent {
            version: Version(0)
        }
    );
    assert_eq!(rows[3], Row::Bad);
    assert_eq!((count(&rows[2]), count(&rows[5])), (Some(1), Some(0)));
    let Row::Absent { version } = rows[6] else {
        panic!("{rows:?}");
    };
    assert_eq!(version.0, member.version(1).await);
}

#[tokio::test]
async fn a_read_in_version_1_stays_a_bad_record() {
    let member = alone().await;
    let mut frame = BatchEncoder::default();
    frame.push_raw(&read(1, 10));
    frame.push_raw(&ack(1, 5));
    let headers = [("content-type", MEDIA_TYPE)];
    let answer = member.send(Method::POST, "/v1/batch", &headers, Some(frame.finish()));
    let answer = answer.await;
    let outcomes: Vec<_> = parse_answer(&answer.bytes).unwrap().collect();
    assert_eq!(outcomes, [RecordOutcome::Bad, RecordOutcome::Applied]);
}

#[tokio::test]
async fn any_member_answers_for_the_users_of_all() {
    let store = Arc::new(MemoryStore::default());
    let members = members(&["chat-0", "chat-1", "chat-2"], store).await;
    let records: Vec<RawRecord> = (1..=100)
        .flat_map(|user| [mention(user, 100), ack(user, user), read(user, 10)])
        .collect();
    let rows = batch(&members[1], &records).await;
    for (user, rows) in (1..=100).zip(rows.chunks(3)) {
        let owner = &members[owner_of(&members, user)];
        let path = format!("/v1/users/{user}/read-states/10");
        let expected: ReadState = parsed(owner.get(&path).await.ok());
        let Row::Found { state, .. } = rows[2] else {
            panic!("{rows:?}");
        };
        assert_eq!(state.of_channel(id(10)), expected);
        assert!(matches!(rows[1], Row::Applied { state: acked, .. } if acked == state));
    }
    let metrics = members[1].get("/metrics").await.text;
    assert!(metrics.contains("readstates_forwards_total 2"), "{metrics}");
}

#[tokio::test]
async fn records_of_an_owner_that_does_not_know_the_version_say_so_and_the_others_are_done() {
    let store = Arc::new(MemoryStore::default());
    let mut members = members(&["chat-0", "chat-1"], store).await;
    let user_of = |owner| {
        let mut users = 1..;
        users.find(|&user| owner_of(&members, user) == owner)
    };
    let (mine, theirs) = (user_of(0).unwrap(), user_of(1).unwrap());
    let old = members.pop().unwrap().server;
    let address = old.members_address.unwrap();
    old.crash().await;
    // The frame of two records ends with a message of 7.
    let _old = refuses_frames(address, b"RSB2").await;
    let records = [
        ack(mine, 5),
        read(theirs, 10),
        read(mine, 10),
        ack(theirs, 7),
    ];
    let rows = batch(&members[0], &records).await;
    assert!(matches!(rows[0], Row::Applied { .. }) && matches!(rows[2], Row::Found { .. }));
    assert_eq!((rows[1], rows[3]), (Row::OwnerTooOld, Row::OwnerTooOld));
}

#[tokio::test]
async fn while_the_database_is_away_only_users_in_memory_are_taken_and_read() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(NEVER)).await;
    batch(&member, &[ack(1, 1)]).await;
    store.set(Mood::Away);
    let rows = batch(&member, &[ack(1, 2), read(2, 10), read(1, 10), ack(2, 1)]).await;
    assert!(matches!(rows[0], Row::Applied { .. }) && matches!(rows[2], Row::Found { .. }));
    assert_eq!((rows[1], rows[3]), (Row::NotTaken, Row::NotTaken));
    store.set(Mood::Healthy);
    let rows = batch(&member, &[read(2, 10)]).await;
    assert_eq!(
        rows,
        [Row::Absent {
            version: Version(0)
        }]
    );
}

#[tokio::test]
async fn the_largest_frame_is_answered() {
    let member = alone().await;
    let records: Vec<RawRecord> = (0..65_536).map(|place| read(1 + place % 50, 10)).collect();
    let rows = batch(&member, &records).await;
    assert_eq!(rows.len(), records.len());
    assert!(rows.iter().all(|row| matches!(row, Row::Absent { .. })));
}
