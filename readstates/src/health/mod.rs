//! Whether the store answers, and whether this member should get requests.
//!
//! One task asks the store every few seconds, more often until it has answered for the first time.

mod circuit;
mod circuits;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use circuit::{Admission, Circuit};
pub use circuits::Circuits;
use parking_lot::Mutex;
use readstates_api::admin::StoreKind;

use crate::{
    journal::Journal,
    store::{Store, chain},
};

/// Between two questions, once the store has answered.
const EVERY: Duration = Duration::from_secs(5);
/// Between two questions, before that.
const AT_FIRST: Duration = Duration::from_millis(200);

/// What is known about the store and this member's readiness.
#[derive(Debug)]
pub struct Health {
    kind: StoreKind,
    store: Mutex<Result<(), String>>,
    /// The store has answered once.
    started: AtomicBool,
    stopped: AtomicBool,
    /// What has to be on the disk before changes are acknowledged, too.
    journal: OnceLock<Arc<Journal>>,
}

impl Health {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(kind: StoreKind) -> Self {
        let unknown = Err("the database has not been asked yet".to_owned());
        Self {
            kind,
            store: Mutex::new(unknown),
            started: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            journal: OnceLock::new(),
        }
    }

    /// The kind of the store.
    #[must_use]
    pub fn kind(&self) -> StoreKind {
        self.kind
    }

    /// Whether the store answered when last asked, and what it answered instead. A journal is a part of it.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn store(&self) -> Result<(), String> {
        match self.journal.get().and_then(|journal| journal.trouble()) {
            Some(trouble) => Err(trouble),
            None => self.store.lock().clone(),
        }
    }

    /// The journal of this member.
    pub fn has_journal(&self, journal: &Arc<Journal>) {
        // There is one.
        let _ = self.journal.set(Arc::clone(journal));
    }

    /// Why this member should get no requests, if it should not.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        if self.stopped.load(Ordering::Relaxed) {
            return Some("stopping".into());
        }
        if self.started.load(Ordering::Relaxed) {
            return None;
        }
        self.store().err()
    }

    /// The member should get no more requests.
    pub fn stopped(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Asks the store once.
    pub async fn ask(&self, store: &dyn Store) {
        let answer = store.check().await.map_err(|error| chain(&error));
        match &answer {
            Ok(()) => self.started.store(true, Ordering::Relaxed),
            Err(reason) => tracing::debug!("the store does not answer: {reason}"),
        }
        *self.store.lock() = answer;
    }

    /// Asks the store for ever.
    pub async fn watch(self: Arc<Self>, store: Arc<dyn Store>) {
        loop {
            self.ask(store.as_ref()).await;
            let started = self.started.load(Ordering::Relaxed);
            tokio::time::sleep(if started { EVERY } else { AT_FIRST }).await;
        }
    }
}
