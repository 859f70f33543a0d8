//! One process: a real engine and real ownership, and the boundary at which it can be stopped or killed.
//!
//! A stopped process hears nothing and says nothing. Whatever it was about to do at the boundary happens when it
//! goes on, or never when it is killed.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use readstates::{
    cache,
    clock::UnixClock,
    engine::Engine,
    metrics::Metrics,
    ownership::{Backing, Ended, LeaseClock, Ownership, OwnershipConfig, Timing},
};
use readstates_ring::{
    Incarnation,
    mutant::{self, Rule},
};
use tokio::{
    sync::{Mutex, Notify},
    task::JoinHandle,
    time::sleep,
};

use super::{database::SimDatabase, network::SimPeers, ring::SimRing, world::World};

/// A third of what members do: a simulated minute is enough.
pub(crate) const TIMING: Timing = Timing {
    renew_every: Duration::from_secs(1),
    held: Duration::from_millis(3_300),
    dead_after: Duration::from_millis(4_300),
    look_every: Duration::from_millis(300),
    queue_patience: Duration::from_millis(700),
    epoch_lasts: Duration::from_secs(5),
};
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_secs(2);
const CAPACITY: u64 = 100_000;
/// 2026-11-18, in microseconds: when every seed begins.
pub(crate) const UNIX_MICROS: i64 = 1_795_000_000_000_000;
/// How far the clocks of two processes may be apart when neither is wrong: an epoch or two.
const MOST_SKEW: u64 = 25_000_000;
/// How far a wrong clock is ahead or behind: from minutes to days.
const WRONG: [i64; 6] = [300, -600, 7_200, -90_000, 172_000, 400_000];

/// Whether a process lives, and whether it is stopped.
pub(crate) struct Life {
    pub(crate) incarnation: Incarnation,
    /// Tells it from all others, also from one with its incarnation.
    pub(crate) place: u64,
    dead: AtomicBool,
    /// How many events keep it stopped now.
    stopped: AtomicU32,
    /// One of the above has changed. Waiters are told in the order in which they came.
    changed: Notify,
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Life").field(&self.incarnation).finish()
    }
}

impl Life {
    /// Passes the boundary of the process: at once, when it goes on, or never.
    pub(crate) async fn boundary(&self) {
        self.when(|life| !life.is_stopped()).await;
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    async fn when(&self, so: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            if so(self) {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Ends when the process dies.
    pub(crate) async fn death(&self) {
        self.when(Self::is_dead).await;
    }

    fn ends(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    pub(crate) fn stop(&self, stopped: bool) {
        match stopped {
            true => self.stopped.fetch_add(1, Ordering::Relaxed),
            false => self.stopped.fetch_sub(1, Ordering::Relaxed),
        };
        self.changed.notify_waiters();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) > 0
    }
}

pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) life: Arc<Life>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) ownership: Arc<Ownership>,
    /// How far it is wrong, in seconds.
    pub(crate) wrong_clock: Option<i64>,
    flusher: Mutex<Option<JoinHandle<()>>>,
    leaving: AtomicBool,
    /// Set to stop it for long once it has done its work and before it answers.
    pub(crate) stops_at_work: AtomicBool,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.life.incarnation)
    }
}

impl Process {
    /// Starts a process of that name, with an empty memory and an incarnation of its own.
    pub(crate) fn start(world: &Arc<World>, ordinal: u64) -> Arc<Self> {
        let drawn = world.draw(1, u64::MAX);
        // Without R5 a name is an identity.
        let bits = match mutant::drops(Rule::R5) {
            false => drawn,
            true => 1 + ordinal,
        };
        let wrong = world.draw(0, 3 * WRONG.len() as u64) as usize;
        let wrong = WRONG
            .get(wrong)
            .copied()
            .filter(|_| world.has_wrong_clocks());
        let skew = world.draw(0, MOST_SKEW).cast_signed() + wrong.unwrap_or(0) * 1_000_000;
        let unix_clock = UnixClock::Runtime {
            at: world.began.into_std(),
            micros: UNIX_MICROS + skew,
        };
        let life = Arc::new(Life {
            incarnation: Incarnation::new(bits),
            place: world.next_place(),
            dead: AtomicBool::new(false),
            stopped: AtomicU32::new(0),
            changed: Notify::new(),
        });
        let process = cache::Process {
            incarnation: bits,
            started_micros: unix_clock.micros().unsigned_abs(),
        };
        let database = Arc::new(SimDatabase::new(world, &life));
        let metrics = Arc::new(Metrics::new());
        let (engine, flusher) = Engine::start(process, CAPACITY, FLUSH_INTERVAL, database, metrics);
        let name = format!("sim-{ordinal}");
        let config = OwnershipConfig {
            url: format!("http://{name}"),
            members: Some(format!("http://{name}:7403")),
            name: name.clone(),
            incarnation: bits,
            zone: None,
            shared: true,
            backing: match (world.backed, world.required) {
                (true, true) => Backing::Required,
                (true, false) => Backing::Available,
                (false, _) => Backing::Off,
            },
            most_held: 64 << 20,
            timing: TIMING,
            lease_clock: LeaseClock::Runtime,
            unix_clock,
            max_per_member: 1000,
        };
        // The store's clock is in the middle of those that are right.
        let store_ahead = (MOST_SKEW / 2).cast_signed() - skew;
        let ring = SimRing::new(world, &life, store_ahead);
        let peers = SimPeers::new(world, &life);
        let ownership =
            Ownership::new(config, Arc::clone(&engine), Arc::new(ring), Arc::new(peers)).unwrap();
        ownership.begin();
        let process = Arc::new(Self {
            name,
            life,
            engine,
            ownership,
            wrong_clock: wrong,
            flusher: Mutex::new(Some(flusher)),
            leaving: AtomicBool::new(false),
            stops_at_work: AtomicBool::new(false),
        });
        world.say(|| format!("{process:?} starts, its clock {} s ahead", skew / 1_000_000));
        world.add(Arc::clone(&process));
        process
    }

    /// Ends at once: nothing is written, nothing is said.
    pub(crate) async fn die(&self) {
        self.life.ends();
        self.ownership.end();
        if let Some(flusher) = self.flusher.lock().await.take() {
            flusher.abort();
        }
    }

    /// Leaves like a member that is told to stop, once; returns how it ended.
    pub(crate) async fn leave(&self, patience: Duration) -> Option<Ended> {
        if self.leaving.swap(true, Ordering::Relaxed) {
            return None;
        }
        let ended = self.ownership.stop(patience).await;
        sleep(Duration::from_millis(200)).await;
        self.engine.stop();
        self.die().await;
        Some(ended)
    }
}
