//! The patrol: reads the whole mirror, slowly, so that a sector that went bad is found while the other leg still
//! has its content. md itself mends what it cannot read by writing it again.
//!
//! While both legs are in sync the reads go to the fast leg alone: a patrol costs the network disk nothing. In
//! comes a disk, a rate and how far an earlier patrol came; out comes the record, saved on the way. It never
//! writes to the disk and never reads while the fast leg is away.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags, SeekFrom};
use serde::{Deserialize, Serialize};

use crate::{heal::memory::Seconds, stop::Stop};

/// Read in one go. Larger than a stripe of the fast array, so that all its devices work at once.
pub const PIECE_BYTES: usize = 1 << 20;
/// What is read alone when a piece cannot be: the block in which md heals.
const BLOCK_BYTES: usize = 4096;
/// How often the position is saved.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// How long to wait before looking again whether the fast leg is back.
const AWAY_PAUSE: Duration = Duration::from_secs(10);

/// What is known of patrols.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When the last one came to the end.
    pub last_finished: Option<Seconds>,
    /// Blocks of 4 KiB that neither leg could give in it.
    pub last_unreadable: u64,
    /// Where the present one is, in bytes; 0 when none is under way.
    pub position: u64,
    /// Blocks that neither leg could give in the present one.
    pub unreadable: u64,
}

/// Whether a patrol is to begin, or to go on, with `every` seconds between two of them. One that ended in the future, while
/// the clock was ahead, says nothing.
#[must_use]
pub fn is_due(record: &Record, every: Seconds, now: Seconds) -> bool {
    let is_recent = |last: Seconds| (last..last.saturating_add(every)).contains(&now);
    record.position > 0 || !record.last_finished.is_some_and(is_recent)
}

/// Something to patrol.
pub trait Disk {
    /// Capacity.
    fn bytes(&self) -> u64;
    /// Reads `length` bytes at `offset`, from the medium, never from memory.
    fn read(&mut self, offset: u64, length: usize) -> io::Result<()>;
}

/// The surroundings of a patrol.
pub trait Guide {
    /// Whether reads go to the fast leg now.
    fn may_read(&self) -> bool;
    /// Keeps the record for the next start.
    fn save(&self, record: &Record);
    /// Seconds since 1970.
    fn now(&self) -> Seconds;
    /// Waits; true when the patrol shall end.
    fn pause(&self, at_most: Duration) -> bool;
}

/// Reads from where `record` says to the end, at most `bytes_per_second` fast. Returns early when told to stop.
pub fn patrol(disk: &mut dyn Disk, bytes_per_second: u64, record: &mut Record, guide: &dyn Guide) {
    let mut pace = Pace::new(bytes_per_second);
    let mut saved = Instant::now();
    // The disk may have been replaced by a smaller one.
    if record.position >= disk.bytes() {
        record.position = 0;
    }
    while record.position < disk.bytes() {
        if !guide.may_read() {
            if guide.pause(AWAY_PAUSE) {
                guide.save(record);
                return;
            }
            pace = Pace::new(bytes_per_second);
            continue;
        }
        let length = (disk.bytes() - record.position).min(PIECE_BYTES as u64) as usize;
        record.unreadable += unreadable_blocks(disk, record.position, length);
        record.position += length as u64;
        if saved.elapsed() >= SAVE_EVERY {
            guide.save(record);
            saved = Instant::now();
        }
        if guide.pause(pace.rest(length)) {
            guide.save(record);
            return;
        }
    }
    *record = Record {
        last_finished: Some(guide.now()),
        last_unreadable: record.unreadable,
        position: 0,
        unreadable: 0,
    };
    guide.save(record);
}

/// Reads a piece; block by block when it cannot be read whole, so that every other block is patrolled too.
fn unreadable_blocks(disk: &mut dyn Disk, offset: u64, length: usize) -> u64 {
    if disk.read(offset, length).is_ok() {
        return 0;
    }
    let blocks = (0..length).step_by(BLOCK_BYTES);
    let mut failed = |start: &usize| {
        let one = BLOCK_BYTES.min(length - start);
        disk.read(offset + *start as u64, one).is_err()
    };
    blocks.filter(|start| failed(start)).count() as u64
}

/// Keeps to a rate over time, without catching up after a stall.
struct Pace {
    bytes_per_second: u64,
    next: Instant,
}

impl Pace {
    fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            next: Instant::now(),
        }
    }

    /// How long to wait after reading `length` bytes.
    fn rest(&mut self, length: usize) -> Duration {
        let now = Instant::now();
        let takes = Duration::from_secs_f64(length as f64 / self.bytes_per_second as f64);
        self.next = self.next.max(now) + takes;
        self.next - now
    }
}

/// A block device, read past the page cache.
#[derive(Debug)]
pub struct BlockDevice {
    file: File,
    bytes: u64,
    buffer: Vec<u8>,
    /// Where in the buffer the kernel will read to: direct IO wants whole blocks of memory too.
    aligned: usize,
}

impl BlockDevice {
    /// Opens it for reading.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0))?;
        let buffer = vec![0; PIECE_BYTES + BLOCK_BYTES];
        let aligned = buffer.as_ptr().align_offset(BLOCK_BYTES);
        Ok(Self {
            file,
            bytes,
            buffer,
            aligned,
        })
    }
}

impl Disk for BlockDevice {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self, offset: u64, length: usize) -> io::Result<()> {
        let into = &mut self.buffer[self.aligned..self.aligned + length];
        self.file.read_exact_at(into, offset)
    }
}

/// Lets a patrol be stopped by [`Stop`] and keeps its record by `save`.
pub struct Escort<'a> {
    /// Says when to end.
    pub stop: &'a Stop,
    /// Whether reads go to the fast leg.
    pub may_read: &'a dyn Fn() -> bool,
    /// Keeps the record.
    pub save: &'a dyn Fn(&Record),
    /// Seconds since 1970.
    pub now: &'a dyn Fn() -> Seconds,
}

impl std::fmt::Debug for Escort<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Escort").finish_non_exhaustive()
    }
}

impl Guide for Escort<'_> {
    fn may_read(&self) -> bool {
        (self.may_read)()
    }

    fn save(&self, record: &Record) {
        (self.save)(record);
    }

    fn now(&self) -> Seconds {
        (self.now)()
    }

    fn pause(&self, at_most: Duration) -> bool {
        self.stop.pause(at_most)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, ops::Range};

    use super::*;

    const MIB: u64 = 1 << 20;

    struct Fake {
        bytes: u64,
        bad: Vec<Range<u64>>,
        read: Vec<(u64, usize)>,
    }

    impl Disk for Fake {
        fn bytes(&self) -> u64 {
            self.bytes
        }

        fn read(&mut self, offset: u64, length: usize) -> io::Result<()> {
            self.read.push((offset, length));
            let end = offset + length as u64;
            let bad = |range: &Range<u64>| range.start < end && offset < range.end;
            if self.bad.iter().any(bad) {
                return Err(io::Error::from_raw_os_error(5));
            }
            Ok(())
        }
    }

    /// Pauses take no time; the patrol is told to end after `patience` of them.
    struct Steward {
        patience: RefCell<u32>,
        away_for: RefCell<u32>,
        saved: RefCell<Vec<Record>>,
    }

    impl Steward {
        fn patient() -> Self {
            Self {
                patience: RefCell::new(u32::MAX),
                away_for: RefCell::new(0),
                saved: RefCell::default(),
            }
        }
    }

    impl Guide for Steward {
        fn may_read(&self) -> bool {
            let mut away = self.away_for.borrow_mut();
            let back = *away == 0;
            *away = away.saturating_sub(1);
            back
        }

        fn save(&self, record: &Record) {
            self.saved.borrow_mut().push(record.clone());
        }

        fn now(&self) -> Seconds {
            7
        }

        fn pause(&self, _: Duration) -> bool {
            let mut patience = self.patience.borrow_mut();
            *patience -= 1;
            *patience == 0
        }
    }

    fn disk(bytes: u64, bad: &[Range<u64>]) -> Fake {
        Fake {
            bytes,
            bad: bad.to_vec(),
            read: Vec::new(),
        }
    }

    #[test]
    fn a_patrol_is_due_after_its_pause_or_when_the_clock_was_ahead_at_the_last() {
        let due = |last_finished, position| {
            let record = Record {
                last_finished,
                position,
                ..Record::default()
            };
            is_due(&record, 100, 1000)
        };
        assert!(due(None, 0) && due(Some(900), 0) && due(Some(1000), 4096));
        assert!(!due(Some(901), 0) && !due(Some(1000), 0));
        assert!(due(Some(1001), 0));
    }

    #[test]
    fn every_byte_is_read_once_and_the_end_is_recorded() {
        let mut fake = disk(2 * MIB + 8192, &[]);
        let mut record = Record::default();
        let guide = Steward::patient();
        patrol(&mut fake, MIB, &mut record, &guide);
        let mib = PIECE_BYTES;
        assert_eq!(fake.read, [(0, mib), (MIB, mib), (2 * MIB, 8192)]);
        let want = Record {
            last_finished: Some(7),
            ..Record::default()
        };
        assert_eq!((&record, guide.saved.borrow().last()), (&want, Some(&want)));
    }

    #[test]
    fn what_cannot_be_read_is_counted_in_blocks_and_the_rest_is_read() {
        let mut fake = disk(
            2 * MIB,
            &[MIB + 4096..MIB + 4097, MIB + 20_480..MIB + 28_672],
        );
        let mut record = Record::default();
        patrol(&mut fake, MIB, &mut record, &Steward::patient());
        assert_eq!(record.last_unreadable, 3);
        assert_eq!(fake.read.len(), 2 + 256);
    }

    #[test]
    fn a_stopped_patrol_goes_on_where_it_was() {
        let mut fake = disk(8 * MIB, &[]);
        let mut record = Record::default();
        let guide = Steward {
            patience: RefCell::new(3),
            ..Steward::patient()
        };
        patrol(&mut fake, MIB, &mut record, &guide);
        assert_eq!((record.position, record.last_finished), (3 * MIB, None));
        assert_eq!(guide.saved.borrow().last(), Some(&record));
        fake.read.clear();
        patrol(&mut fake, MIB, &mut record, &Steward::patient());
        assert_eq!((fake.read[0].0, fake.read.len()), (3 * MIB, 5));
        assert_eq!(record.last_finished, Some(7));
    }

    #[test]
    fn nothing_is_read_while_the_fast_leg_is_away() {
        let mut fake = disk(MIB, &[]);
        let guide = Steward {
            patience: RefCell::new(3),
            away_for: RefCell::new(u32::MAX),
            ..Steward::patient()
        };
        let mut record = Record::default();
        patrol(&mut fake, MIB, &mut record, &guide);
        assert_eq!((fake.read.len(), record.last_finished), (0, None));
    }

    #[test]
    fn a_position_behind_the_end_of_a_smaller_disk_begins_anew() {
        let mut fake = disk(MIB, &[]);
        let mut record = Record {
            position: 5 * MIB,
            ..Record::default()
        };
        patrol(&mut fake, MIB, &mut record, &Steward::patient());
        assert_eq!(fake.read, [(0, PIECE_BYTES)]);
    }

    #[test]
    fn the_pace_is_kept_and_a_stall_is_not_caught_up_on() {
        let mut pace = Pace::new(4 * MIB);
        let first = pace.rest(PIECE_BYTES);
        assert!(first <= Duration::from_millis(250) && first > Duration::from_millis(200));
        pace.next = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
        assert!(pace.rest(PIECE_BYTES) > Duration::from_millis(200));
    }

    #[test]
    fn a_real_file_is_read_past_the_cache_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![1; PIECE_BYTES + BLOCK_BYTES]).unwrap();
        // Some filesystems (tmpfs of old kernels) have no direct IO: nothing to test there.
        let Ok(mut device) = BlockDevice::open(&path) else {
            return;
        };
        let mut record = Record::default();
        patrol(&mut device, u64::MAX, &mut record, &Steward::patient());
        assert_eq!((record.last_finished, record.last_unreadable), (Some(7), 0));
    }
}
