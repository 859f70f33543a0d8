//! The ring store as one member sees it: there, away, silent, deaf to renewals, or late with swaps; and with a clock.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU8, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, ready},
    stream::BoxStream,
};
use readstates::ownership::store::{
    Presence, RingStore, RingStoreError, Swapped, Version, Versioned,
};
use readstates_ring::{Incarnation, RingTable};
use tokio::time::sleep;

/// How the store is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reach {
    /// It answers.
    There,
    /// It refuses everything at once.
    Away,
    /// It answers nothing, until it is there again.
    Silent,
    /// It can be read, and takes no renewals and no swaps.
    ReadOnly,
    /// It takes one more swap, and is away before it has answered.
    LosesAnswer,
    /// It answers no swap, and carries it out when the test says so.
    LateSwaps,
    /// It takes renewals, and neither swaps nor shows the ring.
    RenewsOnly,
}

/// What one member can reach.
#[derive(Debug)]
pub(crate) struct Severable {
    ring: Arc<dyn RingStore>,
    reach: Arc<AtomicU8>,
    /// Swaps that are to be carried out late, in the order in which they were asked for.
    late: Mutex<Vec<(Option<Version>, RingTable)>>,
    /// How far its clock is ahead of the member's, in microseconds; `i64::MAX` where it does not tell.
    pub(crate) clock_ahead: AtomicI64,
}

impl Severable {
    pub(crate) fn new(ring: &Arc<dyn RingStore>) -> Arc<Self> {
        Arc::new(Self {
            ring: Arc::clone(ring),
            reach: Arc::new(AtomicU8::new(Reach::There as u8)),
            late: Mutex::default(),
            clock_ahead: AtomicI64::new(i64::MAX),
        })
    }

    pub(crate) fn set(&self, reach: Reach) {
        self.reach.store(reach as u8, Ordering::SeqCst);
    }

    pub(crate) fn is(&self, reach: Reach) -> bool {
        self.reach.load(Ordering::SeqCst) == reach as u8
    }

    /// The swaps that are to be carried out late.
    pub(crate) fn late_swaps(&self) -> Vec<RingTable> {
        let late = self.late.lock().unwrap();
        late.iter().map(|(_, next)| next.clone()).collect()
    }

    /// Carries the late swaps out; returns how many of them the ring takes.
    pub(crate) async fn carry_out_late_swaps(&self) -> usize {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        let mut taken = 0;
        for (expected, next) in late {
            let swapped = self.ring.compare_and_swap(expected, next).await.unwrap();
            taken += usize::from(matches!(swapped, Swapped::Taken(_)));
        }
        taken
    }

    async fn there(&self, writes: bool) -> Result<&dyn RingStore, RingStoreError> {
        // On its way.
        sleep(Duration::from_millis(2)).await;
        while self.is(Reach::Silent) {
            sleep(Duration::from_millis(50)).await;
        }
        if self.is(Reach::Away) || (writes && self.is(Reach::ReadOnly)) {
            return Err(RingStoreError::new("reach the ring", "it is away"));
        }
        Ok(&*self.ring)
    }

    fn shows_the_ring(&self) -> Result<(), RingStoreError> {
        match self.is(Reach::RenewsOnly) {
            true => Err(RingStoreError::new("reach the ring", "it is away")),
            false => Ok(()),
        }
    }
}

impl RingStore for Severable {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        async {
            let ring = self.there(false).await?;
            self.shows_the_ring()?;
            ring.get().await
        }
        .boxed()
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        async move {
            let ring = self.there(true).await?;
            self.shows_the_ring()?;
            if self.is(Reach::LateSwaps) {
                self.late.lock().unwrap().push((expected, next));
                return Err(RingStoreError::new("swap the ring", "no answer in time"));
            }
            let swapped = ring.compare_and_swap(expected, next).await;
            if self.is(Reach::LosesAnswer) {
                self.set(Reach::Away);
                return Err(RingStoreError::new("swap the ring", "the answer was lost"));
            }
            swapped
        }
        .boxed()
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        let reach = Arc::clone(&self.reach);
        let comes = move || {
            let reach = reach.load(Ordering::SeqCst);
            [Reach::There, Reach::LateSwaps, Reach::ReadOnly]
                .iter()
                .any(|&it| reach == it as u8)
        };
        self.ring.watch().filter(move |_| ready(comes())).boxed()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        async move { self.there(true).await?.renew(presence).await }.boxed()
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        async { self.there(false).await?.presences().await }.boxed()
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        async move { self.there(true).await?.forget(incarnation).await }.boxed()
    }

    fn clock_ahead(&self) -> Option<i64> {
        let ahead = self.clock_ahead.load(Ordering::SeqCst);
        (ahead != i64::MAX).then_some(ahead)
    }
}
