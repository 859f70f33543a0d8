use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// An owner is a number, and an operation, too.
type Numbers = Queues<u8, u32>;

fn push(queues: &mut Numbers, user: u64, owner: u8, operation: u32) -> (Ticket, Option<u8>) {
    let pushed = queues.push(user, owner, operation).unwrap();
    (pushed.ticket, pushed.start)
}

#[test]
fn the_first_operations_start_senders_and_later_ones_wait_for_a_frame_to_return() {
    let mut queues = Numbers::new();
    assert_eq!(push(&mut queues, 1, 7, 10).1, Some(7));
    assert_eq!(queues.take(&7), [(1, 10)]);
    assert_eq!(push(&mut queues, 2, 7, 20).1, Some(7));
    assert_eq!(queues.take(&7), [(2, 20)]);
    for user in 3..=5 {
        assert_eq!(push(&mut queues, user, 7, 30).1, None);
    }
    assert_eq!(push(&mut queues, 6, 8, 60).1, Some(8), "another owner");
    queues.land([1], |_| 7, &mut Vec::new());
    assert_eq!(queues.take(&7), [(3, 30), (4, 30), (5, 30)]);
    assert_eq!(queues.take(&7), []);
    assert_eq!(push(&mut queues, 9, 7, 90).1, Some(7), "one has ended");
}

#[test]
fn a_frame_has_one_operation_of_a_user_and_the_next_follows_when_that_has_ended() {
    let mut queues = Numbers::new();
    for operation in 1..=3 {
        push(&mut queues, 1, 7, operation);
    }
    push(&mut queues, 2, 7, 9);
    assert_eq!(queues.take(&7), [(1, 1), (2, 9)]);
    assert_eq!(queues.take(&7), []);
    let mut start = Vec::new();
    queues.land([1, 2], |_| 7, &mut start);
    assert_eq!(start, [7], "the second sender has ended");
    assert_eq!(queues.take(&7), [(1, 2)]);
}

#[test]
fn what_waits_goes_to_the_new_owner_and_what_is_under_way_when_it_has_ended() {
    let mut queues = Numbers::new();
    push(&mut queues, 1, 7, 1);
    push(&mut queues, 1, 7, 2);
    assert_eq!(queues.take(&7), [(1, 1)]);
    push(&mut queues, 2, 7, 9);
    let mut start = Vec::new();
    queues.route_again(|_| 8, &mut start);
    assert_eq!(start, [8]);
    assert_eq!(queues.take(&7), []);
    assert_eq!(
        queues.take(&8),
        [(2, 9)],
        "the first user has one under way"
    );
    start.clear();
    queues.land([1], |_| 8, &mut start);
    assert_eq!(start, [8]);
    assert_eq!(queues.take(&8), [(1, 2)]);
}

#[test]
fn what_is_taken_back_is_not_sent_and_what_is_under_way_cannot_be() {
    let mut queues = Numbers::new();
    let (first, _) = push(&mut queues, 1, 7, 1);
    let (second, _) = push(&mut queues, 1, 7, 2);
    let (other, _) = push(&mut queues, 2, 7, 3);
    assert_eq!((queues.waiting_of(1), queues.waiting_of(2)), (2, 1));
    assert!(queues.withdraw(2, other) && !queues.withdraw(2, other));
    assert_eq!(queues.waiting_of(2), 0);
    assert_eq!(queues.take(&7), [(1, 1)]);
    assert!(!queues.withdraw(1, first) && queues.withdraw(1, second));
    queues.land([1], |_| 7, &mut Vec::new());
    assert_eq!(queues.take(&7), []);
    assert!(queues.users.is_empty());
}

#[test]
fn only_so_many_wait_for_an_owner_and_those_of_another_are_not_refused() {
    let mut queues = Numbers::new();
    for user in 0..MOST_WAITING as u64 {
        push(&mut queues, user, 7, 0);
    }
    let one_more = u64::MAX;
    assert_eq!(queues.push(one_more, 7, 0), Err(Full));
    push(&mut queues, one_more, 8, 0);
    assert_eq!(queues.take(&7).len(), MOST_RECORDS);
    push(&mut queues, one_more - 1, 7, 0);
}

#[derive(Debug, Clone)]
enum Step {
    Push(u64),
    Withdraw(usize),
    Take(u8),
    /// The frame at this place among those under way returns.
    Land(usize),
    /// Users are of the owners that this number gives.
    Ring(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u64).prop_map(Step::Push),
        1 => any::<usize>().prop_map(Step::Withdraw),
        3 => (0..3_u8).prop_map(Step::Take),
        3 => any::<usize>().prop_map(Step::Land),
        1 => any::<u8>().prop_map(Step::Ring),
    ]
}

/// The queues and who drives them, as the senders do.
struct World {
    queues: Numbers,
    ring: u8,
    /// By owner.
    senders: [usize; 3],
    under_way: Vec<(u8, Vec<(u64, u32)>)>,
    pushed: Vec<(u64, Ticket, u32)>,
    sent: Vec<(u64, u32)>,
}

fn owner_of(ring: u8, user: u64) -> u8 {
    (ring.wrapping_mul(31).wrapping_add(user as u8)) % 3
}

impl World {
    fn start(&mut self, owners: impl IntoIterator<Item = u8>) {
        for owner in owners {
            self.senders[usize::from(owner)] += 1;
            assert!(self.senders[usize::from(owner)] <= FRAMES);
        }
    }

    fn take(&mut self, owner: u8) {
        let busy = self.under_way.iter().filter(|(of, _)| *of == owner).count();
        // A sender that is free takes.
        if self.senders[usize::from(owner)] <= busy {
            return;
        }
        let frame = self.queues.take(&owner);
        if frame.is_empty() {
            self.senders[usize::from(owner)] -= 1;
            return;
        }
        self.sent.extend(&frame);
        self.under_way.push((owner, frame));
        let users = self.under_way.iter().flat_map(|(_, frame)| frame);
        let users: Vec<u64> = users.map(|&(user, _)| user).collect();
        let different: HashSet<u64> = users.iter().copied().collect();
        assert_eq!(different.len(), users.len(), "a user is under way twice");
    }

    fn land(&mut self, place: usize) {
        if self.under_way.is_empty() {
            return;
        }
        let (_, frame) = self.under_way.remove(place % self.under_way.len());
        let (mut start, ring) = (Vec::new(), self.ring);
        let users = frame.iter().map(|&(user, _)| user);
        self.queues
            .land(users, |user| owner_of(ring, user), &mut start);
        self.start(start);
    }

    fn step(&mut self, number: u32, step: Step) {
        match step {
            Step::Push(user) => {
                let owner = owner_of(self.ring, user);
                let (ticket, start) = push(&mut self.queues, user, owner, number);
                self.pushed.push((user, ticket, number));
                self.start(start);
            }
            Step::Withdraw(place) => {
                if self.pushed.is_empty() {
                    return;
                }
                let place = place % self.pushed.len();
                let (user, ticket, operation) = self.pushed[place];
                let waits = !self.sent.contains(&(user, operation));
                assert_eq!(self.queues.withdraw(user, ticket), waits);
                if waits {
                    self.pushed.remove(place);
                }
            }
            Step::Take(owner) => self.take(owner),
            Step::Land(place) => self.land(place),
            Step::Ring(ring) => {
                self.ring = ring;
                let mut start = Vec::new();
                self.queues
                    .route_again(|user| owner_of(ring, user), &mut start);
                self.start(start);
            }
        }
    }

    /// Everybody goes on until nothing is left.
    fn finish(&mut self) {
        for _ in 0..1000 {
            (0..3).for_each(|owner| self.take(owner));
            self.land(0);
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_and_operations_of_a_user_are_sent_once_and_in_order(
        steps in prop::collection::vec(any_step(), 1..200),
    ) {
        let mut world = World {
            queues: Numbers::new(),
            ring: 0,
            senders: [0; 3],
            under_way: Vec::new(),
            pushed: Vec::new(),
            sent: Vec::new(),
        };
        for (number, step) in (0..).zip(steps) {
            world.step(number, step);
        }
        world.finish();
        for user in 0..6 {
            let pushed = world.pushed.iter().filter(|(of, ..)| *of == user);
            let pushed: Vec<u32> = pushed.map(|&(.., operation)| operation).collect();
            let sent = world.sent.iter().filter(|(of, _)| *of == user);
            let sent: Vec<u32> = sent.map(|&(_, operation)| operation).collect();
            prop_assert_eq!(sent, pushed);
        }
        prop_assert!(world.queues.users.is_empty());
        prop_assert!(world.queues.owners.is_empty());
        prop_assert_eq!(world.senders, [0; 3]);
    }
}
