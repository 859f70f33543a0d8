//! What a client sends again when the outcome is unknown, and what it does not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod fake;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use fake::{Asked, Fake, Reply};
use readstates_api::{
    AckRequest, Id, Problem, ProblemType, Version,
    batch::{self, Record, RecordOperation, RecordOutcome},
};
use readstates_client::{Client, Config, Outcome, Routing};

const MILLISECOND: Duration = Duration::from_millis(1);

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn manual(message: u64) -> AckRequest {
    AckRequest {
        message_id: id(message),
        manual: true,
        mention_count: None,
        flags: None,
        last_viewed: None,
    }
}

/// A client that asks this member for everything, with a budget and a deadline that do not matter.
fn client(member: &Fake) -> Client {
    let config = Config::new([&member.url]).unwrap();
    let config = config
        .pauses(MILLISECOND, 20 * MILLISECOND)
        .retry_budget(10_000, 1.0)
        .deadline(Duration::from_secs(60));
    Client::start(config.routing(Routing::Seeds)).unwrap()
}

/// Does the first for the first request, and the second for those after.
async fn member(first: Reply, after: Reply) -> Fake {
    let seen = AtomicUsize::new(0);
    Fake::start(move |_: &Asked| match seen.fetch_add(1, Ordering::SeqCst) {
        0 => first.clone(),
        _ => after.clone(),
    })
    .await
}

fn lost() -> [Reply; 2] {
    [Reply::HangUp, Reply::problem(ProblemType::OutcomeUnknown)]
}

fn deleted() -> Reply {
    Reply::ok(r#"{"applied":true,"version":"8"}"#)
}

#[tokio::test]
async fn a_manual_acknowledgement_and_a_deletion_are_sent_once_when_the_answer_is_lost() {
    for reply in lost() {
        let member = member(reply.clone(), Reply::acked()).await;
        let error = client(&member)
            .ack(id(1), id(2), &manual(3))
            .await
            .unwrap_err();
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1));
        assert!(
            !error.repeats() && error.to_string().contains("read what is there"),
            "{error}"
        );

        let member = self::member(reply.clone(), deleted()).await;
        let error = client(&member)
            .delete_read_state(id(1), id(2))
            .await
            .unwrap_err();
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1));

        let member = self::member(reply, deleted()).await;
        let error = client(&member).delete_user(id(1)).await.unwrap_err();
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1));
        assert_eq!(member.asked("/v1").len(), 1);
    }
}

#[tokio::test]
async fn what_was_refused_is_sent_again_in_any_case() {
    let refused = Reply::problem(ProblemType::SlotMoving);
    let member = member(refused.clone(), Reply::acked()).await;
    client(&member).ack(id(1), id(2), &manual(3)).await.unwrap();
    let member = self::member(refused, deleted()).await;
    assert!(
        client(&member)
            .delete_read_state(id(1), id(2))
            .await
            .unwrap()
            .applied
    );
}

#[tokio::test]
async fn at_one_version_all_are_sent_again_and_carry_it_each_time() {
    for reply in lost() {
        let member = member(reply.clone(), Reply::acked()).await;
        let acked = client(&member)
            .ack_if(id(1), id(2), &manual(3), Version(7))
            .await;
        assert!(acked.unwrap().applied);
        let asked = member.asked("/v1");
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|one| one.headers["if-match"] == "\"7\""));

        let member = self::member(reply.clone(), deleted()).await;
        let deletion = client(&member)
            .delete_read_state_if(id(1), id(2), Version(7))
            .await;
        assert_eq!(deletion.unwrap().version, Version(8));

        let gone = Reply::Answer {
            status: 204,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let member = self::member(reply.clone(), gone.header("etag", "\"9\"")).await;
        let deletion = client(&member)
            .delete_user_if(id(1), Version(7))
            .await
            .unwrap();
        assert!(deletion.written && deletion.version == Some(Version(9)));

        let counted = Reply::ok(r#"{"applied":1,"ignored":0,"failed":[]}"#);
        let member = self::member(reply, counted).await;
        let counted = client(&member)
            .mention_if(id(1), id(2), id(3), None, Version(7))
            .await;
        assert!(counted.unwrap());
        assert_eq!(member.asked("/v1/mentions")[1].headers["if-match"], "\"7\"");
    }
}

#[tokio::test]
async fn a_version_that_has_moved_on_is_told_and_whether_this_call_may_have_moved_it() {
    let mut problem = Problem::new(ProblemType::VersionMoved, "a test says so");
    problem.version = Some(Version(9));
    let moved = Reply::of(&problem);
    let member = member(moved.clone(), moved.clone()).await;
    let error = client(&member)
        .ack_if(id(1), id(2), &manual(3), Version(7))
        .await
        .unwrap_err();
    assert_eq!(
        (error.outcome(), error.attempts()),
        (Outcome::NothingDone, 1)
    );
    assert_eq!(error.version(), Some(Version(9)));

    let member = self::member(Reply::HangUp, moved).await;
    let error = client(&member)
        .ack_if(id(1), id(2), &manual(3), Version(7))
        .await
        .unwrap_err();
    assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 2));
    assert_eq!(error.version(), Some(Version(9)));
    assert!(error.to_string().contains("perhaps by this"), "{error}");
}

#[tokio::test]
async fn of_a_batch_whose_answer_is_lost_the_manual_records_are_not_sent_again() {
    let record = |operation, user| Record {
        operation,
        user: id(user),
        channel: id(2),
        message: id(3),
    };
    let records = [
        record(RecordOperation::Ack, 1),
        record(RecordOperation::Manual { mention_count: 1 }, 2),
        record(RecordOperation::Mention { count: 1 }, 3),
    ];
    let applied = Reply::ok(batch::encode_answer(&[RecordOutcome::Applied; 2]));
    let member = member(Reply::HangUp, applied).await;
    let outcomes = client(&member).batch(&records).await;
    use RecordOutcome::{Applied, Unknown};
    assert_eq!(outcomes, [Applied, Unknown, Applied]);
    let of = [
        RecordOutcome::Unknown,
        RecordOutcome::Unknown,
        RecordOutcome::NotTaken,
    ];
    let partly = Reply::ok(batch::encode_answer(&of));
    let applied = Reply::ok(batch::encode_answer(&[RecordOutcome::Applied; 2]));
    let member = self::member(partly, applied).await;
    let outcomes = client(&member).batch(&records).await;
    assert_eq!(outcomes, [Applied, Unknown, Applied]);
}
