//! One user's load, from its place in the line to the waiters' work.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::{Either, select};
use readstates_ring::Stamp;
use tokio::time::sleep;

use super::{Class, LoadError, Loader, Waiter, account::Ticket};
use crate::{
    cache::{Landed, Term, Touch},
    clock,
    codec::{self, DecodeError, Decoded},
    store::{Part, StoreError, Stored, chain},
};

/// A load that takes longer than this has stalled, when others do not.
const STALL: Duration = Duration::from_millis(250);
/// Others go well when one of them ended well, in less than that, this long ago at most.
const RECENT: Duration = Duration::from_millis(500);
/// At most this many stalled loads for each place.
const STALLED_FACTOR: usize = 3;

/// The single-flight load of one user: what waits for it.
#[derive(Default)]
pub(super) struct SingleFlight {
    /// The class whose line it stands in; `None` once it is being loaded.
    waits_as: Option<Touch>,
    operations: usize,
    /// In the order in which they came; no more operations than `super::MOST_PER_USER`.
    waiters: Vec<(Box<dyn Waiter>, Ticket)>,
}

impl SingleFlight {
    pub(super) fn new(touch: Touch) -> Self {
        Self {
            waits_as: Some(touch),
            ..Self::default()
        }
    }

    pub(super) fn operations(&self) -> usize {
        self.operations
    }

    pub(super) fn waits_as(&self, touch: Touch) -> bool {
        self.waits_as == Some(touch)
    }

    pub(super) fn wait_as(&mut self, touch: Touch) {
        self.waits_as = Some(touch);
    }

    pub(super) fn join(&mut self, waiter: Box<dyn Waiter>, ticket: Ticket) {
        self.operations += waiter.operations();
        self.waiters.push((waiter, ticket));
    }

    pub(super) fn refuse(self, why: LoadError) {
        for (waiter, _ticket) in self.waiters {
            waiter.refuse(why);
        }
    }
}

type Block<'a> = Option<(Decoded<'a>, Stamp)>;

impl Loader {
    /// Loads a user, and then the next in the line, until the line is empty. When a load stalls, another
    /// task takes the place over, and this one ends with the load.
    pub(super) async fn load_line(self: Arc<Self>, first: u64, touch: Touch) {
        let mut place = Place {
            loader: &self,
            touch,
            taken: true,
        };
        let mut next = Some(first);
        while let Some(user) = next {
            let stalled = AtomicBool::new(false);
            let load = pin!(self.load_one(user, touch, &stalled));
            // Goes on with the load when the time is over: nothing is cancelled.
            match select(load, pin!(sleep(STALL))).await {
                Either::Left(_) => {}
                Either::Right(((), load)) => {
                    if self.gives_up_place(user, touch) {
                        place.taken = false;
                        stalled.store(true, Ordering::Relaxed);
                        let _stalled = Stalled(self.class(touch));
                        return load.await;
                    }
                    load.await;
                }
            }
            next = self.class(touch).line.lock().next(self.at_once(touch));
        }
        place.taken = false;
    }

    /// Whether a stalled load gives its place to the next in the line and goes on without: if other loads end well,
    /// perhaps those of other parts of the store, and there are not too many stalled ones already.
    fn gives_up_place(self: &Arc<Self>, user: u64, touch: Touch) -> bool {
        let now = clock::now();
        let recent = |then: Instant| now.saturating_duration_since(then) < RECENT;
        if !self.went_well.lock().is_some_and(recent) || !self.circuits.lock().has_parts() {
            return false;
        }
        let at_once = self.at_once(touch);
        let mut line = self.class(touch).line.lock();
        if !line.stalls(at_once * STALLED_FACTOR) {
            return false;
        }
        let next = line.next(at_once);
        drop(line);
        self.metrics.stalled_loads.increment(1);
        let share = self.random.share();
        self.circuits
            .lock()
            .stalled(self.store.part(user), now, share);
        if let Some(next) = next {
            // Like this task, it ends when the line is empty.
            drop(tokio::spawn(Arc::clone(self).load_line(next, touch)));
        }
        true
    }

    async fn load_one(&self, user: u64, touch: Touch, stalled: &AtomicBool) {
        if !self.take_off(user, touch) {
            return;
        }
        // Refuses the waiters however this ends.
        let mut departed = Departed {
            loader: self,
            user,
            why: Some(LoadError::StoreAway),
        };
        let Some(term) = self.cache.term(user) else {
            departed.why = Some(LoadError::Moved);
            return;
        };
        let part = self.store.part(user);
        if !self.circuits.lock().enter(part, clock::now()) {
            return;
        }
        let stored = self.fetch(user, part, stalled).await;
        let block = match &stored {
            Ok(stored) => self.decode(user, stored.as_ref()),
            Err(why) => Err(*why),
        };
        match block {
            Ok(block) => {
                departed.why = None;
                self.land(user, block, term);
            }
            Err(why) => departed.why = Some(why),
        }
    }

    /// Whether there is a load that waits in this line: it may have moved to the other.
    fn take_off(&self, user: u64, touch: Touch) -> bool {
        let mut flights = self.flights(user);
        let flight = flights
            .get_mut(&user)
            .filter(|flight| flight.waits_as(touch));
        let found = flight.map(|flight| flight.waits_as = None);
        found.is_some()
    }

    async fn fetch(
        &self,
        user: u64,
        part: Part,
        stalled: &AtomicBool,
    ) -> Result<Option<Stored>, LoadError> {
        let started = clock::now();
        let loaded = self.store.load(user).await;
        let now = clock::now();
        self.metrics.load_seconds.record(now - started);
        if loaded.is_ok() && now - started < STALL {
            *self.went_well.lock() = Some(now);
        }
        let share = self.random.share();
        // What stalled was booked when it did: others went well then.
        if loaded.is_ok() || !stalled.load(Ordering::Relaxed) {
            self.circuits.lock().ended(part, loaded.is_ok(), now, share);
        }
        let stored = loaded.map_err(|error| self.store_failed(user, &error))?;
        if let Some(stored) = &stored
            && self
                .cache
                .shows_regression(user, stored.stamp, codec::writer(&stored.bytes))
        {
            self.metrics.regressed_blocks.increment(1);
            tracing::warn!(user, stamp = %stored.stamp, "the block is of a later epoch than the ring's, or another process had this epoch");
            return Err(LoadError::RingWentBack);
        }
        warn_of_the_future(user, stored.as_ref().map(|stored| stored.stamp));
        Ok(stored)
    }

    /// The user is loaded: waiters do their work, in order, before any other task can.
    fn land(&self, user: u64, block: Block<'_>, term: Term) {
        let now = clock::now();
        let loaded = block.as_ref().map(|(decoded, _)| decoded);
        let replicas = self.cache.replicas();
        let replayed = replicas.and_then(|replicas| replicas.replayed(user, loaded));
        {
            let mut flights = self.flights(user);
            let mut flight = flights.remove(&user).unwrap_or_default();
            let work = |landed: &mut Landed<'_>| {
                for (waiter, _ticket) in flight.waiters.drain(..) {
                    if waiter.gone() {
                        // Nothing is begun; a caller that has just left may still be told so.
                        waiter.refuse(LoadError::StoreAway);
                    } else {
                        waiter.land(landed, &self.metrics);
                    }
                }
            };
            match replayed {
                Some(block) => self.cache.land_replayed(user, &block, term, now, work),
                None => self.cache.land(user, block, term, now, work),
            };
            // Waiters that are left have not landed.
            flight.refuse(LoadError::Moved);
        }
        if self.cache.make_room(Some(user), now) {
            self.wake_flusher.notify_one();
        }
    }

    fn store_failed(&self, user: u64, error: &StoreError) -> LoadError {
        self.metrics.load_failures.increment(1);
        tracing::debug!(user, "no block: {}", chain(error));
        LoadError::StoreAway
    }

    fn decode<'a>(&self, user: u64, stored: Option<&'a Stored>) -> Result<Block<'a>, LoadError> {
        let decoded = stored.map(|stored| Ok((codec::decode(&stored.bytes)?, stored.stamp)));
        let block = decoded.transpose().map_err(|error: DecodeError| {
            self.metrics.load_failures.increment(1);
            self.metrics.unreadable_blocks.increment(1);
            tracing::error!(user, "the stored block cannot be read: {error}");
            LoadError::Unreadable
        })?;
        self.metrics.loads.increment(1);
        Ok(block)
    }
}

/// How far ahead of our clock a stored stamp may be before it is reported.
const FUTURE: Duration = Duration::from_secs(3600);

/// Our next write is stamped above it in any case; the cause should be looked into.
fn warn_of_the_future(user: u64, stamp: Option<Stamp>) {
    let Some(stamp) = stamp else { return };
    let limit = jiff::Timestamp::now()
        .as_microsecond()
        .saturating_add(FUTURE.as_micros() as i64);
    if stamp.as_database() > limit {
        tracing::warn!(user, %stamp, "the block was written more than an hour ahead of this clock");
    }
}

/// A load under way: when dropped, its waiters are refused, unless it has landed.
struct Departed<'a> {
    loader: &'a Loader,
    user: u64,
    why: Option<LoadError>,
}

impl Drop for Departed<'_> {
    fn drop(&mut self) {
        let Some(why) = self.why else { return };
        let flight = self.loader.flights(self.user).remove(&self.user);
        flight.unwrap_or_default().refuse(why);
    }
}

/// A load that goes on without a place, until dropped.
struct Stalled<'a>(&'a Class);

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        self.0.line.lock().stalled_ended();
    }
}

/// A place at the store, given up when dropped, unless that is done.
struct Place<'a> {
    loader: &'a Loader,
    touch: Touch,
    taken: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.taken {
            self.loader.class(self.touch).line.lock().leave();
        }
    }
}
