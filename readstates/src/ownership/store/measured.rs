//! A store of rings whose answers are timed and counted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use futures::{future::BoxFuture, stream::BoxStream};
use readstates_ring::{Incarnation, RingTable};

use super::{Presence, RingStore, RingStoreError, Swapped, Version, Versioned};
use crate::{
    clock,
    metrics::{Histogram, Text},
};

/// What a store is asked for.
#[derive(Debug, Clone, Copy)]
enum Call {
    Read = 0,
    Swap = 1,
    Renew = 2,
    Presences = 3,
    Forget = 4,
}

impl Call {
    const NAMES: [&str; 5] = ["read", "swap", "renew", "presences", "forget"];
}

#[derive(Debug, Default)]
struct Answers {
    took: Histogram,
    failures: AtomicU64,
}

/// A store, and how it answers.
#[derive(Debug)]
pub(in crate::ownership) struct Measured {
    store: Arc<dyn RingStore>,
    /// By [`Call`].
    answers: [Answers; Call::NAMES.len()],
}

/// A question under way. One that is dropped without an answer has failed.
struct Asked<'a> {
    answers: &'a Answers,
    at: Instant,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let took = clock::now().saturating_duration_since(self.at);
        self.answers.took.record(took);
        if !self.answered {
            self.answers.failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Measured {
    pub(in crate::ownership) fn new(store: Arc<dyn RingStore>) -> Self {
        Self {
            store,
            answers: Default::default(),
        }
    }

    fn ask<'a, T: 'a>(
        &'a self,
        call: Call,
        answer: BoxFuture<'a, Result<T, RingStoreError>>,
    ) -> BoxFuture<'a, Result<T, RingStoreError>> {
        Box::pin(async move {
            let mut asked = Asked {
                answers: &self.answers[call as usize],
                at: clock::now(),
                answered: false,
            };
            let answer = answer.await;
            asked.answered = answer.is_ok();
            answer
        })
    }

    /// Writes it for Prometheus.
    pub(in crate::ownership) fn write(&self, text: &mut Text) {
        let each = || Call::NAMES.iter().zip(&self.answers);
        let name = "readstates_ring_store_seconds";
        let help = "Time the ring store took to answer, or until it was not waited for any more.";
        text.family(name, help, "histogram");
        for (call, answers) in each() {
            text.histogram(name, &[("call", call)], &answers.took);
        }
        let name = "readstates_ring_store_failures_total";
        let help = "Questions to the ring store that failed or were not answered in time.";
        text.family(name, help, "counter");
        for (call, answers) in each() {
            let failures = answers.failures.load(Ordering::Relaxed);
            text.sample(name, &[("call", call)], failures as f64);
        }
    }
}

impl RingStore for Measured {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        self.ask(Call::Read, self.store.get())
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        self.ask(Call::Swap, self.store.compare_and_swap(expected, next))
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        self.store.watch()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.ask(Call::Renew, self.store.renew(presence))
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        self.ask(Call::Presences, self.store.presences())
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.ask(Call::Forget, self.store.forget(incarnation))
    }

    fn clock_ahead(&self) -> Option<i64> {
        self.store.clock_ahead()
    }
}
