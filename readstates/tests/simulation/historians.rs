//! Clients that ask for anything about a few users at once, and write down what they asked and were answered: manual
//! acknowledgements that go back, deletions and erasures among it. The ledger looks for an order of it all.

use std::{sync::Arc, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates::block::{Operation, Visit};
use readstates_ledger::{Action, Answer, Event, History};
use tokio::time::sleep;

use super::{
    clients::{Job, Reply, ask},
    world::World,
};

pub(crate) const HISTORIANS: u64 = 3;
/// Users that all historians ask about, and no other clients.
pub(crate) const USERS: std::ops::RangeInclusive<u64> = 501..=504;
const CHANNELS: std::ops::RangeInclusive<u64> = 1..=2;
/// With more of them without an answer a user is only read: each doubles the orders there can be.
const MOST_UNKNOWN: usize = 6;

pub(crate) struct Historian {
    world: Arc<World>,
    random: StdRng,
    history: History,
}

impl Historian {
    pub(crate) fn new(world: &Arc<World>, number: u64) -> Self {
        let seed = world.seed.wrapping_mul(77_777) + number;
        Self {
            world: Arc::clone(world),
            random: StdRng::seed_from_u64(seed),
            history: History::default(),
        }
    }

    /// Works until then, and hands its history in.
    pub(crate) async fn run(mut self, until: Duration) {
        while self.world.now() < until {
            let pause = self.random.random_range(20..250);
            sleep(Duration::from_millis(pause)).await;
            let user = self.random.random_range(USERS);
            let action = match self.history.unknown(user) < MOST_UNKNOWN {
                true => self.any(),
                false => Action::Read,
            };
            self.ask(user, action).await;
        }
        self.world.hand_in_history(self.history);
    }

    fn any(&mut self) -> Action {
        let channel = self.random.random_range(CHANNELS);
        let message = self.random.random_range(1..60);
        match self.random.random_range(0..100) {
            0..35 => Action::Ack { channel, message },
            35..60 => Action::Manual { channel, message },
            60..68 => Action::Delete { channel },
            68..72 => Action::Erase,
            _ => Action::Read,
        }
    }

    async fn ask(&mut self, user: u64, action: Action) {
        let sent = self.world.now();
        let change = operation(action);
        let reply = ask(&self.world, Job { user, change }).await;
        let answer = match reply {
            Reply::Nothing => return,
            // A read that is not known changes nothing.
            Reply::Unknown if change.is_none() => return,
            Reply::Unknown => Answer::Unknown,
            Reply::Done(seen) if change.is_some() => Answer::Changed {
                applied: seen.applied,
                version: seen.version,
            },
            Reply::Done(seen) => seen.as_states(),
        };
        let answered = self.world.now();
        let event = Event {
            action,
            sent,
            answered,
            answer,
        };
        self.history.add(user, event);
    }
}

fn operation(action: Action) -> Option<Operation> {
    let visit = Visit::default();
    Some(match action {
        Action::Ack { channel, message } => Operation::Ack {
            channel,
            message,
            visit,
        },
        Action::Manual { channel, message } => Operation::Manual {
            channel,
            message,
            mention_count: 0,
            visit,
        },
        Action::Delete { channel } => Operation::Delete { channel },
        Action::Erase => Operation::DeleteUser,
        Action::Read => return None,
    })
}
