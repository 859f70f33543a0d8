//! Where segments are: files in a folder, one for each.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What comes behind the number in the name of a segment.
const SUFFIX: &str = ".journal";
/// And of one that is kept because it is damaged.
const DAMAGED: &str = ".damaged";

/// Keeps segments. What is written survives the machine once it is synced, and not before.
pub(super) trait Medium: Send + 'static {
    /// Makes a segment, which is there for good when this returns.
    fn create(&mut self, number: u64) -> io::Result<Box<dyn Log>>;
    fn remove(&mut self, number: u64) -> io::Result<()>;
    /// Bytes that the disk has left, if that is known.
    fn free(&self) -> Option<u64>;
}

/// A segment that is written.
pub(super) trait Log: Send {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Waits until all that was appended is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
    /// Locked for as long as it is open.
    _lock: Option<Arc<File>>,
}

impl Folder {
    /// Makes the folder where it is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        // The folder itself has to survive, too.
        if let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: None,
        })
    }

    /// As [`Folder::open`], and no other process has it while this or a clone is there.
    ///
    /// The lock of the store's file is not enough: that file is closed after an error of the disk, until it can be
    /// opened again, and a process that starts meanwhile would take the journal away from the one that writes it.
    pub(super) fn open_alone(path: &Path) -> io::Result<Self> {
        let folder = Self::open(path)?;
        let file = File::open(path)?;
        let lock = match file.try_lock() {
            Ok(()) => Some(Arc::new(file)),
            Err(TryLockError::WouldBlock) => {
                let used = "another process uses it; stop that first";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, used));
            }
            // Some network file systems lock no folders: the lock of the store's file is all there is then.
            Err(TryLockError::Error(error)) => {
                tracing::warn!(%error, "the folder of the journal cannot be locked");
                None
            }
        };
        Ok(Self {
            _lock: lock,
            ..folder
        })
    }

    /// The numbers of the segments that are there, lowest first.
    pub(super) fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub(super) fn read(&self, number: u64) -> io::Result<Vec<u8>> {
        fs::read(self.file(number))
    }

    /// Keeps a segment under another name, which is never read again.
    pub(super) fn keep_damaged(&self, number: u64) -> io::Result<PathBuf> {
        let mut kept = self.path.join(format!("{number:020}{DAMAGED}"));
        // Numbers begin at 1 again after a stop in order: an earlier one may have been kept, too.
        let mut others = 1;
        while kept.try_exists()? {
            others += 1;
            kept = self.path.join(format!("{number:020}-{others}{DAMAGED}"));
        }
        fs::rename(self.file(number), &kept)?;
        Ok(kept)
    }

    /// The file of a segment.
    pub(super) fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}{SUFFIX}"))
    }
}

impl Medium for Folder {
    fn create(&mut self, number: u64) -> io::Result<Box<dyn Log>> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(self.file(number))?;
        File::open(&self.path)?.sync_all()?;
        Ok(Box::new(file))
    }

    fn remove(&mut self, number: u64) -> io::Result<()> {
        match fs::remove_file(self.file(number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn free(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.path).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

impl Log for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
