//! What is on its way for as long as a scene wants: swaps of the ring, messages, and writes to the database.
//!
//! What begins its way while its kind is held belongs to a batch. It arrives when the scene lets the batch go, in the
//! order in which it came, or never.

use std::{collections::HashMap, sync::Mutex};

use readstates_ring::Incarnation;
use tokio::sync::Notify;

/// What can be late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Swaps of the ring, of all members: the one that was asked for first is carried out first.
    Swaps,
    /// Messages from one process to another.
    Messages { from: Incarnation, to: Incarnation },
    /// Writes of a process to the database.
    Writes(Incarnation),
}

/// What began its way between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batch(usize);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Arrival {
    #[default]
    Held,
    Arrives,
    Lost,
}

#[derive(Debug, Default)]
pub(crate) struct Late {
    state: Mutex<LateState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct LateState {
    /// The batch that takes what begins its way now.
    holding: HashMap<Kind, Batch>,
    batches: Vec<(u32, Arrival)>,
}

impl Late {
    /// Holds what begins its way from now on, in a batch of its own.
    pub(crate) fn hold(&self, kind: Kind) -> Batch {
        let mut state = self.state.lock().unwrap();
        let batch = Batch(state.batches.len());
        state.batches.push((0, Arrival::Held));
        state.holding.insert(kind, batch);
        batch
    }

    /// The batch of something that begins its way now, if that is held; it is counted.
    pub(crate) fn takes(&self, kind: Kind) -> Option<Batch> {
        let mut state = self.state.lock().unwrap();
        let batch = *state.holding.get(&kind)?;
        state.batches[batch.0].0 += 1;
        Some(batch)
    }

    /// How much a batch has taken.
    pub(crate) fn count(&self, batch: Batch) -> u32 {
        self.state.lock().unwrap().batches[batch.0].0
    }

    /// All of a batch arrives, and what would have come to it arrives as ever.
    pub(crate) fn let_go(&self, batch: Batch) {
        self.end(batch, Arrival::Arrives);
    }

    /// Nothing of a batch ever arrives; what would have come to it arrives as ever.
    pub(crate) fn lose(&self, batch: Batch) {
        self.end(batch, Arrival::Lost);
    }

    fn end(&self, batch: Batch, arrival: Arrival) {
        let mut state = self.state.lock().unwrap();
        state.holding.retain(|_, holding| *holding != batch);
        state.batches[batch.0].1 = arrival;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until a batch arrives; for ever, if it is lost.
    pub(crate) async fn arrival(&self, batch: Batch) {
        loop {
            let changed = self.changed.notified();
            let arrival = self.state.lock().unwrap().batches[batch.0].1;
            match arrival {
                Arrival::Held => changed.await,
                Arrival::Arrives => return,
                Arrival::Lost => std::future::pending().await,
            }
        }
    }
}
