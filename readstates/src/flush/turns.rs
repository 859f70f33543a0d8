//! When the thread that writes yields its core.
//!
//! Users fall due many at a time. On a machine with no core to spare a thread that answers would wait until the
//! kernel ends the writer's turn, some milliseconds, with every client behind it, and several times in a row. So the
//! writer yields every half millisecond; with other cores free that changes nothing. Threads that answer without a
//! pause would take the core every time: a writer that has fallen behind does not yield until it has caught up.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

/// Writes of a turn: about half a millisecond, where the store is in memory.
const WRITES: usize = 64;
/// More has been due than could be begun for this long: writing is behind.
const PATIENCE: Duration = Duration::from_secs(1);

/// Turns of the threads that write.
#[derive(Debug, Default)]
pub(super) struct Turns {
    writes: AtomicUsize,
    behind: AtomicBool,
}

/// Since when more has been due than could be begun.
#[derive(Debug, Default)]
pub(super) struct Backlog(Option<Instant>);

impl Turns {
    /// Counts a write, and says whether a turn ends before it.
    pub(super) fn end_before_this(&self) -> bool {
        let writes = self.writes.fetch_add(1, Ordering::Relaxed);
        writes % WRITES == WRITES - 1 && !self.behind.load(Ordering::Relaxed)
    }

    /// A look found that more is due than could be begun, or not.
    pub(super) fn looked(&self, backlog: &mut Backlog, more: bool, now: Instant) {
        backlog.0 = more.then(|| backlog.0.unwrap_or(now));
        let behind = backlog.0.is_some_and(|since| now - since > PATIENCE);
        self.behind.store(behind, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of a thousand writes end a turn.
    fn ends(turns: &Turns) -> usize {
        (0..1000).filter(|_| turns.end_before_this()).count()
    }

    #[test]
    fn a_turn_is_so_many_writes_and_has_no_end_while_writing_is_behind() {
        let (turns, mut backlog) = (Turns::default(), Backlog::default());
        let start = Instant::now();
        assert_eq!(ends(&turns), 1000 / WRITES);
        turns.looked(&mut backlog, true, start);
        turns.looked(&mut backlog, true, start + PATIENCE);
        assert!(ends(&turns) > 0, "that long is nothing unusual");
        turns.looked(&mut backlog, true, start + PATIENCE * 2);
        assert_eq!(ends(&turns), 0);
        turns.looked(&mut backlog, false, start + PATIENCE * 3);
        assert!(ends(&turns) > 0, "it has caught up");
        turns.looked(&mut backlog, true, start + PATIENCE * 4);
        assert!(ends(&turns) > 0, "a new backlog is a young one");
    }
}
