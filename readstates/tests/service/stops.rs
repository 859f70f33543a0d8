//! Members that stop, several of them at the same time: whatever each was doing for the others,
//! everything that was acknowledged is in the store, once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::common::{
    PATIENCE, Running, among_peers, balance,
    faulty::{FaultyStore, Mood},
    member, of_ring,
};
use bytes::Bytes;
use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
    stream::BoxStream,
};
use readstates::{
    ownership::{
        Destination, HttpPeers, PeerError, Peers,
        store::{MemoryRing, Presence, RingStore, RingStoreError, Swapped, Version, Versioned},
    },
    store::Store,
};
use readstates_ring::{Incarnation, RingTable};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::sleep};

/// What the last part of a transfer begins with.
const LAST_PART: u8 = 3;

/// Members reach each other over HTTP, and messages take their time.
#[derive(Debug)]
struct SlowPeers {
    http: Arc<HttpPeers>,
    /// Milliseconds before any message is sent.
    every: AtomicU64,
    /// Milliseconds before a last part is sent.
    last_part: AtomicU64,
    /// Milliseconds until the answer to a last part is heard.
    confirmation: AtomicU64,
}

impl SlowPeers {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            http: HttpPeers::new(None).unwrap(),
            every: AtomicU64::new(0),
            last_part: AtomicU64::new(0),
            confirmation: AtomicU64::new(0),
        })
    }
}

impl Peers for SlowPeers {
    fn send(
        &self,
        to: &Destination,
        message: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        let millis = |of: &AtomicU64| Duration::from_millis(of.load(Ordering::SeqCst));
        let last = message[0] == LAST_PART;
        let before = match last {
            true => millis(&self.every) + millis(&self.last_part),
            false => millis(&self.every),
        };
        let after = match last {
            true => millis(&self.confirmation),
            false => Duration::ZERO,
        };
        let sent = self.http.send(to, message);
        async move {
            sleep(before).await;
            let answer = sent.await;
            sleep(after).await;
            answer
        }
        .boxed()
    }
}

struct StopWorld {
    store: Arc<FaultyStore>,
    ring: Arc<dyn RingStore>,
    peers: Arc<SlowPeers>,
}

impl StopWorld {
    fn new() -> Self {
        Self {
            store: FaultyStore::new(),
            ring: Arc::new(MemoryRing::default()),
            peers: SlowPeers::new(),
        }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    async fn member(&self, name: &str) -> Running {
        let (ring, peers) = (Arc::clone(&self.ring), Arc::clone(&self.peers) as _);
        among_peers(self.store(), ring, peers, of_ring(name)).await
    }

    /// A member that begins when all others are over: it has what is in the store.
    async fn later(&self) -> Running {
        let later = member("chat-9", self.store(), Arc::clone(&self.ring)).await;
        let owns = |status: &Value| status["ownership"]["owned"] == 1024;
        let status = later.until("the owner of all", owns).await;
        let dead = &status["ownership"]["taken_from_the_dead"];
        assert_eq!(*dead, 0, "every member said its last word");
        later
    }
}

/// What one user's client was told.
#[derive(Debug)]
struct Told {
    user: u64,
    /// Messages 1 to this were counted, and read in another channel.
    done: u64,
    /// Whether the outcome of the next message is unknown.
    in_doubt: bool,
}

/// Counts and reads one message after the other for a user, each until it is said to be done, through
/// whichever member answers; until none does. `begun`: a permit once the first is done.
async fn load(urls: Vec<String>, user: u64, begun: Arc<Semaphore>) -> Told {
    let client = reqwest::Client::builder()
        .tls_certs_only([])
        .timeout(Duration::from_secs(5))
        .build()
        .unwrap();
    let mut turn = user as usize;
    for message in 1.. {
        let mention = json!({
            "channel_id": "20", "message_id": message.to_string(), "user_ids": [user.to_string()],
        });
        let ack = json!({"message_id": message.to_string()});
        let path = format!("/v1/users/{user}/read-states/10/ack");
        let mut sent = false;
        for (path, body) in [("/v1/mentions", mention), (&path, ack)] {
            if !until_done(&client, &urls, &mut turn, path, &body, &mut sent).await {
                return Told {
                    user,
                    done: message - 1,
                    in_doubt: sent,
                };
            }
        }
        if message == 1 {
            begun.add_permits(1);
        }
    }
    unreachable!("members stop sooner")
}

/// Returns whether it was done; `sent`, whether it may have been.
async fn until_done(
    client: &reqwest::Client,
    urls: &[String],
    turn: &mut usize,
    path: &str,
    body: &Value,
    sent: &mut bool,
) -> bool {
    let mut refused = 0;
    while refused < urls.len() {
        *turn += 1;
        let url = &urls[*turn % urls.len()];
        let answer = match client.post(format!("{url}{path}")).json(body).send().await {
            Err(error) if error.is_connect() => {
                refused += 1;
                continue;
            }
            answer => answer,
        };
        *sent = true;
        refused = 0;
        let Ok(answer) = answer else { continue };
        let ok = answer.status() == 200;
        // An answer that breaks off does not count.
        let answer: Value = answer.json().await.unwrap_or_default();
        let failed = |answer: &Value| answer["failed"].as_array().is_some_and(|it| !it.is_empty());
        if ok && answer.is_object() && !failed(&answer) {
            return true;
        }
        sleep(Duration::from_millis(5)).await;
    }
    false
}

/// Everything that was acknowledged is there, once.
async fn assert_told(member: &Running, told: &[Told]) {
    for Told {
        user,
        done,
        in_doubt,
    } in told
    {
        let most = done + u64::from(*in_doubt);
        let counted = member.state(*user, 20).await.map_or(0, |state| state.1);
        let read = member.state(*user, 10).await.map_or(0, |state| state.0);
        let exact = *done..=most;
        assert!(exact.contains(&counted), "counted {counted}: {told:?}");
        assert!(exact.contains(&read), "read up to {read}: {told:?}");
    }
}

/// Three members stop once all of their load has begun, each so many milliseconds later.
async fn all_stop(delays: [u64; 3]) {
    let world = StopWorld::new();
    let mut members = Vec::new();
    for name in ["chat-0", "chat-1", "chat-2"] {
        members.push(world.member(name).await);
    }
    balance(&members.iter().collect::<Vec<_>>()).await;
    world.store.slow(Duration::ZERO, Duration::from_millis(2));
    world.peers.every.store(4, Ordering::SeqCst);
    let urls: Vec<String> = members.iter().map(|member| member.url("")).collect();
    let begun = Arc::new(Semaphore::new(0));
    let load =
        join_all((1..=48).map(|user| tokio::spawn(load(urls.clone(), user, Arc::clone(&begun)))));
    drop(begun.acquire_many(48).await.unwrap());
    let stop = join_all(
        members
            .into_iter()
            .zip(delays)
            .map(async |(member, delay)| {
                sleep(Duration::from_millis(100 + delay)).await;
                member.stop().await
            }),
    );
    let (told, stopped) = tokio::join!(load, stop);
    let told: Vec<Told> = told.into_iter().map(Result::unwrap).collect();
    let unwritten: Vec<u64> = stopped.iter().map(|it| it.unwritten_users).collect();
    assert_eq!(unwritten, [0, 0, 0], "after {delays:?}");
    let done: u64 = told.iter().map(|told| told.done).sum();
    eprintln!("{delays:?}: {done} messages were done");
    assert_told(&world.later().await, &told).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_all_stop_at_once_lose_nothing() {
    for delays in [[0, 0, 0], [0, 1, 2], [9, 3, 0], [0, 30, 30], [20, 0, 40]] {
        all_stop(delays).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_stop_within_half_a_second_lose_nothing() {
    for _ in 0..6 {
        all_stop(rand::random::<[u64; 3]>().map(|delay| delay % 500)).await;
    }
}

/// The second one has been offered slots of the first.
async fn until_receiving(second: &Running) {
    second
        .until("about to be given slots", |status| {
            status["ownership"]["receiving"] != 0
        })
        .await;
}

async fn database_is_back(world: &StopWorld, after: Duration) {
    sleep(after).await;
    world.store.set(Mood::Healthy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_confirmed_slots_stays_until_the_ring_has_named_somebody() {
    let world = StopWorld::new();
    let (first, second) = (world.member("chat-0").await, world.member("chat-1").await);
    for user in 1..=40 {
        first.ack(user, 10, 100 + user).await;
    }
    // Otherwise the first one would have written them.
    world.store.set(Mood::Away);
    world.peers.confirmation.store(400, Ordering::SeqCst);
    let (first, second, ()) = tokio::join!(
        first.stop(),
        async {
            until_receiving(&second).await;
            // The second one has everything by now, and the first one does not know it yet.
            sleep(Duration::from_millis(200)).await;
            second.stop().await
        },
        database_is_back(&world, Duration::from_secs(1)),
    );
    assert_eq!((first.unwritten_users, second.unwritten_users), (0, 0));
    let later = world.later().await;
    for user in 1..=40 {
        assert_eq!(later.state(user, 10).await, Some((100 + user, 0)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_confirms_nothing_of_what_was_on_its_way() {
    let world = StopWorld::new();
    let (first, second) = (world.member("chat-0").await, world.member("chat-1").await);
    balance(&[&first, &second]).await;
    for user in 1..=30 {
        first.ack(user, 10, 100 + user).await;
    }
    // The second one tries to write what it has while the last part is on its way to it, and is done
    // with it before the first one can have heard of a confirmation.
    world.store.set(Mood::Away);
    world.store.slow(Duration::ZERO, Duration::from_millis(900));
    world.peers.last_part.store(400, Ordering::SeqCst);
    world.peers.confirmation.store(1500, Ordering::SeqCst);
    let (first, second, ()) = tokio::join!(
        first.stop(),
        async {
            until_receiving(&second).await;
            second.stop().await
        },
        database_is_back(&world, Duration::from_millis(2500)),
    );
    assert_eq!((first.unwritten_users, second.unwritten_users), (0, 0));
    let later = world.later().await;
    for user in 1..=30 {
        assert_eq!(later.state(user, 10).await, Some((100 + user, 0)));
    }
}

/// A ring that answers nothing while it is silent.
#[derive(Debug, Default)]
struct SilentRing {
    inner: Arc<MemoryRing>,
    silent: AtomicBool,
}

impl SilentRing {
    fn ask<'a, T: Send + 'a>(
        &'a self,
        answer: BoxFuture<'a, Result<T, RingStoreError>>,
    ) -> BoxFuture<'a, Result<T, RingStoreError>> {
        async move {
            if self.silent.load(Ordering::SeqCst) {
                sleep(Duration::from_secs(4)).await;
                return Err(RingStoreError::new("ask the ring", "no answer"));
            }
            answer.await
        }
        .boxed()
    }
}

impl RingStore for SilentRing {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        self.ask(self.inner.get())
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        self.ask(async move { self.inner.compare_and_swap(expected, next).await }.boxed())
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        self.inner.watch()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.ask(async move { self.inner.renew(presence).await }.boxed())
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        self.ask(self.inner.presences())
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.ask(async move { self.inner.forget(incarnation).await }.boxed())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dirty_is_written_from_the_start_also_when_the_ring_does_not_answer() {
    let (store, ring) = (FaultyStore::new(), Arc::new(SilentRing::default()));
    let [first, second] = ["chat-0", "chat-1"]
        .map(|name| member(name, Arc::clone(&store) as _, Arc::clone(&ring) as _));
    let (first, second) = (first.await, second.await);
    for user in 1..=200 {
        first.ack(user, 10, 100 + user).await;
    }
    assert_eq!(store.saves.load(Ordering::SeqCst), 0, "nothing was due");
    ring.silent.store(true, Ordering::SeqCst);
    let began = Instant::now();
    let written = async {
        for user in 1..=200 {
            while store.load(user).await.unwrap().is_none() {
                sleep(Duration::from_millis(10)).await;
            }
        }
        began.elapsed()
    };
    let (stopped, written) = tokio::join!(first.stop(), written);
    assert_eq!(stopped.unwritten_users, 0);
    assert!(written < PATIENCE / 3, "after {written:?} of {PATIENCE:?}");
    drop(second);
    let ring = Arc::new(MemoryRing::default());
    let later = member("chat-9", store, ring).await;
    for user in 1..=200 {
        until_no_older_than_the_database(&later, user).await;
        assert_eq!(later.state(user, 10).await, Some((100 + user, 0)));
    }
}

/// An empty ring whose slots are taken within seconds of the one before it may give them the same epochs. Its member
/// sees that in the database, refuses the user and takes the slot once more.
async fn until_no_older_than_the_database(member: &Running, user: u64) {
    let (path, began) = (format!("/v1/users/{user}/read-states"), Instant::now());
    loop {
        let answer = member.get(&path).await;
        if answer.status != 503 {
            return;
        }
        answer.refused(503, "no-owner");
        assert!(began.elapsed() < PATIENCE, "still: {}", answer.text);
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_written_everything_does_not_wait_for_a_ring_that_never_answers() {
    let (store, ring) = (FaultyStore::new(), Arc::new(SilentRing::default()));
    let [first, second] = ["chat-0", "chat-1"]
        .map(|name| member(name, Arc::clone(&store) as _, Arc::clone(&ring) as _));
    let (first, second) = (first.await, second.await);
    first.ack(1, 10, 100).await;
    ring.silent.store(true, Ordering::SeqCst);
    // A lease, and the time after which others take it for dead, are seconds here.
    let (patience, began) = (Duration::from_mins(2), Instant::now());
    let stopped = first.server.stop(patience).await;
    assert_eq!(stopped.unwritten_users, 0);
    let took = began.elapsed();
    assert!(took < patience / 3, "after {took:?} of {patience:?}");
    drop(second);
}
