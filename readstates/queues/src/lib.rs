//! Operations that wait, by user and by owner. Pure.
//!
//! ```text
//!            ┌─ the user has one under way: behind it ──land──┐
//! push ──────┤                                                ▼
//!            └─ else ────────────────▶ ready, by owner ──take──▶ a frame, at most FRAMES of an owner
//! ```
//! A user has one operation under way at most, so that its operations are applied in the order in which they came, also
//! where one of them is sent again or the user moves to another owner. A frame has one record of a user at most.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::Hash,
};

/// Frames under way to one owner: while it works on one, the other is on its way.
pub const FRAMES: usize = 2;
/// Records of one frame: beyond some hundred a record costs no less, and the first waits for the last.
pub const MOST_RECORDS: usize = 512;
/// Operations that wait for one owner: some megabytes, and far more than it gets done in a second while it is well.
pub const MOST_WAITING: usize = 65_536;

/// Too many operations wait for the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Names a waiting operation of a user.
pub type Ticket = u64;

/// An operation that waits now.
#[derive(Debug, PartialEq, Eq)]
pub struct Pushed<K> {
    pub ticket: Ticket,
    /// Where one more sender is needed, which then calls [`Queues::take`] until there is nothing.
    pub start: Option<K>,
}

/// Operations `T` that wait, by user, and by owner `K`.
#[derive(Debug)]
pub struct Queues<K, T> {
    users: HashMap<u64, User<K, T>>,
    owners: HashMap<K, Owner>,
    tickets: Ticket,
}

/// A user with operations that wait or one that is under way.
#[derive(Debug)]
struct User<K, T> {
    owner: K,
    waiting: VecDeque<(Ticket, T)>,
    under_way: bool,
}

#[derive(Debug, Default)]
struct Owner {
    /// Users whose first operation may be sent. One who is not of this owner any more, or has none, may be among
    /// them.
    ready: VecDeque<u64>,
    /// Operations of its users.
    waiting: usize,
    /// Those who take.
    senders: usize,
}

impl<K: Clone + Eq + Hash, T> Default for Queues<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash, T> Queues<K, T> {
    /// Nothing waits.
    #[must_use]
    pub fn new() -> Self {
        Self {
            users: HashMap::new(),
            owners: HashMap::new(),
            tickets: 0,
        }
    }

    /// Lets an operation of a user wait, whose owner is this one unless the user waits for another already.
    pub fn push(&mut self, user: u64, owner: K, operation: T) -> Result<Pushed<K>, Full> {
        let entry = self.users.entry(user);
        let owner = match &entry {
            Entry::Occupied(user) => user.get().owner.clone(),
            Entry::Vacant(_) => owner,
        };
        let queue = self.owners.entry(owner.clone()).or_default();
        if queue.waiting.max(queue.ready.len()) >= MOST_WAITING {
            return Err(Full);
        }
        self.tickets += 1;
        let ticket = self.tickets;
        queue.waiting += 1;
        let known = matches!(entry, Entry::Occupied(_));
        let of_user = entry.or_insert_with(|| User {
            owner: owner.clone(),
            waiting: VecDeque::new(),
            under_way: false,
        });
        of_user.waiting.push_back((ticket, operation));
        if !known {
            queue.ready.push_back(user);
        }
        let start = !known && queue.needs_sender();
        Ok(Pushed {
            ticket,
            start: start.then_some(owner),
        })
    }

    /// How many operations of a user wait, besides the one that may be under way.
    #[must_use]
    pub fn waiting_of(&self, user: u64) -> usize {
        let of_user = self.users.get(&user);
        of_user.map_or(0, |of_user| of_user.waiting.len())
    }

    /// The next frame for an owner, users with their operations; none when nothing waits: then its sender is done.
    pub fn take(&mut self, owner: &K) -> Vec<(u64, T)> {
        let mut frame = Vec::new();
        let Some(queue) = self.owners.get_mut(owner) else {
            return frame;
        };
        while frame.len() < MOST_RECORDS
            && let Some(user) = queue.ready.pop_front()
        {
            let of_user = self.users.get_mut(&user);
            let of_user = of_user.filter(|of_user| !of_user.under_way && of_user.owner == *owner);
            let Some(of_user) = of_user else { continue };
            if let Some((_, operation)) = of_user.waiting.pop_front() {
                of_user.under_way = true;
                queue.waiting -= 1;
                frame.push((user, operation));
            }
        }
        if frame.is_empty() {
            queue.senders -= 1;
            self.forget_idle(owner);
        }
        frame
    }

    /// Operations of these users have ended: those behind them wait for whom `owner_of` names. Adds where one more
    /// sender is needed to `start`.
    pub fn land(
        &mut self,
        users: impl IntoIterator<Item = u64>,
        owner_of: impl Fn(u64) -> K,
        start: &mut Vec<K>,
    ) {
        for user in users {
            let Entry::Occupied(mut entry) = self.users.entry(user) else {
                continue;
            };
            let of_user = entry.get_mut();
            of_user.under_way = false;
            if of_user.waiting.is_empty() {
                entry.remove();
            } else {
                self.route(user, owner_of(user), start);
            }
        }
    }

    /// The owners of users may be others now.
    pub fn route_again(&mut self, owner_of: impl Fn(u64) -> K, start: &mut Vec<K>) {
        let users = self.users.iter();
        let waiting = users.filter(|(_, user)| !user.under_way);
        let moved: Vec<(u64, K)> = waiting
            .map(|(&user, of_user)| (user, of_user, owner_of(user)))
            .filter(|(_, of_user, owner)| of_user.owner != *owner)
            .map(|(user, _, owner)| (user, owner))
            .collect();
        for (user, owner) in moved {
            self.route(user, owner, start);
        }
    }

    /// A user who has nothing under way waits for this owner from now on.
    fn route(&mut self, user: u64, owner: K, start: &mut Vec<K>) {
        let Some(of_user) = self.users.get_mut(&user) else {
            return;
        };
        let count = of_user.waiting.len();
        let before = std::mem::replace(&mut of_user.owner, owner.clone());
        if before != owner {
            if let Some(queue) = self.owners.get_mut(&before) {
                queue.waiting -= count;
            }
            self.forget_idle(&before);
            self.owners.entry(owner.clone()).or_default().waiting += count;
        }
        let queue = self.owners.entry(owner.clone()).or_default();
        queue.ready.push_back(user);
        if queue.needs_sender() {
            start.push(owner);
        }
    }

    /// Takes an operation back. Whether it still waited: then nothing was done.
    pub fn withdraw(&mut self, user: u64, ticket: Ticket) -> bool {
        let Entry::Occupied(mut entry) = self.users.entry(user) else {
            return false;
        };
        let of_user = entry.get_mut();
        let place = of_user.waiting.iter().position(|(of, _)| *of == ticket);
        let Some(place) = place else {
            return false;
        };
        of_user.waiting.remove(place);
        let owner = of_user.owner.clone();
        if of_user.waiting.is_empty() && !of_user.under_way {
            entry.remove();
        }
        if let Some(queue) = self.owners.get_mut(&owner) {
            queue.waiting -= 1;
        }
        self.forget_idle(&owner);
        true
    }

    fn forget_idle(&mut self, owner: &K) {
        let queue = self.owners.get(owner);
        if queue.is_some_and(|queue| queue.waiting == 0 && queue.senders == 0) {
            self.owners.remove(owner);
        }
    }
}

impl Owner {
    /// Whether one more sender is to be started; counts it.
    fn needs_sender(&mut self) -> bool {
        let needed = self.senders < FRAMES;
        self.senders += usize::from(needed);
        needed
    }
}

#[cfg(test)]
mod tests;
