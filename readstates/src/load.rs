//! Loading users who are not cached: once per user, however many ask.
//!
//! The first who asks starts the load in a task of its own, so that it goes on when that client goes
//! away; whoever asks meanwhile waits for the same one. Loads for clients and loads for mentions have
//! separate limits, so that a mention of everybody cannot starve those who connect. What is over a
//! limit is refused before it waits.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use readstates_ring::Stamp;
use tokio::sync::{Semaphore, watch};

use crate::{
    cache::{Cache, Touch},
    codec::{self, Decoded},
    metrics::Metrics,
    store::{Store, StoreError, chain},
};

/// What may go on at once for one kind of touch.
struct Limits {
    /// Loads the store is asked for at once.
    at_the_store: usize,
    /// Loads under way, waiting for the store included.
    under_way: usize,
    /// How long one who asked waits.
    patience: Duration,
}

const ONLINE: Limits = Limits {
    at_the_store: 192,
    under_way: 4096,
    patience: Duration::from_secs(3),
};
const MENTION: Limits = Limits {
    at_the_store: 64,
    under_way: 8192,
    patience: Duration::from_secs(15),
};

/// Who may wait for one and the same load.
const MOST_WAITING: usize = 1024;

/// Why a user is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The store does not give the block, or not in time.
    #[error("the user is not cached, and the database does not give the block")]
    StoreAway,
    /// As many loads are under way as may be.
    #[error("as many users are being loaded as may be")]
    TooManyLoads,
    /// What the store holds is no block this version can read.
    #[error("what the database holds for the user cannot be read")]
    Unreadable,
}

/// Loads users into the cache.
pub struct Loader {
    cache: Arc<Cache>,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    online: Class,
    mention: Class,
    flights: Mutex<HashMap<u64, watch::Sender<Landed>>>,
}

/// What became of a load; `None` while it is under way.
type Landed = Option<Result<(), LoadError>>;

struct Class {
    limits: Limits,
    store: Semaphore,
    under_way: AtomicUsize,
}

impl Class {
    fn new(limits: Limits) -> Self {
        Self {
            store: Semaphore::new(limits.at_the_store),
            limits,
            under_way: AtomicUsize::new(0),
        }
    }
}

impl Loader {
    pub(crate) fn new(cache: Arc<Cache>, store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        let (online, mention) = (Class::new(ONLINE), Class::new(MENTION));
        Self {
            cache,
            store,
            metrics,
            online,
            mention,
            flights: Mutex::default(),
        }
    }

    fn class(&self, touch: Touch) -> &Class {
        match touch {
            Touch::Online => &self.online,
            Touch::Mention => &self.mention,
        }
    }

    /// Brings a user into the cache.
    ///
    /// # Errors
    /// When that is not possible, or not now.
    pub async fn load(self: &Arc<Self>, user: u64, touch: Touch) -> Result<(), LoadError> {
        let mut landed = self.board(user, touch)?;
        let wait = landed.wait_for(Option::is_some);
        match tokio::time::timeout(self.class(touch).limits.patience, wait).await {
            Ok(Ok(outcome)) => outcome.unwrap_or(Err(LoadError::StoreAway)),
            // The task ended without an outcome, or the store is slower than the one who asks waits.
            Ok(Err(_)) | Err(_) => Err(LoadError::StoreAway),
        }
    }

    /// Joins the load of a user, or starts it.
    fn board(
        self: &Arc<Self>,
        user: u64,
        touch: Touch,
    ) -> Result<watch::Receiver<Landed>, LoadError> {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(&user) {
            let room = flight.receiver_count() < MOST_WAITING;
            return room
                .then(|| flight.subscribe())
                .ok_or(LoadError::TooManyLoads);
        }
        let class = self.class(touch);
        if class.under_way.load(Ordering::Relaxed) >= class.limits.under_way {
            return Err(LoadError::TooManyLoads);
        }
        class.under_way.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = watch::channel(None);
        flights.insert(user, sender);
        // Ends within the store's own time limit; whoever waits gives up before, by its patience.
        tokio::spawn(Arc::clone(self).fly(user, touch));
        Ok(receiver)
    }

    async fn fly(self: Arc<Self>, user: u64, touch: Touch) {
        // Leaves the list however this ends.
        let flight = Departed {
            loader: &self,
            user,
            touch,
        };
        let outcome = match self.class(touch).store.acquire().await {
            Ok(_permit) => self.fetch(user).await,
            Err(_closed) => Err(LoadError::StoreAway),
        };
        if outcome.is_ok() {
            self.cache.make_room(Some(user), Instant::now());
        }
        flight.land(outcome);
    }

    async fn fetch(&self, user: u64) -> Result<(), LoadError> {
        let started = Instant::now();
        let loaded = self.store.load(user).await;
        self.metrics.load_seconds.record(started.elapsed());
        let block = loaded.map_err(|error| self.store_failed(user, &error))?;
        let block = match block {
            None => None,
            Some(stored) => Some((self.decode(user, &stored.bytes)?, stored.stamp)),
        };
        warn_of_the_future(user, block.as_ref().map(|&(_, stamp)| stamp));
        self.metrics.loads.increment(1);
        self.cache.insert(user, block);
        Ok(())
    }

    fn store_failed(&self, user: u64, error: &StoreError) -> LoadError {
        self.metrics.load_failures.increment(1);
        tracing::debug!(user, "no block: {}", chain(error));
        LoadError::StoreAway
    }

    fn decode(&self, user: u64, bytes: &[u8]) -> Result<Decoded, LoadError> {
        codec::decode(bytes).map_err(|error| {
            self.metrics.load_failures.increment(1);
            tracing::error!(user, "the stored block cannot be read: {error}");
            LoadError::Unreadable
        })
    }
}

/// How far ahead of our clock a stored stamp may be before it is reported.
const FUTURE: Duration = Duration::from_secs(3600);

/// Our next write goes above the stored stamp all the same; the cause wants a look.
fn warn_of_the_future(user: u64, stamp: Option<Stamp>) {
    let Some(stamp) = stamp else { return };
    let limit = jiff::Timestamp::now()
        .as_microsecond()
        .saturating_add(FUTURE.as_micros() as i64);
    if stamp.as_database() > limit {
        tracing::warn!(user, %stamp, "the block was written more than an hour ahead of this clock");
    }
}

/// Takes the flight off the list when dropped.
struct Departed<'a> {
    loader: &'a Loader,
    user: u64,
    touch: Touch,
}

impl Departed<'_> {
    fn land(self, outcome: Result<(), LoadError>) {
        if let Some(flight) = self.loader.flights.lock().get(&self.user) {
            // Everybody may have gone away.
            let _ = flight.send(Some(outcome));
        }
    }
}

impl Drop for Departed<'_> {
    fn drop(&mut self) {
        self.loader.flights.lock().remove(&self.user);
        self.loader
            .class(self.touch)
            .under_way
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
