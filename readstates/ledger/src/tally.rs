//! How long operations took, and how they failed, before, during and after.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use hdrhistogram::Histogram;
use strum::EnumCount;

/// What is going on around the load, as the test that causes it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, EnumCount)]
#[repr(u8)]
pub enum Phase {
    /// Nothing has happened yet.
    Before = 0,
    /// Members come, go or move.
    During = 1,
    /// It is over.
    After = 2,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; Self::COUNT] = [Self::Before, Self::During, Self::After];
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// One acknowledgement.
    Ack,
    /// A mention of all users of the worker.
    Mention,
    /// The same operations as records of one batch.
    Batch,
    /// An acknowledged mention once more.
    Again,
    /// All states of a user.
    Read,
}

/// What was measured and counted.
#[derive(Debug, Default)]
pub struct Tallies {
    phase: AtomicU8,
    counts: Mutex<Counts>,
}

/// How often each kind of error came, by phase, operation and what it was.
pub(crate) type Errors = BTreeMap<(Phase, Operation, String), u64>;

#[derive(Debug, Default)]
struct Counts {
    /// Microseconds, three digits.
    took: BTreeMap<Phase, Histogram<u64>>,
    errors: Errors,
}

impl Tallies {
    /// Says what is going on from now on.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn phase(&self) -> Phase {
        let now = self.phase.load(Ordering::Relaxed);
        Phase::ALL[usize::from(now).min(Phase::ALL.len() - 1)]
    }

    /// A call has ended that began in `phase`.
    pub(crate) fn took(&self, phase: Phase, took: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        // Three digits are always possible, and the histogram grows by itself.
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let histogram = counts.took.entry(phase).or_insert_with(histogram);
        histogram.saturating_record(micros);
    }

    pub(crate) fn failed(&self, phase: Phase, operation: Operation, why: String) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.errors.entry((phase, operation, why)).or_default() += 1;
    }

    /// How many calls there were in a phase, and the quantiles of how long they took.
    pub fn latency(&self, phase: Phase, quantiles: &[f64]) -> (u64, Vec<Duration>) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(histogram) = counts.took.get(&phase) else {
            return (0, vec![Duration::ZERO; quantiles.len()]);
        };
        let at = |&quantile: &f64| Duration::from_micros(histogram.value_at_quantile(quantile));
        (histogram.len(), quantiles.iter().map(at).collect())
    }

    pub(crate) fn errors(&self) -> Errors {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.errors.clone()
    }
}

/// One microsecond to ten minutes.
fn histogram() -> Histogram<u64> {
    let longest = 600_000_000;
    Histogram::new_with_bounds(1, longest, 3).unwrap_or_else(|_| unreachable_bounds())
}

/// These bounds are always acceptable; the type does not know.
fn unreachable_bounds() -> Histogram<u64> {
    unreachable!("1 to 600,000,000 with three digits are bounds of a histogram")
}
