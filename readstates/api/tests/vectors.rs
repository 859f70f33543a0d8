//! The vectors that clients in other languages test against are what this code does. They were not written by it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use readstates_api::{
    Id,
    batch::{
        BatchEncoder, BatchRequest, Record, RecordOperation, RecordOutcome, encode_answer,
        parse_answer,
    },
};
use readstates_ring::{HASH_NAME, SLOTS, Slot};
use serde_json::Value;

fn vectors(file: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/");
    let text = std::fs::read_to_string(format!("{folder}{file}")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The items of a list, which is not empty.
fn items<'a>(document: &'a Value, list: &str) -> &'a [Value] {
    let items = document[list].as_array().unwrap();
    assert!(!items.is_empty(), "{list} is empty");
    items
}

fn text<'a>(item: &'a Value, member: &str) -> &'a str {
    item[member].as_str().unwrap()
}

fn bytes(item: &Value) -> Vec<u8> {
    let digits = text(item, "hex").as_bytes();
    let pairs = digits.chunks_exact(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

fn record(item: &Value) -> Record {
    let id = |member: &str| -> Id { text(item, member).parse().unwrap() };
    let number = |member: &str| u32::try_from(item[member].as_u64().unwrap()).unwrap();
    Record {
        operation: match text(item, "operation") {
            "ack" => RecordOperation::Ack,
            "manual" => RecordOperation::Manual {
                mention_count: number("mention_count"),
            },
            "mention" => RecordOperation::Mention {
                count: number("count"),
            },
            other => panic!("{other} is no operation"),
        },
        user: id("user_id"),
        channel: id("channel_id"),
        message: id("message_id"),
    }
}

fn outcome(name: &Value) -> RecordOutcome {
    match name.as_str().unwrap() {
        "applied" => RecordOutcome::Applied,
        "ignored" => RecordOutcome::Ignored,
        "bad" => RecordOutcome::Bad,
        "not_taken" => RecordOutcome::NotTaken,
        "unknown" => RecordOutcome::Unknown,
        other => panic!("{other} is no outcome"),
    }
}

#[test]
fn users_have_the_slots_of_the_vectors() {
    let document = vectors("slot-hash.json");
    assert_eq!(document["hash"], HASH_NAME);
    assert_eq!(document["slots"], SLOTS);
    for item in items(&document, "vectors") {
        let user: Id = text(item, "user_id").parse().unwrap();
        let slot = Slot::of_user(user.get()).number();
        assert_eq!(slot, item["slot"], "{user}");
        let hash = u64::from_str_radix(text(item, "hash"), 16).unwrap();
        assert_eq!(u64::from(slot), hash >> 54, "{user}");
    }
}

#[test]
fn records_are_the_frames_of_the_vectors() {
    for item in items(&vectors("batch-frame.json"), "requests") {
        let frame = bytes(item);
        let records: Vec<Record> = items(item, "records").iter().map(record).collect();
        let read = BatchRequest::parse(&frame).unwrap();
        let read: Result<Vec<Record>, _> = read.records().collect();
        assert_eq!(read.unwrap(), records, "{}", item["name"]);
        let mut encoder = BatchEncoder::with_capacity(records.len());
        for record in &records {
            encoder.push(record);
        }
        assert_eq!(encoder.finish(), frame, "{}", item["name"]);
    }
}

#[test]
fn what_the_vectors_call_bad_is_bad() {
    let document = vectors("batch-frame.json");
    for item in items(&document, "refused_frames") {
        assert!(
            BatchRequest::parse(&bytes(item)).is_err(),
            "{}",
            item["name"]
        );
    }
    for item in items(&document, "bad_records") {
        let frame = bytes(item);
        let mut records = BatchRequest::parse(&frame).unwrap().records();
        assert!(records.next().unwrap().is_err(), "{}", item["name"]);
    }
}

#[test]
fn answers_are_the_frames_of_the_vectors() {
    for item in items(&vectors("batch-frame.json"), "answers") {
        let outcomes: Vec<RecordOutcome> = items(item, "outcomes").iter().map(outcome).collect();
        assert_eq!(encode_answer(&outcomes), bytes(item), "{}", item["name"]);
        let frame = bytes(item);
        let read: Vec<RecordOutcome> = parse_answer(&frame).unwrap().collect();
        assert_eq!(read, outcomes, "{}", item["name"]);
    }
}
