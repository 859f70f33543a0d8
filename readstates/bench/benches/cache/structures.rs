//! Our cache, and what one would take instead, behind the two things they are asked for. Maps that have no locks
//! of their own are in 64 stripes of one mutex each, by user, as our cache is. None but ours knows what is not
//! written yet, counts mentions, or numbers changes; the maps do not evict.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasherDefault, Hasher},
    time::{Duration, Instant},
};

use clap::ValueEnum;
use parking_lot::Mutex;
use readstates::{
    block::{Operation, Visit},
    cache::{Cache, Process, Touch},
};
use readstates_ring::slot::mix64;

const STRIPES: usize = 64;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Ours,
    Btreemap,
    QuickCache,
    Moka,
    HashmapOfVec,
}

impl Kind {
    pub(crate) const OTHERS: [Self; 4] = [
        Self::Btreemap,
        Self::QuickCache,
        Self::Moka,
        Self::HashmapOfVec,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Btreemap => "btreemap",
            Self::QuickCache => "quick-cache",
            Self::Moka => "moka",
            Self::HashmapOfVec => "hashmap-of-vec",
        }
    }

    /// Empty, with room for this many states.
    pub(crate) fn make(self, states: u64) -> Box<dyn Structure> {
        let capacity = usize::try_from(states).unwrap_or(usize::MAX);
        match self {
            Self::Ours => Box::new(Ours::new(states)),
            Self::Btreemap => Box::new(Ordered(stripes())),
            Self::QuickCache => {
                Box::new(quick_cache::sync::Cache::<(u64, u64), State>::new(capacity))
            }
            Self::Moka => Box::new(moka::sync::Cache::<(u64, u64), State>::new(states)),
            Self::HashmapOfVec => Box::new(Grouped(stripes())),
        }
    }
}

/// What all are asked for.
pub(crate) trait Structure: Sync {
    /// Takes in a user with these channels.
    fn fill(&self, user: u64, channels: &[u64]);
    /// Acknowledges a message.
    fn update(&self, user: u64, channel: u64, message: u64);
    /// Visits all states of a user, whose channels the caller knows; returns something of them.
    fn read(&self, user: u64, channels: &mut dyn Iterator<Item = u64>) -> u64;
    /// How many states it holds.
    fn states(&self) -> u64;
    /// Does what is to be done now and then.
    fn tidy(&self) {}
    /// Does what is still to be done.
    fn settle(&self) {}
}

/// What we keep of a state, unpacked: 24 bytes.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    message: u64,
    version: u64,
    mentions: u32,
    flags: u16,
    last_viewed: u16,
}

impl State {
    fn acknowledge(&mut self, message: u64) {
        if message > self.message {
            self.message = message;
            self.version += 1;
            self.mentions = 0;
            // Both stay as they are; they are there because a state has them.
            let _ = (self.flags, self.last_viewed);
        }
    }
}

struct Ours(Cache);

impl Ours {
    fn new(states: u64) -> Self {
        let process = Process {
            incarnation: 1,
            started_micros: 1_700_000_000_000_000,
        };
        // One user more than fits would make it evict.
        let capacity = states + states / 50;
        Self(Cache::new(process, capacity, Duration::from_secs(30)))
    }

    fn change(&self, user: u64, operations: &[Operation]) {
        let done = self
            .0
            .change(user, operations, Touch::Online, Instant::now(), |_, _| ());
        assert!(matches!(done, Some(Ok(()))), "refused: {done:?}");
    }
}

fn ack(channel: u64, message: u64) -> Operation {
    Operation::Ack {
        channel,
        message,
        visit: Visit::default(),
    }
}

impl Structure for Ours {
    fn fill(&self, user: u64, channels: &[u64]) {
        self.0.insert(user, None);
        let operations: Vec<_> = channels.iter().map(|channel| ack(*channel, 1)).collect();
        self.change(user, &operations);
    }

    fn update(&self, user: u64, channel: u64, message: u64) {
        self.change(user, &[ack(channel, message)]);
    }

    fn read(&self, user: u64, _channels: &mut dyn Iterator<Item = u64>) -> u64 {
        let view = self.0.read(user, |block| {
            let mut seen = 0;
            for state in block.states() {
                seen ^= state.last_message ^ state.version;
            }
            seen
        });
        view.unwrap_or(0)
    }

    fn states(&self) -> u64 {
        self.0.totals().states
    }

    /// As the flusher does, with a store that takes no time.
    fn tidy(&self) {
        while self.0.under_pressure() {
            write_back(&self.0, Instant::now());
        }
    }

    fn settle(&self) {
        while self.0.dirty_users() > 0 {
            write_back(&self.0, Instant::now() + Duration::from_secs(3600));
        }
    }
}

fn write_back(cache: &Cache, now: Instant) {
    for write in cache.begin_flushes(now, 4096) {
        cache.written(&write, now);
    }
}

fn stripes<T: Default>() -> Vec<Mutex<T>> {
    (0..STRIPES).map(|_| Mutex::default()).collect()
}

fn stripe<T>(stripes: &[Mutex<T>], user: u64) -> &Mutex<T> {
    // The top bits: the maps take the low ones.
    &stripes[(mix64(user) >> 58) as usize]
}

/// What the service of the articles went to: all states in one order.
struct Ordered(Vec<Mutex<BTreeMap<(u64, u64), State>>>);

impl Structure for Ordered {
    fn fill(&self, user: u64, channels: &[u64]) {
        let mut map = stripe(&self.0, user).lock();
        map.extend(
            channels
                .iter()
                .map(|channel| ((user, *channel), State::default())),
        );
    }

    fn update(&self, user: u64, channel: u64, message: u64) {
        let mut map = stripe(&self.0, user).lock();
        map.entry((user, channel)).or_default().acknowledge(message);
    }

    fn read(&self, user: u64, _channels: &mut dyn Iterator<Item = u64>) -> u64 {
        let map = stripe(&self.0, user).lock();
        let states = map.range((user, 0)..=(user, u64::MAX));
        states.fold(0, |seen, (_, state)| seen ^ state.message ^ state.version)
    }

    fn states(&self) -> u64 {
        self.0.iter().map(|map| map.lock().len() as u64).sum()
    }
}

/// The hash of an id that is hashed well by one multiplication or two.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix64(number);
    }
}

/// What a map by user would be.
struct Grouped(Vec<Mutex<Users>>);

type Users = HashMap<u64, Vec<(u64, State)>, BuildHasherDefault<Mix>>;

impl Structure for Grouped {
    fn fill(&self, user: u64, channels: &[u64]) {
        let states = channels.iter().map(|channel| (*channel, State::default()));
        stripe(&self.0, user).lock().insert(user, states.collect());
    }

    fn update(&self, user: u64, channel: u64, message: u64) {
        let mut users = stripe(&self.0, user).lock();
        let states = users.entry(user).or_default();
        match states.iter_mut().find(|(id, _)| *id == channel) {
            Some((_, state)) => state.acknowledge(message),
            None => states.push((channel, State::default())),
        }
    }

    fn read(&self, user: u64, _channels: &mut dyn Iterator<Item = u64>) -> u64 {
        let users = stripe(&self.0, user).lock();
        let states = users.get(&user).map_or(&[][..], Vec::as_slice);
        states
            .iter()
            .fold(0, |seen, (_, state)| seen ^ state.message ^ state.version)
    }

    fn states(&self) -> u64 {
        let count = |map: &Mutex<Users>| {
            map.lock()
                .values()
                .map(|states| states.len() as u64)
                .sum::<u64>()
        };
        self.0.iter().map(count).sum()
    }
}

impl Structure for quick_cache::sync::Cache<(u64, u64), State> {
    fn fill(&self, user: u64, channels: &[u64]) {
        for channel in channels {
            self.insert((user, *channel), State::default());
        }
    }

    fn update(&self, user: u64, channel: u64, message: u64) {
        let mut state = self.get(&(user, channel)).unwrap_or_default();
        state.acknowledge(message);
        self.insert((user, channel), state);
    }

    fn read(&self, user: u64, channels: &mut dyn Iterator<Item = u64>) -> u64 {
        let state = |channel| self.get(&(user, channel)).unwrap_or_default();
        channels
            .map(state)
            .fold(0, |seen, state| seen ^ state.message ^ state.version)
    }

    fn states(&self) -> u64 {
        self.len() as u64
    }
}

impl Structure for moka::sync::Cache<(u64, u64), State> {
    fn fill(&self, user: u64, channels: &[u64]) {
        for channel in channels {
            self.insert((user, *channel), State::default());
        }
    }

    fn update(&self, user: u64, channel: u64, message: u64) {
        let mut state = self.get(&(user, channel)).unwrap_or_default();
        state.acknowledge(message);
        self.insert((user, channel), state);
    }

    fn read(&self, user: u64, channels: &mut dyn Iterator<Item = u64>) -> u64 {
        let state = |channel| self.get(&(user, channel)).unwrap_or_default();
        channels
            .map(state)
            .fold(0, |seen, state| seen ^ state.message ^ state.version)
    }

    fn states(&self) -> u64 {
        self.run_pending_tasks();
        self.entry_count()
    }

    fn settle(&self) {
        self.run_pending_tasks();
    }
}
