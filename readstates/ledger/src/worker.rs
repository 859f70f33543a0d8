//! One worker: one operation after another, on users of its own and on the one that all share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates_api::{
    AckRequest, Id, MentionsRequest,
    batch::{Record, RecordOperation, RecordOutcome},
};
use readstates_client::{Client, Error, Mentioned, Outcome};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{
    book::{AMOUNTS, Book, Call, Finding, Found, Status, What},
    tally::{Operation, Phase, Tallies},
};

/// What a client knows of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Follows it.
    Smart,
    /// Has one from the beginning.
    Stale,
    /// Asks any member.
    Dumb,
}

/// After so many channels a worker takes new users: users who were never seen are loaded differently, and no user
/// gets more read states than a user has.
const CHANNELS_PER_USER: u64 = 48;
/// How often an operation without an outcome is sent again before the worker goes on to the next: further mentions
/// would make the service forget which ones it has counted.
const SENT_AGAIN: u32 = 5;

/// What workers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) began: Instant,
    pub(crate) tallies: Tallies,
    pub(crate) over: AtomicBool,
    /// The greatest version that was answered, and when, by user.
    pub(crate) versions: Mutex<HashMap<u64, (u64, Call)>>,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) number: u64,
    pub(crate) client: Client,
    pub(crate) shared: Arc<Shared>,
    pub(crate) pace: Duration,
    pub(crate) random: StdRng,
    pub(crate) book: Book,
    /// The user of all workers.
    hot: u64,
    /// The first user of this worker that was never used, and how many it uses at a time.
    next_user: u64,
    users_at_once: u64,
    users: Vec<u64>,
    /// The channel of mentions for the own users, for the hot user; each worker counts its own up.
    own: Channel,
    of_hot: Channel,
    /// Message ids grow.
    message: u64,
}

/// A channel that takes the mentions now.
#[derive(Debug, Clone, Copy)]
struct Channel {
    id: u64,
    mentions: usize,
}

impl Worker {
    pub(crate) fn new(
        number: u64,
        client: Client,
        shared: Arc<Shared>,
        plan: &crate::Plan,
    ) -> Self {
        // No other worker has these users and channels: each worker has a block of ids.
        let block = |index: u64| plan.first_user + (index + 1) * (1 << 24);
        let channels = (number + 1) << 32;
        let mut worker = Self {
            number,
            client,
            shared,
            pace: plan.pace,
            random: StdRng::seed_from_u64(plan.seed ^ (number << 40)),
            book: Book::default(),
            hot: plan.first_user,
            next_user: block(number),
            users_at_once: plan.users_per_worker.max(1),
            users: Vec::new(),
            own: Channel {
                id: channels + 1,
                mentions: 0,
            },
            of_hot: Channel {
                id: channels + (1 << 30),
                mentions: 0,
            },
            message: 1,
        };
        worker.take_new_users();
        worker
    }

    /// Works until the load is over; gives the book.
    pub(crate) async fn run(mut self) -> Book {
        let mut ticks = interval(self.pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.shared.over.load(Ordering::Relaxed) {
            ticks.tick().await;
            match self.random.random_range(0..100) {
                0..45 => self.ack_one().await,
                45..60 => self.mention_all(false).await,
                60..70 => self.mention_all(true).await,
                70..75 => self.mention_hot().await,
                75..85 => self.send_again().await,
                _ => self.read_one().await,
            }
        }
        self.book
    }

    /// The channel in which a user of this worker acknowledges.
    fn acks(&self) -> u64 {
        (self.number + 1) << 32
    }

    fn any_user(&mut self) -> u64 {
        // The hot user is as busy as all others of its worker together.
        if self.random.random_bool(0.5) {
            return self.hot;
        }
        self.users[self.random.random_range(0..self.users.len())]
    }

    fn next_message(&mut self) -> u64 {
        self.message += 1;
        self.message
    }

    fn take_new_users(&mut self) {
        let first = self.next_user;
        self.next_user += self.users_at_once;
        self.users = (first..self.next_user).collect();
    }

    async fn ack_one(&mut self) {
        let (user, channel) = (self.any_user(), self.acks());
        let request = AckRequest {
            message_id: id(self.next_message()),
            manual: false,
            mention_count: None,
            flags: None,
            last_viewed: None,
        };
        let (phase, began) = self.begins();
        let floor = self.known_version(user);
        let done = self.client.ack(id(user), id(channel), &request).await;
        self.ended(phase, began);
        let message = request.message_id.get();
        if let Ok(answer) = &done {
            let call = self.call(began);
            if answer.version.0 < floor.0 {
                self.find(user, channel, 0, What::VersionWentBack, call);
            }
            self.learn_version(user, answer.version.0, call);
        }
        let status = self.status(phase, began, Operation::Ack, done.map(drop));
        self.book.acked(user, channel, message, status);
    }

    /// The next mention of the worker's own users, as one request of either kind.
    async fn mention_all(&mut self, as_batch: bool) {
        let Channel {
            id: channel,
            mentions,
        } = self.own;
        let (message, amount) = (self.next_message(), Book::amount(mentions));
        let mut open = self.users.clone();
        for _ in 0..=SENT_AGAIN {
            open = if as_batch {
                self.batch(channel, message, amount, &open).await
            } else {
                self.mention(channel, message, amount, &open).await
            };
            if open.is_empty() || self.shared.over.load(Ordering::Relaxed) {
                break;
            }
        }
        self.own.mentions += 1;
        if self.own.mentions == AMOUNTS {
            self.own.mentions = 0;
            self.own.id += 1;
            if self.own.id.is_multiple_of(CHANNELS_PER_USER) {
                self.take_new_users();
            }
        }
    }

    async fn mention_hot(&mut self) {
        let Channel {
            id: channel,
            mentions,
        } = self.of_hot;
        let (message, amount) = (self.next_message(), Book::amount(mentions));
        for _ in 0..=SENT_AGAIN {
            let open = self.mention(channel, message, amount, &[self.hot]).await;
            if open.is_empty() || self.shared.over.load(Ordering::Relaxed) {
                break;
            }
        }
        self.of_hot.mentions += 1;
        if self.of_hot.mentions == AMOUNTS {
            self.of_hot = Channel {
                id: channel + 1,
                mentions: 0,
            };
        }
    }

    /// Mentions users and writes it down; gives those without an acknowledgement.
    async fn mention(
        &mut self,
        channel: u64,
        message: u64,
        amount: u32,
        users: &[u64],
    ) -> Vec<u64> {
        let (phase, began) = self.begins();
        let Mentioned { failed, .. } = self
            .client
            .mention(&request(channel, message, amount, users))
            .await;
        self.ended(phase, began);
        let failed: HashMap<u64, Outcome> = failed
            .into_iter()
            .map(|failed| {
                let why = failed.problem.map_or("no answer", |problem| problem.name());
                let why = format!("{why}, {:?}", failed.outcome);
                self.shared.tallies.failed(phase, Operation::Mention, why);
                (failed.user_id.get(), failed.outcome)
            })
            .collect();
        let call = self.call(began);
        for &user in users {
            let status = match failed.get(&user) {
                None => Status::Acknowledged(call),
                Some(Outcome::Unknown) => Status::Unknown,
                Some(Outcome::NothingDone) => Status::NothingDone,
            };
            self.book.mentioned(user, channel, message, status);
        }
        users
            .iter()
            .copied()
            .filter(|user| failed.contains_key(user))
            .collect()
    }

    /// The same as records of a batch.
    async fn batch(&mut self, channel: u64, message: u64, amount: u32, users: &[u64]) -> Vec<u64> {
        let record = |&user: &u64| Record {
            operation: RecordOperation::Mention { count: amount },
            user: id(user),
            channel: id(channel),
            message: id(message),
        };
        let records: Vec<Record> = users.iter().map(record).collect();
        let (phase, began) = self.begins();
        let outcomes = self.client.batch(&records).await;
        self.ended(phase, began);
        let call = self.call(began);
        let mut open = Vec::new();
        for (&user, outcome) in users.iter().zip(outcomes) {
            let status = match outcome {
                RecordOutcome::Applied | RecordOutcome::Ignored => Status::Acknowledged(call),
                RecordOutcome::Unknown => Status::Unknown,
                RecordOutcome::NotTaken | RecordOutcome::Bad => Status::NothingDone,
            };
            if !matches!(status, Status::Acknowledged(_)) {
                let why = format!("{outcome:?}");
                self.shared.tallies.failed(phase, Operation::Batch, why);
                open.push(user);
            }
            self.book.mentioned(user, channel, message, status);
        }
        open
    }

    /// An acknowledged mention once more: it must be known already.
    async fn send_again(&mut self) {
        let user = self.any_user();
        let channel = if user == self.hot {
            self.of_hot.id
        } else {
            self.own.id
        };
        let acknowledged = self.book.acknowledged_mentions(user, channel);
        if acknowledged.is_empty() {
            return;
        }
        let (index, message, call) = acknowledged[self.random.random_range(0..acknowledged.len())];
        let (phase, began) = self.begins();
        let request = request(channel, message, Book::amount(index), &[user]);
        let done = self.client.mention(&request).await;
        self.ended(phase, began);
        if done.applied > 0 {
            self.find(user, channel, message, What::LostMeanwhile, call);
        }
        for failed in done.failed {
            let why = failed.problem.map_or("no answer", |problem| problem.name());
            self.shared
                .tallies
                .failed(phase, Operation::Again, why.to_owned());
        }
    }

    /// A read shows what was acknowledged before it began.
    async fn read_one(&mut self) {
        let user = self.any_user();
        let channel = if user == self.hot {
            self.of_hot.id
        } else {
            self.own.id
        };
        let acknowledged = self.book.acknowledged_mentions(user, channel);
        let (phase, began) = self.begins();
        let floor = self.known_version(user);
        let read = self.client.read_states(id(user)).await;
        self.ended(phase, began);
        let states = match read {
            Ok(states) => states,
            Err(error) => {
                self.status(phase, began, Operation::Read, Err(error));
                return;
            }
        };
        if states.version.0 < floor.0 {
            self.find(user, channel, 0, What::ReadBehind, floor.1);
        }
        self.learn_version(user, states.version.0, self.call(began));
        let mut found = states.read_states.iter().map(Found::from);
        let state = found.find(|state| state.channel == channel);
        let count = state.map_or(0, |state| state.mention_count);
        for (index, message, call) in acknowledged {
            if count >> (2 * index) & 3 == 0 {
                self.find(user, channel, message, What::NotSeen, call);
            }
        }
    }

    fn begins(&self) -> (Phase, Instant) {
        (self.shared.tallies.phase(), Instant::now())
    }

    fn ended(&self, phase: Phase, began: Instant) {
        self.shared.tallies.took(phase, began.elapsed());
    }

    /// The call that began then and has just ended.
    fn call(&self, began: Instant) -> Call {
        let answered = self.shared.began.elapsed();
        Call {
            sent: answered.saturating_sub(began.elapsed()),
            answered,
        }
    }

    fn status(
        &self,
        phase: Phase,
        began: Instant,
        operation: Operation,
        done: Result<(), Error>,
    ) -> Status {
        match done {
            Ok(()) => Status::Acknowledged(self.call(began)),
            Err(error) => {
                let why = error
                    .problem()
                    .map_or("no answer", |problem| problem.name());
                let outcome = error.outcome();
                let why = format!("{why}, {outcome:?}");
                self.shared.tallies.failed(phase, operation, why);
                match outcome {
                    Outcome::Unknown => Status::Unknown,
                    Outcome::NothingDone => Status::NothingDone,
                }
            }
        }
    }

    /// The greatest version of a user in any answer so far, and the call that it answered.
    fn known_version(&self, user: u64) -> (u64, Call) {
        let versions = self
            .shared
            .versions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        versions.get(&user).copied().unwrap_or_default()
    }

    fn learn_version(&mut self, user: u64, version: u64, call: Call) {
        let mut versions = self
            .shared
            .versions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = versions.entry(user).or_default();
        if version > known.0 {
            *known = (version, call);
        }
    }

    fn find(&mut self, user: u64, channel: u64, message: u64, what: What, call: Call) {
        self.book.note(Finding {
            user,
            channel,
            message,
            what,
            call,
        });
    }
}

fn request(channel: u64, message: u64, amount: u32, users: &[u64]) -> MentionsRequest {
    MentionsRequest {
        channel_id: id(channel),
        message_id: id(message),
        user_ids: users.iter().copied().map(id).collect(),
        count: Some(amount),
    }
}

/// Ids of a ledger are never 0.
fn id(number: u64) -> Id {
    Id::new(number).unwrap_or_else(|| unreachable!("an id of the ledger is 0"))
}
