//! Refusals, lost answers, dropped calls, and members of an earlier release.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::join_all;
use readstates_api::{
    ProblemType,
    batch::v2::{Entry, Row},
};
use readstates_client::{Cause, Outcome};
use tokio::time::{sleep, timeout};

use crate::{
    fake::{Asked, Fake, Reply},
    id,
    rows::{entries, frames, handle, member, rows, well, with_retries},
};

const MOMENT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

/// Answers the first frame like this and the others as a member that is well.
async fn at_first(first: impl Fn(&[Entry]) -> Reply + Send + Sync + 'static) -> Fake {
    let seen = AtomicUsize::new(0);
    member(
        move |_, entries| match seen.fetch_add(1, Ordering::SeqCst) {
            0 => first(entries),
            _ => rows(entries, well),
        },
    )
    .await
}

#[tokio::test]
async fn a_dropped_call_is_not_sent_when_it_still_waited_and_holds_up_nobody() {
    let member = member(|_, entries| rows(entries, well).after(2 * MOMENT)).await;
    let states = handle(&member, LONG);
    let first = states.ack(id(1), id(2), id(1));
    let dropped = timeout(MOMENT, states.ack(id(1), id(2), id(2)));
    let last = states.ack(id(1), id(2), id(3));
    let (first, dropped, last) = tokio::join!(first, dropped, last);
    first.unwrap();
    assert!(dropped.is_err());
    last.unwrap();
    assert_eq!(frames(&member), [[1], [3]]);
}

#[tokio::test]
async fn a_call_that_is_dropped_under_way_loses_no_other() {
    let member = member(|_, entries| rows(entries, well).after(2 * MOMENT)).await;
    let states = handle(&member, LONG);
    let dropped = timeout(MOMENT, states.ack(id(1), id(2), id(1)));
    let other = states.ack(id(2), id(2), id(2));
    let (dropped, other) = tokio::join!(dropped, other);
    assert!(dropped.is_err());
    other.unwrap();
    // The next of the same user follows the answer that nobody waited for.
    states.ack(id(1), id(2), id(3)).await.unwrap();
    assert_eq!(frames(&member), [vec![1, 2], vec![3]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_ends_takes_no_operations_of_others_with_it() {
    let member = member(|_, entries| rows(entries, well).after(20 * MOMENT)).await;
    let states = handle(&member, LONG);
    let theirs = states.clone();
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for user in 1..=2 {
            let call = theirs.ack(id(user), id(2), id(1));
            let left = runtime.block_on(async { timeout(MOMENT, call).await });
            assert!(left.is_err(), "it was answered before the runtime ended");
        }
    });
    other.join().unwrap();
    for user in 1..=2 {
        let next = timeout(LONG / 2, states.ack(id(user), id(2), id(3)));
        next.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn after_a_lost_answer_all_but_manual_operations_are_sent_again() {
    for lost in [
        Reply::HangUp,
        Reply::problem(ProblemType::OutcomeUnknown),
        Reply::ok("no frame"),
    ] {
        let no_frame = matches!(lost, Reply::Answer { status: 200, .. });
        let member = at_first(move |_| lost.clone()).await;
        let states = handle(&member, LONG);
        let (acked, manual, mentioned, read) = tokio::join!(
            states.ack(id(1), id(2), id(3)),
            states.ack_manual(id(2), id(2), id(3), 0),
            states.mention(id(3), id(2), id(3), Some(2)),
            states.read_state(id(4), id(2)),
        );
        let error = manual.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert!(!error.repeats() && error.to_string().contains("acknowledge"));
        if no_frame {
            // Not an answer of the service: what it has done nobody knows.
            let error = acked.unwrap_err();
            assert!(matches!(error.cause(), Cause::Strange { .. }), "{error}");
            assert_eq!((error.outcome(), error.repeats()), (Outcome::Unknown, true));
            assert_eq!(read.unwrap_err().outcome(), Outcome::NothingDone);
            continue;
        }
        acked.unwrap();
        assert!(mentioned.unwrap() && read.unwrap().is_some());
        assert_eq!(frames(&member), [vec![3, 3, 3, 0], vec![3, 3, 0]]);
    }
}

#[tokio::test]
async fn rows_that_say_why_are_errors_that_say_why() {
    let answer = |entry: Entry| match entry.user().get() {
        1 => Row::Full,
        2 => Row::Forbidden,
        3 => Row::Bad,
        _ => well(entry),
    };
    let member = member(move |_, entries| rows(entries, answer)).await;
    let states = handle(&member, LONG);
    let calls = (1..=4).map(|user| states.ack(id(user), id(2), id(3)));
    let mut answers = join_all(calls).await;
    answers.pop().unwrap().unwrap();
    let expected = [
        ProblemType::TooManyReadStates,
        ProblemType::Forbidden,
        ProblemType::BadValue,
    ];
    for (answer, problem) in answers.into_iter().zip(expected) {
        let error = answer.unwrap_err();
        assert_eq!(error.problem(), Some(problem));
        assert_eq!(
            (error.outcome(), error.attempts()),
            (Outcome::NothingDone, 1)
        );
        assert!(!error.passes());
    }
    assert_eq!(frames(&member).len(), 1);
}

#[tokio::test]
async fn a_user_whose_operation_is_not_taken_holds_up_no_other() {
    let member = member(|_, entries| {
        rows(entries, |entry| match entry.user().get() {
            1 => Row::NotTaken,
            _ => well(entry),
        })
    })
    .await;
    let states = with_retries(&member, LONG, 100);
    let slow = tokio::spawn({
        let states = states.clone();
        async move { states.ack(id(1), id(2), id(1)).await }
    });
    sleep(MOMENT).await;
    // Its first attempts have failed, and dozens are to come.
    assert!(!slow.is_finished());
    for user in 2..=20 {
        states.ack(id(user), id(2), id(user)).await.unwrap();
    }
    assert!(!slow.is_finished());
    let error = slow.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::NothingDone);
    assert_eq!(error.problem(), Some(ProblemType::Overloaded));
    // It ended, and the next one of this user is not behind it.
    let error = states.ack(id(1), id(2), id(2)).await.unwrap_err();
    assert_eq!(error.problem(), Some(ProblemType::Overloaded));
}

/// What a member that knows version 1 alone answers.
fn of_an_earlier_release(asked: &Asked) -> Reply {
    if asked.path == "/v1/batch" {
        return Reply::problem(ProblemType::MalformedBody);
    }
    match asked.path.as_str() {
        "/v1/mentions" => Reply::ok(r#"{"applied":1,"ignored":0,"failed":[]}"#),
        path if path.ends_with("/ack") => Reply::acked(),
        _ => Reply::problem(ProblemType::NoReadState),
    }
}

#[tokio::test]
async fn a_member_of_an_earlier_release_is_sent_single_requests() {
    let member = Fake::start(of_an_earlier_release).await;
    let states = handle(&member, LONG);
    for _ in 0..3 {
        let (acked, manual, mentioned, read) = tokio::join!(
            states.ack(id(1), id(2), id(3)),
            states.ack_manual(id(2), id(2), id(3), 7),
            states.mention(id(3), id(2), id(3), None),
            states.read_state(id(4), id(2)),
        );
        assert!(acked.unwrap().applied && manual.unwrap().applied && mentioned.unwrap());
        assert_eq!(read.unwrap(), None);
    }
    assert_eq!(
        member.asked("/v1/batch").len(),
        1,
        "it is not asked each time"
    );
    assert_eq!(member.asked("/v1/users/2/read-states/2/ack").len(), 3);
}

#[tokio::test]
async fn what_an_owner_of_an_earlier_release_did_not_take_is_sent_alone() {
    let member = Fake::start(|asked: &Asked| match entries(asked) {
        Some(entries) => rows(&entries, |entry| match entry.user().get() {
            1 => Row::OwnerTooOld,
            _ => well(entry),
        }),
        None => of_an_earlier_release(asked),
    })
    .await;
    let states = handle(&member, LONG);
    for frames in 1..=2 {
        let (old, new) = tokio::join!(
            states.ack(id(1), id(2), id(3)),
            states.ack(id(2), id(2), id(3))
        );
        assert!(old.unwrap().applied && new.unwrap().applied);
        assert_eq!(member.asked("/v1/batch").len(), frames);
    }
    assert_eq!(member.asked("/v1/users/1/read-states/2/ack").len(), 2);
}

#[tokio::test]
async fn a_silent_member_ends_calls_by_their_deadline_and_the_outcome_is_open() {
    let member = member(|_, _| Reply::Silence).await;
    let states = handle(&member, 4 * MOMENT);
    let (acked, read) = tokio::join!(
        states.ack(id(1), id(2), id(3)),
        states.read_state(id(2), id(2))
    );
    let error = acked.unwrap_err();
    assert_eq!((error.outcome(), error.repeats()), (Outcome::Unknown, true));
    assert_eq!(read.unwrap_err().outcome(), Outcome::NothingDone);
}
