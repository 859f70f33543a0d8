//! Writes on their way to the service: those of a user one after the other, in the order in which the old system
//! answered them.
//!
//! Each bucket of users belongs to one worker. All that wait have places of a fixed number, one for each user; without
//! them a write is dropped, and its users count as not proven.

use std::sync::Arc;

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinSet,
};

use super::{
    counts::Counts,
    operation::Operation,
    ours::Ours,
    share::Proven,
    writes::{UnderWay, Writes, bucket_of},
};

/// Writes at the service at a time.
const WORKERS: u16 = 64;

/// A write of users of one worker, from before the old system is asked.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) operation: Operation,
    worker: u16,
    /// Until the service has it, or it is given up.
    _under_way: Vec<UnderWay>,
}

impl Part {
    /// The parts of a write, one for each worker that has some of its users.
    pub(super) fn of(operation: &Operation, writes: &Arc<Writes>) -> Vec<Self> {
        let mut by_worker: Vec<(Vec<_>, Vec<u16>)> = Vec::new();
        by_worker.resize_with(usize::from(WORKERS), Default::default);
        for &user in operation.users() {
            let bucket = bucket_of(user);
            let (users, buckets) = &mut by_worker[usize::from(bucket % WORKERS)];
            users.push(user);
            if !buckets.contains(&bucket) {
                buckets.push(bucket);
            }
        }
        let parts = (0..WORKERS)
            .zip(by_worker)
            .filter(|(_, (users, _))| !users.is_empty());
        let part = |(worker, (users, buckets)): (u16, (Vec<_>, Vec<u16>))| Self {
            operation: operation.of(users),
            worker,
            _under_way: buckets
                .into_iter()
                .map(|bucket| writes.begin(bucket))
                .collect(),
        };
        parts.map(part).collect()
    }

    /// It may not reach the service.
    pub(super) fn lost(&self, proven: &Proven, counts: &Counts) {
        let users = self.operation.users().iter();
        let removed = users.filter(|&&user| proven.remove(user)).count();
        counts.unproven.increment(removed as u64);
    }
}

struct Job {
    part: Part,
    /// One for each user.
    _places: OwnedSemaphorePermit,
    /// Told whether the service has it.
    done: oneshot::Sender<bool>,
}

/// The workers and what waits for them.
#[derive(Debug)]
pub(super) struct Queue {
    workers: Vec<mpsc::UnboundedSender<Job>>,
    places: Arc<Semaphore>,
    size: usize,
}

/// The tasks of the workers, which end when this is dropped.
pub(super) type Working = JoinSet<()>;

impl Queue {
    /// `size`: how many writes may wait, each counted by its users.
    pub(super) fn start(
        size: usize,
        ours: &Arc<Ours>,
        proven: &Arc<Proven>,
        counts: &Arc<Counts>,
    ) -> (Self, Working) {
        let mut working = JoinSet::new();
        let worker = |_| {
            // Bounded by the places.
            let (sender, receiver) = mpsc::unbounded_channel();
            let (ours, proven, counts) = (Arc::clone(ours), Arc::clone(proven), Arc::clone(counts));
            working.spawn(work(receiver, ours, proven, counts));
            sender
        };
        let queue = Self {
            workers: (0..WORKERS).map(worker).collect(),
            places: Arc::new(Semaphore::new(size)),
            size,
        };
        (queue, working)
    }

    /// How many wait or are at the service.
    pub(super) fn len(&self) -> usize {
        self.size - self.places.available_permits()
    }

    /// Waits until nothing waits. To be called when nothing is put into it any more: it takes all places.
    pub(super) async fn drained(&self) {
        let all = u32::try_from(self.size).unwrap_or(u32::MAX);
        // Never closed.
        let _ = self.places.acquire_many(all).await;
    }

    /// Puts a write behind the others of its users, and tells when the service has it. Without a place it comes back.
    pub(super) fn put(&self, part: Part) -> Result<oneshot::Receiver<bool>, Part> {
        let users = u32::try_from(part.operation.users().len()).unwrap_or(u32::MAX);
        let Ok(places) = Arc::clone(&self.places).try_acquire_many_owned(users) else {
            return Err(part);
        };
        let (done, told) = oneshot::channel();
        let worker = &self.workers[usize::from(part.worker)];
        let job = Job {
            part,
            _places: places,
            done,
        };
        match worker.send(job) {
            Ok(()) => Ok(told),
            Err(mpsc::error::SendError(job)) => Err(job.part),
        }
    }
}

async fn work(
    mut jobs: mpsc::UnboundedReceiver<Job>,
    ours: Arc<Ours>,
    proven: Arc<Proven>,
    counts: Arc<Counts>,
) {
    while let Some(Job {
        part,
        _places,
        done,
    }) = jobs.recv().await
    {
        let failed = ours.write(&part.operation).await;
        if failed.is_empty() {
            counts.mirrored.increment(1);
        } else {
            counts.failed.increment(1);
            // Before the write counts as ended: a comparison must not prove the user meanwhile.
            let removed = failed.iter().filter(|&&user| proven.remove(user)).count();
            counts.unproven.increment(removed as u64);
        }
        drop(part);
        // Whoever gave it up need not know.
        let _ = done.send(failed.is_empty());
    }
}
