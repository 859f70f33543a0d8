//! One call: attempts, pauses and where each attempt goes.
//!
//! ```text
//!            ┌─ owner by ring ──421──▶ the owner it names ──421──▶ a seed, which forwards
//! attempt ───┤                                                          │
//!            └─ owner unknown ─▶ a seed, which forwards ◀── no answer ──┘
//!
//! 2xx, 304 ─▶ done    4xx ─▶ refused    429, 503, 504, silence ─▶ pause, attempt
//! ```
//!
//! After 504 or silence only what may be sent again is.

use std::{sync::Arc, time::Duration};

use readstates_api::Id;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    config::Config,
    error::{Cause, Error, Outcome},
    exchange::{self, Answer, Destination, Exchanges, Request, Silence},
    retry::{Budget, pause},
    routes::Routes,
    verdict::{self, Verdict, judge},
};

/// What all calls of a client share.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) config: Config,
    pub(crate) exchanges: Arc<Exchanges>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) budget: Budget,
}

/// Where an attempt goes, and whether the destination is to forward.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) to: Arc<Destination>,
    pub(crate) direct: bool,
}

/// How far a call has come.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    operation: &'static str,
    /// Whether it changes anything.
    changes: bool,
    /// Whether it may be sent again when its outcome is unknown.
    repeats: bool,
    began: Instant,
    pub(crate) deadline: Instant,
    attempts: u32,
    pub(crate) outcome: Outcome,
}

/// What an attempt that was not the last leads to.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) cause: Cause,
    /// What the member asked to wait.
    pub(crate) after: Option<Duration>,
}

impl Progress {
    pub(crate) fn new(operation: &'static str, changes: bool, within: Duration) -> Self {
        let began = Instant::now();
        Self {
            operation,
            changes,
            repeats: true,
            began,
            deadline: began + within,
            attempts: 0,
            outcome: Outcome::NothingDone,
        }
    }

    /// The call ends with this.
    pub(crate) fn error(&self, cause: Cause) -> Error {
        Error {
            operation: self.operation,
            outcome: if self.changes {
                self.outcome
            } else {
                Outcome::NothingDone
            },
            repeats: self.repeats,
            attempts: self.attempts,
            took: self.began.elapsed(),
            cause,
        }
    }
}

impl Caller {
    /// The owner of the user where it is known, a seed otherwise.
    pub(crate) fn target(&self, user: Id) -> Target {
        match self.routes.owner(user) {
            Some(to) => Target { to, direct: true },
            None => self.anybody(),
        }
    }

    /// A seed, which forwards.
    pub(crate) fn anybody(&self) -> Target {
        let to = self.routes.seed();
        Target { to, direct: false }
    }

    /// Sends a request about one user until it is answered, refused, or another attempt is not worth it. Returns the
    /// answer with the progress of the call.
    pub(crate) async fn call(
        &self,
        user: Id,
        request: &Request,
        within: Duration,
    ) -> Result<(Answer, Progress), Error> {
        self.budget.called();
        let mut progress = Progress::new(request.operation, !request.method.is_safe(), within);
        progress.repeats = request.repeats;
        let mut target = self.target(user);
        // How often an owner has sent this call to another: a second time members disagree.
        let mut moved = 0;
        loop {
            let known = self.routes.number();
            let failed = match self.attempt(&target, request, &mut progress).await? {
                Attempt::Answered(answer) => return Ok((answer, progress)),
                Attempt::Moved(problem) => {
                    moved += 1;
                    if Instant::now() >= progress.deadline {
                        return Err(progress.error(Cause::TryLater(problem)));
                    }
                    let named = self.routes.named(&problem).filter(|_| moved == 1);
                    let sent_on = named.map(|to| Target { to, direct: true });
                    target = sent_on.unwrap_or_else(|| self.anybody());
                    if moved <= 2 {
                        continue;
                    }
                    // A seed was asked to forward and says 421: not what the service does.
                    Failed {
                        cause: Cause::TryLater(problem),
                        after: None,
                    }
                }
                Attempt::Failed(failed) => failed,
            };
            if progress.outcome == Outcome::Unknown && !request.repeats {
                return Err(progress.error(failed.cause));
            }
            let silent = matches!(failed.cause, Cause::NoAnswer { .. });
            self.rest(&mut progress, failed, known).await?;
            moved = 0;
            target = self.target(user);
            if silent && self.routes.number() == known {
                // The owner that the ring names is gone or overloaded; other members may know more.
                target = self.anybody();
            }
        }
    }

    /// One attempt, and what its answer means.
    pub(crate) async fn attempt(
        &self,
        target: &Target,
        request: &Request,
        progress: &mut Progress,
    ) -> Result<Attempt, Error> {
        let Target { to, direct } = target;
        let sent = self
            .exchanges
            .send(to, request, *direct, progress.deadline)
            .await;
        if matches!(sent, Err(Silence::Busy)) {
            return Err(progress.error(Cause::Busy));
        }
        progress.attempts += 1;
        let asked = || to.url.clone();
        let answer = match sent {
            Ok(answer) => answer,
            Err(Silence::Busy) => return Err(progress.error(Cause::Busy)),
            Err(Silence::Lost { outcome, source }) => {
                progress.outcome = progress.outcome.and(outcome);
                return Ok(Attempt::Failed(Failed {
                    cause: Cause::NoAnswer {
                        asked: asked(),
                        source: Arc::new(source),
                    },
                    after: None,
                }));
            }
        };
        if let Some(number) = exchange::ring_number(&answer.headers) {
            self.routes.seen(number, to);
        }
        Ok(match judge(answer.status, &answer.headers, &answer.body) {
            Verdict::Answered => Attempt::Answered(answer),
            Verdict::Moved(problem) => Attempt::Moved(problem),
            Verdict::Again {
                outcome,
                problem,
                after,
            } => {
                progress.outcome = progress.outcome.and(outcome);
                let cause = Cause::TryLater(problem);
                Attempt::Failed(Failed { cause, after })
            }
            Verdict::Refused(problem) => return Err(progress.error(Cause::refused(problem))),
            Verdict::Strange => {
                progress.outcome = Outcome::Unknown;
                return Err(progress.error(Cause::Strange {
                    asked: asked(),
                    status: answer.status.as_u16(),
                }));
            }
        })
    }

    /// Pauses after a failed attempt; ends the call when there is no time or no budget for another.
    /// `known`: the number of the ring that the attempt went by.
    pub(crate) async fn rest(
        &self,
        progress: &mut Progress,
        failed: Failed,
        known: u64,
    ) -> Result<(), Error> {
        let Failed { cause, after } = failed;
        let Config {
            first_pause,
            longest_pause,
            ..
        } = self.config;
        let lot = rand::random();
        let wait = pause(progress.attempts, first_pause, longest_pause, after, lot);
        let until = Instant::now() + wait;
        if until >= progress.deadline || !self.budget.retry() {
            return Err(progress.error(cause));
        }
        if !cause.problem().is_some_and(verdict::is_about_ownership) {
            sleep_until(until).await;
            return Ok(());
        }
        // A newer ring ends the wait: the reason to wait is gone with the old one. A short random pause follows
        // all the same, since all clients learn of it at once.
        let mut changes = self.routes.changes();
        let newer = changes.wait_for(|table| {
            table
                .as_ref()
                .is_some_and(|table| table.ring.number() > known)
        });
        if timeout_at(until, newer).await.is_ok() {
            let short = pause(1, first_pause, longest_pause, None, lot);
            sleep_until(until.min(Instant::now() + short)).await;
        }
        Ok(())
    }
}

/// The result of one attempt.
#[derive(Debug)]
pub(crate) enum Attempt {
    Answered(Answer),
    /// Another member owns the user.
    Moved(Box<readstates_api::Problem>),
    Failed(Failed),
}
