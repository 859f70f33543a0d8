//! Restores into a database that deletes have gone before.

use futures::{FutureExt, StreamExt, future::BoxFuture};
use readstates_api::admin::StoreKind;

use super::*;
use crate::store::{Pages, StoreError, Stored};

/// A database with a delete from a clock that is ahead: it takes what is written, and shows none of it.
#[derive(Debug, Default)]
struct Hiding(MemoryStore);

impl Store for Hiding {
    fn kind(&self) -> StoreKind {
        self.0.kind()
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        self.0.load(user)
    }

    fn save(&self, _: u64, _: Vec<u8>, _: Stamp) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.check()
    }
}

impl Scan for Hiding {
    fn ranges(&self) -> usize {
        self.0.ranges()
    }

    fn scan(&self, range: usize) -> Pages<'_> {
        self.0.scan(range).boxed()
    }
}

#[tokio::test]
async fn what_a_newer_delete_hides_is_not_restored() {
    let (store, repository) = (MemoryStore::default(), in_memory());
    save(&store, 1, 7).await;
    create(&repository, &store).await.unwrap();
    let manifest = repository.manifest(&WhichBackup::Latest).await.unwrap();
    let into = Opened::of(Arc::new(Hiding::default()));
    let wish = |user| Wish {
        user,
        overwrite: false,
        dry_run: false,
        now_micros: NOW,
    };
    for (user, words) in [
        (Some(1), "user 1 was written and is not there"),
        (None, "the backup has 1 users, and 0 are there"),
    ] {
        let progress = Progress::start();
        let restored = restore::run(&repository, &manifest, &into, wish(user), &progress).await;
        let error = restored.unwrap_err();
        assert!(error.to_string().starts_with(words), "{error}");
        assert_eq!(error.exit_status(), 1);
    }
}
