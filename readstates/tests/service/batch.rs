//! `POST /v1/batch`: what is applied, in which order, and what is said about the rest.

use std::sync::Arc;

use crate::common::{
    Answer, NEVER, Running, alone, config,
    faulty::{FaultyStore, Mood},
    members, on, owner_of,
};
use RecordOutcome::{Applied, Bad, Ignored, NotTaken};
use readstates::store::MemoryStore;
use readstates_api::{
    Id,
    batch::{
        BatchEncoder, MEDIA_TYPE, RawRecord, Record, RecordOperation, RecordOutcome, parse_answer,
    },
};
use reqwest::Method;

fn record(operation: RecordOperation, user: u64, channel: u64, message: u64) -> RawRecord {
    let id = |number| Id::new(number).unwrap();
    let record = Record {
        operation,
        user: id(user),
        channel: id(channel),
        message: id(message),
    };
    record.to_bytes()
}

fn ack(user: u64, message: u64) -> RawRecord {
    record(RecordOperation::Ack, user, 10, message)
}

fn manual(user: u64, message: u64, mention_count: u32) -> RawRecord {
    record(RecordOperation::Manual { mention_count }, user, 10, message)
}

fn mention(user: u64, message: u64) -> RawRecord {
    record(RecordOperation::Mention { count: 1 }, user, 10, message)
}

fn frame(records: &[RawRecord]) -> Vec<u8> {
    let mut encoder = BatchEncoder::with_capacity(records.len());
    for record in records {
        encoder.push_raw(record);
    }
    encoder.finish()
}

async fn send(member: &Running, headers: &[(&str, &str)], frame: Vec<u8>) -> Answer {
    let headers = [&[("content-type", MEDIA_TYPE)], headers].concat();
    member
        .send(Method::POST, "/v1/batch", &headers, Some(frame))
        .await
}

fn outcomes(answer: &Answer) -> Vec<RecordOutcome> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), Some(MEDIA_TYPE));
    parse_answer(&answer.bytes).unwrap().collect()
}

async fn batch(member: &Running, records: &[RawRecord]) -> Vec<RecordOutcome> {
    outcomes(&send(member, &[], frame(records)).await)
}

async fn three() -> Vec<Running> {
    let store = Arc::new(MemoryStore::default());
    members(&["chat-0", "chat-1", "chat-2"], store).await
}

#[tokio::test]
async fn records_are_applied_in_order_and_answered_one_byte_each() {
    let member = alone().await;
    let mut unknown = ack(1, 1);
    unknown[0] = 9;
    let records = [
        mention(1, 100),
        mention(1, 100),
        mention(2, 100),
        unknown,
        ack(1, 100),
        ack(1, 99),
        manual(1, 50, 7),
        [0; 32],
        ack(2, 99),
    ];
    let expected = [
        Applied, Ignored, Applied, Bad, Applied, Ignored, Applied, Bad, Applied,
    ];
    assert_eq!(batch(&member, &records).await, expected);
    assert_eq!(member.state(1, 10).await, Some((50, 7)));
    assert_eq!(member.state(2, 10).await, Some((99, 1)));
    let again = [
        Ignored, Ignored, Ignored, Bad, Applied, Ignored, Applied, Bad, Ignored,
    ];
    assert_eq!(batch(&member, &records).await, again);
}

#[tokio::test]
async fn a_malformed_frame_is_refused_and_nothing_is_applied() {
    let member = alone().await;
    let sound = frame(&[ack(1, 1), ack(2, 1)]);
    for bytes in [&b""[..], b"RSB1", &sound[..sound.len() - 1], &[0; 48]] {
        send(&member, &[], bytes.to_vec())
            .await
            .refused(400, "malformed-body");
    }
    let json = [("content-type", "application/json")];
    let answer = member
        .send(Method::POST, "/v1/batch", &json, Some(sound.clone()))
        .await;
    answer.refused(415, "unsupported-media-type");
    member
        .get("/v1/batch")
        .await
        .refused(405, "method-not-allowed");
    assert_eq!((member.version(1).await, member.version(2).await), (0, 0));
    assert_eq!(outcomes(&send(&member, &[], sound).await), [Applied; 2]);
}

#[tokio::test]
async fn the_largest_batch_is_answered() {
    let member = alone().await;
    let mut records: Vec<RawRecord> = (1..=65_536).map(|user| ack(user, 5)).collect();
    // On a machine that is busy not every user is loaded in time; the caller is told so, and sends those again.
    while !records.is_empty() {
        let outcomes = batch(&member, &records).await;
        assert_eq!(outcomes.len(), records.len());
        let told = |outcome: &RecordOutcome| matches!(outcome, Applied | NotTaken);
        let other = outcomes.iter().find(|outcome| !told(outcome));
        assert_eq!(other, None);
        let mut outcomes = outcomes.into_iter();
        records.retain(|_| outcomes.next() == Some(NotTaken));
    }
    assert_eq!(member.state(65_536, 10).await, Some((5, 0)));
}

#[tokio::test]
async fn any_member_answers_for_the_users_of_all_with_one_request_to_each() {
    let members = three().await;
    let mut records = Vec::new();
    let mut expected = Vec::new();
    for user in 1..=200 {
        // In order, the acknowledgement clears the mention; the other way round it would stay.
        records.extend([mention(user, 100), [0; 32], ack(user, 100), ack(user, 1)]);
        expected.extend([Applied, Bad, Applied, Ignored]);
    }
    assert_eq!(batch(&members[1], &records).await, expected);
    for user in (1..=200).step_by(17) {
        assert_eq!(members[2].state(user, 10).await, Some((100, 0)));
    }
    for (index, member) in members.iter().enumerate() {
        let owned = (1..=200)
            .filter(|&user| owner_of(&members, user) == index)
            .count();
        assert_eq!(member.status().await["users"], owned);
    }
    let metrics = members[1].get("/metrics").await.text;
    assert!(metrics.contains("readstates_forwards_total 2"), "{metrics}");
}

#[tokio::test]
async fn records_for_a_member_that_is_down_are_not_taken_and_the_others_are() {
    let mut members = three().await;
    let records: Vec<RawRecord> = (1..=60).map(|user| ack(user, 5)).collect();
    let expected: Vec<RecordOutcome> = (1..=60)
        .map(|user| {
            if owner_of(&members, user) == 2 {
                NotTaken
            } else {
                Applied
            }
        })
        .collect();
    members.remove(2).server.crash().await;
    assert_eq!(batch(&members[0], &records).await, expected);
}

#[tokio::test]
async fn a_batch_of_somebody_who_chose_the_owner_is_never_passed_on() {
    let members = three().await;
    let users: Vec<u64> = (1..=30).collect();
    let records: Vec<RawRecord> = users.iter().map(|&user| ack(user, 5)).collect();
    let direct = [("x-readstates-direct", "1")];
    send(&members[0], &direct, frame(&records))
        .await
        .refused(421, "not-the-owner");
    assert_eq!(members[0].status().await["users"], 0);
    let mine: Vec<RawRecord> = users
        .iter()
        .filter(|&&user| owner_of(&members, user) == 0)
        .map(|&user| ack(user, 5))
        .collect();
    let answer = send(&members[0], &direct, frame(&mine)).await;
    assert_eq!(outcomes(&answer), vec![Applied; mine.len()]);

    let forwarded = [("x-readstates-forwarded", "chat-2")];
    let media_type = ("content-type", "application/vnd.readstates.batch");
    let answer = members[1]
        .forwarded(
            reqwest::Method::POST,
            "/v1/batch",
            &[forwarded[0], media_type],
            Some(frame(&records)),
        )
        .await;
    let expected: Vec<RecordOutcome> = users
        .iter()
        .map(|&user| {
            if owner_of(&members, user) == 1 {
                Applied
            } else {
                NotTaken
            }
        })
        .collect();
    assert_eq!(outcomes(&answer), expected);
}

#[tokio::test]
async fn while_the_database_is_away_only_users_in_memory_are_taken() {
    let store = FaultyStore::new();
    let member = on(store.clone(), config(NEVER)).await;
    assert_eq!(batch(&member, &[ack(1, 1)]).await, [Applied]);
    store.set(Mood::Away);
    let records = [ack(1, 2), ack(2, 2), ack(1, 3)];
    assert_eq!(batch(&member, &records).await, [Applied, NotTaken, Applied]);
    store.set(Mood::Healthy);
    assert_eq!(batch(&member, &records).await, [Ignored, Applied, Ignored]);
}
