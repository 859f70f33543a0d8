//! The lock of a stripe: the standard library's, without poisoning.
//!
//! Not `parking_lot`'s, as elsewhere: before it sleeps, that gives the processor up several times
//! (`sched_yield`), and Linux may take each as the thread's wish to miss a turn. Where a writer in the
//! background held the lock and shared the only core, a thread that answers was away for twenty
//! milliseconds. This one sleeps at once, and the unlock wakes it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What one thread at a time may see.
#[derive(Debug)]
pub(super) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock. A thread that panicked while it held it does not stop the others: its
    /// request failed, and the cache goes on.
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
