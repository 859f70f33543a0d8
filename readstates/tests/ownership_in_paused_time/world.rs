//! The members, and what is between them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, ready},
    stream::BoxStream,
};
use readstates::{
    block::{Operation, Outcome, Visit},
    cache::{Process, Touch},
    clock::UnixClock,
    engine::Engine,
    metrics::Metrics,
    ownership::{
        Destination, LeaseClock, Ownership, OwnershipConfig, PeerError, Peers, Timing, Way,
        store::{MemoryRing, Presence, RingStore, RingStoreError, Swapped, Version, Versioned},
    },
    store::{MemoryStore, Store},
};
use readstates_api::ProblemType;
use readstates_ring::{Incarnation, RingTable, Slot, moves::Live, planner::Candidate};
use tokio::time::{Instant, sleep};

/// The network: who can be reached, and how long a message takes.
#[derive(Debug, Default)]
pub(crate) struct Network {
    members: Mutex<HashMap<Incarnation, Weak<Ownership>>>,
    /// Loses the answers to last parts.
    pub(crate) loses_confirmations: AtomicBool,
    /// Last parts are so many seconds on their way.
    pub(crate) last_parts_take: AtomicU64,
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
        let is_last = message[0] == LAST_PART;
        let lost = loses && is_last;
        let late = self.0.last_parts_take.load(Ordering::SeqCst) * u64::from(is_last);
        async move {
            sleep(Duration::from_secs(late) + Duration::from_millis(1)).await;
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

pub(crate) struct World {
    pub(crate) network: Arc<Network>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ring: Arc<dyn RingStore>,
    next: u64,
}

pub(crate) struct Member {
    pub(crate) engine: Arc<Engine>,
    pub(crate) ownership: Arc<Ownership>,
}

/// What one member says to an acknowledgement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Done(Outcome, u64),
    AskAnother(Incarnation),
    Later(ProblemType),
    Unknown,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            network: Arc::default(),
            store: Arc::new(MemoryStore::default()),
            ring: Arc::new(MemoryRing::default()),
            next: 1,
        }
    }

    pub(crate) async fn member(&mut self) -> Member {
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
    pub(crate) fn kill(&self, member: &Member) {
        let me = member.ownership.me().incarnation();
        self.network.members.lock().unwrap().remove(&me);
        member.ownership.end();
        member.engine.stop();
    }
}

impl Member {
    pub(crate) fn live(&self) -> Live {
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

    pub(crate) fn owned(&self) -> u16 {
        self.ownership.status().owned
    }

    pub(crate) async fn ack(&self, user: u64, message: u64) -> Said {
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

/// The ring as somebody sees it who can be cut off from it.
#[derive(Debug)]
pub(crate) struct Severable {
    pub(crate) ring: Arc<dyn RingStore>,
    pub(crate) severed: Arc<AtomicBool>,
}

impl Severable {
    fn there(&self) -> Result<&dyn RingStore, RingStoreError> {
        match self.severed.load(Ordering::SeqCst) {
            true => Err(RingStoreError::new("reach the ring", "it is away")),
            false => Ok(&*self.ring),
        }
    }
}

impl RingStore for Severable {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        async { self.there()?.get().await }.boxed()
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        async move { self.there()?.compare_and_swap(expected, next).await }.boxed()
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        let severed = Arc::clone(&self.severed);
        let comes = move |_: &Arc<RingTable>| ready(!severed.load(Ordering::SeqCst));
        self.ring.watch().filter(comes).boxed()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        async move { self.there()?.renew(presence).await }.boxed()
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        async { self.there()?.presences().await }.boxed()
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        async move { self.there()?.forget(incarnation).await }.boxed()
    }
}
