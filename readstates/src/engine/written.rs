//! Waiting until the database has a change.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Engine;
use crate::{
    cache::{Progress, Term},
    clock,
};

/// Between two looks: about what a write takes where the database is near.
const LOOK: Duration = Duration::from_millis(5);

/// A change of a user that is on its way to the database.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    user: u64,
    version: u64,
    term: Term,
    asked: std::time::Instant,
}

impl Engine {
    /// Asks that what a user has at this version be written as soon as can be; `None` when the user is not served
    /// here any more.
    #[must_use]
    pub fn bring_forward(&self, user: u64, version: u64) -> Option<Change> {
        let asked = clock::now();
        self.cache.bring_forward(user, asked);
        self.flusher.wake();
        Some(Change {
            user,
            version,
            term: self.cache.term(user)?,
            asked,
        })
    }

    /// Waits until the database has a change, or until it is not known to have it: when a write has failed, when the
    /// user has left for another member, or when it is too late.
    ///
    /// Cancel-safe: it only looks.
    pub async fn is_written(&self, change: Change, deadline: Instant) -> bool {
        let Change {
            user,
            version,
            term,
            asked,
        } = change;
        loop {
            let progress = self.cache.progress(user, version, asked);
            // Of a user who has left there is nothing here that is not written.
            if self.cache.term(user) != Some(term) {
                return false;
            }
            match progress {
                Progress::Written => return true,
                Progress::Failed => return false,
                Progress::Waiting if self.flusher.is_away() || Instant::now() >= deadline => {
                    return false;
                }
                Progress::Waiting => {}
            }
            // A write that was under way may not have had the change.
            self.cache.bring_forward(user, clock::now());
            self.flusher.wake();
            sleep(LOOK).await;
        }
    }
}
