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
use futures::{FutureExt, future::BoxFuture};
use readstates::{
    block::{Operation, Outcome, Visit},
    cache::{Process, Touch},
    clock::UnixClock,
    engine::{Engine, Rests},
    metrics::Metrics,
    ownership::{
        Backing, Destination, LeaseClock, Ownership, OwnershipConfig, PeerError, Peers, Timing,
        Way,
        store::{MemoryRing, RingStore},
    },
    store::{MemoryStore, Store},
};
use readstates_api::ProblemType;
use readstates_ring::{Incarnation, Slot, moves::Live, planner::Candidate};
use tokio::time::{Instant, sleep};

/// The network: who can be reached, and how long a message takes.
#[derive(Debug, Default)]
pub(crate) struct Network {
    members: Mutex<HashMap<Incarnation, Weak<Ownership>>>,
    /// Loses the answers to last parts.
    pub(crate) loses_confirmations: AtomicBool,
    /// Last parts are so many seconds on their way.
    pub(crate) last_parts_take: AtomicU64,
    /// The answers to offers are so many seconds on their way.
    pub(crate) offers_answered_after: AtomicU64,
    /// Those to last parts.
    pub(crate) last_parts_answered_after: AtomicU64,
    /// Loses frames to backups.
    pub(crate) loses_frames: AtomicBool,
    /// How many hints were answered.
    pub(crate) hints_answered: AtomicU64,
}

impl Network {
    fn add(&self, member: Incarnation, ownership: &Arc<Ownership>) {
        let mut members = self.members.lock().unwrap();
        members.insert(member, Arc::downgrade(ownership));
    }
}

/// What an offer, the last part of a transfer, and a hint begin with.
const OFFER: u8 = 1;
const LAST_PART: u8 = 3;
const HINT: u8 = 4;
const FRAME: u8 = 5;

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
        let loses_frames = self.0.loses_frames.load(Ordering::SeqCst);
        let is_lost = loses_frames && message[0] == FRAME;
        let late = self.0.last_parts_take.load(Ordering::SeqCst) * u64::from(is_last);
        let (is_offer, is_hint) = (message[0] == OFFER, message[0] == HINT);
        let network = Arc::clone(&self.0);
        let back = match (is_offer, is_last) {
            (true, _) => self.0.offers_answered_after.load(Ordering::SeqCst),
            (_, true) => self.0.last_parts_answered_after.load(Ordering::SeqCst),
            (false, false) => 0,
        };
        async move {
            sleep(Duration::from_secs(late) + Duration::from_millis(1)).await;
            if is_lost {
                return Err(PeerError::new(&name, "the frame was lost"));
            }
            let member = member.and_then(|member| member.upgrade());
            let member = member.ok_or_else(|| PeerError::new(&name, "nobody answers"))?;
            let answer = member.receive(&message).await;
            if is_hint {
                network.hints_answered.fetch_add(1, Ordering::SeqCst);
            }
            sleep(Duration::from_secs(back) + Duration::from_millis(1)).await;
            if lost {
                return Err(PeerError::new(&name, "the answer was lost"));
            }
            answer.map_err(|why| PeerError::new(&name, why.to_string()))
        }
        .boxed()
    }
}

pub(crate) struct PausedWorld {
    pub(crate) network: Arc<Network>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ring: Arc<dyn RingStore>,
    /// How far the clocks of members that start from now on are ahead, in microseconds.
    pub(crate) clocks_ahead: i64,
    pub(crate) timing: Timing,
    /// Whether slots of members that start from now on have backups.
    pub(crate) backing: Backing,
    began: Instant,
    next: u64,
}

/// What clocks that are right show when a world begins.
const UNIX_MICROS: i64 = 1_795_000_000_000_000;

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

impl PausedWorld {
    pub(crate) fn new() -> Self {
        Self {
            network: Arc::default(),
            store: Arc::new(MemoryStore::default()),
            ring: Arc::new(MemoryRing::default()),
            clocks_ahead: 0,
            timing: Timing::default(),
            backing: Backing::Off,
            began: Instant::now(),
            next: 1,
        }
    }

    /// What a clock that is right shows now.
    pub(crate) fn unix_micros(&self) -> i64 {
        UNIX_MICROS + self.began.elapsed().as_micros() as i64
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
            backing: self.backing,
            most_held: 64 << 20,
            timing: self.timing,
            lease_clock: LeaseClock::Runtime,
            unix_clock: UnixClock::Runtime {
                at: self.began.into_std(),
                micros: UNIX_MICROS + self.clocks_ahead,
            },
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

    /// The member dies: it works no more, and cannot be reached.
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
        let settled = self.engine.settled(user, Rests::OnChange).await;
        match done {
            Ok((outcome, version)) if settled && pass.may_acknowledge() => {
                Said::Done(outcome, version)
            }
            Ok(_) => Said::Unknown,
            Err(_) => Said::Later(ProblemType::SlotMoving),
        }
    }
}
