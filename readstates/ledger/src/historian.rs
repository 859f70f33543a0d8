//! Clients that ask for anything about a few users at once, and write down what they asked and were answered.
//!
//! Each period has new users, so that what a dying member loses concerns users of one or two periods, and a history is
//! short enough to try every order. The clients send each request once: a request that is sent again may be done twice,
//! with others in between.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates_api::{AckRequest, Id};
use readstates_client::{Client, Error, Outcome};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    history::{Action, Answer, Event, History, Order},
    verdict::Excuse,
};

/// Tasks that ask.
const HISTORIANS: u64 = 4;
/// Users that all of them ask about in one period.
const USERS: u64 = 4;
/// For how long they are asked about.
const PERIOD: Duration = Duration::from_secs(20);
/// Between two questions of one task, in milliseconds: some hundred for a user in a period.
const PAUSES: std::ops::Range<u64> = 50..350;
/// With more of its questions without an answer a user is left alone by a task: each doubles the orders there can be.
const MOST_UNKNOWN: usize = 2;
/// What a user may have been asked before the checker gives up, and still count: nothing is known of it then.
const MOST_UNDECIDED_PERCENT: usize = 20;

/// Questions that go on.
#[derive(Debug)]
pub struct Historians {
    began: Instant,
    over: Arc<AtomicBool>,
    tasks: JoinSet<History>,
}

/// What an order was looked for in, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// Users whose answers have an order.
    pub linearizable: usize,
    /// Users without an order, or with too many to try, of whom a dead member may have lost something: not counted as
    /// a fault.
    pub excused: usize,
    /// Users with too many orders to try.
    pub undecided: usize,
    /// Users whose answers have none: how many operations have one, and what cannot come next.
    pub impossible: BTreeMap<u64, (usize, Vec<Event>)>,
    /// Operations with an answer.
    pub answered: usize,
}

impl Historians {
    /// Starts to ask about users from `first_user` on, none of whom may have been used before, with these clients in
    /// turn. They must send nothing again.
    #[must_use]
    pub fn start(clients: &[Client], first_user: u64, seed: u64) -> Self {
        let (began, over) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for (number, client) in (0..HISTORIANS).zip(clients.iter().cycle()) {
            let historian = Historian {
                client: client.clone(),
                random: StdRng::seed_from_u64(seed ^ (number << 32)),
                first_user,
                began,
                history: History::default(),
            };
            tasks.spawn(historian.run(Arc::clone(&over)));
        }
        Self { began, over, tasks }
    }

    /// How long this has been going on; excuses count in this time.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends the questions.
    ///
    /// # Errors
    /// When a task did not complete: a fault here.
    pub async fn stop(mut self) -> Result<History, tokio::task::JoinError> {
        self.over.store(true, Ordering::Relaxed);
        let mut history = History::default();
        while let Some(ended) = self.tasks.join_next().await {
            history.take(ended?);
        }
        Ok(history)
    }
}

impl Orders {
    /// Looks for an order of the answers about each user; a user whom a member's death may concern is excused if there
    /// is none.
    #[must_use]
    pub fn of(history: &History, excuses: &[Excuse]) -> Self {
        let mut orders = Self {
            answered: history.answered(),
            ..Self::default()
        };
        for (user, order) in history.check() {
            let is_excused = history.life(user).is_some_and(|(first, last)| {
                excuses
                    .iter()
                    .any(|excuse| first <= excuse.until && excuse.from <= last)
            });
            match order {
                Order::Linearizable => orders.linearizable += 1,
                Order::Undecided if is_excused => orders.excused += 1,
                Order::Impossible { .. } if is_excused => orders.excused += 1,
                Order::Undecided => orders.undecided += 1,
                Order::Impossible { ordered, stuck } => {
                    orders.impossible.insert(user, (ordered, stuck));
                }
            }
        }
        orders
    }

    /// Whether all answers have an order, as far as one was looked for, and that was far enough to mean something.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let looked = self.linearizable + self.undecided;
        self.impossible.is_empty() && self.undecided * 100 <= looked * MOST_UNDECIDED_PERCENT
    }
}

#[derive(Debug)]
struct Historian {
    client: Client,
    random: StdRng,
    first_user: u64,
    began: Instant,
    history: History,
}

impl Historian {
    async fn run(mut self, over: Arc<AtomicBool>) -> History {
        while !over.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(self.random.random_range(PAUSES))).await;
            let user = self.user();
            if self.history.unknown(user) < MOST_UNKNOWN {
                let action = any(&mut self.random);
                self.ask(user, action).await;
            }
        }
        self.history
    }

    /// One of those of the period.
    fn user(&mut self) -> u64 {
        let period = self.began.elapsed().as_secs() / PERIOD.as_secs();
        self.first_user + period * USERS + self.random.random_range(0..USERS)
    }

    async fn ask(&mut self, user: u64, action: Action) {
        let sent = self.began.elapsed();
        let answer = match answer(&self.client, id(user), action).await {
            Ok(answer) => answer,
            // A read whose answer is not known changes nothing.
            Err(error) if action == Action::Read || error.outcome() == Outcome::NothingDone => {
                return;
            }
            Err(_) => Answer::Unknown,
        };
        let event = Event {
            action,
            sent,
            answered: self.began.elapsed(),
            answer,
        };
        self.history.add(user, event);
    }
}

fn any(random: &mut StdRng) -> Action {
    let (channel, message) = (random.random_range(1..=2), random.random_range(1..60));
    match random.random_range(0..100) {
        0..35 => Action::Ack { channel, message },
        35..60 => Action::Manual { channel, message },
        60..68 => Action::Delete { channel },
        68..72 => Action::Erase,
        _ => Action::Read,
    }
}

async fn answer(client: &Client, user: Id, action: Action) -> Result<Answer, Error> {
    let ack = |message, manual| AckRequest {
        message_id: id(message),
        manual,
        mention_count: manual.then_some(0),
        flags: None,
        last_viewed: None,
    };
    Ok(match action {
        Action::Ack { channel, message } | Action::Manual { channel, message } => {
            let manual = matches!(action, Action::Manual { .. });
            let done = client.ack(user, id(channel), &ack(message, manual)).await?;
            Answer::Changed {
                applied: done.applied,
                version: done.version.0,
            }
        }
        Action::Delete { channel } => {
            let done = client.delete_read_state(user, id(channel)).await?;
            Answer::Changed {
                applied: done.applied,
                version: done.version.0,
            }
        }
        Action::Erase => {
            client.delete_user(user).await?;
            Answer::Done
        }
        Action::Read => {
            let read = client.read_states(user).await?;
            let states = read.read_states.iter().map(|state| {
                let last = state.last_message_id.map_or(0, Id::get);
                (state.channel_id.get(), last)
            });
            Answer::States {
                states: states.collect(),
                version: read.version.0,
            }
        }
    })
}

/// Ids of a history are never 0.
fn id(number: u64) -> Id {
    Id::new(number).unwrap_or_else(|| unreachable!("an id of a history is 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(at: u64, message: u64, version: u64) -> Event {
        Event {
            action: Action::Read,
            sent: Duration::from_secs(at),
            answered: Duration::from_secs(at + 1),
            answer: Answer::States {
                states: BTreeMap::from([(1, message)]),
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
            ..read(at, 0, 0)
        }
    }

    fn excuse(from: u64, until: u64) -> Excuse {
        Excuse {
            from: Duration::from_secs(from),
            until: Duration::from_secs(until),
        }
    }

    #[test]
    fn answers_without_an_order_are_wrong_unless_a_member_died_in_their_time() {
        let mut history = History::default();
        for event in [ack(10, 5, 1), read(12, 5, 1)] {
            history.add(1, event);
        }
        for event in [ack(30, 5, 1), read(32, 4, 1)] {
            history.add(2, event);
        }
        let orders = Orders::of(&history, &[]);
        assert!(!orders.is_sound());
        assert_eq!((orders.linearizable, orders.answered), (1, 4));
        assert_eq!(orders.impossible[&2].0, 1);
        for (from, until) in [(0, 29), (34, 40)] {
            assert!(!Orders::of(&history, &[excuse(from, until)]).is_sound());
        }
        for (from, until) in [(0, 30), (31, 32), (33, 40)] {
            let orders = Orders::of(&history, &[excuse(from, until)]);
            assert!(orders.is_sound());
            assert_eq!((orders.linearizable, orders.excused), (1, 1));
        }
    }

    #[test]
    fn what_was_not_decided_for_most_users_is_no_proof() {
        let orders = |linearizable, undecided| Orders {
            linearizable,
            undecided,
            ..Orders::default()
        };
        assert!(orders(40, 10).is_sound());
        assert!(!orders(30, 10).is_sound());
        assert!(orders(0, 0).is_sound(), "nothing was asked");
    }
}
