//! A value for each slot.

use std::ops::{Index, IndexMut};

use crate::Slot;

/// One value for each of the [`SLOTS`](crate::SLOTS) slots, found by the slot itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BySlot<T>(Box<[T]>);

impl<T> BySlot<T> {
    /// What `value` makes of each slot.
    pub fn of(value: impl FnMut(Slot) -> T) -> Self {
        Self(Slot::all().map(value).collect())
    }

    /// Each slot with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        Slot::all().zip(&self.0)
    }

    /// The same, to change the values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut T)> {
        Slot::all().zip(&mut self.0)
    }

    /// The values, in the order of their slots.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T> Index<Slot> for BySlot<T> {
    type Output = T;

    fn index(&self, slot: Slot) -> &T {
        &self.0[usize::from(slot.number())]
    }
}

impl<T> IndexMut<Slot> for BySlot<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.0[usize::from(slot.number())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_its_own_value() {
        let mut numbers = BySlot::of(Slot::number);
        for slot in Slot::all() {
            assert_eq!(numbers[slot], slot.number());
            numbers[slot] += 1;
        }
        assert!(
            numbers
                .iter()
                .all(|(slot, &number)| number == slot.number() + 1)
        );
        assert!(
            numbers
                .values()
                .eq(numbers.iter().map(|(_, number)| number))
        );
    }
}
