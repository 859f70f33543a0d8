//! Many users in one request: grouped by owner, one request per owner.

use std::sync::Arc;

use http::HeaderMap;
use readstates_api::{Id, ProblemType};
use readstates_ring::{SLOTS, Slot};

use super::{owner, problem::problem_type};
use crate::{
    cache::{Made, OfUser, Single, SlotSet, Touch},
    engine::Engine,
    ownership::{Ownership, Pass, Peer},
};

/// How often a request looks for the owners of users who are on the move.
pub(super) const MOST_LOOKS: usize = 3;

/// Items that another member owns.
#[derive(Debug)]
pub(super) struct Part<T> {
    pub(super) owner: Arc<Peer>,
    pub(super) items: Vec<T>,
}

/// Items by owner, in the order in which they came.
#[derive(Debug)]
pub(super) struct Split<'a, T> {
    /// Owned by this member.
    pub(super) mine: Vec<T>,
    /// The right to work on it.
    pub(super) passes: Passes<'a>,
    /// Owned by each of the others.
    pub(super) others: Vec<Part<T>>,
    /// Has no owner now: the slots are on the move.
    pub(super) waiting: Vec<T>,
}

impl OfUser for Id {
    fn user(&self) -> u64 {
        self.get()
    }
}

/// The right to work on many slots.
#[derive(Debug, Default)]
pub(super) struct Passes<'a>(Vec<Pass<'a>>);

impl Passes<'_> {
    /// Does an operation for each of these items, all of these slots, and waits until what is told of them survives a
    /// crash. What became of each may be told to the client; of slots that were lost meanwhile, nothing is acknowledged.
    pub(super) async fn change<T: OfUser, O: Single>(
        self,
        engine: &Engine,
        items: Vec<T>,
        operation: impl Fn(&T) -> O + Send + Sync,
        touch: Touch,
    ) -> impl Iterator<Item = (T, Result<O::Seen, ProblemType>)> {
        let operations = Made {
            of: &items,
            operation,
        };
        let done = engine.change_all(&operations, touch).await;
        // Also what was only read, or ignored, rests on what others have changed.
        let settled = engine.settled_all(items.iter().map(OfUser::user)).await;
        let lost = self.lost();
        items.into_iter().zip(done).map(move |(item, done)| {
            let held_back = match (settled, lost.has(&item)) {
                (false, _) => Some(ProblemType::TooManyUnwritten),
                (true, true) => Some(ProblemType::NoOwner),
                (true, false) => None,
            };
            (item, told(done.map_err(problem_type), held_back))
        })
    }

    /// The slots of which nothing may be acknowledged: to be asked when the work is done.
    fn lost(self) -> Lost {
        let lost = self.0.iter().filter(|pass| !pass.may_acknowledge());
        let lost: SlotSet = lost.map(Pass::slot).collect();
        Lost((!lost.is_empty()).then_some(lost))
    }
}

/// What may be told of an operation. `held_back`: why nothing may be said of its user, neither that something was done nor
/// a refusal that shows what the user is; after such a refusal, at least, it is known that nothing was done.
fn told<T>(done: Result<T, ProblemType>, held_back: Option<ProblemType>) -> Result<T, ProblemType> {
    match (done, held_back) {
        (Ok(_), Some(_)) => Err(ProblemType::OutcomeUnknown),
        (Err(problem), Some(instead)) if problem.is_about_the_user() => Err(instead),
        (done, _) => done,
    }
}

/// Slots that this member has lost while it worked; mostly none.
#[derive(Debug)]
struct Lost(Option<SlotSet>);

impl Lost {
    fn has(&self, item: &impl OfUser) -> bool {
        let lost = self.0.as_ref();
        lost.is_some_and(|lost| lost.contains(Slot::of_user(item.user())))
    }
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Unknown,
    Mine,
    /// A place in `others`.
    Other(u16),
    Waiting,
}

/// Groups items by the owners of their users. A request that another member has forwarded looks at the
/// ring itself before it says that something is not this member's.
pub(super) async fn by_owner<'a, T: OfUser>(
    ownership: &'a Ownership,
    headers: &HeaderMap,
    items: &[T],
) -> Split<'a, T> {
    let split = by_owner_now(ownership, items);
    if split.others.is_empty() || owner::forwarder(headers).is_none() {
        return split;
    }
    drop(split);
    ownership.refresh().await;
    by_owner_now(ownership, items)
}

fn by_owner_now<'a, T: OfUser>(ownership: &'a Ownership, items: &[T]) -> Split<'a, T> {
    let mut split = Split {
        mine: Vec::new(),
        passes: Passes::default(),
        others: Vec::new(),
        waiting: Vec::new(),
    };
    let mut places = [Place::Unknown; SLOTS as usize];
    for &item in items {
        let slot = Slot::of_user(item.user());
        let place = &mut places[usize::from(slot.number())];
        if let Place::Unknown = place {
            *place = split.place(ownership, slot);
        }
        match *place {
            Place::Mine => split.mine.push(item),
            Place::Other(index) => split.others[usize::from(index)].items.push(item),
            Place::Waiting | Place::Unknown => split.waiting.push(item),
        }
    }
    split
}

impl<'a, T> Split<'a, T> {
    fn place(&mut self, ownership: &'a Ownership, slot: Slot) -> Place {
        if let Some(pass) = ownership.enter(slot) {
            self.passes.0.push(pass);
            return Place::Mine;
        }
        let routes = ownership.routes();
        let Some(owner) = ownership.other(&routes, slot) else {
            return Place::Waiting;
        };
        let owner = &routes.peers()[owner];
        let known = self
            .others
            .iter()
            .position(|part| part.owner.incarnation == owner.incarnation);
        // There are at most as many members as slots.
        let index = known.unwrap_or_else(|| {
            self.others.push(Part {
                owner: Arc::clone(owner),
                items: Vec::new(),
            });
            self.others.len() - 1
        });
        Place::Other(index as u16)
    }
}

/// Waits until these users have owners, or the wait is over.
pub(super) async fn decided(ownership: &Ownership, items: &[impl OfUser]) {
    let slots = items.iter().map(|item| Slot::of_user(item.user()));
    let slots: SlotSet = slots.collect();
    let slots = Slot::all().filter(|&slot| slots.contains(slot));
    ownership.decided(slots).await;
}
