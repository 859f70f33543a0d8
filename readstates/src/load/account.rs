//! What the queues of users who are being loaded may hold: a number of waiters and of bytes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// What one class of waiters holds of what it may hold.
#[derive(Debug)]
pub(super) struct Account {
    most_waiters: usize,
    most_bytes: usize,
    waiters: AtomicUsize,
    bytes: AtomicUsize,
}

/// A waiter's share of the account, given back when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    account: Arc<Account>,
    bytes: usize,
}

impl Account {
    pub(super) fn new(most_waiters: usize, most_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            most_waiters,
            most_bytes,
            waiters: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        })
    }

    /// A ticket for this many bytes, if there is room.
    pub(super) fn ticket(self: &Arc<Self>, bytes: usize) -> Option<Ticket> {
        let waiters = self.waiters.fetch_add(1, Ordering::Relaxed);
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Dropped, and with it given back, where it was too much.
        let ticket = Ticket {
            account: Arc::clone(self),
            bytes,
        };
        let fits = waiters < self.most_waiters && held + bytes <= self.most_bytes;
        fits.then_some(ticket)
    }

    /// (waiters, bytes) held now.
    pub(super) fn held(&self) -> (usize, usize) {
        let Self {
            most_waiters: _,
            most_bytes: _,
            waiters,
            bytes,
        } = self;
        (
            waiters.load(Ordering::Relaxed),
            bytes.load(Ordering::Relaxed),
        )
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.account.waiters.fetch_sub(1, Ordering::Relaxed);
        self.account.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_and_bytes_are_both_bounded_and_given_back() {
        let account = Account::new(3, 100);
        let first = account.ticket(60).unwrap();
        assert!(account.ticket(41).is_none(), "too many bytes");
        assert_eq!(account.held(), (1, 60));
        let small = [account.ticket(20).unwrap(), account.ticket(20).unwrap()];
        assert!(account.ticket(0).is_none(), "too many waiters");
        drop(first);
        assert!(account.ticket(60).is_some());
        drop(small);
        assert_eq!(account.held(), (0, 0));
    }
}
