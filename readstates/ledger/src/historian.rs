//! Clients that ask for anything about a few users at once, and write down what they asked and were answered.
//!
//! Each period has new users, so that what a dying member loses concerns users of one or two periods, and a history is
//! short enough to try every order. The clients send each request once: a request that is sent again may be done twice,
//! with others in between. When nothing is asked any more each user is read once more, in each place: what comes back
//! long after it was deleted is seen then.

mod service;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates_client::Client;
use service::Service;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    excuse::Excuse,
    history::{Action, Answer, Event, History},
    orders::Orders,
};

/// Tasks that ask.
const HISTORIANS: u64 = 4;
/// Users that all of them ask about in one period.
const USERS: u64 = 4;
/// For how long they are asked about.
const PERIOD: Duration = Duration::from_secs(20);
/// Between two questions of one task, in milliseconds: some hundred for a user in a period.
const PAUSES: std::ops::Range<u64> = 50..350;
/// With more of its changes without an answer a user is only read by a task: each doubles the orders there can be, and a
/// read leaves fewer.
const MOST_UNKNOWN: usize = 2;

/// Questions that go on.
#[derive(Debug)]
pub struct Historians {
    began: Instant,
    over: Arc<AtomicBool>,
    tasks: JoinSet<History>,
}

/// What was asked and answered.
#[derive(Debug)]
pub struct Asked {
    began: Instant,
    history: History,
}

impl Historians {
    /// Starts to ask about users from `first_user` on, none of whom may have been used before, with these clients in
    /// turn. They must send nothing again.
    #[must_use]
    pub fn start(clients: &[Client], first_user: u64, seed: u64) -> Self {
        Self::start_on(clients, first_user, seed)
    }

    fn start_on(services: &[impl Service], first_user: u64, seed: u64) -> Self {
        let (began, over) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for (number, service) in (0..HISTORIANS).zip(services.iter().cycle()) {
            let historian = Historian {
                service: service.clone(),
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
    pub async fn stop(mut self) -> Result<Asked, tokio::task::JoinError> {
        self.over.store(true, Ordering::Relaxed);
        let mut history = History::default();
        while let Some(ended) = self.tasks.join_next().await {
            history.take(ended?);
        }
        let began = self.began;
        Ok(Asked { began, history })
    }
}

impl Asked {
    /// Reads every user once more in one place, through the service or in the database: `find` has the
    /// [`Answer::States`] of one.
    ///
    /// # Errors
    /// What `find` fails with.
    pub async fn read_once_more<E>(
        &mut self,
        mut find: impl AsyncFnMut(u64) -> Result<Answer, E>,
    ) -> Result<(), E> {
        let users: Vec<u64> = self.history.users().collect();
        for user in users {
            let sent = self.began.elapsed();
            let event = Event {
                action: Action::Read,
                sent,
                answer: find(user).await?,
                answered: self.began.elapsed(),
            };
            self.history.add(user, event);
        }
        Ok(())
    }

    /// Looks for an order of all of it, with what members that were killed may have lost.
    #[must_use]
    pub fn orders(&self, excuses: &[Excuse]) -> Orders {
        Orders::of(&self.history, excuses)
    }
}

#[derive(Debug)]
struct Historian<S> {
    service: S,
    random: StdRng,
    first_user: u64,
    began: Instant,
    history: History,
}

impl<S: Service> Historian<S> {
    async fn run(mut self, over: Arc<AtomicBool>) -> History {
        while !over.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(self.random.random_range(PAUSES))).await;
            let user = self.user();
            let action = match self.history.unknown(user) < MOST_UNKNOWN {
                true => any(&mut self.random),
                false => Action::Read,
            };
            self.ask(user, action).await;
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
        let Some(answer) = self.service.answer(user, action).await else {
            return;
        };
        // A read whose answer is not known changes nothing.
        if (action, &answer) == (Action::Read, &Answer::Unknown) {
            return;
        }
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
