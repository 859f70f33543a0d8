//! What everything in the simulation shares: random numbers, time, the trace, and the processes.

mod books;
mod ring;
mod weather;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{DefaultHasher, Hasher},
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

pub(crate) use books::{at_once, found};
use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates::{ownership::store::MemoryRing, store::MemoryStore};
use readstates_ledger::{Book, History};
use readstates_ring::{Incarnation, RingTable, Slot};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::{late::Late, process::Process, runs::How};

/// Lines of a trace that are kept: the last ones before the end.
const KEPT_LINES: usize = 200_000;

/// Everything around the members.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    /// Slots have backups.
    pub(crate) backed: bool,
    /// Changes of a slot without one are refused.
    pub(crate) required: bool,
    pub(crate) began: Instant,
    pub(crate) ring: Arc<MemoryRing>,
    pub(crate) blocks: Arc<MemoryStore>,
    /// The ring has changed. Members are told in the order in which they began to wait; the watch of a [`MemoryRing`]
    /// itself would tell them in an order that no seed rules.
    swapped: Notify,
    /// What scenes keep on its way.
    pub(crate) late: Late,
    random: Mutex<StdRng>,
    trace: Mutex<Trace>,
    state: Mutex<State>,
}

/// What happened. The same seed leaves the same.
#[derive(Debug, Default)]
struct Trace {
    lines: Vec<String>,
    hash: DefaultHasher,
}

#[derive(Debug, Default)]
struct State {
    /// Nothing goes wrong any more.
    calm: bool,
    /// Links that carry nothing, from and to.
    broken: HashSet<(Incarnation, Incarnation)>,
    /// Processes that cannot reach the ring.
    cut_off: HashSet<Incarnation>,
    /// Processes that renew their leases and cannot read the ring.
    blind: HashSet<Incarnation>,
    /// Processes that others wait for, again and again, and for how many milliseconds.
    starved: HashMap<Incarnation, Range<u64>>,
    /// How often a slot got a backup, or another one.
    named: BTreeMap<Slot, u64>,
    /// No process can reach the ring; or it is slow.
    ring_away: bool,
    ring_slow: bool,
    /// What the ring was at some moments before.
    past: Vec<Arc<RingTable>>,
    /// It is what it was, or was deleted: it may name others than those that serve.
    ring_went_back: bool,
    database_away: bool,
    /// No client hears an answer.
    answers_lost: bool,
    /// In the order in which they started.
    processes: Vec<Arc<Process>>,
    /// How many processes have started.
    started: u64,
    /// The process that acknowledged, by slot and epoch: its place in the order in which they started.
    acknowledged: HashMap<(Slot, i64), u64>,
    /// The greatest version of a user that a client was told, and when.
    versions: HashMap<u64, (u64, Duration)>,
    /// The change that a version of a user was told for: its channel and message.
    changes: HashMap<(u64, u64), (u64, u64)>,
    wrong: Vec<String>,
    /// What was lost with members that died, or that were stopped until the others had to take them for dead: users
    /// and channels, with the times.
    losses: HashMap<(u64, u64), Duration>,
    /// When something of a user was lost so, a state or a version alone.
    lost_at: HashMap<u64, Vec<Duration>>,
    book: Book,
    history: History,
}

impl World {
    pub(crate) fn new(seed: u64, how: How) -> Arc<Self> {
        Arc::new(Self {
            seed,
            backed: how.backed,
            required: how.required,
            began: Instant::now(),
            ring: Arc::default(),
            blocks: Arc::default(),
            swapped: Notify::new(),
            late: Late::default(),
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            trace: Mutex::default(),
            state: Mutex::default(),
        })
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap())
    }

    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Writes a line into the trace.
    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        let line = format!("{:>10.3?} {}", self.now(), what());
        let mut trace = self.trace.lock().unwrap();
        trace.hash.write(line.as_bytes());
        if trace.lines.len() < KEPT_LINES {
            trace.lines.push(line);
        }
    }

    /// Drops the processes, which hold this world in turn: thousands of seeds would fill the memory.
    pub(crate) fn end(&self) {
        let processes = std::mem::take(&mut self.state.lock().unwrap().processes);
        drop(processes);
    }

    /// The trace, and a number that stands for it.
    pub(crate) fn trace(&self) -> (Vec<String>, u64) {
        let trace = self.trace.lock().unwrap();
        (trace.lines.clone(), trace.hash.finish())
    }

    /// A random number between two, the second one excluded.
    pub(crate) fn draw(&self, from: u64, to: u64) -> u64 {
        self.random.lock().unwrap().random_range(from..to)
    }

    /// Whether something befalls that does so in `percent` of the cases; nothing does when all is calm.
    pub(crate) fn befalls(&self, percent: f64) -> bool {
        let drawn = self.random.lock().unwrap().random_bool(percent / 100.0);
        drawn && !self.is_calm()
    }

    /// Some milliseconds pass.
    pub(crate) async fn pass(&self, from: u64, to: u64) {
        let millis = self.draw(from, to);
        sleep(Duration::from_millis(millis)).await;
    }

    /// How many slots the living processes own.
    pub(crate) fn owned(&self) -> u32 {
        let living = self.living().into_iter();
        living
            .map(|process| u32::from(process.ownership.status().owned))
            .sum()
    }

    /// The processes that live, stopped ones included.
    pub(crate) fn living(&self) -> Vec<Arc<Process>> {
        let all = self.state(|state| state.processes.clone());
        all.into_iter()
            .filter(|process| !process.life.is_dead())
            .collect()
    }

    /// The place of the next process in the order in which they start.
    pub(crate) fn next_place(&self) -> u64 {
        self.state(|state| {
            state.started += 1;
            state.started
        })
    }

    pub(crate) fn add(&self, process: Arc<Process>) {
        self.state(|state| state.processes.push(process));
    }

    pub(crate) fn find(&self, incarnation: Incarnation) -> Option<Arc<Process>> {
        let mut living = self.living().into_iter();
        living.find(|process| process.life.incarnation == incarnation)
    }
}
