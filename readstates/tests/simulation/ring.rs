//! The ring as a process sees it: swaps that are carried out late or without an answer, a watch that lags, repeats
//! and goes back.

use std::{sync::Arc, time::Duration};

use futures::{
    future::{BoxFuture, FutureExt},
    stream::{self, BoxStream, StreamExt},
};
use readstates::ownership::store::{
    Presence, RingStore, RingStoreError, Swapped, Version, Versioned,
};
use readstates_ring::{Incarnation, RingTable};
use tokio::time::sleep;

use super::{late::Kind, process::Life, world::World};

#[derive(Debug)]
pub(crate) struct SimRing {
    world: Arc<World>,
    life: Arc<Life>,
    /// How far the store's clock is ahead of the process's, in microseconds.
    clock_ahead: i64,
}

impl SimRing {
    pub(crate) fn new(world: &Arc<World>, life: &Arc<Life>, clock_ahead: i64) -> Self {
        Self {
            world: Arc::clone(world),
            life: Arc::clone(life),
            clock_ahead,
        }
    }

    /// A question to the ring, whose answer may be lost on the way.
    async fn ask<T>(
        &self,
        answer: BoxFuture<'_, Result<T, RingStoreError>>,
    ) -> Result<T, RingStoreError> {
        self.life.boundary().await;
        self.there().await?;
        let answer = answer.await;
        self.world.pass(0, self.world.ring_takes()).await;
        self.life.boundary().await;
        if self.world.befalls(2.0) || self.world.is_cut_off(self.life.incarnation) {
            return Err(failed());
        }
        answer
    }

    async fn there(&self) -> Result<(), RingStoreError> {
        self.world.pass(0, self.world.ring_takes()).await;
        if self.world.is_cut_off(self.life.incarnation) {
            self.world.pass(100, 600).await;
            self.life.boundary().await;
            return Err(failed());
        }
        Ok(())
    }
}

fn failed() -> RingStoreError {
    RingStoreError::new("reach the ring", "the simulation")
}

impl RingStore for SimRing {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        let get = async {
            match self.world.is_blind(self.life.incarnation) {
                true => Err(failed()),
                false => self.world.ring.get().await,
            }
        };
        self.ask(get.boxed()).boxed()
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        if let Some(batch) = self.world.late.takes(Kind::Swaps) {
            let world = Arc::clone(&self.world);
            tokio::spawn(async move {
                world.late.arrival(batch).await;
                world.swap(expected, next).await
            });
            return self.ask(async { Err(failed()) }.boxed()).boxed();
        }
        if self.world.befalls(4.0) {
            // On its way, and the process hears nothing of it.
            let (world, wait) = (Arc::clone(&self.world), self.world.draw(10, 3_000));
            tokio::spawn(async move {
                sleep(Duration::from_millis(wait)).await;
                world.swap(expected, next).await
            });
            return self.ask(async { Err(failed()) }.boxed()).boxed();
        }
        let swap = async move { self.world.swap(expected, next).await };
        self.ask(swap.boxed()).boxed()
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        let world = Arc::clone(&self.world);
        let (there, life) = (Arc::clone(&self.world), Arc::clone(&self.life));
        let mut old: Option<Arc<RingTable>> = None;
        world
            .tables()
            .then(move |table| {
                let (world, life) = (Arc::clone(&there), Arc::clone(&life));
                // What it saw some time ago comes once more, and then what there is.
                let back = old.clone().filter(|_| world.befalls(5.0));
                if old.is_none() || world.befalls(30.0) {
                    old = Some(Arc::clone(&table));
                }
                async move {
                    let slow = world.befalls(10.0);
                    world.pass(0, if slow { 3_000 } else { 60 }).await;
                    while world.is_cut_off(life.incarnation) || world.is_blind(life.incarnation) {
                        world.pass(50, 100).await;
                    }
                    life.boundary().await;
                    stream::iter(back.into_iter().chain([table]))
                }
            })
            .flatten()
            .boxed()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        // Nothing of a question happens before it is on its way.
        let renew = async { self.world.ring.renew(presence).await };
        self.ask(renew.boxed()).boxed()
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        self.ask(async { self.world.ring.presences().await }.boxed())
            .boxed()
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        let forget = async move { self.world.ring.forget(incarnation).await };
        self.ask(forget.boxed()).boxed()
    }

    fn clock_ahead(&self) -> Option<i64> {
        // Where no clock is wrong the members have to do with each other's.
        self.world.has_wrong_clocks().then_some(self.clock_ahead)
    }
}
