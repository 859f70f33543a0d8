//! The journal: changes are on the disk before they are acknowledged.
//!
//! Blocks are written behind, up to an interval later; that is cheap, because many changes of a user are one write.
//! The journal keeps the changes of that time: each is appended to a buffer of its stripe, while the stripe's lock is
//! held anyway, so those of a user keep their order. One thread takes all buffers together, appends them to a file as
//! one frame, syncs that, and so releases everybody who waits. While a sync is under way the next frame gathers:
//! no timer, and the more there is to do, the more changes share a sync.
//!
//! ```text
//!  change ─▶ buffer ─┐
//!  change ─▶ buffer ─┼─▶ frame ─▶ file ─▶ sync ─▶ acknowledged
//!  change ─▶ buffer ─┘                                  │
//!     └────▶ cache ─▶ store, behind ─▶ file is removed, once everything in it is in the store
//! ```
//!
//! A start does again what the store lacks (`recover`), so a killed process and a machine without power lose
//! nothing that was acknowledged. While the disk takes no more, changes are refused, and what waits is written as
//! soon as it can be; a change whose sync does not come in time has an unknown outcome.

mod folder;
mod metrics;
mod record;
mod recover;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use folder::{Folder, Medium};
use metrics::Counts;
pub(crate) use metrics::write as write_metrics;
use parking_lot::Mutex;
pub(crate) use record::{Before, Entry};
pub use recover::JournalError;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant as Deadline, timeout, timeout_at},
};
use writer::Writer;

use crate::store::Store;

/// Buffers of a journal: one for each stripe of the cache.
pub(crate) const BUFFERS: usize = 64;

/// How changes survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// A change is acknowledged when it is in memory; a crash loses what the store does not have yet.
    Interval,
    /// A change is acknowledged when it is in the journal on the disk; a crash loses nothing.
    Journal,
    /// A change is acknowledged when another member has it, too, if there is one that can: the death of one of the two
    /// loses nothing.
    Available,
    /// As with `available`, and without another member changes are refused.
    Replicated,
}

/// Where a journal is, and what is done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalConfig {
    /// The folder of its files.
    pub folder: PathBuf,
    /// Whether changes are appended from now on. What is there is done again in any case.
    pub durability: Durability,
    /// Whether a start goes on without what is damaged.
    pub accept_damage: bool,
}

/// Bytes that wait for the thread at most, but for one change of each caller.
const MOST_PENDING: usize = 64 << 20;
/// From here on what the journal keeps is written to the store at once.
const LONG: u64 = 64 << 20;
/// From here on changes are refused. A start has about three times as much in memory.
const TOO_LONG: u64 = 256 << 20;

/// A point in the order of changes: what came before it is on the disk once this is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// The changes of one stripe that the thread has not taken.
#[derive(Debug, Default)]
struct Buffer {
    gathered: Mutex<Gathered>,
    /// The round that takes the last change so far.
    last: AtomicU64,
}

#[derive(Debug, Default)]
struct Gathered {
    records: Vec<u8>,
    /// The last round that took the buffer.
    taken: u64,
}

/// A closed file.
#[derive(Debug, Clone, Copy)]
struct Closed {
    number: u64,
    bytes: u64,
    /// Everything in it was changed before.
    at: Instant,
}

/// The journal of one process.
#[derive(Debug)]
pub struct Journal {
    buffers: Box<[Buffer]>,
    /// The last round that is on the disk.
    synced: AtomicU64,
    landed: Notify,
    /// Bytes in the buffers.
    pending: AtomicUsize,
    /// The disk does not take the frame that is its turn.
    failing: AtomicBool,
    /// Why, in words.
    trouble: Mutex<Option<String>>,
    /// Since when the frame that is its turn is written.
    writing: Mutex<Option<Instant>>,
    /// The thread waits for something to do.
    idle: AtomicBool,
    end: Mutex<Option<End>>,
    /// Everything changed before is in the store.
    written_until: Mutex<Option<Instant>>,
    closed: Mutex<VecDeque<Closed>>,
    /// Bytes of the file that is written.
    open_bytes: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Its sender goes when the thread has ended.
    ending: Mutex<Option<oneshot::Receiver<()>>>,
    counts: Counts,
}

/// How the thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The store has everything: nothing is left behind.
    Clean,
    /// What the store lacks stays for the next start.
    Kept,
}

impl Journal {
    /// Does again what the store lacks of the journal in a folder, and begins a new one there if that is asked for.
    /// The caller has seen to it that no other process uses the folder.
    ///
    /// # Errors
    /// When the folder cannot be used, a file is damaged, or the store does not take what is done again. Then the
    /// journal is as it was, and a later start can try again.
    pub(crate) async fn open(
        config: &JournalConfig,
        store: &dyn Store,
        incarnation: u64,
    ) -> Result<Option<Arc<Self>>, JournalError> {
        let JournalConfig {
            folder: path,
            durability,
            accept_damage,
        } = config;
        let unusable = |source| JournalError::Folder {
            folder: path.clone(),
            source,
        };
        // A folder that cannot be looked at may be there, with changes that the store lacks.
        if *durability == Durability::Interval && !path.try_exists().map_err(unusable)? {
            return Ok(None);
        }
        let folder = Folder::open_alone(path).map_err(unusable)?;
        let (next, counts) = recover::recover(&folder, store, *accept_damage).await?;
        if *durability == Durability::Interval {
            return Ok(None);
        }
        Self::begin(Box::new(folder), next, incarnation, counts)
            .map(Some)
            .map_err(|source| JournalError::Begin {
                folder: path.clone(),
                source,
            })
    }

    /// An empty journal whose first file has this number.
    fn begin(
        medium: Box<dyn Medium>,
        first: u64,
        incarnation: u64,
        counts: Counts,
    ) -> io::Result<Arc<Self>> {
        let journal = Arc::new(Self {
            buffers: (0..BUFFERS).map(|_| Buffer::default()).collect(),
            synced: AtomicU64::new(0),
            landed: Notify::new(),
            pending: AtomicUsize::new(0),
            failing: AtomicBool::new(false),
            trouble: Mutex::new(None),
            writing: Mutex::new(None),
            idle: AtomicBool::new(false),
            end: Mutex::new(None),
            written_until: Mutex::new(None),
            closed: Mutex::new(VecDeque::new()),
            open_bytes: AtomicU64::new(0),
            thread: Mutex::new(None),
            ending: Mutex::new(None),
            counts,
        });
        let mut writer = Writer::new(Arc::clone(&journal), medium, first, incarnation)?;
        let (over, ending) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("journal-writer".into())
            .spawn(move || {
                writer.run();
                // The lock of the folder is released before a caller learns that the journal has stopped.
                drop(writer);
                drop::<oneshot::Sender<()>>(over);
            })?;
        *journal.thread.lock() = Some(thread);
        *journal.ending.lock() = Some(ending);
        Ok(journal)
    }

    /// Takes a change that was applied, while the lock of its stripe is held.
    pub(crate) fn append(&self, stripe: usize, entry: &Entry<'_>) {
        let buffer = &self.buffers[stripe];
        let mut gathered = buffer.gathered.lock();
        let before = gathered.records.len();
        entry.encode(&mut gathered.records);
        let added = gathered.records.len() - before;
        buffer.last.store(gathered.taken + 1, Ordering::Release);
        // Before the writer can take it: never more is taken than was added.
        self.pending.fetch_add(added, Ordering::SeqCst);
    }

    /// Whether changes may be made: the disk takes them, and no more wait than it can hold.
    pub(crate) fn takes_changes(&self) -> bool {
        !self.failing.load(Ordering::Relaxed)
            && self.pending.load(Ordering::Relaxed) < MOST_PENDING
            && self.bytes() < TOO_LONG
    }

    /// What has to be reached before the changes of this stripe so far are on the disk.
    pub(crate) fn ticket(&self, stripe: usize) -> Ticket {
        Ticket(self.buffers[stripe].last.load(Ordering::Acquire))
    }

    /// Whether everything before a ticket is on the disk.
    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.synced.load(Ordering::Acquire) >= ticket.0
    }

    /// Waits until everything before a ticket is on the disk; `false` when it is not by then.
    ///
    /// Cancel-safe: it only looks.
    pub(crate) async fn reached(&self, ticket: Ticket, deadline: Deadline) -> bool {
        loop {
            let landed = self.landed.notified();
            tokio::pin!(landed);
            landed.as_mut().enable();
            if self.has(ticket) {
                return true;
            }
            self.wake();
            if timeout_at(deadline, landed).await.is_err() {
                return self.has(ticket);
            }
        }
    }

    /// Everything that was changed before is in the store: files that hold nothing else go.
    pub(crate) fn written_until(&self, until: Instant) {
        *self.written_until.lock() = Some(until);
    }

    /// Notices a disk that hangs: it is as good as one that fails, until it has taken the frame.
    pub(crate) fn look(&self, now: Instant) {
        // Held until it is said: a frame that lands meanwhile would not take it back, and without changes there is no
        // other that could.
        let writing = self.writing.lock();
        if writing.is_some_and(|since| now.saturating_duration_since(since) >= PATIENCE) {
            self.fails(format!(
                "the disk has not taken a frame of the journal in {PATIENCE:?}"
            ));
        }
    }

    /// Why changes are refused, if they are because of the disk.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// The disk does not take the journal.
    fn fails(&self, why: String) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::error!("{why}: changes are refused until it does");
        }
        *self.trouble.lock() = Some(why);
    }

    /// Whether so much is kept that it should be written to the store at once.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes() >= LONG
    }

    /// Bytes on the disk.
    fn bytes(&self) -> u64 {
        self.counts.closed_bytes.load(Ordering::Relaxed) + self.open_bytes.load(Ordering::Relaxed)
    }

    /// Ends the thread, once what waits for it is on the disk or the disk does not take it. With `clean` the store
    /// has everything, and the files go.
    pub(crate) fn end(&self, clean: bool) {
        *self.end.lock() = Some(if clean { End::Clean } else { End::Kept });
        self.idle.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Waits until the thread has ended, though not for a disk that hangs: what that has not taken was not
    /// acknowledged.
    pub(crate) async fn ended(&self) {
        let ending = self.ending.lock().take();
        if let Some(ending) = ending
            && timeout(PATIENCE, ending).await.is_err()
        {
            tracing::error!("stopped while the disk hangs under the journal");
        }
    }

    fn wake(&self) {
        if self.idle.swap(false, Ordering::SeqCst)
            && let Some(thread) = &*self.thread.lock()
        {
            thread.thread().unpark();
        }
    }

    /// Takes what is in the buffers, in this round.
    fn take(&self, round: u64, records: &mut Vec<u8>) {
        for buffer in &self.buffers {
            let mut gathered = buffer.gathered.lock();
            records.extend_from_slice(&gathered.records);
            gathered.records.clear();
            gathered.records.shrink_to(MOST_KEPT);
            gathered.taken = round;
        }
        self.pending.fetch_sub(records.len(), Ordering::SeqCst);
    }

    /// A round is on the disk.
    fn land(&self, round: u64) {
        self.synced.store(round, Ordering::Release);
        let mut writing = self.writing.lock();
        *writing = None;
        *self.trouble.lock() = None;
        if self.failing.swap(false, Ordering::Relaxed) {
            tracing::info!("the disk takes the journal again");
        }
        drop(writing);
        self.landed.notify_waiters();
    }
}

/// Bytes of memory that an empty buffer keeps.
const MOST_KEPT: usize = 64 << 10;

/// The folder of the journal of an embedded store.
#[must_use]
pub fn folder_of(store: &Path) -> PathBuf {
    store.join("journal")
}

/// How long a change waits for the disk before its outcome is unknown.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
