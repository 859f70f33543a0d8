//! What an order was looked for in, and what came of it.

use std::collections::BTreeMap;

use crate::{
    excuse::Excuse,
    history::{Event, History, Order},
};

/// Of so many users it may remain unknown whether the answers have an order; what is known says little otherwise.
const MOST_UNDECIDED_PERCENT: usize = 5;

/// The orders of the answers about each user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// Users whose answers have an order.
    pub linearizable: usize,
    /// Users whose answers have one if a member that was killed has lost what it may have lost: not counted as a fault.
    pub excused: usize,
    /// Users with too many orders to try.
    pub undecided: usize,
    /// Users whose answers have none: how many operations have one, and what cannot come next.
    pub impossible: BTreeMap<u64, (usize, Vec<Event>)>,
    /// Operations with an answer.
    pub answered: usize,
    /// Those of them that have an order.
    pub ordered: usize,
}

impl Orders {
    /// Looks for an order of the answers about each user; where there is none, for one in which a member that was killed
    /// has lost something.
    #[must_use]
    pub fn of(history: &History, excuses: &[Excuse]) -> Self {
        let mut orders = Self {
            answered: history.answered(),
            ..Self::default()
        };
        for (user, order) in history.check() {
            let lossy = match order {
                Order::Linearizable => None,
                Order::Undecided | Order::Impossible { .. } => history.check_with(user, excuses),
            };
            let of_user = match (order, lossy) {
                (Order::Linearizable, _) => {
                    orders.linearizable += 1;
                    history.answered_of(user)
                }
                (_, Some(Order::Linearizable)) => {
                    orders.excused += 1;
                    history.answered_of(user)
                }
                (_, Some(Order::Undecided)) | (Order::Undecided, None) => {
                    orders.undecided += 1;
                    0
                }
                (_, Some(Order::Impossible { ordered, stuck }))
                | (Order::Impossible { ordered, stuck }, None) => {
                    orders.impossible.insert(user, (ordered, stuck));
                    0
                }
            };
            orders.ordered += of_user;
        }
        orders
    }

    /// Whether answers about some user have no order.
    #[must_use]
    pub fn are_wrong(&self) -> bool {
        !self.impossible.is_empty()
    }

    /// Why what was found says too little, when so many answers were to have an order.
    pub(crate) fn lack(&self, least: u64) -> Vec<String> {
        let mut lack = Vec::new();
        let ordered = self.ordered as u64;
        if ordered < least {
            lack.push(format!(
                "{ordered} answers about single users have an order, {least} at least were to"
            ));
        }
        let users = self.linearizable + self.excused + self.undecided + self.impossible.len();
        if self.undecided * 100 > users * MOST_UNDECIDED_PERCENT {
            lack.push(format!(
                "of {} users of {users} it was not found out whether the answers have an order",
                self.undecided
            ));
        }
        lack
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::{Action, Answer};

    fn read(at: u64, states: &[(u64, u64)], version: u64) -> Event {
        Event {
            action: Action::Read,
            sent: Duration::from_secs(at),
            answered: Duration::from_secs(at + 1),
            answer: Answer::States {
                states: states.iter().copied().collect(),
                version,
            },
        }
    }

    fn ack(at: u64, message: u64, version: u64) -> Event {
        Event {
            action: Action::Ack {
                channel: 1,
                message,
            },
            answer: Answer::Changed {
                applied: true,
                version,
            },
            ..read(at, &[], 0)
        }
    }

    fn excuse(from: u64, until: u64) -> Excuse {
        Excuse {
            from: Duration::from_secs(from),
            until: Duration::from_secs(until),
        }
    }

    #[test]
    fn answers_without_an_order_are_wrong_unless_a_member_died_that_may_have_lost_what_is_missing()
    {
        let mut history = History::default();
        for event in [ack(10, 5, 1), read(12, &[(1, 5)], 1)] {
            history.add(1, event);
        }
        for event in [ack(30, 5, 1), read(32, &[], 0)] {
            history.add(2, event);
        }
        let orders = Orders::of(&history, &[]);
        assert!(orders.are_wrong());
        assert_eq!(
            (orders.linearizable, orders.answered, orders.ordered),
            (1, 4, 2)
        );
        assert_eq!(orders.impossible[&2].0, 1);
        // One that died before it was done, or whose last flush was after.
        for (from, until) in [(0, 29), (32, 40), (33, 40), (34, 40)] {
            assert!(Orders::of(&history, &[excuse(from, until)]).are_wrong());
        }
        for (from, until) in [(0, 30), (31, 32), (25, 40)] {
            let orders = Orders::of(&history, &[excuse(from, until)]);
            assert!(!orders.are_wrong());
            assert_eq!(
                (orders.linearizable, orders.excused, orders.ordered),
                (1, 1, 4)
            );
        }
    }

    #[test]
    fn few_answers_and_answers_of_which_nothing_is_known_are_no_proof() {
        let orders = |linearizable, undecided, ordered| Orders {
            linearizable,
            undecided,
            ordered,
            ..Orders::default()
        };
        assert_eq!(orders(57, 3, 600).lack(600), [""; 0]);
        assert_eq!(orders(57, 3, 599).lack(600).len(), 1);
        assert_eq!(orders(56, 3, 600).lack(600).len(), 1);
        assert_eq!(orders(0, 0, 0).lack(1).len(), 1, "nothing was asked");
    }
}
