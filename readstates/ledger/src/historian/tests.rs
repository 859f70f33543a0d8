//! Historians that ask a fake service with a fault, in paused time.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
};

use super::*;
use crate::{
    book::Audit,
    load::Told,
    verdict::{Verdict, Word},
};

/// How long a fake takes for an answer.
const TAKES: Duration = Duration::from_millis(5);
/// For how long it is asked: the users of the first period are left alone by then.
const ASKED: Duration = Duration::from_secs(25);

/// What a fake does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// What was deleted is there again after this long.
    DeletionsComeBack(Duration),
    /// Changes are not made, and nobody is told so.
    ChangesAreNotAnswered,
}

#[derive(Debug, Default)]
struct User {
    last: BTreeMap<u64, u64>,
    version: u64,
    /// What was deleted of each channel, and when.
    deleted: BTreeMap<u64, (u64, Instant)>,
}

impl User {
    /// Does it as the service should.
    fn answer(&mut self, action: Action) -> Answer {
        let before = self.last.clone();
        match action {
            Action::Ack { channel, message } => {
                let last = self.last.entry(channel).or_default();
                *last = message.max(*last);
            }
            Action::Manual { channel, message } => {
                self.last.insert(channel, message);
            }
            Action::Delete { channel } => {
                self.last.remove(&channel);
            }
            Action::Erase => self.last.clear(),
            Action::Read => {
                return Answer::States {
                    states: before,
                    version: self.version,
                };
            }
        }
        let applied = self.last != before;
        self.version += u64::from(applied);
        let gone = before
            .into_iter()
            .filter(|(it, _)| !self.last.contains_key(it));
        let gone = gone.map(|(channel, last)| (channel, (last, Instant::now())));
        self.deleted.extend(gone);
        match action {
            Action::Erase => Answer::Done,
            Action::Ack { .. } | Action::Manual { .. } | Action::Delete { .. } | Action::Read => {
                let version = self.version;
                Answer::Changed { applied, version }
            }
        }
    }

    fn restore(&mut self, after: Duration) {
        self.deleted.retain(|channel, (last, at)| {
            let is_due = at.elapsed() >= after;
            if is_due {
                self.last.entry(*channel).or_insert(*last);
            }
            !is_due
        });
    }
}

#[derive(Debug, Clone)]
struct Fake {
    users: Arc<Mutex<HashMap<u64, User>>>,
    fault: Fault,
}

impl Fake {
    fn new(fault: Fault) -> Self {
        let users = Arc::default();
        Self { users, fault }
    }

    /// Historians ask it for a while; it is left alone for twice as long, and then every user is read.
    async fn asked(&self) -> Asked {
        let historians = Historians::start_on(std::slice::from_ref(self), 1, 7);
        sleep(ASKED).await;
        let mut asked = historians.stop().await.unwrap();
        sleep(2 * ASKED).await;
        let find = async |user| self.answer(user, Action::Read).await.ok_or("refused");
        asked.read_once_more(find).await.unwrap();
        asked
    }
}

impl Service for Fake {
    async fn answer(&self, user: u64, action: Action) -> Option<Answer> {
        sleep(TAKES).await;
        let mut users = self.users.lock().unwrap();
        let of = users.entry(user).or_default();
        match self.fault {
            Fault::DeletionsComeBack(after) => of.restore(after),
            Fault::ChangesAreNotAnswered if action != Action::Read => return Some(Answer::Unknown),
            Fault::ChangesAreNotAnswered | Fault::Nothing => {}
        }
        Some(of.answer(action))
    }
}

/// What is said of a load beside it, which went well.
fn word(orders: Orders) -> Word {
    let told = Told {
        took: ASKED,
        ..Told::default()
    };
    let audit = Audit {
        acknowledged: 1_000,
        ..Audit::default()
    };
    let verdict = Verdict::new(&told, vec![("cache", audit)], &[]);
    verdict.with_orders(orders).word()
}

#[tokio::test(start_paused = true)]
async fn a_service_that_does_as_told_is_sound() {
    let orders = Fake::new(Fault::Nothing).asked().await.orders(&[]);
    assert_eq!(orders.ordered, orders.answered);
    assert_eq!(word(orders), Word::Sound);
}

/// Nobody asks about a user any more by then: only the last read sees it.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_comes_back_when_the_user_was_left_alone_is_wrong() {
    let fault = Fault::DeletionsComeBack(2 * PERIOD);
    let orders = Fake::new(fault).asked().await.orders(&[]);
    assert!(orders.are_wrong() && orders.linearizable > 0, "{orders:?}");
    assert_eq!(word(orders), Word::Wrong);
}

#[tokio::test(start_paused = true)]
async fn a_user_is_read_until_its_period_ends_whatever_was_not_answered() {
    let asked = Fake::new(Fault::ChangesAreNotAnswered).asked().await;
    let history = &asked.history;
    for user in 1..=USERS {
        assert_eq!(history.unknown(user), MOST_UNKNOWN * HISTORIANS as usize);
        assert!(
            history.answered_of(user) > 50,
            "{}",
            history.answered_of(user)
        );
    }
}
