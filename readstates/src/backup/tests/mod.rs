//! Backups from end to end, in one process: on stores in memory and in folders, with small chunks.

mod halting;
mod hidden;
mod once;
mod s3;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path as FilePath, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use halting::Halting;
use object_store::{memory::InMemory, path::Path};
use readstates_ring::Stamp;
use tempfile::TempDir;

use super::{
    BackupError, BackupPlace, Opened, Progress, Repository, WhichBackup,
    chunk::Cut,
    create::{self, Created},
    prune,
    restore::{self, Restored, Wish},
    seal::Key,
    verify,
};
use crate::{
    block::{BlockRef, EMPTY, Operation, Visit, apply},
    codec,
    store::{EmbeddedStore, MemoryStore, Scan, Store},
};

const NOW: i64 = 1_795_000_000_000_000;
const WRITTEN: i64 = NOW - 3_600_000_000;
const WRITER: u64 = 77;
const USERS: u64 = 2000;

/// What a member would have written.
fn block(message: u64) -> Vec<u8> {
    let mut block = EMPTY.to_vec();
    let operation = Operation::Ack {
        channel: 10,
        message,
        visit: Visit::default(),
    };
    apply(&mut block, &operation, WRITTEN as u64).unwrap();
    codec::encode(BlockRef::trusted(&block), WRITER)
}

async fn save(store: &dyn Store, user: u64, message: u64) {
    let stamp = Stamp::from_database(WRITTEN + message as i64);
    store.save(user, block(message), stamp).await.unwrap();
}

async fn fill(store: &dyn Store) {
    for user in 1..=USERS {
        save(store, user, user).await;
    }
}

/// The last message of each user, and the stamp of its block.
async fn contents(scan: &dyn Scan) -> BTreeMap<u64, (u64, Stamp)> {
    let mut contents = BTreeMap::new();
    let mut pages = stream::iter(0..scan.ranges()).flat_map(|range| scan.scan(range));
    while let Some(page) = pages.try_next().await.unwrap() {
        for row in page {
            let decoded = codec::decode(&row.stored.bytes).unwrap();
            let message = decoded.block.state(10).unwrap().last_message;
            contents.insert(row.user, (message, row.stored.stamp));
        }
    }
    contents
}

fn expected(stamp: Stamp) -> BTreeMap<u64, (u64, Stamp)> {
    (1..=USERS).map(|user| (user, (user, stamp))).collect()
}

fn in_memory() -> Repository {
    Repository::on(Arc::new(InMemory::new()), Path::from("a/b"), None)
}

fn in_folder(key: Option<[u8; 32]>) -> (TempDir, Repository) {
    let folder = tempfile::tempdir().unwrap();
    let repository = opened(folder.path(), key);
    (folder, repository)
}

fn opened(folder: &FilePath, key: Option<[u8; 32]>) -> Repository {
    let place = BackupPlace::Folder(folder.to_owned());
    Repository::open(&place, key.and_then(|key| Key::new(&key)), None, true).unwrap()
}

async fn create(repository: &Repository, scan: &dyn Scan) -> Result<Created, BackupError> {
    let plan = create::Plan {
        source: "test".into(),
        cut: Cut {
            least: 2000,
            most: 8000,
            one_in: 8,
        },
        parallel: 2,
    };
    create::run(repository, scan, &plan, &Progress::start()).await
}

/// How many problems there are; an unreadable manifest is one.
async fn problems(repository: &Repository) -> u64 {
    let Ok(manifest) = repository.manifest(&WhichBackup::Latest).await else {
        return 1;
    };
    let report = verify::run(repository, &manifest, &Progress::start()).await;
    report.unwrap().damage.problems
}

const WISH: Wish = Wish {
    user: None,
    overwrite: false,
    dry_run: false,
    now_micros: NOW,
};

async fn restore(
    repository: &Repository,
    into: &Opened,
    wish: Wish,
) -> Result<Restored, BackupError> {
    let manifest = repository.manifest(&WhichBackup::Latest).await?;
    restore::run(repository, &manifest, into, wish, &Progress::start()).await
}

async fn keep_last(repository: &Repository, last: usize) -> Result<prune::Pruned, BackupError> {
    let rule = prune::Rule {
        keep_last: last,
        keep_days: None,
        grace: Duration::ZERO,
    };
    prune::run(repository, &rule, false).await
}

#[tokio::test]
async fn a_backup_from_memory_is_restored_into_an_embedded_store() {
    let store = MemoryStore::default();
    fill(&store).await;
    for key in [None, Some([7; 32])] {
        let (folder, repository) = in_folder(key);
        let created = create(&repository, &store).await.unwrap();
        assert_eq!(created.manifest.users, USERS);
        assert!(created.new_chunks > 20, "{created}");
        assert_eq!(problems(&repository).await, 0);
        let embedded = EmbeddedStore::open(&folder.path().join("store"), 0).unwrap();
        let into = Opened::of(Arc::new(embedded));
        let restored = restore(&repository, &into, WISH).await.unwrap();
        assert_eq!((restored.users, restored.damage.problems), (USERS, 0));
        assert_eq!(contents(&*into.scan).await, expected(restored.stamp));
        let one = into.store.load(1).await.unwrap().unwrap();
        let writer = codec::writer(&one.bytes);
        assert!(
            writer != Some(WRITER),
            "a member would go on with its old versions"
        );
    }
}

#[tokio::test]
async fn a_later_backup_stores_only_chunks_that_changed() {
    let (store, repository) = (MemoryStore::default(), in_memory());
    fill(&store).await;
    let first = create(&repository, &store).await.unwrap();
    let again = create(&repository, &store).await.unwrap();
    assert_eq!((again.new_chunks, again.new_bytes), (0, 0));
    assert_eq!(again.manifest.chunks, first.manifest.chunks);
    save(&store, 700, 70_000).await;
    save(&store, USERS + 1, 1).await;
    let third = create(&repository, &store).await.unwrap();
    assert!((1..=8).contains(&third.new_chunks), "{third} of {first}");
    assert_eq!(problems(&repository).await, 0);
}

fn files(folder: &FilePath) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let nested = entries.map(|path| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    nested.flatten().collect()
}

#[tokio::test]
async fn a_flipped_byte_in_any_object_is_found_and_the_rest_restored() {
    let store = MemoryStore::default();
    for user in 1..=400 {
        save(&store, user, user).await;
    }
    for key in [None, Some([7; 32])] {
        let (folder, repository) = in_folder(key);
        create(&repository, &store).await.unwrap();
        let objects = files(folder.path());
        assert!(objects.len() > 8, "{objects:?}");
        for object in objects {
            let sound = fs::read(&object).unwrap();
            for at in [0, 4, 5, 20, sound.len() / 2, sound.len() - 1] {
                let mut bytes = sound.clone();
                bytes[at] ^= 4;
                fs::write(&object, bytes).unwrap();
                assert_eq!(problems(&repository).await, 1, "{object:?} at {at}");
            }
            if !object.starts_with(folder.path().join("manifests")) {
                the_rest_is_restored(&repository).await;
                fs::remove_file(&object).unwrap();
                the_rest_is_restored(&repository).await;
                let endless = fs::File::create(&object).unwrap();
                endless.set_len(1 << 40).unwrap();
                the_rest_is_restored(&repository).await;
            }
            fs::remove_file(&object).unwrap();
            assert!(problems(&repository).await >= 1, "without {object:?}");
            fs::write(&object, sound).unwrap();
        }
        assert_eq!(problems(&repository).await, 0);
    }
}

async fn the_rest_is_restored(repository: &Repository) {
    let into = Opened::memory();
    let restored = restore(repository, &into, WISH).await.unwrap();
    assert!(restored.damage.result().is_err() && (300..400).contains(&restored.users));
}

#[tokio::test]
async fn a_place_that_cannot_be_read_is_no_damage() {
    let (store, (folder, repository)) = (MemoryStore::default(), in_folder(None));
    save(&store, 1, 1).await;
    let manifest = create(&repository, &store).await.unwrap().manifest;
    let object = files(&folder.path().join("chunks")).remove(0);
    fs::remove_file(&object).unwrap();
    // A link to itself can neither be read nor is it absent.
    std::os::unix::fs::symlink(&object, &object).unwrap();
    let failed = verify::run(&repository, &manifest, &Progress::start()).await;
    let failed = failed.unwrap_err();
    assert!(matches!(failed, BackupError::Objects { .. }), "{failed}");
    assert_eq!(failed.exit_status(), 1);
}

#[tokio::test]
async fn another_key_reads_nothing() {
    let (store, (folder, repository)) = (MemoryStore::default(), in_folder(Some([7; 32])));
    save(&store, 1, 1).await;
    create(&repository, &store).await.unwrap();
    for key in [None, Some([8; 32])] {
        let other = opened(folder.path(), key);
        let refusal = other.manifest(&WhichBackup::Latest).await.unwrap_err();
        assert!(matches!(refusal, BackupError::Sealed { .. }), "{refusal}");
        assert!(
            keep_last(&other, 1).await.is_err(),
            "what it would delete may be needed"
        );
        refused_beside(folder.path(), &other, &store).await;
    }
    assert_eq!(problems(&repository).await, 0);
    let (folder, plain) = in_folder(None);
    create(&plain, &store).await.unwrap();
    let sealed = opened(folder.path(), Some([7; 32]));
    refused_beside(folder.path(), &sealed, &store).await;
    // One that can be read says that the key is right, whatever a damaged newer one looks like.
    create(&plain, &store).await.unwrap();
    let newest = plain.backups().await.unwrap().pop().unwrap();
    let damaged = folder.path().join("manifests").join(newest.to_string());
    fs::write(&damaged, "nothing of ours").unwrap();
    create(&plain, &store).await.unwrap();
}

/// With another key no backup is added, and nothing is written.
async fn refused_beside(folder: &FilePath, other: &Repository, store: &MemoryStore) {
    let before = files(folder);
    let refusal = create(other, store).await.unwrap_err();
    assert!(matches!(refusal, BackupError::OtherKey { .. }), "{refusal}");
    assert_eq!(refusal.exit_status(), 3);
    assert_eq!(files(folder), before);
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_is_killed_is_none_and_the_next_one_goes_on_from_it() {
    for pages in [1, 3, 5, 7] {
        let (store, repository) = (Halting::after(pages), in_memory());
        fill(&store.inner).await;
        let killed =
            tokio::time::timeout(Duration::from_secs(9), create(&repository, &store)).await;
        assert!(killed.is_err(), "it has come to its end");
        assert!(repository.backups().await.unwrap().is_empty(), "torn");
        let left = repository.chunks().await.unwrap().len();
        let refusal = keep_last(&repository, 1).await.unwrap_err();
        assert!(
            matches!(refusal, BackupError::Busy { .. }),
            "it may be at work: {refusal}"
        );
        let created = create(&repository, &store.inner).await.unwrap();
        // What it had cut off in the middle of a range is cut off again there.
        assert_eq!(created.new_chunks + left, created.manifest.chunks.len());
        assert_eq!(problems(&repository).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_is_killed_goes_on_under_the_same_stamp() {
    let (store, repository) = (MemoryStore::default(), in_memory());
    fill(&store).await;
    create(&repository, &store).await.unwrap();
    for writes in [1, 100, 1999] {
        let halting = Arc::new(Halting::after(writes));
        let into = Opened::of(Arc::clone(&halting));
        let killed =
            tokio::time::timeout(Duration::from_secs(9), restore(&repository, &into, WISH));
        assert!(killed.await.is_err(), "it has come to its end");
        let before = halting
            .inner
            .scan(0)
            .chain(halting.inner.scan(1))
            .try_concat()
            .await
            .unwrap();
        halting.left.store(usize::MAX, Ordering::SeqCst);
        let later = Wish {
            now_micros: NOW + 60_000_000,
            ..WISH
        };
        let restored = restore(&repository, &into, later).await.unwrap();
        assert_eq!(contents(&*into.scan).await, expected(restored.stamp));
        assert!(before.iter().all(|row| row.stored.stamp == restored.stamp));
    }
}

#[tokio::test]
async fn a_destination_with_other_rows_is_refused_unless_told_otherwise() {
    let (store, repository) = (MemoryStore::default(), in_memory());
    fill(&store).await;
    create(&repository, &store).await.unwrap();
    let into = Opened::memory();
    save(&*into.store, 7, 1_000_000).await;
    save(&*into.store, USERS + 9, 3).await;
    let before = contents(&*into.scan).await;
    let refusal = restore(&repository, &into, WISH).await.unwrap_err();
    assert!(matches!(refusal, BackupError::NotEmpty { .. }), "{refusal}");
    let one = |user| Wish {
        user: Some(user),
        ..WISH
    };
    let refusal = restore(&repository, &into, one(USERS + 9))
        .await
        .unwrap_err();
    assert!(matches!(refusal, BackupError::NoUser { .. }), "{refusal}");
    let overwrite = Wish {
        overwrite: true,
        ..WISH
    };
    for wish in [one(7), overwrite] {
        let dry = Wish {
            dry_run: true,
            ..wish
        };
        restore(&repository, &into, dry).await.unwrap();
    }
    assert_eq!(contents(&*into.scan).await, before, "nothing was written");

    let restored = restore(&repository, &into, one(7)).await.unwrap();
    let mut after = before.clone();
    after.insert(7, (7, restored.stamp));
    assert_eq!(contents(&*into.scan).await, after);
    let restored = restore(&repository, &into, overwrite).await.unwrap();
    let mut after = expected(restored.stamp);
    after.insert(USERS + 9, before[&(USERS + 9)]);
    assert_eq!(contents(&*into.scan).await, after);
}

#[tokio::test]
async fn pruning_deletes_old_backups_and_what_only_they_had() {
    let (store, repository) = (MemoryStore::default(), in_memory());
    fill(&store).await;
    create(&repository, &store).await.unwrap();
    let all = repository.chunks().await.unwrap().len();
    // Ids of one millisecond are in no order.
    tokio::time::sleep(Duration::from_millis(2)).await;
    save(&store, 700, 70_000).await;
    let second = create(&repository, &store).await.unwrap();
    let pruned = keep_last(&repository, 2).await.unwrap();
    assert_eq!(
        (pruned.backups.len(), pruned.chunks, pruned.kept),
        (0, 0, 2)
    );
    let pruned = keep_last(&repository, 1).await.unwrap();
    assert_eq!((pruned.backups.len(), pruned.kept), (1, 1));
    assert!((1..=5).contains(&pruned.chunks), "{pruned}");
    let left = repository.chunks().await.unwrap().len();
    assert_eq!(left, all + second.new_chunks - pruned.chunks);
    assert_eq!(left, second.manifest.chunks.len());
    assert_eq!(problems(&repository).await, 0);
    assert!(repository.list("running").await.unwrap().is_empty());
}
