//! Waiting until changes are in the journal, where there is one.

use std::sync::Arc;

use readstates_ring::{Slot, replication::Answer};
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep},
};

use super::Engine;
use crate::{
    cache::{Cache, SlotSet},
    clock,
    flush::Flusher,
    journal::{Journal, PATIENCE, Ticket},
    replication::{Replicas, Settled},
};

/// Between two looks at whether a user without a backup is written.
const ALONE_LOOK: Duration = Duration::from_millis(50);

/// What an answer says of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rests {
    /// That a change was made, now or before.
    OnChange,
    /// What the user is.
    OnRead,
}

/// Between two looks at what the journal still needs.
const LOOK: Duration = Duration::from_millis(500);

impl Engine {
    /// Waits until everything that an answer about this user rests on survives a crash: `false` when it does not in
    /// time, and the answer may not be given. Ask once the work is done, also after a read and after operations that
    /// changed nothing: they show what others have changed.
    ///
    /// Cancel-safe: it only looks.
    pub async fn settled(&self, user: u64, what: Rests) -> bool {
        if let Some(replicas) = self.cache.replicas() {
            let deadline = Instant::now() + PATIENCE;
            let is_dirty = self.cache.is_dirty(user);
            if !self
                .is_replicated(replicas, user, is_dirty, what, deadline)
                .await
            {
                return false;
            }
        }
        self.is_on_disk(user).await
    }

    async fn is_replicated(
        &self,
        replicas: &Replicas,
        user: u64,
        is_dirty: bool,
        what: Rests,
        deadline: Instant,
    ) -> bool {
        let answer = match what {
            Rests::OnChange => Answer::Change,
            Rests::OnRead => Answer::Read,
        };
        loop {
            match replicas.settled(user, answer, is_dirty, deadline).await {
                Settled::Late => return false,
                Settled::Backed => return true,
                Settled::Alone => {}
            }
            let needs_backup = replicas.is_required() && what == Rests::OnChange;
            if !needs_backup || !self.cache.is_dirty(user) {
                return true;
            }
            // It has lost its backup since it was changed: what the database has needs none.
            if Instant::now() >= deadline {
                return false;
            }
            sleep(ALONE_LOOK).await;
        }
    }

    async fn is_on_disk(&self, user: u64) -> bool {
        let Some(journal) = &self.journal else {
            return true;
        };
        // By stripe: a round for each user would take memory of every change. So while the disk takes nothing, a dirty
        // user's read may wait for a change of another user.
        let ticket = journal.ticket(Cache::stripe_of(user));
        // What is in the store needs no journal: others of the stripe are not waited for.
        if journal.has(ticket) || !self.cache.is_dirty(user) {
            return true;
        }
        journal.reached(ticket, Instant::now() + PATIENCE).await
    }

    /// As [`Engine::settled`], of many users.
    ///
    /// Cancel-safe: it only looks.
    pub async fn settled_all(&self, users: impl Iterator<Item = u64> + Clone) -> bool {
        if let Some(replicas) = self.cache.replicas() {
            let deadline = Instant::now() + PATIENCE;
            let mut slots: Vec<_> = users.clone().map(Slot::of_user).collect();
            slots.sort_unstable();
            slots.dedup();
            let Some(alone) = replicas.settled_all(&slots, deadline).await else {
                return false;
            };
            if !alone.is_empty() && replicas.is_required() {
                let alone: SlotSet = alone.into_iter().collect();
                for user in users
                    .clone()
                    .filter(|it| alone.contains(Slot::of_user(*it)))
                {
                    let what = Rests::OnChange;
                    let is_replicated = self.is_replicated(replicas, user, true, what, deadline);
                    if !is_replicated.await {
                        return false;
                    }
                }
            }
        }
        let Some(journal) = &self.journal else {
            return true;
        };
        let tickets = users.map(|user| journal.ticket(Cache::stripe_of(user)));
        let last: Ticket = tickets.max().unwrap_or_default();
        journal.has(last) || journal.reached(last, Instant::now() + PATIENCE).await
    }

    /// Ends the journal once nothing is changed or written any more. What the store has is not kept.
    pub async fn end_journal(&self) {
        if let Some(journal) = &self.journal {
            journal.end(self.cache.dirty_users() == 0);
            journal.ended().await;
        }
    }

    /// The journal, if there is one.
    #[must_use]
    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.as_ref()
    }
}

/// Tells a journal what is in the store by now, and has it written when the journal is long, until `stop` is true.
pub(super) async fn keep_short(
    journal: Arc<Journal>,
    cache: Arc<Cache>,
    flusher: Arc<Flusher>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let looked = clock::now();
        // A change is noted as unwritten under the lock under which it is appended: what was appended before the look
        // is either seen by it or written.
        journal.written_until(cache.written_until(looked));
        journal.look(looked);
        if journal.is_long() {
            cache.bring_all_forward(looked);
            flusher.wake();
        }
        // An error means that the sender is gone, which is as good as a stop.
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(LOOK) => {}
        }
    }
}
