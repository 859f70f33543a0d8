//! Calls for many users, against members that take parts of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod fake;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use fake::{Asked, Fake, Reply, ring, ring_reply};
use readstates_api::{
    Id, MentionsAnswer, MentionsRequest, ProblemType,
    batch::{self, BatchRequest, Record, RecordOperation, RecordOutcome},
};
use readstates_client::{Client, Config, Outcome};
use readstates_ring::Slot;

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn mention(users: impl Iterator<Item = u64>) -> MentionsRequest {
    MentionsRequest {
        channel_id: id(10),
        message_id: id(100),
        user_ids: users.map(id).collect(),
        count: None,
    }
}

/// By the ring of these tests, members own slots in turn.
fn owner(user: Id) -> usize {
    usize::from(Slot::of_user(user.get()).number() % 2)
}

/// What one request named, and how it is answered.
type Part = (Vec<u64>, bool);

/// Two members, of which each answers parts as `answer(member, users, direct)` says, and retries without end.
async fn two(
    answer: impl Fn(usize, &[u64], bool) -> Reply + Send + Sync + 'static,
) -> (Vec<Fake>, Client, Arc<Mutex<Vec<Part>>>) {
    two_with_retries(10_000, answer).await
}

/// With so few retries that a part which goes on failing ends with them, long before the deadline.
async fn two_with_retries(
    retries: u32,
    answer: impl Fn(usize, &[u64], bool) -> Reply + Send + Sync + 'static,
) -> (Vec<Fake>, Client, Arc<Mutex<Vec<Part>>>) {
    let urls: Arc<Mutex<Vec<String>>> = Arc::default();
    let parts: Arc<Mutex<Vec<Part>>> = Arc::default();
    let answer = Arc::new(answer);
    let mut members = Vec::new();
    for me in 0..2 {
        let (urls, parts, answer) = (Arc::clone(&urls), Arc::clone(&parts), Arc::clone(&answer));
        let handler = move |asked: &Asked| {
            let urls = urls.lock().unwrap();
            let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
            if asked.path.starts_with("/v1/ring") {
                return ring_reply(asked, &ring(1, &urls, |slot| slot % 2));
            }
            let users: Vec<u64> = if asked.path == "/v1/batch" {
                let frame = BatchRequest::parse(&asked.body).unwrap();
                frame
                    .records()
                    .map(|record| record.unwrap().user.get())
                    .collect()
            } else {
                let body: MentionsRequest = serde_json::from_slice(&asked.body).unwrap();
                body.user_ids.iter().map(|user| user.get()).collect()
            };
            parts
                .lock()
                .unwrap()
                .push((users.clone(), asked.is_direct()));
            answer(me, &users, asked.is_direct())
        };
        members.push(Fake::start(handler).await);
    }
    *urls.lock().unwrap() = members.iter().map(|member| member.url.clone()).collect();
    let config = Config::new([&members[0].url])
        .unwrap()
        .pauses(Duration::from_millis(1), Duration::from_millis(10))
        .retry_budget(retries, 0.0)
        .deadline(Duration::from_secs(60));
    let client = Client::start(config).unwrap();
    client.ring_after(0).await;
    (members, client, parts)
}

fn mentioned(applied: usize, failed: &[(u64, ProblemType)]) -> Reply {
    let failed = failed
        .iter()
        .map(|&(user, problem)| readstates_api::FailedUser {
            user_id: id(user),
            problem,
        });
    let answer = MentionsAnswer {
        applied: applied as u32,
        ignored: 0,
        failed: failed.collect(),
    };
    Reply::ok(serde_json::to_vec(&answer).unwrap())
}

fn outcomes(outcomes: &[RecordOutcome]) -> Reply {
    Reply::ok(batch::encode_answer(outcomes))
}

#[tokio::test]
async fn every_owner_gets_one_request_with_its_users() {
    let (_members, client, parts) = two(|_, users, _| mentioned(users.len(), &[])).await;
    // Twice the same users: each is mentioned once.
    let done = client.mention(&mention((1..=100).chain(1..=100))).await;
    assert_eq!((done.applied, done.ignored, done.failed.len()), (100, 0, 0));
    let parts = parts.lock().unwrap();
    assert_eq!(parts.len(), 2);
    for (users, direct) in parts.iter() {
        assert!(direct);
        let owners: HashSet<usize> = users.iter().map(|&user| owner(id(user))).collect();
        assert_eq!(owners.len(), 1);
    }
}

#[tokio::test]
async fn users_who_failed_are_sent_again_and_the_others_are_not() {
    let first = Mutex::new(HashSet::new());
    let (_members, client, parts) = two(move |_, users, _| {
        let mut seen = first.lock().unwrap();
        let failed: Vec<_> = users
            .iter()
            .filter(|&&user| user % 10 == 0 && seen.insert(user))
            .map(|&user| (user, ProblemType::DatabaseAway))
            .collect();
        mentioned(users.len() - failed.len(), &failed)
    })
    .await;
    let done = client.mention(&mention(1..=100)).await;
    assert_eq!((done.applied, done.failed.len()), (100, 0));
    let sent: usize = parts
        .lock()
        .unwrap()
        .iter()
        .map(|(users, _)| users.len())
        .sum();
    assert_eq!(sent, 110);
}

#[tokio::test]
async fn a_part_without_an_answer_fails_alone_and_its_outcome_is_open() {
    let (_members, client, _) = two_with_retries(3, |me, users, direct| {
        if me == 1 || !direct {
            Reply::HangUp
        } else {
            mentioned(users.len(), &[])
        }
    })
    .await;
    let done = client.mention(&mention(1..=100)).await;
    let theirs: Vec<u64> = (1..=100).filter(|&user| owner(id(user)) == 1).collect();
    assert_eq!(done.applied as usize, 100 - theirs.len());
    let mut failed: Vec<u64> = done
        .failed
        .iter()
        .map(|failed| failed.user_id.get())
        .collect();
    failed.sort_unstable();
    assert_eq!(failed, theirs);
    assert!(
        done.failed
            .iter()
            .all(|failed| failed.outcome == Outcome::Unknown)
    );
}

#[tokio::test]
async fn what_does_not_pass_is_given_up_at_once() {
    let (_members, client, parts) = two(|_, users, _| {
        let full: Vec<_> = users
            .iter()
            .map(|&user| (user, ProblemType::TooManyReadStates))
            .collect();
        mentioned(0, &full)
    })
    .await;
    let done = client.mention(&mention(1..=10)).await;
    assert_eq!(done.failed.len(), 10);
    assert!(done.failed.iter().all(|failed| {
        failed.problem == Some(ProblemType::TooManyReadStates)
            && failed.outcome == Outcome::NothingDone
    }));
    assert!(parts.lock().unwrap().len() <= 2);
}

#[tokio::test]
async fn a_part_at_the_wrong_member_goes_back_to_be_forwarded() {
    let (members, client, parts) = two(|_, users, direct| {
        if direct {
            Reply::moved("chat-9", "http://127.0.0.1:9", 2)
        } else {
            mentioned(users.len(), &[])
        }
    })
    .await;
    let done = client.mention(&mention(1..=50)).await;
    assert_eq!((done.applied, done.failed.len()), (50, 0));
    assert_eq!(parts.lock().unwrap().len(), 4);
    assert!(
        members
            .iter()
            .all(|member| member.asked("/v1/mentions").len() == 2)
    );
}

#[tokio::test]
async fn records_that_were_not_taken_are_sent_again_in_their_places() {
    let taken = Mutex::new(HashSet::new());
    let (_members, client, _) = two(move |_, users, _| {
        let mut taken = taken.lock().unwrap();
        let of = |&user: &u64| match user % 4 {
            0 => RecordOutcome::Bad,
            1 => RecordOutcome::Ignored,
            _ if !taken.insert(user) => RecordOutcome::Applied,
            2 => RecordOutcome::NotTaken,
            _ => RecordOutcome::Unknown,
        };
        outcomes(&users.iter().map(of).collect::<Vec<_>>())
    })
    .await;
    let record = |user: u64| Record {
        operation: RecordOperation::Ack,
        user: id(user),
        channel: id(10),
        message: id(100),
    };
    let records: Vec<Record> = (1..=200).map(record).collect();
    for (record, outcome) in records.iter().zip(client.batch(&records).await) {
        let expected = match record.user.get() % 4 {
            0 => RecordOutcome::Bad,
            1 => RecordOutcome::Ignored,
            _ => RecordOutcome::Applied,
        };
        assert_eq!(outcome, expected, "{record:?}");
    }
}

#[tokio::test]
async fn a_record_that_may_have_been_applied_never_becomes_one_that_was_not() {
    let first = Mutex::new(true);
    let (_members, client, _) = two_with_retries(3, move |_, users, _| {
        let mut first = first.lock().unwrap();
        let outcome = if std::mem::take(&mut *first) {
            RecordOutcome::Unknown
        } else {
            RecordOutcome::NotTaken
        };
        outcomes(&vec![outcome; users.len()])
    })
    .await;
    let record = Record {
        operation: RecordOperation::Mention { count: 1 },
        user: id(1),
        channel: id(10),
        message: id(100),
    };
    assert_eq!(client.batch(&[record]).await, [RecordOutcome::Unknown]);
    assert_eq!(client.batch(&[]).await, []);
}
