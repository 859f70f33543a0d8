//! The vectors that clients in other languages test against are what this code does. They were not written by it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use readstates_api::{
    Id, ReadStates, Version,
    batch::{
        BatchEncoder, BatchRequest, Record, RecordOperation, RecordOutcome, encode_answer,
        parse_answer,
        v2::{self, Entry, Row, StateNumbers},
        v3::{self, Import, ImportOutcome},
    },
    rows,
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

fn entry(item: &Value) -> Entry {
    match text(item, "operation") {
        "read" => Entry::Read {
            user: text(item, "user_id").parse().unwrap(),
            channel: text(item, "channel_id").parse().unwrap(),
        },
        _ => Entry::Change(record(item)),
    }
}

fn state(item: &Value) -> StateNumbers {
    // As JSON has it, but for the channel.
    let mut state = item["read_state"].clone();
    state["channel_id"] = "1".into();
    let state: readstates_api::ReadState = serde_json::from_value(state).unwrap();
    StateNumbers {
        last_message_id: state.last_message_id,
        mention_count: state.mention_count,
        flags: state.flags,
        last_viewed: state.last_viewed,
        last_pin_timestamp: state.last_pin_timestamp,
        version: state.version,
    }
}

fn row(item: &Value) -> Row {
    let version = || Version(text(item, "version").parse().unwrap());
    match text(item, "outcome") {
        "applied" => Row::Applied {
            version: version(),
            state: state(item),
        },
        "ignored" => Row::Ignored {
            version: version(),
            state: state(item),
        },
        "bad" => Row::Bad,
        "not_taken" => Row::NotTaken,
        "unknown" => Row::Unknown,
        "found" => Row::Found {
            version: version(),
            state: state(item),
        },
        "absent" => Row::Absent { version: version() },
        "full" => Row::Full,
        "owner_too_old" => Row::OwnerTooOld,
        "forbidden" => Row::Forbidden,
        other => panic!("{other} is no outcome"),
    }
}

#[test]
fn records_of_version_2_are_the_frames_of_the_vectors() {
    let document = vectors("batch-frame-v2.json");
    for item in items(&document, "requests") {
        let frame = bytes(item);
        let entries: Vec<Entry> = items(item, "records").iter().map(entry).collect();
        let read = v2::Request::parse(&frame).unwrap();
        let read: Result<Vec<Entry>, _> = read.records().collect();
        assert_eq!(read.unwrap(), entries, "{}", item["name"]);
        let written = v2::encode_request(entries.iter().map(Entry::to_bytes));
        assert_eq!(written, frame, "{}", item["name"]);
    }
    for item in items(&document, "refused_frames") {
        let frame = bytes(item);
        assert!(v2::Request::parse(&frame).is_err(), "{}", item["name"]);
    }
    for item in items(&document, "bad_records") {
        let frame = bytes(item);
        let mut entries = v2::Request::parse(&frame).unwrap().records();
        assert!(entries.next().unwrap().is_err(), "{}", item["name"]);
    }
}

#[test]
fn answers_of_version_2_are_the_frames_of_the_vectors() {
    let document = vectors("batch-frame-v2.json");
    for item in items(&document, "answers") {
        let rows: Vec<Row> = items(item, "rows").iter().map(row).collect();
        let frame = bytes(item);
        assert_eq!(v2::encode_answer(&rows), frame, "{}", item["name"]);
        assert_eq!(v2::parse_answer(&frame).unwrap(), rows, "{}", item["name"]);
    }
    for item in items(&document, "refused_answers") {
        let refused = v2::parse_answer(&bytes(item));
        assert!(refused.is_err(), "{}", item["name"]);
    }
}

/// As JSON has it: members of the state may be null.
fn import(item: &Value) -> Import {
    let id = |member: &str| item[member].as_str().map(|id| id.parse::<Id>().unwrap());
    let number = |member: &str| u32::try_from(item[member].as_u64().unwrap()).unwrap();
    Import {
        user: id("user_id").unwrap(),
        channel: id("channel_id").unwrap(),
        last_message_id: id("last_message_id"),
        mention_count: number("mention_count"),
        counted_through: id("counted_through"),
        flags: (!item["flags"].is_null()).then(|| number("flags")),
        last_viewed: u16::try_from(number("last_viewed")).unwrap(),
        last_pin_timestamp: item["last_pin_timestamp"]
            .as_str()
            .map(|pin| pin.parse().unwrap()),
    }
}

fn import_outcome(name: &Value) -> ImportOutcome {
    match name.as_str().unwrap() {
        "applied" => ImportOutcome::Applied,
        "ignored" => ImportOutcome::Ignored,
        "bad" => ImportOutcome::Bad,
        "not_taken" => ImportOutcome::NotTaken,
        "unknown" => ImportOutcome::Unknown,
        "full" => ImportOutcome::Full,
        "owner_too_old" => ImportOutcome::OwnerTooOld,
        other => panic!("{other} is no outcome"),
    }
}

#[test]
fn records_of_version_3_are_the_frames_of_the_vectors() {
    let document = vectors("batch-frame-v3.json");
    for item in items(&document, "requests") {
        let frame = bytes(item);
        let records: Vec<Import> = items(item, "records").iter().map(import).collect();
        let read = v3::Request::parse(&frame).unwrap();
        let read: Result<Vec<Import>, _> = read.records().collect();
        assert_eq!(read.unwrap(), records, "{}", item["name"]);
        let written = v3::encode_request(records.iter().map(Import::to_bytes));
        assert_eq!(written, frame, "{}", item["name"]);
    }
    for item in items(&document, "refused_frames") {
        let frame = bytes(item);
        assert!(v3::Request::parse(&frame).is_err(), "{}", item["name"]);
    }
    for item in items(&document, "bad_records") {
        let frame = bytes(item);
        let mut records = v3::Request::parse(&frame).unwrap().records();
        assert!(records.next().unwrap().is_err(), "{}", item["name"]);
    }
}

#[test]
fn answers_of_version_3_are_the_frames_of_the_vectors() {
    let document = vectors("batch-frame-v3.json");
    for item in items(&document, "answers") {
        let outcomes = items(item, "outcomes").iter().map(import_outcome);
        let outcomes: Vec<ImportOutcome> = outcomes.collect();
        let frame = bytes(item);
        assert_eq!(v3::encode_answer(&outcomes), frame, "{}", item["name"]);
        assert_eq!(
            v3::parse_answer(&frame).unwrap(),
            outcomes,
            "{}",
            item["name"]
        );
    }
    for item in items(&document, "refused_answers") {
        let refused = v3::parse_answer(&bytes(item));
        assert!(refused.is_err(), "{}", item["name"]);
    }
}

#[test]
fn read_states_in_binary_are_those_of_the_vectors() {
    let document = vectors("rows.json");
    assert_eq!(text(&document, "media_type"), rows::MEDIA_TYPE);
    for item in items(&document, "answers") {
        let states: ReadStates = serde_json::from_value(item["body"].clone()).unwrap();
        assert_eq!(rows::encode(&states), bytes(item), "{}", item["name"]);
        assert_eq!(
            rows::parse(&bytes(item)).unwrap(),
            states,
            "{}",
            item["name"]
        );
    }
    for item in items(&document, "refused_answers") {
        assert!(rows::parse(&bytes(item)).is_err(), "{}", item["name"]);
    }
}
