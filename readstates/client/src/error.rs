//! What a call that failed knows about what it did.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use readstates_api::{Problem, ProblemType, Version};

/// What is known about the effect of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing was changed: every attempt was refused or never reached a member.
    NothingDone,
    /// It may have been applied, and may still be. [`Error::repeats`] says whether it may be sent again.
    Unknown,
}

impl Outcome {
    /// What is known after both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NothingDone, Self::NothingDone) => Self::NothingDone,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
        }
    }
}

/// A call that failed, after all attempts that were worth it.
#[derive(Debug, Clone)]
pub struct Error {
    pub(crate) operation: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) repeats: bool,
    pub(crate) attempts: u32,
    pub(crate) took: Duration,
    pub(crate) cause: Cause,
}

/// Why the last attempt of a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Cause {
    /// The service refuses it, and will refuse it again: the request is wrong, or the user is full.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The service does not know the caller: there is no token, or it is not valid, or not any more.
    #[error("{}", .0.detail)]
    Unauthenticated(Box<Problem>),
    /// The caller may not do this; the detail names the verb that it lacks.
    #[error("{}", .0.detail)]
    Forbidden(Box<Problem>),
    /// The service asked to come back later, and there was no time or budget left for it.
    #[error("{}", .0.detail)]
    TryLater(Box<Problem>),
    /// No answer: no connection, a connection that broke, silence.
    #[error("{asked} did not answer")]
    NoAnswer {
        /// Where the request went.
        asked: String,
        /// What happened to it.
        source: Arc<reqwest::Error>,
    },
    /// An answer that is not one of the service: from another version, or from a proxy in between.
    #[error(
        "{asked} gave an unexpected answer with status {status}: check the URL, any proxy, and the versions"
    )]
    Strange {
        /// Where the request went.
        asked: String,
        /// The status of the answer.
        status: u16,
    },
    /// The client itself has too many requests in flight, and none ended in time; or too many operations wait for the
    /// owner of the user.
    #[error("too many requests of this client are in flight, and none ended in time")]
    Busy,
    /// Of an operation that was sent with others: no answer came before its deadline.
    #[error("no answer came before the deadline")]
    Late,
}

impl Error {
    /// What is known about the effect.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the same call may be made again whatever the outcome of this one, even much later: it is applied at
    /// most once. Not so for a manual acknowledgement and a deletion without a version: before it repeats one of
    /// these, the caller should read what is there.
    #[must_use]
    pub fn repeats(&self) -> bool {
        self.repeats
    }

    /// With a call for one version of a user, which was refused because the user has another: the one it has.
    ///
    /// When [`Error::outcome`] is [`Outcome::Unknown`], an earlier attempt of this very call may be what has moved it
    /// on: what the user has now tells.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match &self.cause {
            Cause::Refused(problem) => problem.version,
            Cause::Unauthenticated(_)
            | Cause::Forbidden(_)
            | Cause::TryLater(_)
            | Cause::NoAnswer { .. }
            | Cause::Strange { .. }
            | Cause::Busy
            | Cause::Late => None,
        }
    }

    /// Why the last attempt failed.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The type of the problem that the service named last, if it named one.
    #[must_use]
    pub fn problem(&self) -> Option<ProblemType> {
        self.cause.problem()
    }

    /// How many requests were sent.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn passes(&self) -> bool {
        !matches!(
            self.cause,
            Cause::Refused(_) | Cause::Unauthenticated(_) | Cause::Forbidden(_)
        )
    }
}

impl Cause {
    /// A refusal that stays one.
    pub(crate) fn refused(problem: Box<Problem>) -> Self {
        match problem.problem {
            ProblemType::Unauthenticated => Self::Unauthenticated(problem),
            ProblemType::Forbidden => Self::Forbidden(problem),
            _ => Self::Refused(problem),
        }
    }

    pub(crate) fn problem(&self) -> Option<ProblemType> {
        match self {
            Self::Refused(problem)
            | Self::Unauthenticated(problem)
            | Self::Forbidden(problem)
            | Self::TryLater(problem) => Some(problem.problem),
            Self::NoAnswer { .. } | Self::Strange { .. } | Self::Busy | Self::Late => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            outcome,
            repeats,
            attempts,
            took,
            cause,
        } = self;
        let moved = cause.problem() == Some(ProblemType::VersionMoved);
        let known = match (outcome, repeats) {
            (Outcome::NothingDone, _) => "nothing was done",
            (Outcome::Unknown, _) if moved => {
                "the user has changed, and perhaps by this; read what is there"
            }
            (Outcome::Unknown, true) => {
                "it is not known whether it was done; sending it again is safe"
            }
            (Outcome::Unknown, false) => {
                "it is not known whether it was done; read what is there before sending it again"
            }
        };
        let requests = if *attempts == 1 {
            "request"
        } else {
            "requests"
        };
        write!(
            f,
            "failed to {operation} with {attempts} {requests} in {took:.1?}: {known}"
        )
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.cause)
    }
}
