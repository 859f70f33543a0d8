//! A restore for a new cluster: done once, whatever it is killed between, and never where members have served.

use std::{
    fs,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, ready},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use readstates_ring::Stamp;

use super::{
    NOW, USERS, block, contents, create, expected, files, fill, halting::Halting, in_folder,
    in_memory, save,
};
use crate::{
    backup::{
        BackupError, BackupId, OnceRefusal, Opened, Progress, Repository, WhichBackup,
        once::{self, Once},
    },
    store::{
        BegunRestore, ClaimName, MemoryStore, RestoreRecord, RestoreRecords, Store, StoreError,
    },
};

/// A destination and its record, which stop answering together.
struct Destination {
    store: Arc<Halting>,
    record: Mutex<RestoreRecord>,
    /// What others do just when a restore begins.
    meanwhile: fn(&mut RestoreRecord, &MemoryStore),
}

impl Destination {
    fn new() -> Self {
        Self {
            store: Arc::new(Halting::after(usize::MAX)),
            record: Mutex::default(),
            meanwhile: |_, _| {},
        }
    }

    fn opened(&self) -> Opened {
        Opened::of(Arc::clone(&self.store))
    }

    fn begun(&self) -> Option<BegunRestore> {
        self.record.lock().begun.clone()
    }

    /// What is there, if everything has one stamp.
    async fn has_one_backup(&self) -> bool {
        let rows = contents(&self.store.inner).await;
        let stamp = rows.values().next().map(|(_, stamp)| *stamp);
        stamp.is_some_and(|stamp| rows == expected(stamp))
    }

    fn change<'a>(
        &'a self,
        change: impl FnOnce(&mut RestoreRecord) + Send + 'a,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let changed = async move {
            self.store.step().await;
            change(&mut self.record.lock());
            Ok(())
        };
        changed.boxed()
    }
}

impl RestoreRecords for Destination {
    fn read(&self) -> BoxFuture<'_, Result<RestoreRecord, StoreError>> {
        ready(Ok(self.record.lock().clone())).boxed()
    }

    fn begin<'a>(&'a self, begun: &'a BegunRestore) -> BoxFuture<'a, Result<(), StoreError>> {
        self.change(|record| {
            record.begun = Some(begun.clone());
            (self.meanwhile)(record, &self.store.inner);
        })
    }

    fn withdraw(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.change(|record| record.begun = None)
    }

    fn reached(&self, chunks: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        self.change(move |record| record.begun.as_mut().unwrap().chunks = chunks)
    }

    fn finish(&self, at: Timestamp) -> BoxFuture<'_, Result<(), StoreError>> {
        self.change(move |record| record.begun.as_mut().unwrap().finished = Some(at))
    }
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_microsecond(NOW + minute * 60_000_000).unwrap()
}

async fn restore_as(
    claim: &str,
    repository: &Repository,
    into: &Destination,
    backup: &WhichBackup,
    minute: i64,
) -> Result<Once, BackupError> {
    let claim: ClaimName = claim.parse().unwrap();
    let wish = once::Wish {
        backup,
        claim: &claim,
        now: at(minute),
    };
    once::run(repository, &into.opened(), into, wish, &Progress::start()).await
}

async fn restore(repository: &Repository, into: &Destination) -> Result<Once, BackupError> {
    restore_as("chat", repository, into, &WhichBackup::Latest, 0).await
}

fn refusal(outcome: Result<Once, BackupError>) -> OnceRefusal {
    match outcome {
        Err(error @ BackupError::Once(_)) => {
            assert_eq!(error.exit_status(), 3);
            let BackupError::Once(refusal) = error else {
                unreachable!()
            };
            refusal
        }
        other => panic!("{other:?}"),
    }
}

/// A backup of all users.
async fn backed_up() -> (MemoryStore, Repository, BackupId) {
    let (store, repository) = (MemoryStore::default(), in_memory());
    fill(&store).await;
    let id = create(&repository, &store).await.unwrap().manifest.id;
    (store, repository, id)
}

#[tokio::test]
async fn what_is_restored_once_is_never_restored_again() {
    let (source, repository, id) = backed_up().await;
    let into = Destination::new();
    let done = restore(&repository, &into).await.unwrap();
    assert_eq!(done.report().id, &id);
    assert!(into.has_one_backup().await);

    // Members have served since, and there is a later backup.
    let later = Stamp::from_database(NOW + 1_000_000_000);
    into.store.inner.save(7, block(70), later).await.unwrap();
    into.record.lock().served = Some(at(9));
    save(&source, 8, 80_000).await;
    create(&repository, &source).await.unwrap();
    let before = contents(&into.store.inner).await;
    let again = restore(&repository, &into).await.unwrap();
    assert_eq!(again.report().id, &id);
    assert_eq!(again.report().users, Some(USERS));
    assert_eq!(contents(&into.store.inner).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_is_killed_between_any_two_steps_ends_with_the_backup_it_began() {
    let (source, repository, id) = backed_up().await;
    let first = (0..40).chain([100, 1000, 1990]);
    let last = USERS as usize..USERS as usize + 60;
    let (mut killed, mut half) = (0, 0);
    for steps in first.chain(last) {
        let into = Destination::new();
        into.store.left.store(steps, Ordering::SeqCst);
        let attempt = restore(&repository, &into);
        if tokio::time::timeout(Duration::from_secs(9), attempt)
            .await
            .is_ok()
        {
            break;
        }
        killed += 1;
        half += usize::from(into.begun().is_some_and(|begun| begun.chunks > 0));
        into.store.left.store(usize::MAX, Ordering::SeqCst);
        let begun = into.begun().is_some();
        if begun {
            // `latest` is another one from here on, and the clock goes on.
            save(&source, 9, 90_000 + steps as u64).await;
            create(&repository, &source).await.unwrap();
        }
        let wish = match begun {
            true => WhichBackup::Latest,
            false => WhichBackup::Id(id.clone()),
        };
        let done = restore_as("chat", &repository, &into, &wish, 5).await;
        assert_eq!(
            done.unwrap().report().id.as_str(),
            into.begun().unwrap().backup
        );
        assert!(into.begun().unwrap().finished.is_some());
        let rows = contents(&into.store.inner).await;
        let stamps: std::collections::BTreeSet<_> = rows.values().map(|(_, stamp)| stamp).collect();
        assert_eq!(
            (rows.len() as u64, stamps.len()),
            (USERS, 1),
            "after {steps} steps"
        );
    }
    assert!(
        killed > 45 && half > 2,
        "{killed} killed, {half} of them half done"
    );
}

#[tokio::test]
async fn nothing_is_restored_where_members_have_served_or_where_there_are_rows() {
    let (_, repository, _) = backed_up().await;
    let served = Destination::new();
    served.record.lock().served = Some(at(-60));
    let refused = refusal(restore(&repository, &served).await);
    assert_eq!(refused, OnceRefusal::Served { since: at(-60) });

    let rows = Destination::new();
    save(&rows.store.inner, 7, 1).await;
    let refused = refusal(restore(&repository, &rows).await);
    assert!(
        matches!(refused, OnceRefusal::Rows { others: 1, .. }),
        "{refused}"
    );
    assert_eq!(contents(&rows.store.inner).await.len(), 1);

    let meeting = Destination {
        meanwhile: |record, _| record.served = Some(at(0)),
        ..Destination::new()
    };
    let refused = refusal(restore(&repository, &meeting).await);
    assert!(matches!(refused, OnceRefusal::Served { .. }), "{refused}");
    for into in [&served, &rows, &meeting] {
        assert_eq!(into.begun(), None, "members would wait for its end");
    }
    assert!(contents(&meeting.store.inner).await.is_empty());
}

/// As a process that was thought dead, and restores another backup.
#[tokio::test]
async fn rows_that_others_write_meanwhile_are_found_before_the_end() {
    let (_, repository, _) = backed_up().await;
    let into = Destination {
        meanwhile: |_, store| {
            let late = Stamp::from_database(NOW + 1);
            let saved = store.save(USERS + 1, block(1), late).now_or_never();
            saved.unwrap().unwrap();
        },
        ..Destination::new()
    };
    let refused = refusal(restore(&repository, &into).await);
    assert!(
        matches!(refused, OnceRefusal::Rows { others: 1, .. }),
        "{refused}"
    );
    assert_eq!(into.begun().unwrap().finished, None);
}

#[tokio::test(start_paused = true)]
async fn a_restore_of_another_backup_or_for_another_cluster_is_left_alone() {
    let (source, repository, id) = backed_up().await;
    save(&source, 8, 80_000).await;
    let other = create(&repository, &source).await.unwrap().manifest.id;
    let (first, other) = (WhichBackup::Id(id), WhichBackup::Id(other));
    let into = Destination::new();
    into.store.left.store(500, Ordering::SeqCst);
    let attempt = restore_as("chat", &repository, &into, &first, 0);
    let killed = tokio::time::timeout(Duration::from_secs(9), attempt).await;
    assert!(killed.is_err() && into.begun().is_some());
    into.store.left.store(usize::MAX, Ordering::SeqCst);
    for (claim, backup) in [("chat", &other), ("mail", &first)] {
        let refused = refusal(restore_as(claim, &repository, &into, backup, 1).await);
        assert!(matches!(refused, OnceRefusal::Half { .. }), "{refused}");
    }
    restore_as("chat", &repository, &into, &first, 1)
        .await
        .unwrap();
    for (claim, backup) in [("chat", &other), ("mail", &first)] {
        let refused = refusal(restore_as(claim, &repository, &into, backup, 1).await);
        assert!(matches!(refused, OnceRefusal::Before { .. }), "{refused}");
    }
    assert!(into.has_one_backup().await);
}

#[tokio::test]
async fn a_damaged_backup_is_found_before_anything_is_written() {
    let (folder, repository) = in_folder(None);
    let store = MemoryStore::default();
    fill(&store).await;
    create(&repository, &store).await.unwrap();
    let object = files(&folder.path().join("chunks")).pop().unwrap();
    fs::remove_file(object).unwrap();
    let into = Destination::new();
    let error = restore(&repository, &into).await.unwrap_err();
    assert_eq!(error.exit_status(), 4, "{error}");
    assert_eq!(into.begun(), None);
    assert!(contents(&into.store.inner).await.is_empty());
}
