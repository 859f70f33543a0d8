//! What another system has of a channel, and how it is merged with what is here.
//!
//! An import may come again, and while clients already use the service. So it sets what is absent, and otherwise only
//! moves forward: a position behind the one that is here says nothing about the position, the mentions or the flags.
//! What was deleted here is not brought back, as far as deletions are remembered.

use super::{BlockRef, Counted, Outcome, State, since};

/// The read state of one channel in another system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Import {
    /// The last message read; 0 when none was.
    pub message: u64,
    /// Mentions newer than `message`.
    pub mention_count: u32,
    /// The newest message whose mention is in the count, or would be; 0 when that is not known.
    pub counted_through: u64,
    /// The clients' own bits; `None`: they stay.
    pub flags: Option<u32>,
    /// Days since 2015-01-01 of the last visit.
    pub last_viewed: u16,
    /// Unix milliseconds of the newest pin seen; 0 when none was.
    pub last_pin_millis: u64,
}

/// Whether an import for a channel without a state must not make one: the state was deleted, or the whole user.
pub(super) fn was_deleted(block: BlockRef<'_>, channel: u64) -> bool {
    let mut deletions = since::deletions(block.bytes()).peekable();
    // A version without a state and without a deletion is what the deletion of a user leaves.
    let erased = block.is_empty() && block.version() > 0 && deletions.peek().is_none();
    erased || deletions.any(|(deleted, _)| deleted == channel)
}

impl State {
    pub(super) fn import(&mut self, counted: &mut Counted, import: Import) -> Outcome {
        let before = (*self, *counted);
        let Import {
            message,
            mention_count,
            counted_through,
            flags,
            last_viewed,
            last_pin_millis,
        } = import;
        let newest = counted.mentions().last().map_or(0, |newest| newest.message);
        // A state that is made here has position 0, as one that was never read.
        let is_new = self.version == 0;
        let covers = counted_through > message;
        if message > self.last_message || is_new {
            let left = counted.newer_than(message, self.mention_count);
            self.mention_count = left.max(mention_count);
            counted.forget_through(message);
            self.last_message = message;
            self.flags = flags.unwrap_or(self.flags);
            if covers {
                counted.rewind(message, counted_through, mention_count);
            }
        } else if message == self.last_message && covers && counted_through > newest {
            self.mention_count = self.mention_count.max(mention_count);
            counted.rewind(message, counted_through, mention_count);
        }
        self.last_viewed = self.last_viewed.max(last_viewed);
        self.last_pin_millis = self.last_pin_millis.max(last_pin_millis);
        match before == (*self, *counted) {
            true => Outcome::Ignored,
            false => Outcome::Applied,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block::{
        EMPTY, Operation, Visit, apply,
        reference::{BlockStep, any_operation, import, steps},
        take_over,
    };

    const CHANNEL: u64 = 3;

    fn of(message: u64, mention_count: u32) -> Import {
        Import {
            message,
            mention_count,
            ..Import::default()
        }
    }

    fn made(steps: &[BlockStep]) -> Vec<u8> {
        let mut block = EMPTY.to_vec();
        for step in steps {
            match step {
                BlockStep::Apply(operation) => {
                    apply(&mut block, operation, 0).unwrap();
                }
                BlockStep::TakeOver(_) => take_over(&mut block),
                BlockStep::Repack => {}
            }
        }
        block
    }

    fn bring(block: &mut Vec<u8>, import: Import) -> Outcome {
        let channel = CHANNEL;
        apply(block, &Operation::Import { channel, import }, 0).unwrap()
    }

    fn act(block: &mut Vec<u8>, operation: Operation) {
        assert_eq!(apply(block, &operation, 0), Ok(Outcome::Applied));
    }

    fn mention(message: u64) -> Operation {
        let (channel, count) = (CHANNEL, 1);
        Operation::Mention {
            channel,
            message,
            count,
        }
    }

    fn ack(message: u64) -> Operation {
        let (channel, visit) = (CHANNEL, Visit::default());
        Operation::Ack {
            channel,
            message,
            visit,
        }
    }

    /// (last message, mention count)
    fn seen(block: &[u8]) -> Option<(u64, u32)> {
        let state = BlockRef::trusted(block).state(CHANNEL)?;
        Some((state.last_message, state.mention_count))
    }

    proptest! {
        #[test]
        fn the_same_import_again_changes_nothing(steps in steps(60), import in import()) {
            let mut block = made(&steps);
            bring(&mut block, import);
            let after = block.clone();
            prop_assert_eq!(bring(&mut block, import), Outcome::Ignored);
            prop_assert_eq!(block, after);
        }

        #[test]
        fn nothing_moves_back_and_what_is_behind_says_nothing_of_the_position(
            steps in steps(60), import in import(),
        ) {
            let mut block = made(&steps);
            let before = BlockRef::trusted(&block).state(CHANNEL);
            let counted = BlockRef::trusted(&block).counted(CHANNEL);
            let version = BlockRef::trusted(&block).version();
            let outcome = bring(&mut block, import);
            let after = BlockRef::trusted(&block).state(CHANNEL);
            prop_assert_eq!(BlockRef::trusted(&block).version() > version, outcome == Outcome::Applied);
            if let Some(before) = before {
                let after = after.unwrap();
                prop_assert!(after.last_message >= before.last_message.max(import.message));
                prop_assert_eq!(after.last_viewed, before.last_viewed.max(import.last_viewed));
                prop_assert_eq!(after.last_pin_millis, before.last_pin_millis.max(import.last_pin_millis));
                if import.message < before.last_message {
                    let position = |state: State| (state.last_message, state.mention_count, state.flags);
                    prop_assert_eq!(position(after), position(before));
                    prop_assert_eq!(BlockRef::trusted(&block).counted(CHANNEL), counted);
                }
            }
        }

        /// Rows of a foreign table, one for each channel, sent in any order and some of them twice.
        #[test]
        fn the_order_of_rows_and_repetitions_do_not_matter(
            rows in proptest::collection::vec(import(), 4),
            order in proptest::collection::vec(0_usize..4, 4..20),
        ) {
            let all = |order: &mut dyn Iterator<Item = usize>| {
                let mut block = EMPTY.to_vec();
                for place in order {
                    let operation = Operation::Import { channel: place as u64 + 1, import: rows[place] };
                    apply(&mut block, &operation, 0).unwrap();
                }
                let block = BlockRef::trusted(&block);
                let states = block.states().map(|state| State { version: 0, ..state });
                let states: Vec<State> = states.collect();
                let counted: Vec<Counted> = (1..=4).map(|channel| block.counted(channel)).collect();
                (states, counted)
            };
            let in_order = all(&mut (0..4));
            let mixed = all(&mut order.into_iter().chain(0..4));
            prop_assert_eq!(mixed, in_order);
        }

        /// A client that goes ahead of the row keeps what it did, however often the row is sent.
        #[test]
        fn what_a_client_does_ahead_of_the_row_stays(
            import in import(), operations in proptest::collection::vec(any_operation(), 0..10),
        ) {
            let mut block = EMPTY.to_vec();
            bring(&mut block, import);
            act(&mut block, ack(100));
            for operation in operations {
                // These take back on purpose what was read.
                let back = matches!(
                    operation,
                    Operation::Manual { .. } | Operation::Delete { .. } | Operation::DeleteUser
                );
                if !back {
                    apply(&mut block, &operation, 0).unwrap();
                }
            }
            let before = seen(&block);
            bring(&mut block, import);
            prop_assert_eq!(seen(&block), before);
        }
    }

    #[test]
    fn a_user_never_seen_gets_what_the_other_system_has() {
        let mut block = EMPTY.to_vec();
        let import = Import {
            message: u64::MAX - 9,
            mention_count: u32::MAX,
            counted_through: u64::MAX,
            flags: Some(u32::MAX),
            last_viewed: u16::MAX,
            last_pin_millis: 253_402_207_200_999,
        };
        assert_eq!(bring(&mut block, import), Outcome::Applied);
        let state = BlockRef::trusted(&block).state(CHANNEL).unwrap();
        let expected = State {
            channel: CHANNEL,
            last_message: import.message,
            mention_count: u32::MAX,
            flags: u32::MAX,
            last_viewed: u16::MAX,
            last_pin_millis: import.last_pin_millis,
            version: 1,
        };
        assert_eq!(state, expected);
        // A row that says nothing makes nothing.
        let channel = CHANNEL + 1;
        let nothing = Operation::Import {
            channel,
            import: of(0, 0),
        };
        assert_eq!(apply(&mut block, &nothing, 0), Ok(Outcome::Ignored));
    }

    #[test]
    fn mentions_that_the_other_system_has_counted_are_not_counted_again() {
        let mut block = EMPTY.to_vec();
        let counted_through = 120;
        let import = Import {
            counted_through,
            ..of(100, 3)
        };
        bring(&mut block, import);
        for message in [101, 110, 119, 120] {
            assert_eq!(
                apply(&mut block, &mention(message), 0),
                Ok(Outcome::Ignored),
                "{message}"
            );
        }
        act(&mut block, mention(121));
        assert_eq!(seen(&block), Some((100, 4)));
        act(&mut block, ack(120));
        assert_eq!(seen(&block), Some((120, 1)));
    }

    #[test]
    fn a_later_row_at_the_same_position_brings_its_mentions_and_an_old_one_does_not() {
        let mut block = EMPTY.to_vec();
        let through = |counted_through, mention_count| Import {
            counted_through,
            ..of(100, mention_count)
        };
        bring(&mut block, through(110, 2));
        assert_eq!(bring(&mut block, through(130, 5)), Outcome::Applied);
        assert_eq!(seen(&block), Some((100, 5)));
        // The client clears the count; a row that was sent before does not bring it back.
        act(
            &mut block,
            Operation::Manual {
                channel: CHANNEL,
                message: 100,
                mention_count: 0,
                visit: Visit::default(),
            },
        );
        assert_eq!(bring(&mut block, through(130, 5)), Outcome::Ignored);
        assert_eq!(bring(&mut block, of(100, 7)), Outcome::Ignored);
        assert_eq!(seen(&block), Some((100, 0)));
    }

    #[test]
    fn mentions_counted_here_and_there_are_counted_once() {
        let mut block = EMPTY.to_vec();
        act(&mut block, mention(90));
        act(&mut block, mention(110));
        bring(&mut block, of(100, 1));
        assert_eq!(seen(&block), Some((100, 1)));
        act(&mut block, ack(110));
        assert_eq!(seen(&block), Some((110, 0)));
    }

    #[test]
    fn what_was_deleted_is_not_brought_back() {
        let channel = CHANNEL;
        let mut block = EMPTY.to_vec();
        bring(&mut block, of(5, 0));
        act(&mut block, Operation::Delete { channel });
        assert_eq!(bring(&mut block, of(5, 0)), Outcome::Ignored);
        // Another channel of a user who has deleted some is imported.
        let other = Operation::Import {
            channel: 9,
            import: of(5, 0),
        };
        assert_eq!(apply(&mut block, &other, 0), Ok(Outcome::Applied));
        act(&mut block, Operation::DeleteUser);
        assert_eq!(apply(&mut block, &other, 0), Ok(Outcome::Ignored));
        // Reading again makes a state, to which rows apply.
        act(&mut block, ack(4));
        assert_eq!(bring(&mut block, of(5, 0)), Outcome::Applied);
    }
}
