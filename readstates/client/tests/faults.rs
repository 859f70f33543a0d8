//! What a client does when members hang up, loop, lag, refuse or stay silent.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod fake;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fake::{Fake, Reply, ring_of, ring_reply};
use futures::future::join_all;
use readstates_api::{AckRequest, Id, ProblemType, headers};
use readstates_client::{Cause, Client, Config, Outcome, Routing};

const MILLISECOND: Duration = Duration::from_millis(1);
/// No call takes that long, however busy the machine is: a test that ends with it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// Short pauses, and a budget and a deadline that do not matter.
fn config(url: &str) -> Config {
    Config::new([url])
        .unwrap()
        .pauses(MILLISECOND, 20 * MILLISECOND)
        .retry_budget(10_000, 1.0)
        .deadline(PATIENCE)
}

/// How often [`few_retries`] has a client try again, in all.
const RETRIES: u32 = 3;

/// A call that goes on failing ends with the budget, not with the deadline.
fn few_retries(url: &str) -> Config {
    config(url).retry_budget(RETRIES, 0.0)
}

/// A client that asks this member for everything, and does not ask for a ring.
fn plain(member: &Fake) -> Client {
    Client::start(config(&member.url).routing(Routing::Seeds)).unwrap()
}

/// Does one thing for the first requests, and another for those after.
fn first(count: usize, then: Reply, after: Reply) -> impl Fn(&fake::Asked) -> Reply {
    let seen = AtomicUsize::new(0);
    move |_| {
        if seen.fetch_add(1, Ordering::SeqCst) < count {
            then.clone()
        } else {
            after.clone()
        }
    }
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_ids() {
    let member = Fake::start(first(2, Reply::HangUp, Reply::acked())).await;
    let answer = plain(&member)
        .ack(id(1), id(2), &read_up_to(3))
        .await
        .unwrap();
    assert!(answer.applied);
    let asked = member.asked("/v1/users/1/read-states/2/ack");
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|one| one.body == asked[0].body));
}

#[tokio::test]
async fn a_member_that_always_hangs_up_leaves_the_outcome_open() {
    let member = Fake::start(|_: &fake::Asked| Reply::HangUp).await;
    let client = Client::start(few_retries(&member.url).routing(Routing::Seeds)).unwrap();
    let error = client.ack(id(1), id(2), &read_up_to(3)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(error.attempts() == 1 + RETRIES && error.passes(), "{error}");
    assert!(matches!(error.cause(), Cause::NoAnswer { .. }), "{error:?}");
    let error = client.read_states(id(1)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NothingDone, "a read does nothing");
}

#[tokio::test]
async fn a_member_is_told_for_how_long_it_is_waited_for() {
    let member = Fake::start(first(2, Reply::HangUp, Reply::acked())).await;
    // An attempt may take longer than the call: what is told is what the call has left.
    let config = config(&member.url)
        .routing(Routing::Seeds)
        .attempt_timeout(2 * PATIENCE);
    let client = Client::start(config).unwrap();
    client.ack(id(1), id(2), &read_up_to(3)).await.unwrap();
    let asked = member.asked("/v1/users/1/read-states/2/ack");
    let told: Vec<u64> = asked
        .iter()
        .map(|one| one.headers["x-readstates-timeout"].parse().unwrap())
        .collect();
    assert_eq!(told.len(), 3);
    let most = PATIENCE.as_millis() as u64;
    assert!(told[0] <= most && told[2] < told[0], "{told:?}");
}

#[tokio::test]
async fn nobody_there_means_that_nothing_was_done() {
    let gone = Fake::start(|_: &fake::Asked| Reply::HangUp).await;
    let config = few_retries(&gone.url).routing(Routing::Seeds);
    drop(gone);
    let client = Client::start(config).unwrap();
    // The socket is closed once its task has been dropped.
    tokio::task::yield_now().await;
    let error = client.ack(id(1), id(2), &read_up_to(3)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NothingDone, "{error:?}");
}

#[tokio::test]
async fn one_attempt_that_may_have_been_applied_keeps_the_outcome_open() {
    // A pause that ends after the deadline: the second attempt is the last.
    let refusal = Reply::problem(ProblemType::Overloaded).header("retry-after", "3600");
    let member = Fake::start(first(1, Reply::HangUp, refusal)).await;
    let client = plain(&member);
    let error = client.ack(id(1), id(2), &read_up_to(3)).await.unwrap_err();
    assert_eq!(error.problem(), Some(ProblemType::Overloaded));
    assert_eq!(error.attempts(), 2);
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn a_slow_member_is_asked_again_and_a_silent_one_ends_with_the_deadline() {
    let slow = first(1, Reply::Silence, Reply::acked());
    let member = Fake::start(slow).await;
    let config = config(&member.url)
        .routing(Routing::Seeds)
        .attempt_timeout(50 * MILLISECOND);
    let client = Client::start(config).unwrap();
    client.ack(id(1), id(2), &read_up_to(3)).await.unwrap();

    let silent = Fake::start(|_: &fake::Asked| Reply::Silence).await;
    let began = Instant::now();
    let client = plain(&silent).within(300 * MILLISECOND);
    let error = client.ack(id(1), id(2), &read_up_to(3)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_time_that_a_member_names_is_waited_out() {
    let refusal = Reply::problem(ProblemType::UserTooBusy).header("retry-after", "1");
    let member = Fake::start(first(1, refusal, Reply::acked())).await;
    plain(&member)
        .ack(id(1), id(2), &read_up_to(3))
        .await
        .unwrap();
    let asked = member.asked("/v1/users");
    let between = asked[1].at - asked[0].at;
    assert!(
        between >= Duration::from_secs(1) && between < PATIENCE / 2,
        "{between:?}"
    );
}

#[tokio::test]
async fn what_would_be_refused_again_is_sent_once() {
    for problem in [ProblemType::BadValue, ProblemType::TooManyReadStates] {
        let member = Fake::start(move |_: &fake::Asked| Reply::problem(problem)).await;
        let error = plain(&member)
            .ack(id(1), id(2), &read_up_to(3))
            .await
            .unwrap_err();
        assert_eq!(error.problem(), Some(problem));
        assert!(!error.passes());
        assert_eq!(
            (error.outcome(), error.attempts()),
            (Outcome::NothingDone, 1)
        );
        assert_eq!(member.asked("/v1/users").len(), 1);
    }
}

#[tokio::test]
async fn retries_of_a_service_in_trouble_stay_within_the_budget() {
    let member = Fake::start(|_: &fake::Asked| Reply::problem(ProblemType::Overloaded)).await;
    let config = config(&member.url)
        .routing(Routing::Seeds)
        .retry_budget(10, 0.2);
    let client = Client::start(config).unwrap();
    let calls = (1..=200).map(|user| {
        let client = client.clone();
        async move { client.ack(id(user), id(2), &read_up_to(3)).await }
    });
    assert!(join_all(calls).await.iter().all(Result::is_err));
    let sent = member.asked("/v1/users").len();
    assert!(sent <= 200 + 10 + 40, "{sent} requests for 200 calls");
}

#[tokio::test]
async fn requests_under_way_are_bounded() {
    let member = Fake::start(|_: &fake::Asked| Reply::acked().after(20 * MILLISECOND)).await;
    let config = config(&member.url)
        .routing(Routing::Seeds)
        .in_flight(100, 5);
    let client = Client::start(config).unwrap();
    let ack = read_up_to(3);
    let calls = (1..=40).map(|user| client.ack(id(user), id(2), &ack));
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(member.most_at_once.load(Ordering::SeqCst), 5);

    let stuck = Fake::start(|_: &fake::Asked| Reply::Silence).await;
    let config = Config::new([&stuck.url])
        .unwrap()
        .routing(Routing::Seeds)
        .in_flight(1, 1);
    let client = Client::start(config.deadline(3000 * MILLISECOND)).unwrap();
    let hasty = client.within(100 * MILLISECOND);
    let (first, second) = tokio::join!(
        client.ack(id(1), id(2), &ack),
        hasty.ack(id(2), id(2), &ack)
    );
    assert_eq!(first.unwrap_err().outcome(), Outcome::Unknown);
    let second = second.unwrap_err();
    assert!(matches!(second.cause(), Cause::Busy), "{second:?}");
    assert_eq!(
        (second.outcome(), second.attempts()),
        (Outcome::NothingDone, 0)
    );
}

#[tokio::test]
async fn owners_that_send_the_client_to_each_other_do_not_keep_it_going() {
    let urls: Arc<Mutex<Vec<String>>> = Arc::default();
    let moved = |urls: &Arc<Mutex<Vec<String>>>, other: usize| {
        let urls = Arc::clone(urls);
        move |asked: &fake::Asked| {
            let urls = urls.lock().unwrap();
            match asked.path.starts_with("/v1/ring") {
                true => ring_reply(asked, &ring_of(5, &urls[0])),
                false if asked.is_direct() => Reply::moved("other", &urls[other], 5),
                false => Reply::problem(ProblemType::RingDisagreement),
            }
        }
    };
    let members = [
        Fake::start(moved(&urls, 1)).await,
        Fake::start(moved(&urls, 0)).await,
    ];
    *urls.lock().unwrap() = members.iter().map(|member| member.url.clone()).collect();
    let client = Client::start(few_retries(&members[0].url)).unwrap();
    client.ring_after(0).await;
    let error = client.ack(id(1), id(2), &read_up_to(3)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NothingDone, "{error:?}");
    let sent = members
        .iter()
        .map(|member| member.asked("/v1/users").len())
        .sum::<usize>();
    // Each attempt: the owner by ring, the one that it names, a seed; then a pause, which the budget bounds.
    assert!(
        sent <= 3 * (1 + RETRIES as usize),
        "{sent} requests for {RETRIES} retries"
    );
}

/// Two members; the second owns everything from the moment when the number is 2.
async fn two(number: &Arc<AtomicU64>, slow_ring: bool) -> (Fake, Fake) {
    let urls: Arc<Mutex<Vec<String>>> = Arc::default();
    let handler = |me: usize| {
        let (urls, number) = (Arc::clone(&urls), Arc::clone(number));
        move |asked: &fake::Asked| {
            let urls = urls.lock().unwrap();
            let now = number.load(Ordering::SeqCst);
            let owner = usize::from(now >= 2);
            if asked.path.starts_with("/v1/ring") {
                // The first member's watch lags.
                let known = if slow_ring && me == 0 { 1 } else { now };
                return ring_reply(asked, &ring_of(known, &urls[usize::from(known >= 2)]));
            }
            let reply = if me == owner {
                Reply::acked()
            } else {
                Reply::moved("chat-1", &urls[owner], now)
            };
            let lag = if slow_ring && me == 0 { 1 } else { now };
            reply.header(headers::RING, &lag.to_string())
        }
    };
    let members = (Fake::start(handler(0)).await, Fake::start(handler(1)).await);
    *urls.lock().unwrap() = vec![members.0.url.clone(), members.1.url.clone()];
    members
}

#[tokio::test]
async fn a_stale_ring_costs_one_request_more_and_is_fetched_once() {
    let number = Arc::new(AtomicU64::new(1));
    let (old, new) = two(&number, true).await;
    let client = Client::start(config(&old.url)).unwrap();
    client.ring_after(0).await;
    number.store(2, Ordering::SeqCst);
    let ack = read_up_to(3);
    let calls = (1..=50).map(|user| client.ack(id(user), id(2), &ack));
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert!(old.asked("/v1/users").len() <= 50 && new.asked("/v1/users").len() == 50);
    // Only the new owner's answers say that there is a newer ring: it is asked for it, once.
    assert_eq!(client.ring_after(1).await.number(), 2);
    let fetched: Vec<_> = new.asked("/v1/ring");
    let plain = fetched
        .iter()
        .filter(|asked| !asked.path.contains("after"))
        .count();
    assert_eq!(
        plain,
        1,
        "{:?}",
        fetched.iter().map(|one| &one.path).collect::<Vec<_>>()
    );
    let before = old.asked("/v1/users").len();
    client.ack(id(1), id(2), &ack).await.unwrap();
    assert_eq!(old.asked("/v1/users").len(), before, "the new ring is used");
}

#[tokio::test]
async fn the_next_ring_comes_without_a_request_that_goes_wrong() {
    let number = Arc::new(AtomicU64::new(1));
    let (old, _new) = two(&number, false).await;
    let client = Client::start(config(&old.url)).unwrap();
    assert_eq!(client.ring_after(0).await.number(), 1);
    number.store(2, Ordering::SeqCst);
    assert_eq!(client.ring_after(1).await.number(), 2);
    client.ack(id(1), id(2), &read_up_to(3)).await.unwrap();
    assert!(old.asked("/v1/users").is_empty());
}

#[tokio::test]
async fn an_older_ring_is_not_taken_unless_everybody_has_it() {
    let number = Arc::new(AtomicU64::new(7));
    let number_there = Arc::clone(&number);
    // Answers by the older ring.
    let older = Arc::new(AtomicUsize::new(0));
    let older_there = Arc::clone(&older);
    let url: Arc<Mutex<String>> = Arc::default();
    let url_there = Arc::clone(&url);
    let member = Fake::start(move |asked: &fake::Asked| {
        let number = number_there.load(Ordering::SeqCst);
        if number < 7 {
            older_there.fetch_add(1, Ordering::SeqCst);
        }
        ring_reply(asked, &ring_of(number, &url_there.lock().unwrap()))
    })
    .await;
    url.lock().unwrap().clone_from(&member.url);
    let client = Client::start(config(&member.url)).unwrap();
    assert_eq!(client.ring_after(0).await.number(), 7);
    number.store(2, Ordering::SeqCst);
    let began = Instant::now();
    while client.ring().unwrap().number() != 2 {
        assert!(began.elapsed() < PATIENCE, "the cluster was made anew");
        tokio::time::sleep(10 * MILLISECOND).await;
    }
    let told = older.load(Ordering::SeqCst);
    assert!(told >= 3, "taken after {told} answers");
}

#[tokio::test]
async fn an_owner_that_is_gone_is_left_out_until_the_ring_says_who_follows() {
    let gone = Fake::start(|_: &fake::Asked| Reply::HangUp).await;
    let dead = gone.url.clone();
    drop(gone);
    let seed = Fake::start(move |asked: &fake::Asked| {
        if asked.path.starts_with("/v1/ring") {
            return ring_reply(asked, &ring_of(3, &dead));
        }
        assert!(!asked.is_direct(), "the seed is to forward");
        Reply::acked()
    })
    .await;
    let client = Client::start(config(&seed.url)).unwrap();
    client.ring_after(0).await;
    client.ack(id(1), id(2), &read_up_to(3)).await.unwrap();
    assert_eq!(seed.asked("/v1/users").len(), 1);
}
