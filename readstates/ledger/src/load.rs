//! The workers together: started, told what goes on around them, stopped, and compared.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use readstates_client::Client;
use tokio::{task::JoinSet, time::Instant};

use crate::{
    book::{Audit, Book, Found},
    tally::{Phase, Tallies},
    worker::{Kind, Shared, Worker},
};

/// How much load, and of whom.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Tasks that send one operation at a time.
    pub workers: u64,
    /// Users that each worker mentions together.
    pub users_per_worker: u64,
    /// Between two operations of a worker.
    pub pace: Duration,
    /// Same seed, same operations (but not at the same moments).
    pub seed: u64,
    /// The hot user; the others follow it, 2^24 for each worker. None of them may have been used before.
    pub first_user: u64,
}

/// A load that goes on.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    workers: JoinSet<(Kind, Book)>,
}

/// What a load did and was told.
#[derive(Debug, Default)]
pub struct Told {
    /// The operations.
    pub book: Book,
    /// How long they took and how they failed.
    pub tallies: Tallies,
    /// How long it went on.
    pub took: Duration,
    /// How many workers there were of each kind.
    pub kinds: BTreeMap<Kind, u64>,
}

impl Load {
    /// Starts the workers, on these clients in turn.
    #[must_use]
    pub fn start(plan: &Plan, clients: &[(Kind, Client)]) -> Self {
        let shared = Arc::new(Shared {
            began: Instant::now(),
            tallies: Tallies::default(),
            over: AtomicBool::new(false),
            versions: Mutex::new(HashMap::new()),
        });
        let mut workers = JoinSet::new();
        for (number, (kind, client)) in (0..plan.workers).zip(clients.iter().cycle()) {
            let worker = Worker::new(number, client.clone(), Arc::clone(&shared), plan);
            let kind = *kind;
            workers.spawn(async move { (kind, worker.run().await) });
        }
        Self { shared, workers }
    }

    /// Says what is going on around the load from now on.
    pub fn enter(&self, phase: Phase) {
        self.shared.tallies.enter(phase);
    }

    /// How many calls that began in this phase have ended.
    #[must_use]
    pub fn calls(&self, phase: Phase) -> u64 {
        self.shared.tallies.latency(phase, &[]).0
    }

    /// How long the load has been going on; findings and excuses count in this time.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.began.elapsed()
    }

    /// Ends the load: every operation under way gets its answer first.
    ///
    /// # Errors
    /// When a worker did not complete: a fault in the ledger.
    pub async fn stop(mut self) -> Result<Told, tokio::task::JoinError> {
        self.shared.over.store(true, Ordering::Relaxed);
        let (mut book, mut kinds) = (Book::default(), BTreeMap::new());
        while let Some(ended) = self.workers.join_next().await {
            let (kind, worker) = ended?;
            *kinds.entry(kind).or_default() += 1;
            book.take(worker);
        }
        let took = self.shared.began.elapsed();
        // The workers were the only others that had it.
        let tallies = Arc::into_inner(self.shared).map(|shared| shared.tallies);
        Ok(Told {
            book,
            tallies: tallies.unwrap_or_default(),
            took,
            kinds,
        })
    }
}

impl Told {
    /// Compares with what is found of each user in one place: through the service, or in the database.
    ///
    /// # Errors
    /// What `find` fails with.
    pub async fn audit<E>(
        &self,
        mut find: impl AsyncFnMut(u64) -> Result<Vec<Found>, E>,
    ) -> Result<Audit, E> {
        let mut found = BTreeMap::new();
        for user in self.book.users() {
            found.insert(user, find(user).await?);
        }
        Ok(self.book.audit(&found))
    }
}
