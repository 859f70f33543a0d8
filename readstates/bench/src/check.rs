//! Proof that nothing acknowledged is lost or applied twice.
//!
//! Every operation is written into a [`Book`], sent again with the same ids until it is answered, and looked for at the
//! end. A channel gets either mentions or acknowledgements, and has one operation under way at a time, so that their
//! order is known; channels are new with every run.

use std::collections::{BTreeMap, VecDeque};

use readstates_api::ReadStates;
use readstates_ledger::{AMOUNTS, Audit, Book, Call, Finding, Found, Status, What};
use serde::{Deserialize, Serialize};

use crate::{
    answer::Answer,
    operation::{Kind, Operation},
    source::{Messages, Source},
};

/// This many findings are told in words.
const MOST_EXAMPLES: usize = 10;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Users whose states were read.
    pub users: u64,
    /// Operations that were sent.
    pub sent: u64,
    /// Those the service said were done.
    pub acknowledged: u64,
    /// Those of which it never said anything: there or not, both are right.
    pub unknown: u64,
    /// Acknowledged, and not there.
    pub lost: u64,
    /// Counted more than once.
    pub doubled: u64,
    /// There, and never sent.
    pub foreign: u64,
    /// The first findings, in words.
    pub examples: Vec<String>,
}

impl CheckReport {
    /// Whether everything is as it should be.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.lost + self.doubled + self.foreign == 0
    }

    /// Adds what was found of other users.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self {
            users,
            sent,
            acknowledged,
            unknown,
            lost,
            doubled,
            foreign,
            examples,
        } = other;
        self.users += users;
        self.sent += sent;
        self.acknowledged += acknowledged;
        self.unknown += unknown;
        self.lost += lost;
        self.doubled += doubled;
        self.foreign += foreign;
        let room = MOST_EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(examples.into_iter().take(room));
    }
}

#[derive(Debug, Clone)]
struct Channel {
    counting: bool,
    /// How many operations on it were sent.
    sent: usize,
}

/// What one thread has sent, and how the service answered.
#[derive(Debug)]
pub struct Ledger {
    users: u64,
    first_user: u64,
    first_channel: u64,
    thread: u64,
    threads: u64,
    messages: Messages,
    per_request: usize,
    channels: Vec<Channel>,
    book: Book,
    /// Channels to open before those with room are used again.
    to_open: u64,
    /// Channels with room and nothing under way.
    idle: VecDeque<usize>,
    again: Vec<Operation>,
}

impl Ledger {
    /// An empty ledger of thread `thread` of `threads`. Channels have ids from `now` on, as messages do.
    #[must_use]
    pub fn new(
        users: u64,
        first_user: u64,
        now: u64,
        per_request: usize,
        (thread, threads): (u64, u64),
    ) -> Self {
        Self {
            users,
            first_user,
            first_channel: now << 22,
            thread,
            threads,
            messages: Messages::new(now, thread, threads),
            per_request,
            channels: Vec::new(),
            book: Book::default(),
            to_open: 0,
            idle: VecDeque::new(),
            again: Vec::new(),
        }
    }

    /// User and id of the n-th channel of this thread: one of either sort for each user, then a second, and so on.
    fn place(&self, index: usize) -> (u64, u64) {
        let number = index as u64 * self.threads + self.thread;
        let user = self.first_user + number / 2 % self.users;
        (user, self.first_channel + number)
    }

    fn index(&self, channel: u64) -> Option<usize> {
        let number = channel.checked_sub(self.first_channel)?;
        usize::try_from(number / self.threads).ok()
    }

    fn fresh(&mut self) -> Operation {
        // Every user gets a channel of either sort before one gets another.
        let idle = match self.to_open {
            0 => self.idle.pop_front(),
            _ => None,
        };
        let index = idle.unwrap_or_else(|| {
            if self.to_open == 0 {
                self.to_open = (2 * self.users).div_ceil(self.threads);
            }
            self.to_open -= 1;
            let number = self.channels.len() as u64 * self.threads + self.thread;
            self.channels.push(Channel {
                counting: number.is_multiple_of(2),
                sent: 0,
            });
            self.channels.len() - 1
        });
        let (user, id) = self.place(index);
        let message = self.messages.id();
        let channel = &mut self.channels[index];
        let amount = Book::amount(channel.sent);
        channel.sent += 1;
        let operation = Operation {
            kind: match channel.counting {
                true => Kind::Mention { amount },
                false => Kind::Ack,
            },
            user,
            channel: id,
            message,
        };
        self.enter(&operation, Status::Unknown);
        operation
    }

    fn enter(&mut self, operation: &Operation, status: Status) {
        let Operation {
            kind,
            user,
            channel,
            message,
        } = *operation;
        match kind {
            Kind::Mention { .. } => self.book.mentioned(user, channel, message, status),
            Kind::Ack => self.book.acked(user, channel, message, status),
            Kind::Read => {}
        }
    }

    /// The users to read at the end.
    #[must_use]
    pub fn users(&self) -> Vec<u64> {
        let users = (0..self.channels.len()).map(|index| self.place(index).0);
        let mut users: Vec<u64> = users.collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// Compares what was sent with what is there: `read` has the states of every user in [`Ledger::users`].
    #[must_use]
    pub fn verify(&self, read: &BTreeMap<u64, ReadStates>) -> CheckReport {
        let found = self.users().into_iter().filter_map(|user| {
            let states = &read.get(&user)?.read_states;
            Some((user, states.iter().map(Found::from).collect()))
        });
        let audit = self.book.audit(&found.collect());
        let count = |what| audit.count(what) as u64;
        let sent = self.channels.iter().map(|channel| channel.sent as u64);
        let sent = sent.sum();
        let Audit {
            acknowledged,
            ref findings,
            ..
        } = audit;
        CheckReport {
            users: 0,
            sent,
            acknowledged,
            unknown: sent - acknowledged,
            lost: count(What::Lost),
            doubled: count(What::Doubled),
            foreign: count(What::Phantom),
            examples: findings.iter().take(MOST_EXAMPLES).map(words).collect(),
        }
    }
}

fn words(finding: &Finding) -> String {
    let Finding {
        user,
        channel,
        message,
        what,
        call: _,
    } = finding;
    let place = format!("user {user}, channel {channel}");
    match what {
        What::Lost => format!("{place}: message {message} was acknowledged and is lost"),
        What::Doubled => format!("{place}: message {message} is counted more than once"),
        What::Phantom => format!("{place}: message {message} is there and was never sent"),
        // Not of a comparison at the end.
        What::LostMeanwhile | What::NotSeen | What::VersionWentBack | What::ReadBehind => {
            format!("{place}: message {message}: {what:?}")
        }
    }
}

impl Source for Ledger {
    fn next(&mut self, operations: &mut Vec<Operation>) -> bool {
        let again = self.again.len().min(self.per_request);
        operations.extend(self.again.drain(..again));
        while operations.len() < self.per_request {
            let operation = self.fresh();
            operations.push(operation);
        }
        true
    }

    fn answered(&mut self, operations: &[Operation], answers: &[Answer]) {
        for (operation, answer) in operations.iter().zip(answers) {
            let Some(index) = self.index(operation.channel) else {
                continue;
            };
            match answer {
                Answer::Applied | Answer::Ignored | Answer::Read { .. } => {
                    self.enter(operation, Status::Acknowledged(Call::default()));
                    if self.channels[index].sent < AMOUNTS {
                        self.idle.push_back(index);
                    }
                }
                Answer::Failed(_) => self.again.push(*operation),
            }
        }
    }

    fn owes(&self) -> bool {
        !self.again.is_empty()
    }

    fn ledger(&self) -> Option<&Ledger> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use readstates_api::{Id, ReadState, Version};

    use super::*;
    use crate::answer::Failure;

    /// A service that does as it is told, and keeps what it was told.
    #[derive(Default)]
    struct World(BTreeMap<u64, BTreeMap<u64, (u64, u32)>>);

    impl World {
        fn apply(&mut self, operation: &Operation, times: u32) {
            let user = self.0.entry(operation.user).or_default();
            let (last, count) = user.entry(operation.channel).or_default();
            match operation.kind {
                Kind::Ack if times > 0 => *last = operation.message.max(*last),
                Kind::Ack | Kind::Read => {}
                Kind::Mention { amount } => *count += amount * times,
            }
        }

        fn read(&self) -> BTreeMap<u64, ReadStates> {
            let states = |(channel, (last, count)): (&u64, &(u64, u32))| ReadState {
                channel_id: Id::new(*channel).unwrap(),
                last_message_id: Id::new(*last),
                mention_count: *count,
                flags: 0,
                last_viewed: 0,
                last_pin_timestamp: None,
                version: Version(1),
            };
            let user = |(user, channels): (&u64, &BTreeMap<_, _>)| {
                let read = ReadStates {
                    user_id: Id::new(*user).unwrap(),
                    version: Version(1),
                    partial: false,
                    read_states: channels.iter().map(states).collect(),
                    deleted: None,
                    next: None,
                };
                (*user, read)
            };
            self.0.iter().map(user).collect()
        }
    }

    /// Sends 400 operations over 5 users and 10 channels; the n-th is applied and answered as `status` says.
    fn run(status: impl Fn(usize, &Operation) -> (u32, Answer)) -> CheckReport {
        let mut ledger = Ledger::new(5, 100, 1_000_000, 1, (0, 1));
        let mut world = World::default();
        let mut operations = Vec::new();
        for n in 0..400 {
            operations.clear();
            assert!(ledger.next(&mut operations));
            let (times, answer) = status(n, &operations[0]);
            world.apply(&operations[0], times);
            ledger.answered(&operations, &[answer]);
        }
        ledger.verify(&world.read())
    }

    #[test]
    fn a_service_that_does_as_told_holds() {
        let report = run(|_, _| (1, Answer::Applied));
        assert!(report.holds(), "{report:?}");
        assert_eq!(
            (report.sent, report.acknowledged, report.unknown),
            (400, 400, 0)
        );
    }

    #[test]
    fn a_mention_that_was_acknowledged_and_not_counted_is_named_as_lost() {
        let report = run(|n, operation| {
            let lost = matches!(operation.kind, Kind::Mention { .. }) && n == 200;
            (u32::from(!lost), Answer::Applied)
        });
        assert_eq!((report.lost, report.doubled), (1, 0), "{report:?}");
        assert!(report.examples[0].contains("is lost"), "{report:?}");
    }

    #[test]
    fn one_lost_and_one_doubled_do_not_make_up_for_each_other() {
        let report = run(|n, operation| match operation.kind {
            Kind::Mention { amount: 16 } if n < 40 => (0, Answer::Applied),
            Kind::Mention { amount: 4 } if n < 40 => (2, Answer::Applied),
            _ => (1, Answer::Applied),
        });
        assert!(
            report.lost > 0 && report.lost == report.doubled,
            "{report:?}"
        );
    }

    #[test]
    fn an_acknowledgement_that_did_not_move_the_position_is_lost() {
        let report = run(|n, operation| match operation.kind {
            Kind::Ack if n >= 390 => (0, Answer::Applied),
            _ => (1, Answer::Applied),
        });
        assert!(report.lost > 0 && report.doubled == 0, "{report:?}");
    }

    #[test]
    fn what_was_never_acknowledged_may_be_there_or_not_and_is_sent_again() {
        let unknown = Answer::Failed(Failure::Timeout);
        let there = run(|_, _| (0, unknown));
        assert!(there.holds() && there.sent == 1, "{there:?}");
        // Applied, not answered, and sent again: known already.
        let tried = std::cell::Cell::new(0);
        let report =
            run(
                |_, operation| match tried.replace(operation.message) == operation.message {
                    true => (0, Answer::Ignored),
                    false => (1, unknown),
                },
            );
        assert!(report.holds(), "{report:?}");
        assert_eq!((report.sent, report.acknowledged), (200, 200));
    }
}
