//! The thread that writes the journal: a frame, a sync, and again.
//!
//! A disk that fails a write or a sync may have dropped what it had taken before, also if a later sync succeeds. So
//! after an error the file is left as it is, with as many bytes as were acknowledged, and everything that was not is
//! written to a new one.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{
    Closed, End, Journal,
    folder::{Log, Medium},
    segment::{self, HEAD, Head},
};

/// Without a caller who waits, changes are written this soon: those of a caller who went away.
const IDLE: Duration = Duration::from_millis(50);

/// A file is closed when it is longer than this.
const LONGEST_FILE: u64 = 8 << 20;

/// The disk keeps this much room for the store, without which the journal could never become shorter.
const RESERVE: u64 = 16 << 20;

/// Between two attempts, when the disk does not take a frame.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(1);

/// The file that is written.
struct Open {
    log: Box<dyn Log>,
    number: u64,
    /// Frames that are on the disk, and the file's bytes with them.
    frames: u64,
    bytes: u64,
}

pub(super) struct Writer {
    journal: Arc<Journal>,
    medium: Box<dyn Medium>,
    incarnation: u64,
    open: Option<Open>,
    next: u64,
    /// Files that could not be begun, and not removed either: not a byte of them was acknowledged.
    abandoned: Vec<u64>,
    /// The last round.
    round: u64,
    /// The records of a frame, and the frame; kept for their memory.
    records: Vec<u8>,
    frame: Vec<u8>,
}

impl Writer {
    /// Makes the first file, so that a disk that takes none is known at the start.
    pub(super) fn new(
        journal: Arc<Journal>,
        medium: Box<dyn Medium>,
        first: u64,
        incarnation: u64,
    ) -> io::Result<Self> {
        let mut writer = Self {
            journal,
            medium,
            incarnation,
            open: None,
            next: first,
            abandoned: Vec::new(),
            round: 0,
            records: Vec::new(),
            frame: Vec::new(),
        };
        let started = Instant::now();
        writer.open()?;
        let took = started.elapsed();
        tracing::info!(
            ?took,
            "a journal was begun; each change waits for a sync of this disk"
        );
        Ok(writer)
    }

    /// Works until [`Journal::end`].
    pub(super) fn run(&mut self) {
        loop {
            let end = *self.journal.end.lock();
            self.remove_written();
            if self.journal.pending.load(Ordering::SeqCst) > 0 {
                if let Some(end) = self.write_round() {
                    // What came behind the round that was given up would be on the disk without it.
                    self.finish(end);
                    return;
                }
                continue;
            }
            if let Some(end) = end {
                self.finish(end);
                return;
            }
            self.journal.idle.store(true, Ordering::SeqCst);
            if self.journal.pending.load(Ordering::SeqCst) == 0 {
                std::thread::park_timeout(IDLE);
            }
            self.journal.idle.store(false, Ordering::SeqCst);
        }
    }

    /// Writes what is in the buffers, however long that takes: only an end gives up, and is returned.
    fn write_round(&mut self) -> Option<End> {
        self.records.clear();
        self.round += 1;
        let round = self.round;
        self.journal.take(round, &mut self.records);
        *self.journal.writing.lock() = Some(Instant::now());
        let mut wait = FIRST_RETRY;
        loop {
            match self.write() {
                Ok(()) => break,
                Err(error) => {
                    self.journal.counts.failures.increment(1);
                    self.journal
                        .fails(format!("the disk does not take the journal: {error}"));
                    self.close();
                }
            }
            let end = *self.journal.end.lock();
            if end.is_some() {
                tracing::error!("stopped while the disk does not take the journal");
                return end;
            }
            // An end wakes it.
            std::thread::park_timeout(wait);
            wait = (wait * 2).min(LAST_RETRY);
        }
        self.journal.land(round);
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.bytes > LONGEST_FILE)
        {
            self.close();
        }
        None
    }

    /// One attempt.
    fn write(&mut self) -> io::Result<()> {
        let needed = RESERVE + self.records.len() as u64;
        if let Some(free) = self.medium.free()
            && free < needed
        {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "{free} bytes are left on its disk, of which {RESERVE} are kept for the store; make room there"
                ),
            ));
        }
        if self.open.is_none() {
            self.open()?;
        }
        let Some(open) = &mut self.open else {
            return Err(io::Error::other("no file is open"));
        };
        self.frame.clear();
        segment::put_frame(&mut self.frame, open.number, open.frames, &self.records);
        open.log.write(&self.frame)?;
        let started = Instant::now();
        open.log.sync()?;
        self.journal.counts.sync_seconds.record(started.elapsed());
        open.frames += 1;
        open.bytes += self.frame.len() as u64;
        self.journal.counts.bytes.increment(self.frame.len() as u64);
        self.journal.open_bytes.store(open.bytes, Ordering::Relaxed);
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        let number = self.next;
        // A number is used once, whatever becomes of its file.
        self.next += 1;
        let begun = self.begin(number);
        if begun.is_err() {
            self.abandoned.push(number);
        }
        // No later file names one of these: when the files around it are removed, it would seem that one is missing.
        let medium = &mut self.medium;
        self.abandoned
            .retain(|&number| medium.remove(number).is_err());
        self.open = Some(Open {
            log: begun?,
            number,
            frames: 0,
            bytes: HEAD as u64,
        });
        self.journal
            .open_bytes
            .store(HEAD as u64, Ordering::Relaxed);
        Ok(())
    }

    /// A file with its head.
    fn begin(&mut self, number: u64) -> io::Result<Box<dyn Log>> {
        let previous = self.journal.closed.lock().back().copied();
        let head = Head {
            number,
            incarnation: self.incarnation,
            previous: previous.map(|closed| (closed.number, closed.bytes)),
        };
        let mut log = self.medium.create(number)?;
        log.write(&head.encode())?;
        log.sync()?;
        Ok(log)
    }

    /// Closes the file; the next write begins another.
    fn close(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        self.journal.closed.lock().push_back(Closed {
            number: open.number,
            bytes: open.bytes,
            at: Instant::now(),
        });
        let counts = &self.journal.counts;
        counts.closed_bytes.fetch_add(open.bytes, Ordering::Relaxed);
        self.journal.open_bytes.store(0, Ordering::Relaxed);
    }

    /// Removes the files of which the store has everything, oldest first.
    fn remove_written(&mut self) {
        let Some(until) = *self.journal.written_until.lock() else {
            return;
        };
        loop {
            let first = self.journal.closed.lock().front().copied();
            let Some(closed) = first.filter(|closed| closed.at < until) else {
                return;
            };
            if let Err(error) = self.medium.remove(closed.number) {
                tracing::warn!(%error, "failed to remove a file of the journal that is not needed");
                return;
            }
            self.journal.closed.lock().pop_front();
            let counts = &self.journal.counts;
            counts
                .closed_bytes
                .fetch_sub(closed.bytes, Ordering::Relaxed);
        }
    }

    fn finish(&mut self, end: End) {
        self.close();
        if end == End::Clean {
            // After the moment at which the last file was closed.
            let now = Instant::now() + Duration::from_nanos(1);
            *self.journal.written_until.lock() = Some(now);
            self.remove_written();
        }
    }
}
