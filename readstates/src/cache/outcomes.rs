//! The outcomes of a request, without an allocation for the usual few.

use crate::block::Outcome;

/// As many as fit without an allocation.
const FEW: usize = 8;

/// Outcomes in the order of their operations.
#[derive(Debug)]
pub(super) struct Outcomes {
    few: [Outcome; FEW],
    len: usize,
    /// All, when they are more than a few.
    many: Vec<Outcome>,
}

impl Outcomes {
    /// Room for so many.
    pub(super) fn of(operations: usize) -> Self {
        let many = if operations > FEW { operations } else { 0 };
        Self {
            few: [Outcome::Ignored; FEW],
            len: 0,
            many: Vec::with_capacity(many),
        }
    }

    pub(super) fn push(&mut self, outcome: Outcome) {
        if self.many.capacity() > 0 {
            self.many.push(outcome);
        } else {
            self.few[self.len] = outcome;
            self.len += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[Outcome] {
        if self.many.capacity() > 0 {
            &self.many
        } else {
            &self.few[..self.len]
        }
    }
}
