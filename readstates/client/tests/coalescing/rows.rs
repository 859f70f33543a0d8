//! A member that takes frames, as far as these tests need one: it answers each record by a function.

use std::{sync::Arc, time::Duration};

use readstates_api::{
    Version,
    batch::v2::{self, Entry, Row, StateNumbers},
};
use readstates_client::{Client, Coalescing, Config, Routing};

use crate::{
    fake::{Asked, Fake, Reply},
    id,
};

pub(crate) fn state(message: u64) -> StateNumbers {
    StateNumbers {
        last_message_id: Some(id(message)),
        mention_count: 0,
        flags: 0,
        last_viewed: 0,
        last_pin_timestamp: None,
        version: Version(1),
    }
}

/// What a member that is well answers: every change is applied, and every state is there.
pub(crate) fn well(entry: Entry) -> Row {
    let version = Version(1);
    match entry {
        Entry::Change(record) => Row::Applied {
            version,
            state: state(record.message.get()),
        },
        Entry::Read { .. } => Row::Found {
            version,
            state: state(1),
        },
    }
}

/// The records of a request, if it is a frame of version 2.
pub(crate) fn entries(asked: &Asked) -> Option<Vec<Entry>> {
    let request = v2::Request::parse(&asked.body).ok()?;
    request.records().map(Result::ok).collect()
}

pub(crate) fn rows(entries: &[Entry], row: impl Fn(Entry) -> Row) -> Reply {
    let rows: Vec<Row> = entries.iter().map(|&entry| row(entry)).collect();
    Reply::ok(v2::encode_answer(&rows))
}

/// A member that answers frames in this way.
pub(crate) async fn member(
    answer: impl Fn(&Asked, &[Entry]) -> Reply + Send + Sync + 'static,
) -> Fake {
    Fake::start(move |asked: &Asked| answer(asked, &entries(asked).unwrap())).await
}

/// A handle that asks this member for everything, with a budget that does not matter.
pub(crate) fn handle(member: &Fake, deadline: Duration) -> Coalescing {
    with_retries(member, deadline, 10_000)
}

/// The same with so few retries that what goes on failing ends with them, long before the deadline.
pub(crate) fn with_retries(member: &Fake, deadline: Duration, retries: u32) -> Coalescing {
    let config = Config::new([&member.url]).unwrap();
    let config = config
        .pauses(Duration::from_millis(1), Duration::from_millis(20))
        .retry_budget(retries, 0.0)
        .deadline(deadline);
    let client = Client::start(config.routing(Routing::Seeds)).unwrap();
    client.coalescing()
}

/// The messages of the acknowledgements in each frame that came, in order.
pub(crate) fn frames(member: &Fake) -> Vec<Vec<u64>> {
    let message = |entry: &Entry| match entry {
        Entry::Change(record) => record.message.get(),
        Entry::Read { .. } => 0,
    };
    let asked = member.asked("/v1/batch");
    let frames = asked.iter().filter_map(entries);
    frames
        .map(|entries| entries.iter().map(message).collect())
        .collect()
}

/// Shared between a test and its member.
pub(crate) fn shared<T>(value: T) -> (Arc<T>, Arc<T>) {
    let value = Arc::new(value);
    (Arc::clone(&value), value)
}
