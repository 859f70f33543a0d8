//! The search for an order of the operations on one user.
//!
//! That of Wing and Gong with what was seen before remembered (Lowe). The versions of the answers leave it few choices.
//! A loss is one more thing that may come next, or never: it brings back what the user was at a moment since the loss's
//! first, and no version that was told before is handed out again.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use super::{Action, Answer, Event, Excuse, Order};

/// So many steps a search takes at most until it gives up, for one user.
const MOST_STEPS: usize = 400_000;

/// What has an order: one bit for each operation, and one for each loss.
type Done = Vec<u64>;

/// What the operations so far make of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct State {
    last: BTreeMap<u64, u64>,
    /// At least.
    version: u64,
    /// The highest that anybody can have been told: above the version after a loss.
    told: u64,
    /// What a loss that may still come can bring back.
    before: Vec<Before>,
}

/// What a user was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Before {
    last: BTreeMap<u64, u64>,
    version: u64,
    /// Not for longer than this.
    until: Duration,
}

pub(super) struct Search<'a> {
    /// In the order in which they were asked.
    events: Vec<&'a Event>,
    losses: Vec<Excuse>,
    tried: HashMap<Done, HashSet<State>>,
    steps: usize,
    /// The longest beginning, and how many operations it has.
    best: (usize, Done),
}

impl<'a> Search<'a> {
    pub(super) fn new(events: &'a [Event], losses: Vec<Excuse>) -> Self {
        let mut events: Vec<&Event> = events.iter().collect();
        events.sort_by_key(|event| event.sent);
        let words = (events.len() + losses.len()).div_ceil(64);
        Self {
            events,
            losses,
            tried: HashMap::new(),
            steps: 0,
            best: (0, vec![0; words]),
        }
    }

    pub(super) fn run(mut self) -> Order {
        let mut done = self.best.1.clone();
        let known = self.events.iter().filter(|it| it.answer != Answer::Unknown);
        let left = known.count();
        match self.go_on(&mut done, &State::default(), left, 0) {
            Some(true) => Order::Linearizable,
            None => Order::Undecided,
            Some(false) => {
                let (ordered, done) = self.best.clone();
                let next = self.next(&done);
                Order::Impossible {
                    ordered,
                    stuck: next.into_iter().map(|it| self.events[it].clone()).collect(),
                }
            }
        }
    }

    /// Whether those that are left have an order after those that are done; `None` when that was not found out.
    fn go_on(&mut self, done: &mut Done, state: &State, left: usize, depth: usize) -> Option<bool> {
        if left == 0 {
            return Some(true);
        }
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return None;
        }
        if depth > self.best.0 {
            self.best = (depth, done.clone());
        }
        if !self
            .tried
            .entry(done.clone())
            .or_default()
            .insert(state.clone())
        {
            return Some(false);
        }
        let losses = self.losses_to_come(done);
        let since = losses.iter().map(|&loss| self.losses[loss].from).min();
        for index in self.next(done) {
            let event = self.events[index];
            let Some(after) = state.after(event, since) else {
                continue;
            };
            let known = usize::from(event.answer != Answer::Unknown);
            set(done, index, true);
            let found = self.go_on(done, &after, left - known, depth + 1);
            set(done, index, false);
            if found != Some(false) {
                return found;
            }
        }
        for loss in losses {
            let Excuse { from, .. } = self.losses[loss];
            if self.first_answer(done).is_some_and(|first| first < from) {
                continue;
            }
            let bit = self.events.len() + loss;
            for after in state.losing(from) {
                set(done, bit, true);
                let found = self.go_on(done, &after, left, depth);
                set(done, bit, false);
                if found != Some(false) {
                    return found;
                }
            }
        }
        Some(false)
    }

    /// Those that can be next: nothing that is left was answered before they were asked. The lowest version first, and
    /// what has no answer last.
    fn next(&self, done: &Done) -> Vec<usize> {
        let first_answer = self.first_answer(done);
        let may =
            |index: &usize| first_answer.is_none_or(|first| self.events[*index].sent <= first);
        let mut next: Vec<usize> = self.left(done).filter(may).collect();
        next.sort_by_key(|&index| self.events[index].answer.order());
        next
    }

    fn left<'d>(&self, done: &'d Done) -> impl Iterator<Item = usize> + use<'d> {
        (0..self.events.len()).filter(move |&index| !is_set(done, index))
    }

    /// When the first answer came of those that are left.
    fn first_answer(&self, done: &Done) -> Option<Duration> {
        let left = self.left(done).map(|index| self.events[index]);
        let known = left.filter(|event| event.answer != Answer::Unknown);
        known.map(|event| event.answered).min()
    }

    /// The losses that may come yet: all that is done was asked before their ends.
    fn losses_to_come(&self, done: &Done) -> Vec<usize> {
        let events = 0..self.events.len();
        let asked = events.filter(|&index| is_set(done, index));
        let last_asked = asked.map(|index| self.events[index].sent).max();
        let losses = 0..self.losses.len();
        let to_come = losses.filter(|&loss| !is_set(done, self.events.len() + loss));
        to_come
            .filter(|&loss| last_asked.is_none_or(|asked| asked <= self.losses[loss].until))
            .collect()
    }
}

fn is_set(done: &Done, bit: usize) -> bool {
    done[bit / 64] >> (bit % 64) & 1 == 1
}

fn set(done: &mut Done, bit: usize, to: bool) {
    let word = &mut done[bit / 64];
    match to {
        true => *word |= 1 << (bit % 64),
        false => *word &= !(1 << (bit % 64)),
    }
}

impl Answer {
    fn order(&self) -> (u64, bool) {
        match *self {
            Self::Changed { applied, version } => (version, !applied),
            Self::States { version, .. } => (version, true),
            Self::Done => (u64::MAX, false),
            Self::Unknown => (u64::MAX, true),
        }
    }
}

impl State {
    /// The state after an operation; `None` when it would have been answered otherwise. `since`: the first moment at
    /// which a loss that may come finds the user.
    fn after(&self, event: &Event, since: Option<Duration>) -> Option<Self> {
        let mut next = Self {
            before: self.before_after(event, since),
            ..self.clone()
        };
        let changed = next.change(event.action);
        match &event.answer {
            // Above everything that was told, also where the version is lower after a loss.
            Answer::Done | Answer::Unknown if changed => next.version = self.told + 1,
            Answer::Done | Answer::Unknown => {}
            Answer::Changed { applied, version } => {
                // Whether there was anything to erase is not told by the states alone: deletions are remembered.
                let fits = *applied == changed || (event.action == Action::Erase && !changed);
                let least = match applied {
                    true => self.told + 1,
                    false => self.version,
                };
                if !fits || *version < least {
                    return None;
                }
                next.version = *version;
            }
            Answer::States { states, version } => {
                if *states != self.last || *version < self.version {
                    return None;
                }
                next.version = *version;
            }
        }
        next.told = next.told.max(next.version);
        Some(next)
    }

    /// What a loss can bring back once this operation has taken place.
    fn before_after(&self, event: &Event, since: Option<Duration>) -> Vec<Before> {
        let Some(since) = since else {
            return Vec::new();
        };
        let mut before = self.before.clone();
        // A read leaves what it finds, which is brought back as it is after the read.
        if event.action != Action::Read {
            before.push(Before {
                last: self.last.clone(),
                version: self.version,
                until: Duration::MAX,
            });
        }
        for before in &mut before {
            before.until = before.until.min(event.latest());
        }
        before.retain(|before| before.until >= since);
        before
    }

    /// What the user may be after a loss of what was done from this moment on.
    fn losing(&self, from: Duration) -> impl Iterator<Item = Self> + '_ {
        // The least is lost first.
        let before = self.before.iter().rev();
        let found = before.filter(move |before| before.until >= from);
        found.map(|before| Self {
            last: before.last.clone(),
            version: before.version,
            told: self.told,
            before: Vec::new(),
        })
    }

    /// Does it; whether it changes anything.
    fn change(&mut self, action: Action) -> bool {
        match action {
            Action::Ack { channel, message } => {
                let is_later = self.last.get(&channel).is_none_or(|&last| last < message);
                if is_later {
                    self.last.insert(channel, message);
                }
                is_later
            }
            Action::Manual { channel, message } => {
                self.last.insert(channel, message) != Some(message)
            }
            Action::Delete { channel } => self.last.remove(&channel).is_some(),
            Action::Erase => {
                let any = !self.last.is_empty();
                self.last.clear();
                any
            }
            Action::Read => false,
        }
    }
}
