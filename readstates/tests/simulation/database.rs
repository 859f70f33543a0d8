//! The database as a process sees it: slow, at times away, with writes that land after it said that they failed, and
//! with some that are answered seconds later.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use readstates::store::{Store, StoreError, Stored};
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;
use tokio::time::sleep;

use super::{late::Kind, process::Life, world::World};

/// The longest that a write is under way, in milliseconds: as long as a driver waits for a part of the database that is
/// ill.
const LONGEST_WRITE: u64 = 5_000;

#[derive(Debug)]
pub(crate) struct SimDatabase {
    world: Arc<World>,
    life: Arc<Life>,
}

impl SimDatabase {
    pub(crate) fn new(world: &Arc<World>, life: &Arc<Life>) -> Self {
        Self {
            world: Arc::clone(world),
            life: Arc::clone(life),
        }
    }

    /// The way there, when there is one.
    async fn there(&self) -> Result<(), StoreError> {
        self.life.boundary().await;
        if self.world.is_database_away() {
            self.world.pass(50, 300).await;
            self.life.boundary().await;
            return Err(failed());
        }
        self.world.pass(0, 8).await;
        Ok(())
    }

    /// A write that is under way for seconds: meanwhile its slot may have another owner, and come back.
    async fn save_slowly(&self, user: u64, bytes: Vec<u8>, stamp: Stamp) -> Result<(), StoreError> {
        let draw = || Duration::from_millis(self.world.draw(10, LONGEST_WRITE));
        let (lands, is_answered) = (draw(), draw());
        let world = Arc::clone(&self.world);
        // It lands even if the process dies.
        tokio::spawn(async move {
            sleep(lands).await;
            world.blocks.save(user, bytes, stamp).await
        });
        sleep(is_answered).await;
        self.life.boundary().await;
        match lands < is_answered {
            true => Ok(()),
            false => Err(failed()),
        }
    }
}

fn failed() -> StoreError {
    StoreError::new("reach the database", "the simulation")
}

impl Store for SimDatabase {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async move {
            self.there().await?;
            let stored = self.world.blocks.load(user).await;
            self.world.pass(0, 8).await;
            self.life.boundary().await;
            if self.world.befalls(2.0) {
                return Err(failed());
            }
            stored
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
            self.there().await?;
            let of_this = Kind::Writes(self.life.incarnation);
            if let Some(batch) = self.world.late.takes(of_this) {
                let world = Arc::clone(&self.world);
                tokio::spawn(async move {
                    world.late.arrival(batch).await;
                    world.blocks.save(user, bytes, stamp).await
                });
                self.world.pass(0, 8).await;
                self.life.boundary().await;
                return Err(failed());
            }
            // Where a backup has what is not written: a member without one must write everything before it leaves, or while
            // its lease runs out.
            let may_take_long = self.world.backed && !self.world.seed.is_multiple_of(2);
            if may_take_long && self.world.befalls(2.0) {
                return self.save_slowly(user, bytes, stamp).await;
            }
            let (lost, late) = (self.world.befalls(1.0), self.world.befalls(4.0));
            if late {
                // It lands even if the process dies.
                let (world, wait) = (Arc::clone(&self.world), self.world.draw(10, 8_000));
                tokio::spawn(async move {
                    sleep(Duration::from_millis(wait)).await;
                    world.blocks.save(user, bytes, stamp).await
                });
            } else if !lost {
                self.world.blocks.save(user, bytes, stamp).await?;
            }
            self.world.pass(0, 8).await;
            self.life.boundary().await;
            if late || lost || self.world.befalls(2.0) {
                return Err(failed());
            }
            Ok(())
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.there().await }.boxed()
    }
}
