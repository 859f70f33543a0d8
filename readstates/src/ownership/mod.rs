//! Which slots this member owns, and how they come and go.
//!
//! ```text
//! request ─▶ way ─▶ gate (one per slot) ─▶ engine ─▶ may it be acknowledged? ─▶ answer
//!              └──▶ routes: another member's
//!
//!    lapse: the lease; alive: who is dead; clocks: whose are wrong      ring: read, swap, adopt
//!                     │                                 │
//!                     ▼                                 ▼
//!            slots: one state machine each (readstates_ring::handoff), gates, terms of the cache
//!                     ▲                                 └── agree: what is taken is served when all have seen it
//!            send, receive: blocks of slots on their way, over peers
//! ```
//!
//! [`store`] is where all members keep the ring and see each other. A member acts by itself: it takes
//! slots that have no owner or whose owner is dead, hands its own on when it leaves, and moves some when
//! it is asked to. Everything about time and network goes through [`store::RingStore`], [`Peers`], the
//! clock of the runtime, [`LeaseClock`] and [`UnixClock`](crate::clock::UnixClock), so that a test can
//! stand in for all of these.

mod addresses;
mod agree;
mod alive;
mod backups;
mod clocks;
mod config;
mod doubt;
mod drain;
mod finish;
mod frame;
mod gate;
mod lapse;
mod lease;
mod lease_thread;
mod metrics;
mod peers;
mod receive;
mod remint;
mod replicate;
mod ring;
mod routes;
mod seed;
mod send;
mod slots;
pub mod store;
mod swap;
mod watch;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use addresses::Addresses;
pub use addresses::{Destination, NoDestination};
use arc_swap::{ArcSwap, Guard};
use clocks::{Checked, Verdict};
pub use config::{Backing, OwnershipConfig, Timing};
use doubt::Doubt;
pub use finish::Ended;
use gate::Gate;
pub use gate::Pass;
use lease::Lease;
pub use lease::LeaseClock;
use lease_thread::LeaseThread;
use metrics::{Counters, Timings};
use parking_lot::Mutex;
pub use peers::{HttpPeers, MOST_BYTES, PATH, PeerError, Peers};
use readstates_api::{
    ProblemType,
    admin::{OwnershipStatus, StreamStatus},
};
use readstates_ring::{
    Incarnation, Line, RingMember, Slot,
    record::{READS, RecordError},
};
pub use receive::NotReceived;
use ring::Known;
pub use routes::{Peer, Routes};
use slots::Slots;
use store::{Measured, Presence, RingStore};
use tokio::{
    runtime::Handle,
    sync::{Mutex as Turn, Notify, watch as channel},
    task::JoinSet,
    time::Instant,
};
use watch::Watch;

use crate::{
    engine::Engine,
    random::Random,
    replication::{Replicas, SEMANTICS, Time},
};

/// Requests that may wait for sealed slots at once.
const MOST_QUEUED: usize = 4096;

/// This member's part of the ring.
#[derive(Debug)]
pub struct Ownership {
    me: RingMember,
    config: OwnershipConfig,
    random: Random,
    engine: Arc<Engine>,
    store: Measured,
    peers: Arc<dyn Peers>,
    lease: Arc<Lease>,
    gate: Arc<Gate>,
    slots: Slots,
    routes: ArcSwap<Routes>,
    /// Which tables were taken in; locked while one is.
    known: Mutex<Known>,
    /// The store knows less than this member does: it was restored.
    behind: AtomicBool,
    /// Since when there are slots of this member without a backup.
    unprotected_since: Mutex<Option<Instant>>,
    /// Since when the store is known not to keep the backups that a ring names.
    backups_dropped: Mutex<Option<Instant>>,
    /// Which takes this member has seen and agrees with.
    seen: agree::Seen,
    /// The time, as it was compared last.
    checked: Mutex<Option<Checked>>,
    /// The number of the ring, for requests that wait for the next one.
    number: channel::Sender<u64>,
    /// The same for frames: they go on in the order in which they came, which no channel promises.
    numbered: Notify,
    /// What this process says of itself.
    presence: Mutex<Presence>,
    /// One renewal at a time.
    renewing: Turn<()>,
    /// The highest epoch that the ring was asked to give to another member.
    given: AtomicI64,
    lease_thread: LeaseThread,
    /// The last renewal has failed.
    lease_missed: AtomicBool,
    /// Told when a renewal has failed or the lease has run out.
    lease_doubted: Notify,
    watch: Mutex<Watch>,
    addresses: Addresses,
    /// For reads of the ring: the one known here may be out of date.
    outdated: Doubt,
    /// For reads of the presences: there may be a member that was not seen yet.
    unseen: Doubt,
    /// One batch of slots is sent at a time.
    moving: Arc<Turn<()>>,
    streaming: Mutex<Option<StreamStatus>>,
    joined: channel::Sender<bool>,
    draining: AtomicBool,
    /// Held while promotions are asked for.
    may_be_promoted: Turn<bool>,
    gone: AtomicBool,
    /// Slots were received, and dropped before they were served here.
    left_to_origins: AtomicBool,
    /// The background tasks, and the runtime that they run on.
    tasks: Mutex<JoinSet<()>>,
    runtime: Handle,
    /// The runtime that answers clients, once it is there.
    answering: OnceLock<Handle>,
    pub(crate) counters: Counters,
    timings: Timings,
}

/// Where a request about a slot goes.
#[derive(Debug)]
pub enum Way<'a> {
    /// It is done here.
    Here(Pass<'a>),
    /// To the member at this place of the routes.
    There(Arc<Routes>, usize),
}

impl Ownership {
    /// This member's part of a ring; [`Ownership::begin`] starts its work, on the runtime on which this
    /// is called. No slot of the engine is served until the ring says so.
    ///
    /// # Errors
    /// When the name, the URL or the zone is malformed.
    pub fn new(
        config: OwnershipConfig,
        engine: Arc<Engine>,
        store: Arc<dyn RingStore>,
        peers: Arc<dyn Peers>,
    ) -> Result<Arc<Self>, RecordError> {
        let incarnation = Incarnation::new(config.incarnation);
        let presence = Presence {
            name: config.name.clone(),
            incarnation,
            url: config.url.clone(),
            members: config.members.clone(),
            admin: None,
            zone: config.zone.clone(),
            ordinal: ordinal(&config.name),
            draining: false,
            gone: false,
            renewals: 0,
            unix_micros: None,
            line: Some(Line::NONE),
            epoch: None,
            clock_wrong: false,
            reads: Some(READS),
            replicates: config.replicates().then_some(SEMANTICS),
        };
        let me = presence.member()?;
        let lease = Arc::new(Lease::new(config.lease_clock));
        let gate = Arc::new(Gate::new(Arc::clone(&lease), MOST_QUEUED));
        engine.cache().close_all(config.shared);
        if config.replicates() {
            let (clock, origin) = (config.lease_clock, crate::clock::now());
            let time = Time::new(move || clock.read(origin));
            let requires = config.backing == Backing::Required;
            let replicas = Replicas::new(incarnation, requires, config.most_held, time);
            engine.cache().replicate(Arc::new(replicas));
        }
        let watch = Watch::new(incarnation, config.timing.dead_after);
        let lease_thread = lease_thread(config.lease_clock);
        Ok(Arc::new(Self {
            slots: Slots::new(incarnation, Arc::clone(&engine), Arc::clone(&gate)),
            me,
            random: Random::of(config.incarnation),
            config,
            engine,
            store: Measured::new(store),
            peers,
            lease,
            gate,
            routes: ArcSwap::from_pointee(Routes::unknown()),
            known: Mutex::default(),
            behind: AtomicBool::new(false),
            unprotected_since: Mutex::default(),
            backups_dropped: Mutex::default(),
            seen: agree::Seen::default(),
            checked: Mutex::new(None),
            number: channel::Sender::new(0),
            numbered: Notify::new(),
            presence: Mutex::new(presence),
            renewing: Turn::new(()),
            given: AtomicI64::new(0),
            lease_thread,
            lease_missed: AtomicBool::new(false),
            lease_doubted: Notify::new(),
            watch: Mutex::new(watch),
            addresses: Addresses::default(),
            outdated: Doubt::default(),
            unseen: Doubt::default(),
            moving: Arc::default(),
            streaming: Mutex::new(None),
            joined: channel::Sender::new(false),
            draining: AtomicBool::new(false),
            may_be_promoted: Turn::new(true),
            gone: AtomicBool::new(false),
            left_to_origins: AtomicBool::new(false),
            tasks: Mutex::new(JoinSet::new()),
            runtime: Handle::current(),
            answering: OnceLock::new(),
            counters: Counters::default(),
            timings: Timings::default(),
        }))
    }

    /// This process, as the ring lists it.
    #[must_use]
    pub fn me(&self) -> &RingMember {
        &self.me
    }

    /// Says with every renewal from now on where this process takes its operator's requests.
    pub fn is_asked_at(&self, admin: String) {
        self.presence.lock().admin = Some(admin);
    }

    /// Who owns what, as far as is known.
    #[must_use]
    pub fn routes(&self) -> Guard<Arc<Routes>> {
        self.routes.load()
    }

    /// The number of the ring, and its changes.
    #[must_use]
    pub fn number(&self) -> channel::Receiver<u64> {
        self.number.subscribe()
    }

    /// Whether this member has seen the ring, and has taken what it should take at first.
    #[must_use]
    pub fn joined(&self) -> channel::Receiver<bool> {
        self.joined.subscribe()
    }

    /// Admits an operation on a slot, if the slot is served here now.
    #[must_use]
    pub fn enter(&self, slot: Slot) -> Option<Pass<'_>> {
        self.gate.enter(slot)
    }

    /// The member that owns a slot, when that is not this one.
    #[must_use]
    pub fn other(&self, routes: &Routes, slot: Slot) -> Option<usize> {
        let owner = routes.owner(slot)?;
        (routes.peers()[owner].incarnation != self.me.incarnation()).then_some(owner)
    }

    /// Where a request about a slot goes. While the slot is sealed, or has no owner, the request waits.
    ///
    /// # Errors
    /// When it has waited for too long, or too many wait: the type of the refusal.
    pub async fn way(&self, slot: Slot) -> Result<Way<'_>, ProblemType> {
        if let Some(way) = self.way_now(slot) {
            return Ok(way);
        }
        self.wait(slot, Instant::now() + self.config.timing.queue_patience)
            .await
    }

    fn way_now(&self, slot: Slot) -> Option<Way<'_>> {
        if let Some(pass) = self.gate.enter(slot) {
            return Some(Way::Here(pass));
        }
        let routes = self.routes.load_full();
        let owner = self.other(&routes, slot)?;
        Some(Way::There(routes, owner))
    }

    /// As [`Ownership::way`], for a request that has to wait.
    async fn wait(&self, slot: Slot, deadline: Instant) -> Result<Way<'_>, ProblemType> {
        let Some(_place) = self.gate.queue() else {
            return Err(ProblemType::SlotMoving);
        };
        loop {
            let decided =
                || self.gate.is_open(slot) || self.other(&self.routes.load(), slot).is_some();
            let in_time = self.gate.wait(slot, deadline, decided).await;
            if let Some(way) = self.way_now(slot) {
                return Ok(way);
            }
            if !in_time {
                self.counters
                    .gave_up_waiting
                    .fetch_add(1, Ordering::Relaxed);
                let mine = self.routes.load().owner(slot).is_some() && self.lease.is_valid();
                return Err(if mine {
                    ProblemType::SlotMoving
                } else {
                    ProblemType::NoOwner
                });
            }
        }
    }

    /// Waits until it is decided where requests about these slots go, or it is too late.
    pub async fn decided(&self, slots: impl IntoIterator<Item = Slot>) {
        let deadline = Instant::now() + self.config.timing.queue_patience;
        for slot in slots {
            // A pass is given back at once: the caller asks for all slots together.
            drop(self.wait(slot, deadline).await);
        }
    }

    /// How this member stands.
    #[must_use]
    pub fn status(&self) -> OwnershipStatus {
        let (counts, taken_from_the_dead) = {
            // Not in the middle of a table: slots are this member's first and are counted as taken after that.
            let _known = self.known.lock();
            let taken = &self.counters.taken_from_the_dead;
            (self.slots.counts(), taken.load(Ordering::Relaxed))
        };
        let regressed = self.engine.cache().regressed();
        OwnershipStatus {
            owned: counts.owned,
            sealed: counts.sealed,
            receiving: counts.receiving,
            streaming: self.streaming.lock().iter().cloned().collect(),
            draining: self.draining.load(Ordering::Relaxed),
            gone: self.gone.load(Ordering::Relaxed),
            lease_valid: self.lease.is_valid(),
            queued: self.gate.queue.used() as u64,
            taken_from_the_dead,
            slots_of_regressed: regressed.into_iter().map(Slot::number).collect(),
            clock_ahead_seconds: match self.clock_verdict() {
                Verdict::Wrong { ahead } => Some(ahead / 1_000_000),
                Verdict::Right | Verdict::Unheard => None,
            },
            replication: self.replication(),
        }
    }

    /// Clients are answered on this runtime; to be called before [`Ownership::begin`].
    pub(crate) fn answers_on(&self, runtime: Handle) {
        // A member has one of them.
        let _ = self.answering.set(runtime);
    }

    /// Runs a background task until [`Ownership::end`].
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(work, &self.runtime);
    }

    /// The same with work that answers wait for: it has the threads that answer, and not those with a lower priority.
    fn spawn_for_answers(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(work, self.answering.get().unwrap_or(&self.runtime));
    }

    fn spawn_on(&self, work: impl Future<Output = ()> + Send + 'static, runtime: &Handle) {
        let mut tasks = self.tasks.lock();
        // Those that have ended are not kept.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(work, runtime);
    }

    /// Stops all background tasks, at once.
    pub fn end(&self) {
        self.lease.give_up();
        self.tasks.lock().abort_all();
    }
}

/// A thread for the lease, where it goes by the machine's clock.
fn lease_thread(clock: LeaseClock) -> LeaseThread {
    match clock {
        LeaseClock::Runtime => LeaseThread::none(),
        LeaseClock::Boottime => LeaseThread::start().unwrap_or_else(|error| {
            tracing::error!(
                "failed to start a thread for the lease; it is renewed among the other background work: {error}"
            );
            LeaseThread::none()
        }),
    }
}

/// The number at the end of a name such as `chat-2`.
fn ordinal(name: &str) -> Option<u16> {
    name.rsplit_once('-')?.1.parse().ok()
}
