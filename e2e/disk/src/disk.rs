//! One emulated disk: an image file, a volatile write cache, faults that a test turns on, and counters.
//!
//! Reads and writes come in from the NBD server; a test changes the disk's behaviour at the same time
//! through its own handle. Nothing is known here about queues, sockets or machines.
//!
//! ```text
//! write ──▶ faults? ──▶ cache ──flush, FUA──▶ image        power cut: what is in the cache is gone
//! read  ──▶ faults? ──▶ cache, else image
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What faults and the cache are kept in: the sector of an NVMe disk here.
pub const PAGE: u64 = 4096;
/// A real disk's cache empties itself, too: bounds the memory of one disk.
const CACHE_PAGES: usize = (64 << 20) / PAGE as usize;
/// Errors in an NBD reply.
const EIO: u32 = 5;
const EINVAL: u32 = 22;

/// Which write cache the disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCache {
    /// What is written is kept: a network disk.
    Through,
    /// What was not flushed is lost when the power goes: a local disk without capacitors.
    Volatile,
}

/// What the disk has done since the counters were taken last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read requests that came in.
    pub reads: u64,
    pub bytes_read: u64,
    /// Write requests that came in.
    pub writes: u64,
    pub bytes_written: u64,
    pub flushes: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Pages lost in power cuts.
    pub lost_pages: u64,
}

/// The image of a disk at one moment.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
}

/// A handle to one disk; its clones are the same disk.
#[derive(Clone, Debug)]
pub struct Disk {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    path: PathBuf,
    state: Mutex<DiskState>,
    /// Told when `hung` changes, and when something is in the cache that was not.
    changed: Condvar,
}

#[derive(Debug)]
struct DiskState {
    image: File,
    size: u64,
    cache: WriteCache,
    unflushed: BTreeMap<u64, Box<[u8]>>,
    /// Pages that cannot be read until they are written.
    bad: BTreeSet<u64>,
    /// Pages that can be neither read nor written.
    sticky: BTreeSet<u64>,
    /// Added to each operation.
    latency: Duration,
    fails: bool,
    hung: bool,
    counters: Counters,
}

impl Disk {
    /// A blank disk whose image is made at `path`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn blank(name: &str, path: &Path, size: u64, cache: WriteCache) -> io::Result<Self> {
        let image = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        image.set_len(size)?;
        let state = DiskState {
            image,
            size,
            cache,
            unflushed: BTreeMap::new(),
            bad: BTreeSet::new(),
            sticky: BTreeSet::new(),
            latency: Duration::ZERO,
            fails: false,
            hung: false,
            counters: Counters::default(),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                name: name.to_owned(),
                path: path.to_owned(),
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
        })
    }

    /// Its name on the host and its serial number in the guest.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.state().size
    }

    /// Makes these bytes unreadable until they are written again: a sector that the disk has lost.
    pub fn lose(&self, bytes: Range<u64>) {
        self.state().bad.extend(pages(&bytes));
    }

    /// Makes these bytes unreadable and unwritable.
    pub fn break_for_good(&self, bytes: Range<u64>) {
        self.state().sticky.extend(pages(&bytes));
    }

    /// How many pages are still unreadable.
    #[must_use]
    pub fn bad_pages(&self) -> usize {
        let state = self.state();
        state.bad.len() + state.sticky.len()
    }

    /// Takes all faults back.
    pub fn mend(&self) {
        let mut state = self.state();
        state.bad.clear();
        state.sticky.clear();
        state.fails = false;
        state.hung = false;
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Adds this to each operation from now on.
    pub fn slow_down(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// Answers everything with an error from now on, or no longer.
    pub fn fail(&self, fails: bool) {
        self.state().fails = fails;
    }

    /// Answers nothing from now on, or goes on.
    pub fn hang(&self, hung: bool) {
        self.state().hung = hung;
        self.shared.changed.notify_all();
    }

    /// What it did since this was asked last.
    pub fn take_counters(&self) -> Counters {
        std::mem::take(&mut self.state().counters)
    }

    /// Bytes written to it since the counters were taken last.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.state().counters.bytes_written
    }

    /// Waits until a power cut would take something; whether it came to that within `limit`.
    #[must_use]
    pub fn comes_to_hold_unflushed(&self, limit: Duration) -> bool {
        let flushed = |state: &mut DiskState| state.unflushed.is_empty();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(self.state(), limit, flushed);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.unflushed.is_empty()
    }

    /// Loses what was not flushed, as far as the cache is volatile; faults stay.
    pub fn cut_power(&self) {
        let mut state = self.state();
        state.counters.lost_pages += state.unflushed.len() as u64;
        state.unflushed.clear();
    }

    /// Replaces the disk with a blank one that has no bad sectors. A disk that [fails](Self::fail) goes on failing.
    ///
    /// # Errors
    /// When the image cannot be changed.
    pub fn replace(&self) -> io::Result<()> {
        let mut state = self.state();
        state.unflushed.clear();
        state.bad.clear();
        state.sticky.clear();
        state.image.set_len(0)?;
        state.image.set_len(state.size)
    }

    /// Makes the disk larger, while no machine uses it.
    ///
    /// # Errors
    /// When the image cannot be changed.
    pub fn grow(&self, size: u64) -> io::Result<()> {
        let mut state = self.state();
        state.image.set_len(size)?;
        state.size = size;
        Ok(())
    }

    /// Its content now, as a snapshot of a network disk has it: without what is only in a cache.
    ///
    /// # Errors
    /// When the image cannot be copied.
    pub fn snapshot(&self, label: &str) -> io::Result<Snapshot> {
        let state = self.state();
        let path = self.shared.path.with_extension(label);
        let copy = File::create(&path)?;
        copy_sparse(&state.image, &copy, state.size)?;
        Ok(Snapshot { path })
    }

    /// Puts the content of a snapshot, of this disk or another, in place of its own.
    ///
    /// # Errors
    /// When the image cannot be written.
    pub fn restore(&self, snapshot: &Snapshot) -> io::Result<()> {
        self.replace()?;
        let mut state = self.state();
        let copy = File::open(&snapshot.path)?;
        let size = copy.metadata()?.len();
        state.image.set_len(size)?;
        state.size = size;
        copy_sparse(&copy, &state.image, size)
    }

    /// Reads past all faults: what is on the disk.
    ///
    /// # Errors
    /// When the image cannot be read.
    pub fn peek(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.state().content(offset, length)
    }

    /// Writes directly to the disk, past all faults and caches.
    ///
    /// # Errors
    /// When the image cannot be written.
    pub fn poke(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.settle()?;
        state.image.write_all_at(bytes, offset)
    }

    /// Waits as long as the disk hangs, but not past `gone`.
    pub(crate) fn wait_while_hung(&self, gone: impl Fn() -> bool) {
        let mut state = self.state();
        while state.hung && !gone() {
            state = match self
                .shared
                .changed
                .wait_timeout(state, Duration::from_millis(200))
            {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    pub(crate) fn latency(&self) -> Duration {
        self.state().latency
    }

    /// The errno that an NBD reply carries is the error.
    pub(crate) fn read(&self, offset: u64, length: u32) -> Result<Vec<u8>, u32> {
        let mut state = self.state();
        state.counters.reads += 1;
        state.counters.bytes_read += u64::from(length);
        let range = state.checked(offset, length)?;
        if state.fails || state.has_bad(&range) {
            return Err(state.failed(EIO));
        }
        let content = state.content(offset, length as usize);
        content.map_err(|_| state.failed(EIO))
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), u32> {
        let mut state = self.state();
        state.counters.writes += 1;
        state.counters.bytes_written += bytes.len() as u64;
        let length = u32::try_from(bytes.len()).map_err(|_| EINVAL)?;
        let range = state.checked(offset, length)?;
        if state.fails || pages(&range).any(|page| state.sticky.contains(&page)) {
            return Err(state.failed(EIO));
        }
        for page in pages(&range) {
            state.bad.remove(&page);
        }
        let written = match state.cache {
            WriteCache::Through => state.image.write_all_at(bytes, offset),
            WriteCache::Volatile => state.keep(offset, bytes),
        };
        let settled = written.and_then(|()| {
            if fua {
                state.settle_pages(&range)
            } else {
                Ok(())
            }
        });
        self.shared.changed.notify_all();
        settled.map_err(|_| state.failed(EIO))
    }

    pub(crate) fn flush(&self) -> Result<(), u32> {
        let mut state = self.state();
        state.counters.flushes += 1;
        if state.fails {
            return Err(state.failed(EIO));
        }
        let settled = state.settle();
        settled.map_err(|_| state.failed(EIO))
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        // A thread that panicked with the lock fails its test; the disk is as good as before.
        match self.shared.state.lock() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

impl DiskState {
    fn checked(&mut self, offset: u64, length: u32) -> Result<Range<u64>, u32> {
        match offset.checked_add(length.into()) {
            Some(end) if end <= self.size => Ok(offset..end),
            Some(_) | None => Err(self.failed(EINVAL)),
        }
    }

    fn failed(&mut self, errno: u32) -> u32 {
        self.counters.errors += 1;
        errno
    }

    fn has_bad(&self, range: &Range<u64>) -> bool {
        pages(range).any(|page| self.bad.contains(&page) || self.sticky.contains(&page))
    }

    fn content(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.image.read_exact_at(&mut bytes, offset)?;
        let end = offset + length as u64;
        let touched = pages(&(offset..end));
        for (page, cached) in self.unflushed.range(touched) {
            let from = (page * PAGE).max(offset);
            let to = ((page + 1) * PAGE).min(end);
            let in_page = (from - page * PAGE) as usize..(to - page * PAGE) as usize;
            bytes[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&cached[in_page]);
        }
        Ok(bytes)
    }

    /// Writes into the cache.
    fn keep(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        for page in pages(&(offset..end)) {
            let start = page * PAGE;
            let from = start.max(offset);
            let to = (start + PAGE).min(end);
            let mut content = match self.unflushed.remove(&page) {
                Some(content) => content,
                None => self.content(start, PAGE as usize)?.into_boxed_slice(),
            };
            content[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
            self.unflushed.insert(page, content);
        }
        if self.unflushed.len() > CACHE_PAGES {
            self.settle()?;
        }
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        for (page, content) in std::mem::take(&mut self.unflushed) {
            self.image.write_all_at(&content, page * PAGE)?;
        }
        Ok(())
    }

    fn settle_pages(&mut self, range: &Range<u64>) -> io::Result<()> {
        for page in pages(range) {
            if let Some(content) = self.unflushed.remove(&page) {
                self.image.write_all_at(&content, page * PAGE)?;
            }
        }
        Ok(())
    }
}

/// The pages that a range of bytes touches.
fn pages(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / PAGE..bytes.end.div_ceil(PAGE)
}

/// Copies what is not zero: the images are mostly holes.
fn copy_sparse(from: &File, to: &File, size: u64) -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    to.set_len(size)?;
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    while offset < size {
        let length = PIECE.min(usize::try_from(size - offset).unwrap_or(PIECE));
        from.read_exact_at(&mut piece[..length], offset)?;
        if piece[..length].iter().any(|byte| *byte != 0) {
            to.write_all_at(&piece[..length], offset)?;
        }
        offset += length as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
