//! Engines and ownership alone, on one thread, over a network that is a map and a clock that only moves
//! when everybody waits: the production timing, and minutes in milliseconds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use readstates::{
    block::{Operation, Outcome, Visit},
    cache::{Process, Touch},
    clock::UnixClock,
    engine::Engine,
    metrics::Metrics,
    ownership::{
        Destination, LeaseClock, Ownership, OwnershipConfig, PeerError, Peers, Timing, Way,
        store::{MemoryRing, RingStore},
    },
    store::{MemoryStore, Store},
};
use readstates_api::ProblemType;
use readstates_ring::{
    Incarnation, Slot,
    moves::{Live, next_batch},
    planner::Candidate,
};
use tokio::time::{Instant, sleep};

/// The network: who can be reached, and how long a message takes.
#[derive(Debug, Default)]
struct Network {
    members: Mutex<HashMap<Incarnation, Weak<Ownership>>>,
    /// Loses the answers to last parts.
    loses_confirmations: AtomicBool,
}

impl Network {
    fn add(&self, member: Incarnation, ownership: &Arc<Ownership>) {
        let mut members = self.members.lock().unwrap();
        members.insert(member, Arc::downgrade(ownership));
    }
}

/// What the last part of a transfer begins with.
const LAST_PART: u8 = 3;

#[derive(Debug)]
struct Wire(Arc<Network>);

impl Peers for Wire {
    fn send(
        &self,
        to: &Destination,
        message: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, PeerError>> {
        let member = self
            .0
            .members
            .lock()
            .unwrap()
            .get(&to.member.incarnation())
            .cloned();
        let name = to.name().to_owned();
        let loses = self.0.loses_confirmations.load(Ordering::SeqCst);
        let lost = loses && message[0] == LAST_PART;
        async move {
            sleep(Duration::from_millis(1)).await;
            let member = member.and_then(|member| member.upgrade());
            let member = member.ok_or_else(|| PeerError::new(&name, "nobody answers"))?;
            let answer = member.receive(&message).await;
            sleep(Duration::from_millis(1)).await;
            if lost {
                return Err(PeerError::new(&name, "the answer was lost"));
            }
            answer.map_err(|why| PeerError::new(&name, why.to_string()))
        }
        .boxed()
    }
}

struct World {
    network: Arc<Network>,
    store: Arc<dyn Store>,
    ring: Arc<dyn RingStore>,
    next: u64,
}

struct Member {
    engine: Arc<Engine>,
    ownership: Arc<Ownership>,
}

/// What one member says to an acknowledgement.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Done(Outcome, u64),
    AskAnother(Incarnation),
    Later(ProblemType),
    Unknown,
}

impl World {
    fn new() -> Self {
        Self {
            network: Arc::default(),
            store: Arc::new(MemoryStore::default()),
            ring: Arc::new(MemoryRing::default()),
            next: 1,
        }
    }

    async fn member(&mut self) -> Member {
        let incarnation = self.next;
        self.next += 1;
        let process = Process {
            incarnation,
            started_micros: 1 << 50,
        };
        let store = Arc::clone(&self.store);
        let interval = Duration::from_secs(30);
        let metrics = Arc::new(Metrics::new());
        // It ends with the runtime.
        let (engine, _flusher) = Engine::start(process, 100_000, interval, store, metrics);
        let config = OwnershipConfig {
            name: format!("chat-{incarnation}"),
            incarnation,
            url: format!("http://chat-{incarnation}"),
            members: Some(format!("http://chat-{incarnation}:7403")),
            zone: None,
            shared: true,
            timing: Timing::default(),
            lease_clock: LeaseClock::Runtime,
            unix_clock: UnixClock::System,
            max_per_member: 10,
        };
        let wire = Arc::new(Wire(Arc::clone(&self.network)));
        let ring = Arc::clone(&self.ring);
        let ownership = Ownership::new(config, Arc::clone(&engine), ring, wire).unwrap();
        let me = ownership.me().incarnation();
        self.network.add(me, &ownership);
        ownership.begin();
        ownership
            .wait_until_joined(Instant::now() + Duration::from_secs(9))
            .await;
        Member { engine, ownership }
    }

    /// The member dies: it works no more, and nobody reaches it.
    fn kill(&self, member: &Member) {
        let me = member.ownership.me().incarnation();
        self.network.members.lock().unwrap().remove(&me);
        member.ownership.end();
        member.engine.stop();
    }
}

impl Member {
    fn live(&self) -> Live {
        let me = self.ownership.me();
        Live {
            incarnation: me.incarnation(),
            candidate: Candidate {
                name: me.name().to_owned(),
                ordinal: None,
                zone: None,
            },
        }
    }

    fn owned(&self) -> u16 {
        self.ownership.status().owned
    }

    async fn ack(&self, user: u64, message: u64) -> Said {
        let pass = match self.ownership.way(Slot::of_user(user)).await {
            Ok(Way::Here(pass)) => pass,
            Ok(Way::There(routes, owner)) => {
                return Said::AskAnother(routes.peers()[owner].incarnation);
            }
            Err(problem) => return Said::Later(problem),
        };
        let visit = Visit::default();
        let operation = Operation::Ack {
            channel: 10,
            message,
            visit,
        };
        let seen = |block: readstates::block::BlockRef<'_>, outcomes: &[Outcome]| {
            (outcomes[0], block.version())
        };
        let done = self
            .engine
            .change(user, &[operation], Touch::Online, seen)
            .await;
        match done {
            Ok((outcome, version)) if pass.may_acknowledge() => Said::Done(outcome, version),
            Ok(_) => Said::Unknown,
            Err(_) => Said::Later(ProblemType::SlotMoving),
        }
    }
}

/// Moves slots until the members have about as many each.
async fn balance(members: &[&Member]) {
    let live: Vec<Live> = members.iter().map(|member| member.live()).collect();
    loop {
        let table = Arc::clone(members[0].ownership.routes().table());
        let Some(next) = next_batch(&table, &live, 64) else {
            return;
        };
        let find = |incarnation| {
            let is = |it: &&&Member| it.ownership.me().incarnation() == incarnation;
            members.iter().find(is).unwrap()
        };
        let to = find(next.to).ownership.me().incarnation();
        let begun = find(next.from).ownership.begin_move(to, &next.slots).await;
        begun.unwrap();
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn slots_move_between_members_that_share_nothing_but_a_simulated_network() {
    let mut world = World::new();
    let first = world.member().await;
    for user in 1..=100 {
        assert!(matches!(
            first.ack(user, 5).await,
            Said::Done(Outcome::Applied, _)
        ));
    }
    let second = world.member().await;
    balance(&[&first, &second]).await;
    assert_eq!((first.owned(), second.owned()), (512, 512));
    let mut moved = 0;
    for user in 1..=100 {
        let said = match first.ack(user, 5).await {
            Said::AskAnother(_) => {
                moved += 1;
                second.ack(user, 5).await
            }
            said => said,
        };
        assert!(
            matches!(said, Said::Done(Outcome::Ignored, _)),
            "{user}: {said:?}"
        );
    }
    assert!((30..70).contains(&moved), "{moved} of 100 users");
    assert_eq!(
        first.engine.totals().users + second.engine.totals().users,
        100
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_members_slots_are_taken_after_thirteen_seconds_and_before_twenty() {
    let mut world = World::new();
    let (first, second) = (world.member().await, world.member().await);
    let Said::Done(_, version) = first.ack(1, 5).await else {
        panic!("the first member owns everything")
    };
    world.kill(&first);
    let died = Instant::now();
    assert_eq!(first.ack(1, 6).await, Said::Unknown, "without a lease");
    while second.owned() == 0 {
        sleep(Duration::from_millis(100)).await;
    }
    let after = died.elapsed();
    assert!(after > Duration::from_secs(10), "{after:?}");
    assert!(after < Duration::from_secs(20), "{after:?}");
    assert_eq!(second.ownership.status().taken_from_the_dead, 1024);
    let Said::Done(Outcome::Applied, later) = second.ack(1, 5).await else {
        panic!("what was not written is lost")
    };
    assert!(later > version);
}

#[tokio::test(start_paused = true)]
async fn when_nobody_confirms_the_last_part_the_slots_go_on_here_under_a_new_epoch() {
    let mut world = World::new();
    let (first, second) = (world.member().await, world.member().await);
    for user in 1..=200 {
        assert!(matches!(
            first.ack(user, 5).await,
            Said::Done(Outcome::Applied, _)
        ));
    }
    let lost = &world.network.loses_confirmations;
    lost.store(true, Ordering::SeqCst);
    let before = Arc::clone(first.ownership.routes().table());
    let mine = before.owned_by(first.ownership.me().incarnation());
    let slots: Vec<_> = mine.take(64).collect();
    let to = second.ownership.me().incarnation();
    assert_eq!(first.ownership.begin_move(to, &slots).await, Ok(64));
    let mut waited = false;
    while !first.ownership.status().streaming.is_empty() || !waited {
        waited = true;
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((first.owned(), second.owned()), (1024, 0));
    let after = Arc::clone(first.ownership.routes().table());
    for &(slot, epoch) in &slots {
        assert!(after.config(slot).unwrap().epoch() > epoch, "slot {slot}");
    }
    for user in 1..=200 {
        let said = first.ack(user, 5).await;
        assert!(
            matches!(said, Said::Done(Outcome::Ignored, _)),
            "{user}: {said:?}"
        );
    }
    lost.store(false, Ordering::SeqCst);
    balance(&[&first, &second]).await;
    for user in 1..=200 {
        let said = match first.ack(user, 5).await {
            Said::AskAnother(_) => second.ack(user, 5).await,
            said => said,
        };
        assert!(
            matches!(said, Said::Done(Outcome::Ignored, _)),
            "{user}: {said:?}"
        );
    }
}
