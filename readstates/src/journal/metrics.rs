//! What the journal says about itself.

use std::sync::atomic::{AtomicU64, Ordering};

use readstates_metrics::{Counter, Histogram, Text};

use super::Journal;

/// What is counted. Without a journal all of it is 0.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Time of a sync.
    pub(super) sync_seconds: Histogram,
    /// Bytes of frames that are on the disk.
    pub(super) bytes: Counter,
    /// Frames that the disk did not take.
    pub(super) failures: Counter,
    /// Changes that the start did again.
    pub(super) recovered: Counter,
    /// Places that were damaged at the start.
    pub(super) damaged: Counter,
    /// Bytes of closed files.
    pub(super) closed_bytes: AtomicU64,
}

/// Writes it for Prometheus, also where there is no journal.
pub(crate) fn write(journal: Option<&Journal>, text: &mut Text) {
    let none = Counts::default();
    let counts = journal.map_or(&none, |journal| &journal.counts);
    let flag = |is: bool| f64::from(u8::from(is));
    let gauges = [
        (
            "readstates_journal",
            "1 when changes are acknowledged only once they are in the journal on the disk.",
            flag(journal.is_some()),
        ),
        (
            "readstates_journal_failing",
            "1 while changes are refused because the disk does not take the journal.",
            flag(journal.is_some_and(|journal| journal.failing.load(Ordering::Relaxed))),
        ),
        (
            "readstates_journal_file_bytes",
            "Bytes of the journal's files: changes that the store may not have yet.",
            journal.map_or(0, Journal::bytes) as f64,
        ),
        (
            "readstates_journal_pending_bytes",
            "Bytes of changes that wait for the next frame.",
            journal.map_or(0, |journal| journal.pending.load(Ordering::Relaxed)) as f64,
        ),
    ];
    for (name, help, value) in gauges {
        text.gauge(name, help, value);
    }
    let counters = [
        (
            "readstates_journal_bytes_total",
            "Bytes written to the journal.",
            &counts.bytes,
        ),
        (
            "readstates_journal_failures_total",
            "Frames of the journal that the disk did not take; they are written again.",
            &counts.failures,
        ),
        (
            "readstates_journal_recovered_total",
            "Changes that the store lacked when the process started, and that were made again.",
            &counts.recovered,
        ),
        (
            "readstates_journal_damaged_total",
            "Damaged places of the journal that the start was told to go on without.",
            &counts.damaged,
        ),
    ];
    for (name, help, counter) in counters {
        text.counter(name, help, counter.get());
    }
    let name = "readstates_journal_sync_seconds";
    text.family(
        name,
        "Time the disk took to sync a frame of the journal.",
        "histogram",
    );
    text.histogram(name, &[], &counts.sync_seconds);
}
