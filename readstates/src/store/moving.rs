//! The store of members while their table moves from one database to another: both are written, and both are read.
//!
//! A block is written when both databases have it, and of two that are read the one with the higher stamp counts. So
//! members that have both may run beside members that have only the one, or only the other, as long as these two do
//! not meet: whatever was written can be read. A database that is away is away for all, as if there were one.
//!
//! The target is written first. So what the source has from then on the target has, too, also when a member dies between
//! the two: once the rest was copied, the target lacks nothing any more.

use std::{fmt, sync::Arc};

use futures::future::{BoxFuture, FutureExt, join};
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;

use super::{CqlLogin, CqlStore, CqlTarget, Part, Store, StoreError, Stored, wins};

/// Two databases as one.
pub struct MovingStore {
    source: Arc<dyn Store>,
    target: Arc<dyn Store>,
}

impl MovingStore {
    /// From this database to that one.
    #[must_use]
    pub fn new(source: Arc<dyn Store>, target: Arc<dyn Store>) -> Self {
        Self { source, target }
    }

    /// A database, or it and the one that it is moved to.
    #[must_use]
    pub fn or_alone(
        source: &CqlTarget,
        login: &CqlLogin,
        moving_to: Option<&(CqlTarget, CqlLogin)>,
    ) -> Arc<dyn Store> {
        let source = Arc::new(CqlStore::serve(source.clone(), login.clone()));
        match moving_to {
            None => source,
            Some((target, login)) => {
                let target = CqlStore::serve(target.clone(), login.clone());
                Arc::new(Self::new(source, Arc::new(target)))
            }
        }
    }
}

impl fmt::Debug for MovingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, target } = self;
        f.debug_struct("MovingStore")
            .field("source", source)
            .field("target", target)
            .finish()
    }
}

/// An error of the database that is moved to says so; one of the other speaks for itself.
fn of_target(error: StoreError) -> StoreError {
    StoreError::new("use the database of --moving-to", error)
}

fn newer(one: Option<Stored>, other: Option<Stored>) -> Option<Stored> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let other_wins = wins(other.stamp, &other.bytes, (one.stamp, &one.bytes));
            Some(if other_wins { other } else { one })
        }
        (one, other) => one.or(other),
    }
}

impl Store for MovingStore {
    fn kind(&self) -> StoreKind {
        self.source.kind()
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async move {
            let (source, target) = join(self.source.load(user), self.target.load(user)).await;
            Ok(newer(source?, target.map_err(of_target)?))
        }
        .boxed()
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let target = self.target.save(user, bytes.clone(), stamp).await;
            target.map_err(of_target)?;
            self.source.save(user, bytes, stamp).await
        }
        .boxed()
    }

    fn shards(&self) -> usize {
        self.source.shards().min(self.target.shards())
    }

    /// Of the database that is moved from. What is ill in the other is booked to these parts, too.
    fn part(&self, user: u64) -> Part {
        self.source.part(user)
    }

    fn memory(&self) -> u64 {
        self.source.memory() + self.target.memory()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let (source, target) = join(self.source.check(), self.target.check()).await;
            source.and(target.map_err(of_target))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    fn stamp(number: i64) -> Stamp {
        Stamp::from_database(number)
    }

    #[tokio::test]
    async fn a_write_is_in_both_and_the_newer_of_two_is_read_whichever_has_it() {
        let (source, target) = (
            Arc::new(MemoryStore::default()),
            Arc::new(MemoryStore::default()),
        );
        let moving = MovingStore::new(source.clone(), target.clone());
        moving.save(1, b"both".to_vec(), stamp(5)).await.unwrap();
        for store in [&source, &target] {
            let stored = store.load(1).await.unwrap().unwrap();
            assert_eq!((&*stored.bytes, stored.stamp), (&b"both"[..], stamp(5)));
        }
        let read = async |user| moving.load(user).await.unwrap().map(|stored| stored.bytes);
        // Of a member that has only the one, before; and of one that has only the other, afterwards.
        source.save(1, b"source".to_vec(), stamp(6)).await.unwrap();
        assert_eq!(read(1).await, Some(b"source".to_vec()));
        target.save(1, b"target".to_vec(), stamp(7)).await.unwrap();
        assert_eq!(read(1).await, Some(b"target".to_vec()));
        source.save(2, b"alone".to_vec(), stamp(1)).await.unwrap();
        target.save(3, b"alone".to_vec(), stamp(1)).await.unwrap();
        assert_eq!(read(2).await, Some(b"alone".to_vec()));
        assert_eq!(read(3).await, Some(b"alone".to_vec()));
        assert_eq!(read(4).await, None);
        // Of one stamp the greater bytes, as the databases have it.
        source.save(5, b"a".to_vec(), stamp(1)).await.unwrap();
        target.save(5, b"b".to_vec(), stamp(1)).await.unwrap();
        assert_eq!(read(5).await, Some(b"b".to_vec()));
        // A late write of an owner before loses in both.
        moving.save(1, b"late".to_vec(), stamp(2)).await.unwrap();
        assert_eq!(read(1).await, Some(b"target".to_vec()));
    }
}
