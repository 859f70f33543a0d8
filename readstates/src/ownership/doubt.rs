//! Reads of the ring store by callers in doubt: shared, and bounded in number.
//!
//! A caller gets the result of a read that began after it asked. However many callers ask, reads begin at
//! [`A_SECOND`] a second at most, so that nothing that arrives from outside becomes a load on the store.

use std::time::Duration;

use tokio::{
    sync::Mutex as Turn,
    time::{Instant, sleep_until},
};

/// Reads a second in the long run.
const A_SECOND: u32 = 5;
const EVERY: Duration = Duration::from_millis(1000 / A_SECOND as u64);
/// Reads at once after a pause: a batch of slots that moves is a few doubts in a row.
const AT_ONCE: u32 = 5;

/// One kind of read.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    turn: Turn<Reads>,
}

#[derive(Debug, Default)]
struct Reads {
    /// When the last one that has ended began.
    began: Option<Instant>,
    /// When the next one would be due if they came evenly.
    due: Option<Instant>,
}

impl Doubt {
    /// Reads, unless another caller's read began since and has ended.
    pub(super) async fn settle(&self, read: impl Future<Output = ()>) {
        let asked = Instant::now();
        let mut reads = self.turn.lock().await;
        if reads.began.is_some_and(|began| began > asked) {
            return;
        }
        let now = Instant::now();
        let due = reads.due.map_or(now, |due| due.max(now));
        // Callers that ask during the wait share the read.
        sleep_until(due - EVERY * (AT_ONCE - 1)).await;
        reads.due = Some(due + EVERY);
        let begun = Instant::now();
        read.await;
        // Not before: the caller may be gone in the middle of it.
        reads.began = Some(begun);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_whose_caller_is_gone_counts_for_nobody() {
        let (doubt, ended) = (Doubt::default(), AtomicU32::new(0));
        let read = || async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            ended.fetch_add(1, Ordering::Relaxed);
        };
        let impatient = tokio::time::timeout(Duration::from_secs(1), doubt.settle(read()));
        let (gone, ()) = tokio::join!(impatient, doubt.settle(read()));
        gone.unwrap_err();
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_ask_reads_begin_five_times_a_second() {
        let (doubt, reads) = (Doubt::default(), AtomicU32::new(0));
        let began = Instant::now();
        let asks = |_| async {
            while began.elapsed() < Duration::from_secs(10) {
                let read = async {
                    reads.fetch_add(1, Ordering::Relaxed);
                };
                doubt.settle(read).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        join_all((0..100).map(asks)).await;
        let reads = reads.load(Ordering::Relaxed);
        assert!((50..=57).contains(&reads), "{reads}");
    }
}
