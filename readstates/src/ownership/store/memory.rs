//! The ring in memory: for a member that is alone, or the members of a test.

use std::{collections::BTreeMap, sync::Arc};

use futures::{
    future::{BoxFuture, FutureExt, ready},
    stream::{self, BoxStream, StreamExt},
};
use parking_lot::Mutex;
use readstates_ring::{Incarnation, RingTable};
use tokio::sync::watch;

use super::{Presence, RingStore, RingStoreError, Swapped, Version, Versioned};

/// Keeps the ring as long as the process lives.
#[derive(Debug)]
pub struct MemoryRing {
    ring: watch::Sender<Option<Arc<RingTable>>>,
    /// Counts the swaps; the version of the ring. Locked while the ring is read or swapped.
    swaps: Mutex<u64>,
    presences: Mutex<BTreeMap<(String, Incarnation), Presence>>,
}

impl Default for MemoryRing {
    fn default() -> Self {
        Self {
            ring: watch::Sender::new(None),
            swaps: Mutex::new(0),
            presences: Mutex::default(),
        }
    }
}

impl MemoryRing {
    fn current(&self, swaps: u64) -> Option<Versioned> {
        let table = self.ring.borrow().clone()?;
        let version = Version(swaps.to_string());
        Some(Versioned { table, version })
    }

    /// Deletes the ring, as a person with access to a real store can.
    pub fn delete(&self) {
        let mut swaps = self.swaps.lock();
        *swaps += 1;
        self.ring.send_replace(None);
    }

    fn swap(&self, expected: Option<Version>, next: RingTable) -> Swapped {
        let mut swaps = self.swaps.lock();
        if expected != self.current(*swaps).map(|current| current.version) {
            return Swapped::Conflict;
        }
        *swaps += 1;
        let table = Arc::new(next);
        self.ring.send_replace(Some(table.clone()));
        Swapped::Taken(Versioned {
            table,
            version: Version(swaps.to_string()),
        })
    }
}

impl RingStore for MemoryRing {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        let swaps = self.swaps.lock();
        ready(Ok(self.current(*swaps))).boxed()
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        ready(Ok(self.swap(expected, next))).boxed()
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        let mut ring = self.ring.subscribe();
        ring.mark_changed();
        // Cancel-safe: what was not yielded is still marked as changed. It ends with the store.
        stream::unfold(ring, |mut ring| async {
            ring.changed().await.ok()?;
            let table = ring.borrow_and_update().clone();
            Some((table, ring))
        })
        .filter_map(ready)
        .boxed()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        let key = (presence.name.clone(), presence.incarnation);
        let mut presences = self.presences.lock();
        let is_late = |said: &Presence| said.renewals > presence.renewals;
        if !presences.get(&key).is_some_and(is_late) {
            presences.insert(key, presence);
        }
        ready(Ok(())).boxed()
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        ready(Ok(self.presences.lock().values().cloned().collect())).boxed()
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        let mut presences = self.presences.lock();
        presences.retain(|_, presence| presence.incarnation != incarnation);
        ready(Ok(())).boxed()
    }
}
