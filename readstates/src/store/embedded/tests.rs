//! A disk that fails, hangs and recovers, and a file that has become mostly empty.

use std::sync::atomic::{AtomicBool, Ordering};

use redb::{StorageBackend, backends::FileBackend};

use super::*;

/// A file whose reads and writes can be made to fail.
#[derive(Debug)]
struct Failing {
    file: FileBackend,
    fails: Arc<AtomicBool>,
}

impl Failing {
    fn works(&self) -> io::Result<()> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.works()?;
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.works()?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.works()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.works()?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.works()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// A store on a disk that fails when told to.
fn on_a_bad_disk(folder: &Path) -> (EmbeddedStore, Arc<AtomicBool>) {
    let (path, fails) = (folder.join(FILE), Arc::new(AtomicBool::new(false)));
    let opener: Opener = Box::new({
        let (path, fails) = (path.clone(), Arc::clone(&fails));
        move || {
            let file = fs::File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path);
            let file = FileBackend::new(file.map_err(redb::StorageError::Io)?)?;
            let fails = Arc::clone(&fails);
            Builder::new().create_with_backend(Failing { file, fails })
        }
    });
    let store = EmbeddedStore::open_by(&path, opener, u64::MAX).expect("a store");
    (store, fails)
}

fn stamp(timestamp: i64) -> Stamp {
    Stamp::from_database(timestamp)
}

/// Tries until it succeeds: an attempt to open the file again has to wait some seconds at most.
async fn at_last<T, F: Future<Output = Result<T, StoreError>>>(attempt: impl Fn() -> F) -> T {
    let mut last = None;
    for _ in 0..600 {
        match attempt().await {
            Ok(done) => return done,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never recovered: {last:?}");
}

/// Writes this many users, a few at once, so that a slow machine has time for each.
async fn write(store: &EmbeddedStore, users: u64, bytes: Vec<u8>, time: i64) {
    let all: Vec<u64> = (1..=users).collect();
    for some in all.chunks(50) {
        let saves = some
            .iter()
            .map(|&user| store.save(user, bytes.clone(), stamp(time)));
        for saved in futures::future::join_all(saves).await {
            saved.expect("a write");
        }
    }
}

#[tokio::test]
async fn a_disk_that_failed_and_recovers_is_written_and_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, fails) = on_a_bad_disk(folder.path());
    store
        .save(1, b"before".to_vec(), stamp(1))
        .await
        .expect("a write");
    for round in 2..5 {
        fails.store(true, Ordering::SeqCst);
        let refused = store.save(1, b"lost".to_vec(), stamp(round)).await;
        refused.expect_err("the disk fails");
        store.check().await.expect_err("it is not healthy");
        fails.store(false, Ordering::SeqCst);
        at_last(|| store.check()).await;
        let kept = store.load(1).await.expect("a read").expect("a block");
        assert!(kept.stamp < stamp(round), "what failed is not there");
        let again = format!("after {round}").into_bytes();
        store.save(1, again, stamp(round)).await.expect("a write");
    }
    let kept = store.load(1).await.expect("a read").expect("a block");
    assert_eq!((kept.bytes, kept.stamp), (b"after 4".to_vec(), stamp(4)));
}

#[tokio::test]
async fn a_failed_read_is_not_for_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, fails) = on_a_bad_disk(folder.path());
    store
        .save(1, b"there".to_vec(), stamp(1))
        .await
        .expect("a write");
    // Closed and opened again: nothing of it is in redb's cache.
    fails.store(true, Ordering::SeqCst);
    store.check().await.expect_err("a commit");
    store.load(1).await.expect_err("a read");
    fails.store(false, Ordering::SeqCst);
    let found = at_last(|| store.load(1)).await.expect("a block");
    assert_eq!(found.bytes, b"there");
}

#[tokio::test]
async fn a_check_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 0).expect("a store");
    for _ in 0..3 {
        store.check().await.expect("healthy");
    }
    let checks = store.file.with(|database| {
        let table = database.begin_read()?.open_table(file::CHECKS)?;
        Ok(table.get(0)?.map(|count| count.value()))
    });
    assert_eq!(checks.expect("a read"), Some(3));
}

#[tokio::test]
async fn a_file_that_is_mostly_unused_is_compacted_when_it_is_opened() {
    const LEAST: u64 = 1 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(FILE);
    let size = || fs::metadata(&path).expect("a file").len();
    let opener = || -> Opener {
        let path = path.clone();
        Box::new(move || Builder::new().set_cache_size(1 << 20).create(&path))
    };
    let store = EmbeddedStore::open_by(&path, opener(), LEAST).expect("a store");
    for (time, bytes) in [(1, 16 << 10), (2, 10)] {
        write(&store, 1000, vec![7; bytes], time).await;
    }
    drop(store);
    let before = size();
    let store = loop {
        // The writer of a dropped store ends a moment later.
        match EmbeddedStore::open_by(&path, opener(), LEAST) {
            Ok(store) => break store,
            Err(OpenError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(other) => panic!("{other}"),
        }
    };
    at_last(|| store.check()).await;
    let after = size();
    println!("{before} bytes before, {after} after");
    assert!(after < before / 2, "{before} bytes before, {after} after");
    for user in [1, 500, 1000] {
        let found = store.load(user).await.expect("a read").expect("a block");
        assert_eq!((found.bytes, found.stamp), (vec![7; 10], stamp(2)));
    }
}

#[tokio::test]
async fn its_cache_is_a_part_of_the_budget_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(folder.path(), 0).expect("a store");
    write(&store, 4000, vec![7; 4000], 1).await;
    for user in 1..=4000 {
        store.load(user).await.expect("a read").expect("a block");
    }
    let cached = store.memory();
    assert!(
        (LEAST_CACHE / 4..=LEAST_CACHE + (1 << 20)).contains(&cached),
        "{cached} bytes of 16 MB that were written and read"
    );
}
