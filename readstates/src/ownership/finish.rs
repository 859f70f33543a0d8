//! The end of a process: slots are handed on, the rest is written, and the others are told.

use std::sync::{Arc, atomic::Ordering};

use tokio::time::{Duration, Instant, sleep, timeout_at};

use super::Ownership;

/// Between two looks at what is not worked off yet.
const PAUSE: Duration = Duration::from_millis(50);
/// How often the last word is tried.
const LAST_WORDS: usize = 3;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Everything that was owned was handed on.
    pub handed_on: bool,
    /// Users of whom the database lacks something that this process acknowledged, or was promoted with.
    pub unwritten_users: u64,
    /// Users of silent or dead owners for whom this process alone could be promoted.
    pub entrusted_users: u64,
}

impl Ended {
    /// Nothing is lost with the process.
    #[must_use]
    pub fn everything_is_written(self) -> bool {
        self.unwritten_users + self.entrusted_users == 0
    }
}

impl Ownership {
    /// Ends this process' part: hands on what it owns, writes the rest, and gives up the lease. It takes `patience`
    /// at most; the last quarter is for writing.
    pub async fn stop(self: &Arc<Self>, patience: Duration) -> Ended {
        let engine = &self.engine;
        let deadline = Instant::now() + patience;
        let handed_on = tokio::select! {
            biased;
            handed_on = self.drain(deadline - patience / 4) => handed_on,
            // Most is written while changes are taken: the pause at the end stays short. Cancel-safe: the flusher ends
            // what this has begun.
            never = engine.keep_writing() => match never {},
        };
        let write = async {
            let _ = timeout_at(deadline - patience / 8, self.work_off_the_last()).await;
            self.end_promotions().await;
            engine.flush_all().await;
            engine.seal();
            self.drop_received().await;
            engine.drain().await;
        };
        if timeout_at(deadline, write).await.is_err() {
            engine.seal();
        }
        let ended = Ended {
            handed_on,
            unwritten_users: self.unwritten_users(),
            entrusted_users: self.entrusted_users(),
        };
        self.leave(ended.everything_is_written()).await;
        ended
    }

    /// Users of whom the database lacks something that this process acknowledged, or was promoted with.
    #[must_use]
    pub fn unwritten_users(&self) -> u64 {
        let dirty = self.engine.cache().dirty_users();
        dirty.max(self.inherited_users())
    }

    /// Users that this member was promoted with and the database may lack.
    #[must_use]
    pub fn inherited_users(&self) -> u64 {
        let replicas = self.engine.cache().replicas();
        replicas.map_or(0, |replicas| replicas.to_load().len() as u64)
    }

    /// Users with silent or dead owners that nobody but this member can be promoted for.
    pub(super) fn entrusted_users(&self) -> u64 {
        let Some(replicas) = self.engine.cache().replicas() else {
            return 0;
        };
        let watch = self.watch.lock();
        replicas.holding.entrusted_users(|it| watch.was_dead(it))
    }

    /// Waits until the database has everything of silent owners that this member has, and nothing can follow.
    async fn work_off_the_last(&self) {
        // It can still be promoted while it works off.
        self.work_off().await;
        self.end_promotions().await;
        self.work_off().await;
    }

    /// Waits until the database has what this member was or can be promoted with; the background asks for that, loads it
    /// and writes it.
    async fn work_off(&self) {
        while self.inherited_users() + self.entrusted_users() > 0 {
            sleep(PAUSE).await;
        }
    }

    /// From now on this member is promoted for nothing more: nobody would work it off.
    async fn end_promotions(&self) {
        // Whatever is being asked for is known once this has the turn.
        *self.may_be_promoted.lock().await = false;
    }

    /// The process is over: it acknowledges nothing more. `written` says that nothing is lost with it; then others may
    /// take its slots at once, unless some were left to their origins: those still write what they handed on.
    async fn leave(self: &Arc<Self>, written: bool) {
        self.lease.give_up();
        self.draining.store(true, Ordering::Relaxed);
        let is_elsewhere = self.inherited_users() == 0;
        if written && is_elsewhere && !self.left_to_origins.load(Ordering::Relaxed) {
            self.gone.store(true, Ordering::Relaxed);
            for _ in 0..LAST_WORDS {
                if self.renew().await {
                    break;
                }
            }
        }
        self.end();
    }

    /// Drops what was received and will not be served by this process: its origin writes it.
    async fn drop_received(&self) {
        let slots = self.slots.drop_received();
        if slots > 0 {
            self.left_to_origins.store(true, Ordering::Relaxed);
            tracing::warn!(
                slots,
                "leaving before some received slots were served here: the members that handed them on write them, and \
                 others take these slots once this member's lease has run out"
            );
        }
        self.slots.sweep().await;
    }
}
