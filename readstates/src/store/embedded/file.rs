//! The redb file: opened again after an I/O error, and never written without room on its disk.
//!
//! redb gives up for good on a file after the first failed read or write: every later operation is refused
//! until the file is opened again, also when the disk has recovered. So any error of redb closes the file
//! here, and the next operation opens it again, with growing pauses while that fails. A disk that is nearly
//! full is noticed before anything is written: blocks can still be read from the file then.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition, WriteTransaction,
};

/// user → (stamp, packed block).
pub(super) const BLOCKS: TableDefinition<'static, u64, (i64, &'static [u8])> =
    TableDefinition::new("read_states");
/// 0 → how often the store was checked by a commit.
pub(super) const CHECKS: TableDefinition<'static, u64, u64> = TableDefinition::new("checks");

/// Between two attempts to open the file again: the first wait, doubled up to the last. Opening it reads all
/// of it when it was not closed in order.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Rows that stand for all of a table when its size is estimated.
const SAMPLE: usize = 1000;
/// What a row takes beside its bytes: its key, its place in a page, its share of the pages above.
const ROW_OVERHEAD: u64 = 64;
/// A file is compacted when it takes more than this many times what its rows need. Pages are copied on write
/// and split in halves, so that twice as much is usual.
const MOST_SPARSE: u64 = 4;

/// Opens the file, once at the start and again after each error.
pub(super) type Opener = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

/// Why the file was not read or written.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum FileError {
    /// The disk is nearly full.
    #[error(
        "{folder:?} has {free} bytes left on its disk, and the write may need {needed}; make room there"
    )]
    NoRoom {
        folder: PathBuf,
        free: u64,
        needed: u64,
    },
    /// It could not be opened again the last time; the next attempt is due later.
    #[error("failed to open the file again")]
    Closed(#[source] Arc<redb::Error>),
    /// redb failed.
    #[error(transparent)]
    Redb(#[from] Arc<redb::Error>),
}

pub(super) struct File {
    folder: PathBuf,
    path: PathBuf,
    open: Opener,
    /// Readers and the writer take the read lock for one operation; reopening takes the write lock.
    database: RwLock<Option<Database>>,
    /// An operation has failed, and the next one reopens the file. Set while `database` is locked.
    broken: AtomicBool,
    retry: Mutex<Retry>,
}

/// When the next attempt to open the file may be made.
#[derive(Debug)]
struct Retry {
    not_before: Option<Instant>,
    wait: Duration,
    reason: Option<Arc<redb::Error>>,
}

impl File {
    /// Opens the file at `path`, and makes its tables.
    pub(super) fn open(path: &Path, open: Opener) -> Result<Self, DatabaseError> {
        let database = open_with(path, &open)?;
        Ok(Self {
            folder: path.parent().unwrap_or(Path::new(".")).to_owned(),
            path: path.to_owned(),
            open,
            database: RwLock::new(Some(database)),
            broken: AtomicBool::new(false),
            retry: Mutex::new(Retry {
                not_before: None,
                wait: FIRST_WAIT,
                reason: None,
            }),
        })
    }

    /// Reads from the file, or writes into it.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, FileError> {
        let guard = self.opened()?;
        let Some(database) = &*guard else {
            return Err(self.still_closed());
        };
        work(database).map_err(|error| {
            // Set under the read lock, so that it cannot follow a reopening.
            self.broken.store(true, Ordering::Release);
            FileError::Redb(Arc::new(error))
        })
    }

    /// Commits what `work` writes, if the disk has room for this many bytes.
    pub(super) fn commit(
        &self,
        needed: u64,
        work: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), FileError> {
        self.expect_room(needed)?;
        self.with(|database| {
            let transaction = database.begin_write()?;
            work(&transaction)?;
            transaction.commit()?;
            Ok(())
        })
    }

    /// Bytes of memory in which redb keeps pages.
    pub(super) fn cached(&self) -> u64 {
        let database = self.database.try_read();
        let stats = database.and_then(|it| it.as_ref().map(ReadableDatabase::cache_stats));
        stats.map_or(0, |stats| stats.used_bytes() as u64)
    }

    fn expect_room(&self, needed: u64) -> Result<(), FileError> {
        // A file system that does not say how full it is, is not full.
        let Ok(disk) = rustix::fs::statvfs(&self.folder) else {
            return Ok(());
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= needed {
            return Ok(());
        }
        Err(FileError::NoRoom {
            folder: self.folder.clone(),
            free,
            needed,
        })
    }

    /// The database, opened again where the last operation failed.
    fn opened(&self) -> Result<RwLockReadGuard<'_, Option<Database>>, FileError> {
        let guard = self.database.read();
        if guard.is_some() && !self.broken.load(Ordering::Acquire) {
            return Ok(guard);
        }
        drop(guard);
        self.open_again()?;
        Ok(self.database.read())
    }

    fn open_again(&self) -> Result<(), FileError> {
        let mut database = self.database.write();
        if database.is_some() && !self.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut retry = self.retry.lock();
        let now = Instant::now();
        if retry.not_before.is_some_and(|at| now < at) {
            drop(retry);
            return Err(self.still_closed());
        }
        // Before it is opened again: a file is open once.
        drop(database.take());
        let opened = open_with(&self.path, &self.open);
        // Also after a success: a file that fails again and again is not read all the time.
        retry.not_before = Some(Instant::now() + retry.wait);
        retry.wait = (retry.wait * 2).min(LAST_WAIT);
        match opened {
            Ok(opened) => {
                tracing::warn!(file = ?self.path, "the file of the store was opened again after an error");
                *database = Some(opened);
                self.broken.store(false, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                let error = Arc::new(redb::Error::from(error));
                retry.reason = Some(Arc::clone(&error));
                Err(FileError::Closed(error))
            }
        }
    }

    /// An operation has succeeded: the next error is the first one.
    pub(super) fn works(&self) {
        let mut retry = self.retry.lock();
        *retry = Retry {
            not_before: None,
            wait: FIRST_WAIT,
            reason: None,
        };
    }

    fn still_closed(&self) -> FileError {
        let reason = self.retry.lock().reason.clone();
        FileError::Closed(reason.unwrap_or_else(|| Arc::new(redb::Error::PreviousIo)))
    }

    /// Compacts the file when it is at least `least` bytes long and mostly unused; reads wait meanwhile.
    /// Returns whether it did.
    pub(super) fn compact(&self, least: u64) -> Result<bool, FileError> {
        let length = fs::metadata(&self.path).map_or(0, |file| file.len());
        if length < least || length / MOST_SPARSE < self.with(needed)? {
            return Ok(false);
        }
        tracing::info!(file = ?self.path, bytes = length, "the file of the store is mostly unused: compacting it");
        let mut database = self.database.write();
        let Some(open) = &mut *database else {
            return Ok(false);
        };
        if let Err(error) = open.compact() {
            self.broken.store(true, Ordering::Release);
            return Err(FileError::Redb(Arc::new(error.into())));
        }
        let left = fs::metadata(&self.path).map_or(0, |file| file.len());
        tracing::info!(file = ?self.path, bytes = left, "the file of the store is compacted");
        Ok(true)
    }
}

/// Opens the file as the disk has it, and makes the tables: so that reading never meets a database without them.
fn open_with(path: &Path, open: &Opener) -> Result<Database, DatabaseError> {
    forget_pages(path);
    let database = open()?;
    let has_tables = || -> Result<bool, redb::Error> {
        let transaction = database.begin_read()?;
        let tables = transaction.list_tables()?;
        Ok(tables.count() >= 2)
    };
    let make = || -> Result<(), redb::Error> {
        // Not where they are there: a file on a full disk can be read.
        if !has_tables()? {
            let transaction = database.begin_write()?;
            transaction.open_table(BLOCKS)?;
            transaction.open_table(CHECKS)?;
            transaction.commit()?;
        }
        Ok(())
    };
    make().map_err(|error| match error {
        redb::Error::Io(error) => DatabaseError::Storage(redb::StorageError::Io(error)),
        other => DatabaseError::Storage(redb::StorageError::Io(io::Error::other(other))),
    })?;
    Ok(database)
}

/// Has the kernel read the file from its disk. After a write that the disk has refused, Linux keeps the page as if it had
/// been written: the process that opens the file then, this one or the next, would read a commit that a power cut takes back,
/// and build later ones on it.
fn forget_pages(path: &Path) {
    // It is not there yet, or opening it for good fails the same and says so.
    let Ok(file) = fs::File::options().read(true).write(true).open(path) else {
        return;
    };
    // Only what was written, or was refused, can be forgotten.
    if let Err(error) = file.sync_all() {
        tracing::warn!(
            ?path,
            "the disk has refused what was written before; the file is read as the disk has it: {error}"
        );
    }
    if let Err(error) = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed) {
        tracing::warn!(
            ?path,
            "failed to drop the pages of the file from memory: {error}"
        );
    }
}

/// About how many bytes the rows take, from some of them.
fn needed(database: &Database) -> Result<u64, redb::Error> {
    let table = database.begin_read()?.open_table(BLOCKS)?;
    let rows = table.len()?;
    let (mut seen, mut bytes) = (0, 0);
    for row in table.iter()?.take(SAMPLE) {
        let (_, stored) = row?;
        seen += 1;
        bytes += stored.value().1.len() as u64 + ROW_OVERHEAD;
    }
    Ok(bytes.checked_div(seen).unwrap_or(0) * rows)
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;

    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    use super::*;

    #[test]
    fn the_file_is_read_from_its_disk_and_not_from_what_the_kernel_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let file = fs::File::open(&path).unwrap();
        let kept = || {
            let mut page = [0; 4096];
            let flags = ReadWriteFlags::NOWAIT;
            preadv2(&file, &mut [IoSliceMut::new(&mut page)], 1 << 19, flags)
        };
        match kept() {
            Ok(read) => assert_eq!(read, 4096),
            Err(Errno::OPNOTSUPP) => return println!("this file system does not say what is kept"),
            Err(error) => panic!("{error}"),
        }
        forget_pages(&path);
        assert_eq!(kept(), Err(Errno::AGAIN));
        assert_eq!(fs::read(&path).unwrap(), vec![7; 1 << 20]);
        // One that is not there is none to be read.
        forget_pages(&folder.path().join("another"));
    }
}
