//! Bytes of memory that a backup spends on others' changes: counted where they are, and given back when they go.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// What a change or a block costs besides its bytes: its place in the map of a journal, whose nodes are two thirds full, and
/// its counts.
const BESIDE: usize = 192;

/// How many bytes are spent.
#[derive(Debug, Default)]
pub(crate) struct Account(AtomicUsize);

impl Account {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that are spent until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: usize,
    account: Arc<Account>,
}

impl Room {
    pub(crate) fn of(bytes: usize, account: &Arc<Account>) -> Self {
        let bytes = bytes + BESIDE;
        account.0.fetch_add(bytes, Ordering::Relaxed);
        let account = Arc::clone(account);
        Self { bytes, account }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_given_back() {
        let account = Arc::default();
        let room = Room::of(100, &account);
        let more = Room::of(0, &account);
        assert_eq!(account.bytes(), 100 + 2 * BESIDE);
        drop(room);
        assert_eq!(account.bytes(), BESIDE);
        drop(more);
        assert_eq!(account.bytes(), 0);
    }
}
