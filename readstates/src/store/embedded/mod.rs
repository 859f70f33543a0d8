//! The store in a folder of the process's own: a redb database with one table of blocks.
//!
//! One thread writes. It takes whatever writes are waiting, up to [`MOST_PER_COMMIT`], into one
//! transaction, so that many users share one fsync; a write is answered once its transaction is on
//! disk. Reads do not wait for it. An error, a full disk among them, fails the operations that met it and
//! no later ones: see [`file`].

mod file;
mod scan;
mod writer;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use file::{BLOCKS, File, FileError, Opener};
use futures::future::{BoxFuture, FutureExt};
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;
use redb::{Builder, Database, DatabaseError, ReadableDatabase};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use writer::{Work, Write};

use super::{Store, StoreError, Stored};

/// The database in the folder.
const FILE: &str = "blocks.redb";

/// Writes that wait for the writer before callers wait for room.
const QUEUE: usize = 1024;

/// Reads at once. Each takes a thread, which a disk that hangs may keep for long.
const READS: usize = 64;

/// As for a CQL database: a client waits for a read, only the flusher for a write.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A smaller file is not worth compacting.
const LEAST_COMPACTED: u64 = 64 << 20;

/// redb's own cache has this part of the budget of [`crate::cache`], within bounds: what is read is cached
/// there, and the kernel has the pages of the file besides.
const CACHE_PART: u64 = 16;
const LEAST_CACHE: u64 = 4 << 20;
const MOST_CACHE: u64 = 64 << 20;

/// Keeps blocks in a folder; one process at a time can have it open.
#[derive(Debug)]
pub struct EmbeddedStore {
    file: Arc<File>,
    writes: mpsc::Sender<Work>,
    reads: Arc<Semaphore>,
}

/// Why a folder could not be opened as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder is not there and cannot be made.
    #[error("failed to make the folder {folder:?}; give another with --store embedded:DIR")]
    Folder { folder: PathBuf, source: io::Error },
    /// Another process uses it.
    #[error(
        "{folder:?} is in use by another process; stop it, or give another folder with --store embedded:DIR"
    )]
    InUse { folder: PathBuf },
    /// The database in it cannot be opened.
    #[error("failed to open the database {file:?}")]
    Database {
        file: PathBuf,
        source: Box<redb::Error>,
    },
    /// No thread can be started.
    #[error("failed to start the writer")]
    Thread(#[source] io::Error),
}

impl EmbeddedStore {
    /// Opens the store in a folder, which is made when it is not there, for a cache of blocks with this
    /// budget in bytes.
    ///
    /// # Errors
    /// When the folder cannot be made or written, or another process has it open.
    pub fn open(folder: &Path, cache_budget: u64) -> Result<Self, OpenError> {
        fs::create_dir_all(folder).map_err(|source| OpenError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        let path = folder.join(FILE);
        let cache = (cache_budget / CACHE_PART).clamp(LEAST_CACHE, MOST_CACHE);
        let cache = usize::try_from(cache).unwrap_or(usize::MAX);
        let opener: Opener = Box::new({
            let path = path.clone();
            move || Builder::new().set_cache_size(cache).create(&path)
        });
        Self::open_by(&path, opener, LEAST_COMPACTED)
    }

    /// Whether a folder has such a store: opening it would make one.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    fn open_by(path: &Path, opener: Opener, least_compacted: u64) -> Result<Self, OpenError> {
        let file = File::open(path, opener).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse {
                folder: path.parent().unwrap_or(path).to_owned(),
            },
            other => OpenError::Database {
                file: path.to_owned(),
                source: Box::new(other.into()),
            },
        })?;
        let file = Arc::new(file);
        let (writes, queue) = mpsc::channel(QUEUE);
        let writer = Arc::clone(&file);
        // Ends when the store, and so the sender, is dropped.
        std::thread::Builder::new()
            .name("embedded-writer".into())
            .spawn(move || writer::run(&writer, queue, least_compacted))
            .map_err(OpenError::Thread)?;
        Ok(Self {
            file,
            writes,
            reads: Arc::new(Semaphore::new(READS)),
        })
    }

    /// Sends a request to the writer, and waits for it as long as a write may take.
    async fn have_done(
        &self,
        attempt: &'static str,
        work: impl FnOnce(oneshot::Sender<Result<(), FileError>>) -> Work,
    ) -> Result<(), StoreError> {
        let (done, outcome) = oneshot::channel();
        let doing = async {
            let ended = || StoreError::new(attempt, "the writer has ended");
            self.writes.send(work(done)).await.map_err(|_| ended())?;
            let outcome = outcome.await.map_err(|_| ended())?;
            outcome.map_err(|error| StoreError::new(attempt, error))
        };
        // The writer drops what it has not begun by then.
        timeout(WRITE_TIMEOUT, doing).await.unwrap_or_else(|_| {
            let late = format!("the disk has not done it in {WRITE_TIMEOUT:?}");
            Err(StoreError::new(attempt, late))
        })
    }
}

fn read(database: &Database, user: u64) -> Result<Option<Stored>, redb::Error> {
    let table = database.begin_read()?.open_table(BLOCKS)?;
    Ok(table.get(user)?.map(|stored| {
        let (stamp, bytes) = stored.value();
        Stored {
            bytes: bytes.to_vec(),
            stamp: Stamp::from_database(stamp),
        }
    }))
}

impl Store for EmbeddedStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Embedded
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        const ATTEMPT: &str = "load a block";
        let (file, reads) = (Arc::clone(&self.file), Arc::clone(&self.reads));
        let reading = async move {
            let permit = reads.acquire_owned().await;
            let reading = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                file.with(|database| read(database, user))
            });
            let read = reading.await;
            let read = read.map_err(|error| StoreError::new(ATTEMPT, error))?;
            read.map_err(|error| StoreError::new(ATTEMPT, error))
        };
        // A read that takes longer goes on, and keeps its thread and its permit until it has ended.
        async move {
            timeout(READ_TIMEOUT, reading).await.unwrap_or_else(|_| {
                let late = format!("the disk has not given it in {READ_TIMEOUT:?}");
                Err(StoreError::new(ATTEMPT, late))
            })
        }
        .boxed()
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let write = Write { user, bytes, stamp };
        self.have_done("write a block", |done| Work::Write(write, done))
            .boxed()
    }

    /// Commits something: a disk that can be read only is not healthy.
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.have_done("commit to the store", Work::Check).boxed()
    }

    fn memory(&self) -> u64 {
        self.file.cached()
    }
}

#[cfg(test)]
mod tests;
