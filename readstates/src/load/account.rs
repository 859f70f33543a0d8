//! What the queues of users who are being loaded may hold: a number of waiters and of bytes.

use std::sync::Arc;

use crate::limit::{Limit, Permit};

/// What one class of waiters may hold.
#[derive(Debug)]
pub(super) struct Account {
    waiters: Arc<Limit>,
    bytes: Arc<Limit>,
}

/// A waiter's share of the account, given back when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    _waiter: Permit<Arc<Limit>>,
    _bytes: Permit<Arc<Limit>>,
}

impl Account {
    pub(super) fn new(most_waiters: usize, most_bytes: usize) -> Self {
        Self {
            waiters: Arc::new(Limit::new(most_waiters)),
            bytes: Arc::new(Limit::new(most_bytes)),
        }
    }

    /// A ticket for this many bytes, if there is room.
    pub(super) fn ticket(&self, bytes: usize) -> Option<Ticket> {
        Some(Ticket {
            _waiter: Permit::take(Arc::clone(&self.waiters), 1)?,
            _bytes: Permit::take(Arc::clone(&self.bytes), bytes)?,
        })
    }

    /// (waiters, bytes) held now.
    pub(super) fn held(&self) -> (usize, usize) {
        (self.waiters.used(), self.bytes.used())
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
