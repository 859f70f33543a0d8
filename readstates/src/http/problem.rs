//! Refusals as responses.

use http::StatusCode;
use readstates_api::{Problem, ProblemType};

use crate::{cache::Refused, engine::NotDone, load::LoadError};

/// A problem on its way out.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) problem: Box<Problem>,
    /// With 405: the methods that there are.
    pub(super) allow: Option<&'static str>,
}

impl Refusal {
    pub(super) fn method_not_allowed(detail: String, allow: &'static str) -> Self {
        let problem = Problem::new(ProblemType::MethodNotAllowed, detail);
        Self {
            problem: Box::new(problem),
            allow: Some(allow),
        }
    }

    /// An answer that cannot be written: cannot happen with the types that we have.
    pub(super) fn unwritable(error: serde_json::Error) -> Self {
        let detail = format!("the answer cannot be written: {error}");
        Problem::new(ProblemType::OutcomeUnknown, detail).into()
    }

    /// The status that it is answered with.
    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn problem_type(&self) -> ProblemType {
        self.problem.problem
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self {
            problem: Box::new(problem),
            allow: None,
        }
    }
}

impl From<NotDone> for Refusal {
    fn from(not_done: NotDone) -> Self {
        let detail = format!("{not_done}; {}", next_step(not_done));
        Problem::new(problem_type(not_done), detail).into()
    }
}

/// The type of problem that a change or read that was not done is.
pub(super) fn problem_type(not_done: NotDone) -> ProblemType {
    match not_done {
        NotDone::Refused(Refused::TooManyReadStates(_)) => ProblemType::TooManyReadStates,
        NotDone::Refused(
            Refused::TooManyUnwritten
            | Refused::JournalBehind
            | Refused::BackupBehind
            | Refused::NoBackup,
        ) => ProblemType::TooManyUnwritten,
        NotDone::Refused(Refused::UserTooBusy) => ProblemType::UserTooBusy,
        NotDone::Refused(Refused::Sealed) => ProblemType::Draining,
        NotDone::Refused(Refused::VersionMoved) => ProblemType::VersionMoved,
        NotDone::Refused(Refused::NotHere) | NotDone::NotLoaded(LoadError::Moved) => {
            ProblemType::SlotMoving
        }
        NotDone::NotLoaded(LoadError::RingWentBack) => ProblemType::NoOwner,
        NotDone::NotLoaded(LoadError::StoreAway) => ProblemType::DatabaseAway,
        NotDone::NotLoaded(LoadError::TooManyLoads) => ProblemType::Overloaded,
        NotDone::NotLoaded(LoadError::Unreadable) => ProblemType::UnreadableBlock,
        NotDone::Unknown => ProblemType::OutcomeUnknown,
    }
}

/// What to do about a change whose outcome is not known.
pub(crate) const UNKNOWN: &str = "what only moves forward, and what carries If-Match, may be sent again; \
                                  otherwise read the user first";

fn next_step(not_done: NotDone) -> &'static str {
    match not_done {
        NotDone::Refused(Refused::TooManyReadStates(_)) => {
            "delete read states of channels that are gone"
        }
        NotDone::Refused(
            Refused::TooManyUnwritten
            | Refused::JournalBehind
            | Refused::BackupBehind
            | Refused::NoBackup
            | Refused::UserTooBusy
            | Refused::Sealed
            | Refused::NotHere,
        )
        | NotDone::NotLoaded(
            LoadError::StoreAway
            | LoadError::TooManyLoads
            | LoadError::Moved
            | LoadError::RingWentBack,
        ) => "try again later",
        NotDone::Refused(Refused::VersionMoved) => {
            "read the user again, and decide by what is there now"
        }
        NotDone::NotLoaded(LoadError::Unreadable) => "the member's log says why",
        NotDone::Unknown => UNKNOWN,
    }
}
