//! A disk that fails, fills up, hangs and loses power, in memory.

use std::{
    collections::BTreeMap,
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::journal::folder::{Folder, Log, Medium};

/// What is on a disk, in files, and what the disk does.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// By number.
    pub(super) files: Mutex<BTreeMap<u64, Contents>>,
    pub(super) free: AtomicU64,
    pub(super) full: AtomicBool,
    pub(super) syncs: AtomicU64,
    /// So many syncs fail from now on.
    pub(super) failing_syncs: AtomicU64,
    pub(super) hangs: AtomicBool,
}

/// What is synced, and what is written and not synced.
pub(super) type Contents = (Vec<u8>, Vec<u8>);

#[derive(Debug)]
pub(super) struct OnDisk(pub(super) Arc<Disk>);

#[derive(Debug)]
struct OfDisk {
    disk: Arc<Disk>,
    number: u64,
}

impl Medium for OnDisk {
    fn create(&mut self, number: u64) -> io::Result<Box<dyn Log>> {
        if self.0.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.files.lock().insert(number, Default::default());
        let disk = Arc::clone(&self.0);
        Ok(Box::new(OfDisk { disk, number }))
    }

    fn remove(&mut self, number: u64) -> io::Result<()> {
        self.0.files.lock().remove(&number);
        Ok(())
    }

    fn free(&self) -> Option<u64> {
        match self.0.free.load(Ordering::SeqCst) {
            0 => None,
            free => Some(free),
        }
    }
}

impl Log for OfDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.disk.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut files = self.disk.files.lock();
        files.entry(self.number).or_default().1.extend(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        while self.disk.hangs.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let failing = &self.disk.failing_syncs;
        let less = |left: u64| left.checked_sub(1);
        if failing
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
            .is_ok()
        {
            return Err(io::Error::other("the page could not be written"));
        }
        self.disk.syncs.fetch_add(1, Ordering::SeqCst);
        let mut files = self.disk.files.lock();
        let (synced, written) = files.entry(self.number).or_default();
        synced.append(written);
        Ok(())
    }
}

impl Disk {
    /// Puts into a folder what is there after a cut of power: what was synced, and of the rest as many bytes.
    pub(super) fn cut(&self, folder: &std::path::Path, torn: usize) {
        fs::create_dir_all(folder).unwrap();
        let names = Folder::open(folder).unwrap();
        for (&number, (synced, written)) in &*self.files.lock() {
            let torn = &written[..torn.min(written.len())];
            fs::write(names.file(number), [synced, torn].concat()).unwrap();
        }
    }
}
