//! The client against real members in this process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the service's own tests use all of it"
)]
#[path = "../../tests/service/common/mod.rs"]
mod common;

use std::sync::Arc;

use common::{Running, members};
use readstates::store::MemoryStore;
use readstates_api::{
    AckBulkItem, AckBulkRequest, AckRequest, Id, MentionsRequest, PinsAckRequest, Version,
    batch::{Record, RecordOperation, RecordOutcome},
};
use readstates_client::{Client, Config, Outcome, Routing};

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn read_up_to(message: u64) -> AckRequest {
    AckRequest {
        message_id: id(message),
        manual: false,
        mention_count: None,
        flags: None,
        last_viewed: None,
    }
}

async fn three() -> Vec<Running> {
    members(
        &["chat-0", "chat-1", "chat-2"],
        Arc::new(MemoryStore::default()),
    )
    .await
}

fn config(members: &[Running]) -> Config {
    Config::new(members.iter().map(|member| member.url(""))).unwrap()
}

/// How many requests members have passed on to each other.
async fn forwards(members: &[Running]) -> u64 {
    let mut sum = 0;
    for member in members {
        let metrics = member.get("/metrics").await.text;
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix("readstates_forwards_total "))
            .unwrap();
        sum += line.parse::<u64>().unwrap();
    }
    sum
}

#[tokio::test]
async fn every_operation_does_what_the_api_says() {
    let members = three().await;
    let client = Client::start(config(&members)).unwrap();
    client.ring_after(0).await;
    let (user, channel) = (id(4001), id(10));

    let mention = MentionsRequest {
        channel_id: channel,
        message_id: id(100),
        user_ids: vec![user, id(4002)],
        count: Some(2),
    };
    let done = client.mention(&mention).await;
    assert_eq!((done.applied, done.ignored, done.failed.len()), (2, 0, 0));
    assert_eq!(
        client.mention(&mention).await.ignored,
        2,
        "a replay counts nothing"
    );
    let summary = client.summary(user).await.unwrap();
    assert_eq!(
        (summary.mention_count, summary.channels_with_mentions),
        (2, 1)
    );

    let acked = client.ack(user, channel, &read_up_to(100)).await.unwrap();
    assert!(acked.applied && acked.read_state.mention_count == 0);
    assert!(
        !client
            .ack(user, channel, &read_up_to(99))
            .await
            .unwrap()
            .applied
    );
    let pins = PinsAckRequest {
        last_pin_timestamp: "2026-05-04T03:02:01.5Z".parse().unwrap(),
    };
    let pinned = client.ack_pins(user, channel, &pins).await.unwrap();
    assert!(pinned.applied && pinned.read_state.last_pin_timestamp.is_some());
    let item = |channel| AckBulkItem {
        channel_id: id(channel),
        message_id: id(7),
    };
    let bulk = AckBulkRequest {
        read_states: vec![item(10), item(11)],
    };
    let bulk = client.ack_bulk(user, &bulk).await.unwrap();
    let applied: Vec<bool> = bulk.results.iter().map(|result| result.applied).collect();
    assert_eq!(applied, [false, true]);

    let all = client.read_states(user).await.unwrap();
    assert_eq!(all.read_states.len(), 2);
    assert_eq!(
        client.read_states_unless(user, all.version).await.unwrap(),
        None
    );
    assert!(
        client
            .read_states_unless(user, Version(1))
            .await
            .unwrap()
            .is_some()
    );
    let state = client.read_state(user, id(11)).await.unwrap().unwrap();
    assert_eq!(state.last_message_id, Some(id(7)));
    assert_eq!(client.read_state(user, id(12)).await.unwrap(), None);

    let deleted = client.delete_read_state(user, id(11)).await.unwrap();
    assert!(deleted.applied && deleted.version > all.version);
    let changes = client.read_states_since(user, all.version).await.unwrap();
    assert!(changes.partial);
    assert_eq!(changes.deleted, Some(vec![id(11)]));
    client.delete_user(user).await.unwrap();
    assert!(
        client
            .read_states(user)
            .await
            .unwrap()
            .read_states
            .is_empty()
    );

    assert_eq!(forwards(&members).await, 0, "owners are asked themselves");
}

#[tokio::test]
async fn a_refusal_names_what_is_wrong() {
    let members = three().await;
    let client = Client::start(config(&members)).unwrap();
    let ack = AckRequest {
        mention_count: Some(1),
        ..read_up_to(3)
    };
    let error = client.ack(id(1), id(2), &ack).await.unwrap_err();
    assert_eq!(
        (error.outcome(), error.attempts()),
        (Outcome::NothingDone, 1)
    );
    assert!(!error.passes());
    assert!(
        error
            .to_string()
            .starts_with("failed to acknowledge a message"),
        "{error}"
    );
    assert!(
        error.cause().to_string().contains("mention_count"),
        "{}",
        error.cause()
    );
}

#[tokio::test]
async fn a_batch_goes_to_all_owners_at_once() {
    let members = three().await;
    let client = Client::start(config(&members)).unwrap();
    client.ring_after(0).await;
    let record = |user: u64| Record {
        operation: RecordOperation::Mention { count: 3 },
        user: id(user),
        channel: id(10),
        message: id(100),
    };
    let records: Vec<Record> = (1..=1000).map(record).collect();
    let outcomes = client.batch(&records).await;
    assert!(
        outcomes
            .iter()
            .all(|&outcome| outcome == RecordOutcome::Applied)
    );
    let outcomes = client.batch(&records).await;
    assert!(
        outcomes
            .iter()
            .all(|&outcome| outcome == RecordOutcome::Ignored)
    );
    assert_eq!(forwards(&members).await, 0);
    assert_eq!(members[0].state(1000, 10).await, Some((0, 3)));
}

#[tokio::test]
async fn a_client_of_the_seeds_alone_is_forwarded() {
    let members = three().await;
    let client = Client::start(config(&members).routing(Routing::Seeds)).unwrap();
    for user in 1..=30 {
        client.ack(id(user), id(2), &read_up_to(3)).await.unwrap();
    }
    assert!(client.ring().is_none());
    assert!(forwards(&members).await > 10);
}

#[tokio::test]
async fn a_ring_that_is_wrong_about_everybody_costs_a_request_each_and_no_more() {
    let members = three().await;
    let right = Client::start(config(&members)).unwrap();
    right.ring_after(0).await;
    let mut wrong: readstates_api::RingDocument =
        serde_json::from_value(members[0].get("/v1/ring").await.ok()).unwrap();
    for owner in &mut wrong.owners {
        *owner = owner.map(|owner| (owner + 1) % 3);
    }
    let client = config(&members).routing(Routing::Fixed(Box::new(wrong)));
    let client = Client::start(client).unwrap();
    for user in 1..=30 {
        client
            .ack(id(user), id(2), &read_up_to(user))
            .await
            .unwrap();
    }
    let mention = MentionsRequest {
        channel_id: id(2),
        message_id: id(100),
        user_ids: (1..=30).map(id).collect(),
        count: None,
    };
    let done = client.mention(&mention).await;
    assert_eq!((done.applied, done.failed.len()), (30, 0));
    for user in 1..=30 {
        let state = right.read_state(id(user), id(2)).await.unwrap().unwrap();
        assert_eq!(
            (state.last_message_id, state.mention_count),
            (Some(id(user)), 1)
        );
    }
}

#[tokio::test]
async fn a_translation_says_where_members_are() {
    let members = three().await;
    let first = members[0].url("");
    // The others cannot be reached from here: their users go through the seed.
    let only_first =
        move |member: &readstates_api::RingMember| (member.name == "chat-0").then(|| first.clone());
    let config = Config::new([members[0].url("")])
        .unwrap()
        .translate(only_first);
    let client = Client::start(config).unwrap();
    client.ring_after(0).await;
    for user in 1..=30 {
        client.ack(id(user), id(2), &read_up_to(3)).await.unwrap();
    }
    assert!(forwards(&members).await > 10);
    assert!(
        members[1]
            .get("/metrics")
            .await
            .text
            .contains("readstates_forwards_total 0")
    );
}
