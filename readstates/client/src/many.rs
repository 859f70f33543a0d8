//! One call for many users: grouped by owner, one request per owner, each part with its own attempts.
//!
//! When a part fails, the others go on. What is left of it is grouped again for the next attempt, by the newest ring.
//! A part that went to the wrong member goes back to it once, to be forwarded: its users may have gone to several
//! others.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use readstates_api::{Id, Problem, ProblemType};

use crate::{
    call::{Attempt, Caller, Failed, Progress, Target},
    error::{Cause, Error, Outcome},
    exchange::Request,
};

/// What is done for many users, and the books about it.
pub(crate) trait Work {
    /// One user's part of it.
    type Item: Copy + Send + Sync;
    /// What it is, after "failed to".
    const OPERATION: &'static str;
    /// The most items that one request may have.
    const MOST: usize;

    fn user(item: &Self::Item) -> Id;

    /// Whether an item may be sent again when its outcome is unknown.
    fn repeats(item: &Self::Item) -> bool;

    /// The request for these items.
    fn request(&self, items: &[Self::Item]) -> Request;

    /// Books what the answer settles. Returns the items that it leaves open: the index, and why. `None` when it is
    /// not an answer to this request.
    fn read(&mut self, items: &[Self::Item], answer: &[u8]) -> Option<Vec<(usize, ProblemType)>>;

    /// Books an item that stays open, with what is known about it. `why`: the error of the request, or of its part.
    fn give_up(&mut self, item: Self::Item, outcome: Outcome, why: &Error);
}

/// An item on its way.
#[derive(Debug, Clone, Copy)]
struct Open<I> {
    item: I,
    /// What the attempts so far may have done.
    outcome: Outcome,
}

/// Something that went on beside the other parts, and has ended.
enum Step<I> {
    /// A request.
    Asked {
        part: Vec<Open<I>>,
        progress: Progress,
        /// The ring that it went by.
        known: u64,
        came: Result<Attempt, Error>,
    },
    /// The pause before the next.
    Rested {
        part: Vec<Open<I>>,
        progress: Progress,
        /// Whether to leave the owner out this time.
        anybody: bool,
        rested: Result<(), Error>,
    },
}

type Steps<'a, I> = FuturesUnordered<BoxFuture<'a, Step<I>>>;

/// What one attempt has left for further ones.
pub(crate) struct Left<I> {
    part: Vec<Open<I>>,
    progress: Progress,
    failed: Failed,
    /// The ring that the attempt went by.
    known: u64,
}

/// Does all of the work, or gives up what cannot be done in time.
pub(crate) async fn all<W: Work>(
    caller: &Caller,
    work: &mut W,
    items: impl Iterator<Item = W::Item>,
    within: Duration,
) {
    caller.budget.called();
    // Bounded by the items: there are never more steps than open items.
    let mut steps: Steps<'_, W::Item> = FuturesUnordered::new();
    let progress = Progress::new(W::OPERATION, true, within);
    ask(caller, work, items.map(open), &progress, false, &mut steps);
    run(caller, work, steps).await;
}

/// One attempt at one member with items that are its own, at most [`Work::MOST`]; returns what it leaves.
pub(crate) async fn once<W: Work>(
    caller: &Caller,
    work: &mut W,
    items: Vec<W::Item>,
    target: Target,
    within: Duration,
) -> Option<Left<W::Item>> {
    caller.budget.called();
    let known = caller.routes.number();
    let mut progress = Progress::new(W::OPERATION, true, within);
    let request = work.request(&items);
    let came = attempt(caller, target, &request, &mut progress).await;
    let part = items.into_iter().map(open).collect();
    after(work, part, progress, known, came)
}

/// The further attempts, by the newest ring.
pub(crate) async fn go_on<W: Work>(caller: &Caller, work: &mut W, left: Left<W::Item>) {
    let mut steps: Steps<'_, W::Item> = FuturesUnordered::new();
    rest(caller, left, &mut steps);
    run(caller, work, steps).await;
}

fn open<I>(item: I) -> Open<I> {
    Open {
        item,
        outcome: Outcome::NothingDone,
    }
}

/// Until no step is left.
async fn run<'a, W: Work>(caller: &'a Caller, work: &mut W, mut steps: Steps<'a, W::Item>)
where
    W::Item: 'a,
{
    while let Some(step) = steps.next().await {
        match step {
            Step::Asked {
                part,
                progress,
                known,
                came,
            } => {
                if let Some(left) = after(work, part, progress, known, came) {
                    rest(caller, left, &mut steps);
                }
            }
            Step::Rested {
                part,
                progress,
                anybody,
                rested: Ok(()),
            } => ask(
                caller,
                work,
                part.into_iter(),
                &progress,
                anybody,
                &mut steps,
            ),
            Step::Rested {
                part,
                rested: Err(error),
                ..
            } => {
                for open in part {
                    work.give_up(open.item, open.outcome, &error);
                }
            }
        }
    }
}

/// Books what came of an attempt; returns what may be sent again.
fn after<W: Work>(
    work: &mut W,
    part: Vec<Open<W::Item>>,
    progress: Progress,
    known: u64,
    came: Result<Attempt, Error>,
) -> Option<Left<W::Item>> {
    let (left, failed) = book(work, part, &progress, came);
    let failed = failed?;
    let part = that_may_repeat(work, left, &progress, &failed);
    (!part.is_empty()).then_some(Left {
        part,
        progress,
        failed,
        known,
    })
}

/// One request per owner, side by side.
fn ask<'a, W: Work>(
    caller: &'a Caller,
    work: &W,
    open: impl Iterator<Item = Open<W::Item>>,
    progress: &Progress,
    anybody: bool,
    steps: &mut Steps<'a, W::Item>,
) where
    W::Item: 'a,
{
    let known = caller.routes.number();
    for (target, group) in by_owner::<W>(caller, open, anybody) {
        for part in group.chunks(W::MOST) {
            let items: Vec<W::Item> = part.iter().map(|open| open.item).collect();
            let request = work.request(&items);
            let (part, target) = (part.to_vec(), target.clone());
            let mut progress = progress.clone();
            progress.outcome = Outcome::NothingDone;
            let asked = async move {
                let came = attempt(caller, target, &request, &mut progress).await;
                Step::Asked {
                    part,
                    progress,
                    known,
                    came,
                }
            };
            steps.push(asked.boxed());
        }
    }
}

/// An attempt; after a 421, once more to the same member, which is to forward it.
async fn attempt(
    caller: &Caller,
    target: Target,
    request: &Request,
    progress: &mut Progress,
) -> Result<Attempt, Error> {
    let first = caller.attempt(&target, request, progress).await?;
    if !matches!(first, Attempt::Moved(_)) {
        return Ok(first);
    }
    let forwarded = Target {
        direct: false,
        ..target
    };
    caller.attempt(&forwarded, request, progress).await
}

/// Books an answer. What is left and why, when something is.
fn book<W: Work>(
    work: &mut W,
    part: Vec<Open<W::Item>>,
    progress: &Progress,
    came: Result<Attempt, Error>,
) -> (Vec<Open<W::Item>>, Option<Failed>) {
    let after_it = |open: &Open<W::Item>| Open {
        outcome: open.outcome.and(progress.outcome),
        ..*open
    };
    let later = |problem| Failed {
        cause: Cause::TryLater(problem),
        after: None,
    };
    match came {
        Ok(Attempt::Answered(answer)) => {
            let items: Vec<W::Item> = part.iter().map(|open| open.item).collect();
            let Some(again) = work.read(&items, &answer.body) else {
                let strange = progress.error(Cause::Strange {
                    asked: "the service".into(),
                    status: answer.status.as_u16(),
                });
                for open in &part {
                    work.give_up(open.item, Outcome::Unknown, &strange);
                }
                return (Vec::new(), None);
            };
            leftovers(work, &part, progress, again)
        }
        Ok(Attempt::Moved(problem)) => (part.iter().map(after_it).collect(), Some(later(problem))),
        Ok(Attempt::Failed(failed)) => (part.iter().map(after_it).collect(), Some(failed)),
        Err(error) => {
            for open in &part {
                work.give_up(open.item, open.outcome.and(error.outcome), &error);
            }
            (Vec::new(), None)
        }
    }
}

/// Of the items that an answer leaves open, those that are worth another attempt; gives up the others.
fn leftovers<W: Work>(
    work: &mut W,
    part: &[Open<W::Item>],
    progress: &Progress,
    again: Vec<(usize, ProblemType)>,
) -> (Vec<Open<W::Item>>, Option<Failed>) {
    use crate::verdict::{Kind, kind};
    let (mut left, mut failed) = (Vec::new(), None);
    for (index, problem) in again {
        let Some(open) = part.get(index) else {
            continue;
        };
        let detail = format!(
            "the service answered {} for this part of a request",
            problem.name()
        );
        let named = Box::new(Problem::new(problem, detail));
        let outcome = match kind(problem) {
            Kind::Again(outcome) => outcome,
            Kind::Moved => Outcome::NothingDone,
            Kind::Refused => {
                let refused = progress.error(Cause::refused(named));
                work.give_up(open.item, open.outcome, &refused);
                continue;
            }
        };
        left.push(Open {
            item: open.item,
            outcome: open.outcome.and(outcome),
        });
        failed = Some(Failed {
            cause: Cause::TryLater(named),
            after: None,
        });
    }
    (left, failed)
}

/// Of the items that are left, those that may be sent again; gives up the others.
fn that_may_repeat<W: Work>(
    work: &mut W,
    left: Vec<Open<W::Item>>,
    progress: &Progress,
    failed: &Failed,
) -> Vec<Open<W::Item>> {
    let once = |open: &Open<W::Item>| open.outcome == Outcome::Unknown && !W::repeats(&open.item);
    let (once, again): (Vec<_>, Vec<_>) = left.into_iter().partition(once);
    if !once.is_empty() {
        let why = progress.error(failed.cause.clone());
        for open in once {
            work.give_up(open.item, open.outcome, &why);
        }
    }
    again
}

/// The pause before the next attempt.
fn rest<'a, I: Send + 'a>(caller: &'a Caller, left: Left<I>, steps: &mut Steps<'a, I>) {
    let Left {
        part,
        mut progress,
        failed,
        known,
    } = left;
    let silent = matches!(failed.cause, Cause::NoAnswer { .. });
    let resting = async move {
        let rested = caller.rest(&mut progress, failed, known).await;
        Step::Rested {
            part,
            progress,
            anybody: silent && caller.routes.number() == known,
            rested,
        }
    };
    steps.push(resting.boxed());
}

/// Items by the member that is asked for them, in the order in which they came.
fn by_owner<W: Work>(
    caller: &Caller,
    open: impl Iterator<Item = Open<W::Item>>,
    anybody: bool,
) -> Vec<(Target, Vec<Open<W::Item>>)> {
    let table = caller.routes.table().filter(|_| !anybody);
    let mut groups: Vec<(Target, Vec<Open<W::Item>>)> = Vec::new();
    // Where the group of each owner is; `None` is the group without one.
    let mut places: HashMap<Option<usize>, usize> = HashMap::new();
    for open in open {
        let owner = table
            .as_ref()
            .and_then(|table| table.owner(W::user(&open.item)));
        let key = owner.as_ref().map(|owner| Arc::as_ptr(owner).addr());
        let place = *places.entry(key).or_insert_with(|| {
            let target = match owner {
                Some(to) => Target { to, direct: true },
                None => caller.anybody(),
            };
            groups.push((target, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(open);
    }
    groups
}
