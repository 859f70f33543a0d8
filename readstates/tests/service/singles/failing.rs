//! Requests in frames when something fails: members that die or are of another release, and clients that go away.

use std::sync::Arc;

use readstates::{config::Limits, store::MemoryStore};
use serde_json::json;

use super::{
    Two, answers,
    asked::{Asked, ack, mention, read},
    between::{FRAMES, Mood},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_the_release_before_is_sent_single_requests() {
    let two = Two::start().await;
    two.between.set(Mood::Older);
    let users = &two.users[..20];
    let acked = users
        .iter()
        .map(|&user| ack(user, json!({"message_id": 5})));
    let sent = two.held(acked.collect()).await;
    two.between.let_go();
    for answer in answers(sent).await {
        assert_eq!(answer.ok()["applied"], true);
    }
    assert!(two.between.frames().len() <= 3);
    let asked = users.iter().flat_map(|&user| [read(user), mention(user)]);
    let sent = asked.map(|asked| two.send(asked)).collect();
    for answer in answers(sent).await {
        answer.ok();
    }
    let seen = two.between.take_seen();
    assert_eq!(seen.len(), 40);
    assert!(seen.iter().all(|seen| seen.path != FRAMES), "{seen:?}");
    assert_eq!(two.members[1].state(users[0], 10).await, Some((5, 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_not_left_when_its_client_stops_waiting_is_taken_back() {
    let two = Two::start().await;
    let acked = |user: &u64| ack(*user, json!({"message_id": 5}));
    let sent = two.held(two.users[..2].iter().map(acked).collect()).await;
    let (late, read_late) = (two.users[2], two.users[3]);
    let waits = |asked: Asked| asked.with("x-readstates-timeout", "200");
    let late_ack = two.send(waits(acked(&late))).await.unwrap();
    // It is known that nothing was done, unless the deadline of the whole is looked at first.
    match late_ack.status.as_u16() {
        504 => late_ack.refused(504, "outcome-unknown"),
        _ => late_ack.refused(503, "overloaded"),
    };
    let late_read = two.send(waits(read(read_late))).await.unwrap();
    late_read.refused(503, "overloaded");
    two.until_under_way(2).await;
    two.between.let_go();
    for answer in answers(sent).await {
        answer.ok();
    }
    two.send(acked(&two.users[4])).await.unwrap().ok();
    let users: Vec<u64> = two.between.frames().concat();
    assert_eq!(users, [two.users[0], two.users[1], two.users[4]]);
    assert_eq!(two.members[1].state(late, 10).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_may_be_under_way_is_refused_at_once() {
    let limits = Limits {
        max_per_member: 4,
        ..Limits::DEFAULT
    };
    let two = Two::on(Arc::new(MemoryStore::default()), limits).await;
    let acked = |user: &u64| ack(*user, json!({"message_id": 5}));
    let sent = two.held(two.users[..4].iter().map(acked).collect()).await;
    let refused = two.send(acked(&two.users[4])).await.unwrap();
    refused.refused(503, "overloaded");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let mentioned = two.send(mention(two.users[4])).await.unwrap().ok();
    assert_eq!(mentioned["failed"][0]["type"], "/problems/overloaded");
    two.between.let_go();
    for answer in answers(sent).await {
        answer.ok();
    }
    two.send(acked(&two.users[4])).await.unwrap().ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_owner_dies_within_a_frame_what_it_answered_counts_and_the_rest_says_what_is_known()
 {
    let two = Two::start().await;
    let of = |&user: &u64| match user % 2 {
        0 => ack(user, json!({"message_id": 5})),
        _ => read(user),
    };
    for &user in &two.users {
        two.members[1].ack(user, 10, 1).await;
    }
    let sent = two.held(two.users[..20].iter().map(of).collect()).await;
    two.between.set(Mood::Cuts);
    two.between.let_go();
    let answers = answers(sent).await;
    // The first two frames had one request each, and came before.
    answers[0].ok();
    answers[1].ok();
    let frame = answers[2..].iter().zip(&two.users[2..]);
    let (answered, silent): (Vec<_>, Vec<_>) = frame.partition(|(answer, _)| answer.status == 200);
    assert_eq!(answered.len(), 1, "{answered:?}");
    for (answer, &user) in silent {
        match user % 2 {
            0 => answer.refused(504, "outcome-unknown"),
            _ => answer.refused(503, "owner-unreachable"),
        };
    }
    two.between.set(Mood::Open);
    two.until_under_way(0).await;
    two.send(ack(two.users[2], json!({"message_id": 6})))
        .await
        .unwrap()
        .ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_answers_stop_or_make_no_sense_the_outcome_is_unknown_and_nothing_stays_behind() {
    for (mood, answered) in [(Mood::Halves, 1), (Mood::Garbles, 0), (Mood::Dies, 0)] {
        let two = Two::start().await;
        let users = &two.users[..12];
        let acked = |&user: &u64| ack(user, json!({"message_id": 5}));
        let sent = two.held(users[..2].iter().map(acked).collect()).await;
        let mut others = Vec::new();
        for user in &users[2..] {
            others.push(two.send(acked(user)));
            two.until_under_way(2 + others.len()).await;
        }
        two.between.set(mood);
        two.between.let_go();
        let (first, others) = (answers(sent).await, answers(others).await);
        let all = first.iter().chain(&others);
        let (known, unknown): (Vec<_>, Vec<_>) = all.partition(|answer| answer.status == 200);
        // Each of three frames: the first two had one request each.
        let whole = if mood == Mood::Halves { 2 } else { 0 };
        assert_eq!(known.len(), whole + answered, "{mood:?}");
        for answer in unknown {
            answer.refused(504, "outcome-unknown");
        }
        two.until_under_way(0).await;
        two.between.set(Mood::Open);
        for user in users {
            two.send(acked(user)).await.unwrap().ok();
            assert_eq!(two.members[1].state(*user, 10).await, Some((5, 0)));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_takes_back_what_has_not_left_and_nothing_else() {
    let two = Two::start().await;
    let acked = |user: &u64| ack(*user, json!({"message_id": 5}));
    let sent = two.held(two.users[..3].iter().map(acked).collect()).await;
    // One is under way, the other waits.
    sent[0].abort();
    sent[2].abort();
    two.until_under_way(2).await;
    let behind = two.send(ack(two.users[0], json!({"message_id": 6})));
    two.until_under_way(3).await;
    two.between.let_go();
    assert_eq!(
        behind.await.unwrap().ok()["read_state"]["last_message_id"],
        "6"
    );
    two.until_under_way(0).await;
    let frames = two.between.frames();
    assert_eq!(frames, [[two.users[0]], [two.users[1]], [two.users[0]]]);
    assert_eq!(two.members[1].state(two.users[1], 10).await, Some((5, 0)));
    assert_eq!(two.members[1].state(two.users[2], 10).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_member_that_gives_its_users_away_looks_for_the_new_owner() {
    let two = Two::start().await;
    let acked = |user: &u64| ack(*user, json!({"message_id": 5}));
    let sent = two.held(two.users[..5].iter().map(acked).collect()).await;
    let incarnation = two.members[1].server.ownership().me().incarnation();
    let drain = json!({"incarnation": incarnation.to_string()});
    let drained = two.members[1].post("/admin/v1/drain", drain).await;
    assert_eq!(drained.status, 202, "{}", drained.text);
    two.members[0]
        .until("the only owner", |status| {
            status["ownership"]["owned"] == 1024
        })
        .await;
    two.between.let_go();
    // Those that had left are sent again, since the owner before refuses them.
    for (answer, user) in answers(sent).await.iter().zip(&two.users) {
        assert_eq!(answer.ok()["applied"], true);
        assert_eq!(two.members[0].state(*user, 10).await, Some((5, 0)));
    }
    let frames = two.between.frames();
    assert_eq!(frames, [[two.users[0]], [two.users[1]]]);
}
