//! Users by a moment, the earliest first: a heap. What is entered late is late in time, too, so that
//! an entry mostly stays where it is put.
//!
//! Entries are never removed from the middle: the caller says whether the first one still holds, and a
//! stale entry is dropped when it comes up, or when most of the heap is stale.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::Moment;

/// Entries that are not worth tidying.
const FEW: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Order {
    entries: BinaryHeap<Reverse<(Moment, u64)>>,
}

impl Order {
    pub(super) fn push(&mut self, at: Moment, user: u64) {
        self.entries.push(Reverse((at, user)));
    }

    pub(super) fn first(&self) -> Option<(Moment, u64)> {
        self.entries.peek().map(|&Reverse(first)| first)
    }

    pub(super) fn pop(&mut self) {
        self.entries.pop();
    }

    /// Keeps what `holds` when that can be less than half of it: `most` entries hold at most.
    pub(super) fn tidy(&mut self, most: usize, holds: impl Fn(Moment, u64) -> bool) {
        if self.entries.len() <= 2 * most + FEW {
            return;
        }
        self.entries.retain(|&Reverse((at, user))| holds(at, user));
        self.entries.shrink_to(2 * self.entries.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_comes_out_in_order_whatever_else_there_was() {
        let mut order = Order::default();
        for number in 0..10_000_u64 {
            // Every other one is of user 0, and holds no more.
            order.push(Moment(number ^ 0x55), (number % 2) * number);
            order.tidy(100, |_, user| user > 9_000);
        }
        assert!(order.entries.len() <= 2 * 500 + FEW + 100);
        let mut last = Moment(0);
        let mut found = 0;
        while let Some((at, user)) = order.first() {
            assert!(at >= last);
            (last, found) = (at, found + usize::from(user > 9_000));
            order.pop();
        }
        assert_eq!(found, 500);
    }
}
