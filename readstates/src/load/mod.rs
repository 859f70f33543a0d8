//! Loading users who are not cached: once per user, however many ask.
//!
//! Comes in: waiters, each with what it wants of a user who is not cached. They wait in the user's
//! single-flight load in the order in which they came. When the block arrives, they do their work in that order
//! before any other task can reach the user, and each is told the outcome.
//!
//! ```text
//!            ┌ not loading: into the line of its class ─▶ (a place at the store) ─▶ load ┐
//! join ──────┤                                                                           ├─▶ land / refuse
//!            └ loading: behind those who came before ────────────────────────────────────┘
//! ```
//!
//! Loads for clients and loads for mentions have separate lines, places at the store and room for
//! waiters, so that a mention of all users cannot starve clients that connect; a client that joins a
//! load that a mention waits for takes it over into its own line. What is over a limit is refused
//! before it waits. While the [`Circuits`] say that the store or a part of it is away, one load at a time asks
//! that, and the others are refused at once. A load that has not ended long after others have gives its place
//! up, so that a part of the store that hangs takes no more than its own loads with it.
//!
//! Locks are taken in this order, and none is held across an await: loads, line or circuit; loads,
//! stripe of the cache.

mod account;
mod flight;
mod line;
#[cfg(test)]
mod tests;
mod waiter;

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use account::Account;
use flight::SingleFlight;
use line::{Entered, Line};
use parking_lot::{Mutex, MutexGuard};
use readstates_ring::Slot;
use tokio::sync::{Notify, oneshot};
pub(crate) use waiter::{Answer, Changer, Group, Item, Reader, Waiter};

pub use crate::refused::LoadError;
use crate::{
    cache::{Cache, SlotSet, Touch},
    clock,
    health::{Admission, Circuits},
    metrics::Metrics,
    random::Random,
    refused::NotDone,
    store::Store,
};

/// What may go on at once for one kind of touch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Loads the store is asked for at once, for each shard of the database.
    pub(crate) at_once_per_shard: usize,
    /// Users who wait for a place at the store.
    pub(crate) waiting: usize,
    /// What waits for users to land.
    pub(crate) waiters: usize,
    /// Its bytes, about.
    pub(crate) bytes: usize,
    /// How long a caller waits.
    pub(crate) patience: Duration,
}

const ONLINE: Limits = Limits {
    at_once_per_shard: 128,
    waiting: 4096,
    waiters: 1 << 16,
    bytes: 32 << 20,
    patience: Duration::from_secs(3),
};
const MENTION: Limits = Limits {
    at_once_per_shard: 32,
    waiting: 1 << 15,
    waiters: 1 << 16,
    bytes: 16 << 20,
    patience: Duration::from_secs(15),
};

/// Operations that may wait for one and the same user.
const MOST_PER_USER: usize = 4096;
/// Locks over the single-flight loads: enough that two requests rarely meet on one. A power of two.
const FLIGHT_LOCKS: usize = 64;

/// Loads users into the cache.
pub struct Loader {
    cache: Arc<Cache>,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    /// Wakes the flusher when dirty users were in the way of making room.
    wake_flusher: Arc<Notify>,
    circuits: Mutex<Circuits>,
    /// When a load last ended well, and in less time than [`flight::STALL`].
    went_well: Mutex<Option<Instant>>,
    random: Random,
    online: Class,
    mention: Class,
    flights: Box<[Flights]>,
}

type Flights = Mutex<HashMap<u64, SingleFlight>>;

struct Class {
    limits: Limits,
    line: Mutex<Line>,
    account: Account,
}

/// What loading holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loading {
    /// Users who are being loaded, or wait for it.
    pub users: usize,
    /// What waits for them.
    pub waiters: usize,
    /// Its bytes, about.
    pub bytes: usize,
}

impl Class {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: Mutex::default(),
            account: Account::new(limits.waiters, limits.bytes),
        }
    }
}

impl Loader {
    pub(crate) fn new(
        cache: Arc<Cache>,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        wake_flusher: Arc<Notify>,
    ) -> Arc<Self> {
        Self::with_limits(cache, store, metrics, wake_flusher, ONLINE, MENTION)
    }

    fn with_limits(
        cache: Arc<Cache>,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        wake_flusher: Arc<Notify>,
        online: Limits,
        mention: Limits,
    ) -> Arc<Self> {
        Arc::new(Self {
            random: Random::of(!cache.incarnation()),
            cache,
            store,
            metrics,
            wake_flusher,
            circuits: Mutex::default(),
            went_well: Mutex::default(),
            online: Class::new(online),
            mention: Class::new(mention),
            flights: (0..FLIGHT_LOCKS).map(|_| Mutex::default()).collect(),
        })
    }

    fn class(&self, touch: Touch) -> &Class {
        match touch {
            Touch::Online => &self.online,
            Touch::Mention => &self.mention,
        }
    }

    fn flights(&self, user: u64) -> MutexGuard<'_, HashMap<u64, SingleFlight>> {
        self.flights[waiter::lock_of(user, FLIGHT_LOCKS)].lock()
    }

    fn at_once(&self, touch: Touch) -> usize {
        self.store.shards().max(1) * self.class(touch).limits.at_once_per_shard
    }

    /// What is held now, by class.
    pub(crate) fn loading(&self) -> Loading {
        let users = self
            .flights
            .iter()
            .map(|flights| flights.lock().len())
            .sum();
        let (online, mention) = (self.online.account.held(), self.mention.account.held());
        Loading {
            users,
            waiters: online.0 + mention.0,
            bytes: online.1 + mention.1,
        }
    }

    /// Whether loads are refused because the database is away.
    pub(crate) fn is_away(&self) -> bool {
        self.circuits.lock().is_open()
    }

    /// Parts of the database that take no loads.
    pub(crate) fn parts_away(&self) -> usize {
        self.circuits.lock().open_parts()
    }

    /// Bytes of memory that the store keeps for itself.
    pub(crate) fn store_memory(&self) -> u64 {
        self.store.memory()
    }

    /// How long a waiter of this touch waits at most.
    pub(crate) fn patience(&self, touch: Touch) -> Duration {
        self.class(touch).limits.patience
    }

    /// How many waiters one call may have under way: enough to keep all places busy, few enough
    /// that many calls fit.
    pub(crate) fn window(&self, touch: Touch) -> usize {
        let room = self.class(touch).limits.waiting / 64;
        room.max(self.at_once(touch) * 2)
    }

    /// Waits for a user with one waiter, and returns its answer.
    ///
    /// # Errors
    /// When the user cannot be loaded, or not now, or not in time: then nothing changed.
    pub(crate) async fn wait_for<T, P: Waiter + 'static>(
        self: &Arc<Self>,
        user: u64,
        touch: Touch,
        waiter: impl FnOnce(Answer<T>) -> P,
    ) -> Result<T, NotDone> {
        let (answer, mut waiting) = oneshot::channel();
        self.join(user, touch, Box::new(waiter(answer)));
        match tokio::time::timeout(self.patience(touch), &mut waiting).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(NotDone::Unknown),
            Err(_) => {
                // Waiters do their work under this lock: it is done, or it is never begun.
                let _flights = self.flights(user);
                waiting.close();
                let late = waiting.try_recv();
                late.unwrap_or(Err(LoadError::StoreAway.into()))
            }
        }
    }

    /// Waits until no waiter of this user is at work.
    pub(crate) fn settle(&self, user: u64) {
        drop(self.flights(user));
    }

    /// Refuses everything that waits for users of these slots, where no more are loaded (see
    /// [`Cache::pause`]): the caller asks the next owner.
    pub(crate) fn abandon(&self, slots: &SlotSet) {
        for flights in &self.flights {
            let mut flights = flights.lock();
            let of_slots = flights.extract_if(|&user, _| {
                slots.contains(Slot::of_user(user)) && self.cache.is_paused(user)
            });
            // In an order, so that a test that runs again runs the same.
            let of_slots: BTreeMap<u64, SingleFlight> = of_slots.collect();
            let refuse = |flight: SingleFlight| flight.refuse(LoadError::Moved);
            of_slots.into_values().for_each(refuse);
        }
    }

    /// Takes a waiter on: into the user's flight, which is made where there is none. One whose user
    /// has landed meanwhile does its work at once; one that cannot be taken on is refused at once.
    pub(crate) fn join(self: &Arc<Self>, user: u64, touch: Touch, waiter: Box<dyn Waiter>) {
        let Some(ticket) = self.class(touch).account.ticket(waiter.bytes()) else {
            return self.refuse(waiter, LoadError::TooManyLoads);
        };
        let mut flights = self.flights(user);
        match flights.entry(user) {
            Entry::Occupied(mut flight) => {
                let flight = flight.get_mut();
                match self.admit(flight, user, touch, waiter.operations()) {
                    Ok(()) => {
                        self.metrics.coalesced_loads.increment(1);
                        flight.join(waiter, ticket);
                    }
                    Err(why) => self.refuse(waiter, why),
                }
            }
            Entry::Vacant(place) => {
                let is_paused = self.cache.is_paused(user);
                // The user may be on its way to the next owner already.
                if is_paused && waiter.changes() {
                    return self.refuse(waiter, LoadError::Moved);
                }
                // A user that landed before this lock was taken is cached by now.
                let Some(waiter) = self.land_now(user, waiter) else {
                    return;
                };
                if is_paused {
                    return self.refuse(waiter, LoadError::Moved);
                }
                match self.schedule(user, touch) {
                    Ok(()) => place.insert(SingleFlight::new(touch)).join(waiter, ticket),
                    Err(why) => self.refuse(waiter, why),
                }
            }
        }
    }

    fn refuse(&self, waiter: Box<dyn Waiter>, why: LoadError) {
        self.metrics.load_refusals.increment(1);
        waiter.refuse(why);
    }

    /// Lets a waiter work on a user who is cached; gives it back when the user is not.
    fn land_now(&self, user: u64, waiter: Box<dyn Waiter>) -> Option<Box<dyn Waiter>> {
        let mut waiting = Some(waiter);
        self.cache.visit(user, clock::now(), |landed| {
            if let Some(waiter) = waiting.take() {
                waiter.land(landed, &self.metrics);
            }
        });
        waiting
    }

    /// Whether a flight takes this many operations more; a client takes it into its own line.
    fn admit(
        self: &Arc<Self>,
        flight: &mut SingleFlight,
        user: u64,
        touch: Touch,
        operations: usize,
    ) -> Result<(), LoadError> {
        if flight.operations() + operations > MOST_PER_USER {
            return Err(LoadError::TooManyLoads);
        }
        if touch == Touch::Online && flight.waits_as(Touch::Mention) {
            self.queue(user, Touch::Online)?;
            flight.wait_as(Touch::Online);
        }
        Ok(())
    }

    /// Whether a user can be loaded: then there is a flight to be made.
    fn schedule(self: &Arc<Self>, user: u64, touch: Touch) -> Result<(), LoadError> {
        let part = self.store.part(user);
        if self.circuits.lock().admits(part, clock::now()) == Admission::None {
            return Err(LoadError::StoreAway);
        }
        self.queue(user, touch)
    }

    /// Puts a user into the line of a class; starts loading the first in it when a place is free.
    fn queue(self: &Arc<Self>, user: u64, touch: Touch) -> Result<(), LoadError> {
        let class = self.class(touch);
        let at_once = self.at_once(touch);
        let entered = class.line.lock().enter(user, at_once, class.limits.waiting);
        match entered {
            // Ends when the line is empty; a caller that waits gives up earlier, after its patience.
            Entered::Load(first) => drop(tokio::spawn(Arc::clone(self).load_line(first, touch))),
            Entered::Wait => {}
            Entered::Full => return Err(LoadError::TooManyLoads),
        }
        Ok(())
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
