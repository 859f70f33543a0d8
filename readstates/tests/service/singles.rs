//! Requests about one user that a member forwards together with others, in frames.

mod asked;
mod between;
mod failing;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::common::{
    Answer, PATIENCE, Running, among, balance, faulty::FaultyStore, member, of_ring, owner_of,
};
use futures::future::join_all;
use readstates::{
    config::{Limits, ServeConfig},
    ownership::store::{MemoryRing, RingStore},
    store::{MemoryStore, Store},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use self::{
    asked::{Asked, ack, of_every_kind, read},
    between::{Between, Detour, FRAMES, Mood},
};

/// Two members, of which the first reaches the second through a proxy.
struct Two {
    members: Arc<[Running]>,
    between: Arc<Between>,
    /// Users of the second member.
    users: Vec<u64>,
}

impl Two {
    async fn start() -> Self {
        Self::on(Arc::new(MemoryStore::default()), Limits::DEFAULT).await
    }

    async fn on(store: Arc<dyn Store>, limits: Limits) -> Self {
        let ring: Arc<dyn RingStore> = Arc::new(MemoryRing::default());
        let between = Between::start().await;
        let config = ServeConfig {
            limits,
            ..of_ring("chat-0")
        };
        let detour = Detour::new(&ring, "chat-1", &between);
        let first = among(Arc::clone(&store), detour, config).await;
        let second = member("chat-1", store, ring).await;
        between.leads_to(second.server.members_address.unwrap());
        balance(&[&first, &second]).await;
        let members: Arc<[Running]> = [first, second].into();
        let users = (1..).filter(|&user| owner_of(&members, user) == 1);
        let users = users.take(100).collect();
        between.take_seen();
        Self {
            members,
            between,
            users,
        }
    }

    /// Sends a request to the first member.
    fn send(&self, request: Asked) -> JoinHandle<Answer> {
        let members = Arc::clone(&self.members);
        tokio::spawn(async move { request.send(&members[0]).await })
    }

    /// Sends requests of these users while frames are held, until all are under way or wait. The first two leave alone.
    async fn held(&self, requests: Vec<Asked>) -> Vec<JoinHandle<Answer>> {
        self.between.hold();
        let mut sent = Vec::new();
        for request in requests {
            sent.push(self.send(request));
            self.until_under_way(sent.len()).await;
            self.between.until_sent(sent.len().min(2)).await;
        }
        sent
    }

    /// Sends requests of one user while frames are held: the first leaves, the others wait behind it.
    async fn held_behind_the_first(&self, requests: Vec<Asked>) -> Vec<JoinHandle<Answer>> {
        self.between.hold();
        let mut sent = Vec::new();
        for request in requests {
            sent.push(self.send(request));
            self.until_under_way(sent.len()).await;
        }
        sent
    }

    async fn until_under_way(&self, many: usize) {
        let started = Instant::now();
        let line = format!("readstates_limit_in_use{{limit=\"to-chat-1\"}} {many}\n");
        loop {
            let page = self.members[0].get("/metrics").await.text;
            if page.contains(&line) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "no {line} in\n{page}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn answers(sent: Vec<JoinHandle<Answer>>) -> Vec<Answer> {
    let answers = join_all(sent).await;
    answers.into_iter().map(Result::unwrap).collect()
}

fn version_in(acked: &Value) -> u64 {
    acked["version"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_wait_for_one_owner_leave_together_and_each_has_its_own_answer() {
    let two = Two::start().await;
    let users = &two.users[..40];
    let acked = users
        .iter()
        .map(|&user| ack(user, json!({"message_id": user + 5})));
    let sent = two.held(acked.collect()).await;
    assert_eq!(two.between.take_seen().len(), 2, "two frames are under way");
    two.between.let_go();
    for (answer, user) in answers(sent).await.into_iter().zip(users) {
        let state = &answer.ok()["read_state"];
        assert_eq!(state["last_message_id"], (user + 5).to_string());
    }
    let mut frames = two.between.frames();
    assert_eq!(frames.len(), 1, "{frames:?}");
    frames[0].sort_unstable();
    assert_eq!(frames[0], users[2..]);
    let metrics = two.members[0].get("/metrics").await.text;
    assert!(
        metrics.contains("readstates_forwards_total 40\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("readstates_forward_frames_total 3\n"),
        "{metrics}"
    );
    two.until_under_way(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_in_a_frame_is_answered_as_one_of_its_own() {
    let (framed, alone) = (Two::start().await, Two::start().await);
    alone.between.set(Mood::Older);
    let of_both = |user: &&u64| owner_of(&alone.members, **user) == 1;
    let user = *framed.users.iter().find(of_both).unwrap();
    // Versions begin above the epoch of the user's slot, and the two rings may have given it out at different ones.
    let first_versions = join_all(
        [&framed, &alone].map(|two| async { version_in(&two.members[1].ack(user, 99, 1).await) }),
    )
    .await;
    let kept = |answer: &Answer, first_version: u64| {
        let relative = |text: &str| {
            (0..100).fold(text.to_owned(), |text, more| {
                text.replace(
                    &(first_version + more).to_string(),
                    &format!("first+{more}"),
                )
            })
        };
        let names = [
            "content-type",
            "etag",
            "retry-after",
            "allow",
            "vary",
            "content-encoding",
        ];
        let headers = names.map(|name| answer.header(name).map(relative));
        (answer.status, headers, relative(&answer.text))
    };
    let asked = of_every_kind(user);
    let mut statuses = Vec::new();
    for asked in &asked {
        let asked = asked.clone().with("x-request-id", "this-one");
        let answers = [&framed, &alone].map(|two| asked.clone().send(&two.members[0]));
        let [framed, alone] = join_all(answers).await.try_into().unwrap();
        let of_framed = kept(&framed, first_versions[0]);
        assert_eq!(of_framed, kept(&alone, first_versions[1]), "{asked:?}");
        assert_eq!(framed.header("x-request-id"), Some("this-one"));
        statuses.push(framed.status.as_u16());
    }
    for status in [200, 204, 400, 404, 412, 415] {
        assert!(statuses.contains(&status), "{statuses:?}");
    }
    // HEAD, what is long or may be answered at length, the deletion of a user, and what is not even forwarded.
    assert_eq!(asked.len() - framed.between.frames().len(), 5);
    assert_eq!(alone.between.frames().len(), 1, "it asks once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_one_user_are_done_in_the_order_in_which_they_came() {
    let two = Two::start().await;
    let user = two.users[0];
    let asked =
        [5, 9, 2, 7, 1, 3].map(|message| ack(user, json!({"message_id": message, "manual": true})));
    let sent = two.held_behind_the_first(asked.into()).await;
    two.between.let_go();
    let answers = answers(sent).await;
    let versions: Vec<u64> = answers
        .iter()
        .map(|answer| version_in(&answer.ok()))
        .collect();
    assert!(versions.is_sorted(), "{versions:?}");
    assert_eq!(two.members[1].state(user, 10).await, Some((3, 0)));
    assert_eq!(
        two.between.frames(),
        vec![vec![user]; 6],
        "one after the other"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_unusually_many_requests_leaves_room_for_others() {
    let two = Two::start().await;
    let user = two.users[0];
    let asked = (1..=17).map(|message| ack(user, json!({"message_id": message})));
    let sent = two.held_behind_the_first(asked.collect()).await;
    let one_more = two.send(ack(user, json!({"message_id": 18})));
    one_more.await.unwrap().ok();
    two.until_under_way(17).await;
    let seen = two.between.take_seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(
        seen[0].path == FRAMES && seen[1].path.ends_with("/ack"),
        "{seen:?}"
    );
    two.between.let_go();
    for answer in answers(sent).await {
        assert_eq!(answer.ok()["applied"], false, "the last was first");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_is_loaded_slowly_holds_up_no_other_of_the_same_frame() {
    const SLOW: Duration = Duration::from_secs(2);
    let store = FaultyStore::new();
    let two = Two::on(Arc::clone(&store) as _, Limits::DEFAULT).await;
    let (warm, cold) = (&two.users[..12], two.users[12]);
    for &user in warm {
        two.members[1].ack(user, 10, 1).await;
    }
    store.slow(SLOW, Duration::ZERO);
    let asked = warm[..2].iter().chain([&cold]).chain(&warm[2..]).copied();
    let mut sent = two.held(asked.map(read).collect()).await;
    let slow = sent.remove(2);
    two.between.take_seen();
    let started = Instant::now();
    two.between.let_go();
    for answer in answers(sent).await {
        answer.ok();
    }
    // The next frame does not wait, either.
    two.send(read(two.users[0])).await.unwrap().ok();
    assert!(started.elapsed() < SLOW && !slow.is_finished());
    slow.await.unwrap().refused(404, "no-read-state");
    assert!(started.elapsed() >= SLOW - Duration::from_millis(100));
    let frames = two.between.frames();
    assert_eq!(frames[0].len(), 11, "{frames:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_who_are_loaded_slowly_hold_up_no_later_frame() {
    const SLOW: Duration = Duration::from_secs(2);
    let store = FaultyStore::new();
    let two = Two::on(Arc::clone(&store) as _, Limits::DEFAULT).await;
    let (warm, cold) = (two.users[0], &two.users[1..5]);
    two.members[1].ack(warm, 10, 1).await;
    store.slow(SLOW, Duration::ZERO);
    let started = Instant::now();
    let mut slow = Vec::new();
    for &user in cold {
        slow.push(two.send(read(user)));
        two.between.until_sent(slow.len()).await;
    }
    two.send(read(warm)).await.unwrap().ok();
    assert!(started.elapsed() < SLOW, "it waited for other users");
    assert!(!slow.iter().any(JoinHandle::is_finished));
    for answer in answers(slow).await {
        answer.refused(404, "no-read-state");
    }
    two.until_under_way(0).await;
}

/// A frame with one request, which reads channel 10.
fn frame_of_one(user: u64) -> Vec<u8> {
    let mut frame = 1_u32.to_le_bytes().to_vec();
    frame.extend(5000_u32.to_le_bytes());
    frame.extend([1, 0, 0, 0]);
    frame.extend(user.to_le_bytes());
    frame.extend(10_u64.to_le_bytes());
    frame
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_are_taken_from_members_alone_go_no_further_and_are_read_whole_or_not_at_all() {
    let two = Two::start().await;
    let user = two.users[0];
    let kind = "application/vnd.readstates.singles-1";
    let send = async |member: &Running, kind: &str, frame: Vec<u8>| {
        let headers = [("content-type", kind)];
        member
            .forwarded(Method::POST, FRAMES, &headers, Some(frame))
            .await
    };
    let status = |answer: &Answer| u16::from_le_bytes([answer.bytes[6], answer.bytes[7]]);
    let owner = send(&two.members[1], kind, frame_of_one(user)).await;
    assert_eq!((owner.status.as_u16(), status(&owner)), (200, 404));
    let other = send(&two.members[0], kind, frame_of_one(user)).await;
    assert_eq!((other.status.as_u16(), status(&other)), (200, 503));
    assert!(other.text.contains("/problems/ring-disagreement"));
    assert!(two.between.take_seen().is_empty(), "it went further");
    let unknown = send(
        &two.members[1],
        "application/vnd.readstates.singles-9",
        Vec::new(),
    )
    .await;
    unknown.refused(415, "unsupported-media-type");
    let mut changes = frame_of_one(user);
    changes[8] = 3;
    let mut longer = changes.clone();
    longer[0] = 2;
    let unheard_of = [&changes[..8], &[99][..], &changes[9..]].concat();
    let cut = changes[..changes.len() - 1].to_vec();
    for frame in [
        Vec::new(),
        longer,
        unheard_of,
        cut,
        [changes, vec![0]].concat(),
    ] {
        let answer = send(&two.members[1], kind, frame).await;
        answer.refused(400, "malformed-body");
    }
    let url = format!("http://{}{FRAMES}", two.members[1].server.http_address);
    let client = crate::common::client()
        .post(url)
        .header("content-type", kind);
    let client = client.body(frame_of_one(user)).send().await.unwrap();
    assert_eq!(client.status(), 404, "clients have no frames");
}
