//! Seeds under way: which users of which slots have not been sent to those that are to be their backups.
//!
//! A slot may lack more in the database than a message carries. So a seed goes in parts, each as large as there is room
//! for in what waits to be sent. Of a part that has to wait only the users are remembered: their blocks are looked at when
//! they are sent, and what was written or given up meanwhile is not.

use std::collections::VecDeque;

use readstates_ring::{Incarnation, Slot};

/// Bytes that wait to be sent to a backup, up to which a seed adds to them; one block may be larger. A message may have
/// 20 MiB, and a block 16 MiB.
const MOST_PENDING: usize = 4 << 20;
/// With fewer bytes that wait a block of any size is sent: what waits may never be nothing.
const ALMOST_NONE: usize = 1 << 20;

/// In the order in which they are sent.
#[derive(Debug, Default)]
pub(crate) struct Seeds(VecDeque<Seed>);

#[derive(Debug)]
struct Seed {
    slot: Slot,
    to: Incarnation,
    /// Not sent yet.
    users: Vec<u64>,
}

/// What seeds do.
pub(crate) trait Sow {
    /// Whether a process is still seeded with a slot.
    fn goes_on(&self, slot: Slot, to: Incarnation) -> bool;
    /// Bytes that wait to be sent to a process.
    fn pending(&self, to: Incarnation) -> usize;
    /// Sends a user, or returns `false` when it has more than `most` bytes.
    fn send(&self, user: u64, most: usize) -> bool;
    /// All users of a slot were sent.
    fn done(&self, slot: Slot);
}

impl Seeds {
    /// None is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A process is seeded with a slot, from now on; these users of it lack something in the database.
    pub(crate) fn begin(&mut self, slot: Slot, to: Incarnation, users: Vec<u64>) {
        self.0.push_back(Seed { slot, to, users });
    }

    /// Sends as much as there is room for. One process without room does not keep others waiting.
    pub(crate) fn go_on(&mut self, sow: &impl Sow) {
        self.0.retain_mut(|seed| {
            if !sow.goes_on(seed.slot, seed.to) {
                return false;
            }
            while let Some(&user) = seed.users.last() {
                let most = match sow.pending(seed.to) {
                    ..ALMOST_NONE => usize::MAX,
                    pending => MOST_PENDING.saturating_sub(pending),
                };
                if most == 0 || !sow.send(user, most) {
                    return true;
                }
                seed.users.pop();
            }
            sow.done(seed.slot);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const TO: Incarnation = Incarnation::new(2);
    const SLOT: u16 = 7;

    /// What waits, what was sent, and of what size users are.
    #[derive(Default)]
    struct Field {
        pending: Cell<usize>,
        sizes: Vec<usize>,
        sent: RefCell<Vec<u64>>,
        is_given_up: Cell<bool>,
        done: RefCell<Vec<Slot>>,
    }

    impl Sow for Field {
        fn goes_on(&self, _slot: Slot, _to: Incarnation) -> bool {
            !self.is_given_up.get()
        }

        fn pending(&self, _to: Incarnation) -> usize {
            self.pending.get()
        }

        fn send(&self, user: u64, most: usize) -> bool {
            let size = self.sizes[user as usize];
            if size > most {
                return false;
            }
            self.pending.set(self.pending.get() + size);
            self.sent.borrow_mut().push(user);
            true
        }

        fn done(&self, slot: Slot) {
            self.done.borrow_mut().push(slot);
        }
    }

    fn slot() -> Slot {
        Slot::new(SLOT).unwrap()
    }

    fn field(sizes: &[usize]) -> (Field, Seeds) {
        let field = Field {
            sizes: sizes.to_vec(),
            ..Field::default()
        };
        let mut seeds = Seeds::default();
        seeds.begin(slot(), TO, (0..sizes.len() as u64).collect());
        (field, seeds)
    }

    #[test]
    fn a_slot_with_more_than_a_message_carries_is_sent_whole_and_in_parts() {
        // 60 MiB, and a block that is larger than what may wait.
        let mut sizes = vec![600 << 10; 100];
        sizes[40] = 16 << 20;
        let (field, mut seeds) = field(&sizes);
        let mut messages = 0;
        while !seeds.is_empty() {
            seeds.go_on(&field);
            let message = field.pending.take();
            assert!(message <= 17 << 20, "{message} bytes in one message");
            assert!(message > 0, "nothing moves");
            messages += 1;
            assert_eq!(field.done.borrow().len(), usize::from(seeds.is_empty()));
        }
        assert!(messages > 15, "{messages}");
        let mut sent = field.sent.take();
        sent.sort_unstable();
        assert_eq!(sent, (0..100).collect::<Vec<_>>());
        assert_eq!(field.done.take(), [slot()]);
    }

    #[test]
    fn a_seed_waits_for_room_and_ends_when_it_is_given_up() {
        let (field, mut seeds) = field(&[100; 10]);
        field.pending.set(MOST_PENDING - 250);
        seeds.go_on(&field);
        seeds.go_on(&field);
        assert_eq!(field.sent.borrow().len(), 2);
        assert!(!seeds.is_empty() && field.done.borrow().is_empty());
        field.is_given_up.set(true);
        seeds.go_on(&field);
        assert!(seeds.is_empty(), "it begins anew, if at all");
        assert!(field.done.borrow().is_empty());
        assert_eq!(field.sent.borrow().len(), 2);
    }

    #[test]
    fn a_slot_without_users_is_done_at_once() {
        let (field, mut seeds) = field(&[]);
        seeds.go_on(&field);
        assert_eq!(field.done.take(), [slot()]);
    }
}
