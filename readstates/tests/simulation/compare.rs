//! The end of a seed: the books and the histories, compared with what members answer and with what the database has.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use readstates_ledger::{Action, Answer, Event, Order};

use super::{
    clients::{Job, Reply, Seen, ask},
    world::World,
};

/// Findings of a seed that are shown.
pub(crate) const MOST_SHOWN: usize = 6;
/// Histories of a seed of which it may remain unknown whether they have an order: it has four.
const MOST_UNDECIDED: usize = 1;

/// What a seed has done in which nothing is wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Operations that were acknowledged.
    pub(crate) acknowledged: u64,
    /// Histories of which it was not found out whether they have an order.
    pub(crate) undecided: u64,
}

/// Compares the books with what the members answer and with what the database has.
pub(crate) async fn compare(world: &Arc<World>) -> Result<Held, String> {
    let (book, mut wrong) = world.books();
    let mut cached = BTreeMap::new();
    for user in book.users() {
        cached.insert(user, read_at_last(world, user).await?.states);
    }
    for process in world.living() {
        process.engine.drain().await;
    }
    let mut stored = BTreeMap::new();
    for user in book.users() {
        stored.insert(user, world.stored(user).await);
    }
    let mut acknowledged = 0;
    for (place, found) in [("cache", &cached), ("database", &stored)] {
        let audit = book.audit(found);
        acknowledged = audit.acknowledged;
        let findings = audit.findings.iter();
        let unexcused = findings.filter(|finding| !world.is_excused(finding));
        wrong.extend(unexcused.map(|finding| format!("{place}: {finding:?}")));
    }
    let (undecided, disorder) = judged(&orders(world).await?);
    wrong.extend(disorder);
    if wrong.is_empty() {
        return Ok(Held {
            acknowledged,
            undecided: undecided as u64,
        });
    }
    let shown: Vec<&String> = wrong.iter().take(MOST_SHOWN).collect();
    Err(format!(
        "{} findings of {acknowledged}: {shown:#?}",
        wrong.len()
    ))
}

/// The orders of the histories of the users that no death concerns. What members answer now, and then what the database
/// has, are the last things that each of them shows.
async fn orders(world: &Arc<World>) -> Result<BTreeMap<u64, Order>, String> {
    let (mut history, whole) = world.history();
    for user in whole.iter().copied() {
        let seen = read_at_last(world, user).await?;
        let (stored, version) = world.stored_block(user).await;
        let states = stored.iter().map(|it| (it.channel, it.last_message));
        let in_database = Answer::States {
            states: states.collect(),
            version,
        };
        for (place, answer) in [seen.as_states(), in_database].into_iter().enumerate() {
            let at = world.now() + Duration::from_millis(1 + 2 * place as u64);
            let event = Event {
                action: Action::Read,
                sent: at,
                answered: at + Duration::from_millis(1),
                answer,
            };
            history.add(user, event);
        }
    }
    let mut orders = history.check();
    orders.retain(|user, _| whole.contains(user));
    Ok(orders)
}

/// How many of these are not decided, and what is wrong with the others: an order that was not found is none that there is.
fn judged(orders: &BTreeMap<u64, Order>) -> (usize, Vec<String>) {
    let mut undecided = Vec::new();
    let mut wrong = Vec::new();
    for (user, order) in orders {
        match order {
            Order::Linearizable => {}
            Order::Undecided => undecided.push(user),
            Order::Impossible { ordered, stuck } => wrong.push(format!(
                "user {user}: {ordered} operations have an order, and none of these can be next: {stuck:?}"
            )),
        }
    }
    if undecided.len() > MOST_UNDECIDED {
        wrong.push(format!(
            "of users {undecided:?} it was not found out whether their histories have an order"
        ));
    }
    (undecided.len(), wrong)
}

/// Reads a user when all is calm.
async fn read_at_last(world: &Arc<World>, user: u64) -> Result<Seen, String> {
    for _ in 0..20 {
        if let Reply::Done(seen) = ask(world, Job { user, change: None }).await {
            return Ok(seen);
        }
    }
    Err(format!("user {user} cannot be read though all is calm"))
}

#[cfg(test)]
mod tests {
    use readstates_ledger::History;

    use super::*;

    fn event(action: Action, answered: u64, answer: Answer) -> Event {
        Event {
            action,
            sent: Duration::from_millis(answered),
            answered: Duration::from_millis(answered),
            answer,
        }
    }

    /// Changes without an answer, more than can be tried in every order, and a read that none of them explains.
    fn undecidable(history: &mut History, user: u64) {
        for message in 1..=24 {
            let channel = 1 + message % 2;
            let action = Action::Manual { channel, message };
            history.add(user, event(action, 0, Answer::Unknown));
        }
        let states = BTreeMap::from([(1, 99)]);
        let version = 1;
        let answer = Answer::States { states, version };
        history.add(user, event(Action::Read, 1, answer));
    }

    #[test]
    fn histories_that_are_not_decided_are_counted_and_more_than_one_of_them_is_wrong() {
        let mut history = History::default();
        for user in [1, 2] {
            undecidable(&mut history, user);
        }
        let read = Answer::States {
            states: BTreeMap::new(),
            version: 0,
        };
        history.add(3, event(Action::Read, 1, read));
        let mut orders = history.check();
        let (undecided, wrong) = judged(&orders);
        assert_eq!((undecided, wrong.len()), (2, 1), "{wrong:?}");
        orders.remove(&1);
        assert_eq!(judged(&orders), (1, Vec::new()));
    }
}
