//! Refusals as responses.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use readstates_api::{Problem, ProblemType};

use crate::{cache::Refused, engine::NotDone, load::LoadError};

/// What a client that is refused for now should wait, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A problem on its way out.
#[derive(Debug)]
pub(super) struct Refusal(Box<Problem>);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<NotDone> for Refusal {
    fn from(not_done: NotDone) -> Self {
        let detail = format!("{not_done}; {}", next_step(not_done));
        Problem::new(problem_type(not_done), detail).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = self.0;
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let passes = problem.problem.passes();
        let mut response = (status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        if passes {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

/// The type of problem that a change or read that was not done is.
pub(super) fn problem_type(not_done: NotDone) -> ProblemType {
    match not_done {
        NotDone::Refused(Refused::TooManyReadStates(_)) => ProblemType::TooManyReadStates,
        NotDone::Refused(Refused::TooManyUnwritten) => ProblemType::TooManyUnwritten,
        NotDone::Refused(Refused::UserTooBusy) => ProblemType::UserTooBusy,
        NotDone::Refused(Refused::Sealed) => ProblemType::Draining,
        NotDone::NotLoaded(LoadError::StoreAway) => ProblemType::DatabaseAway,
        NotDone::NotLoaded(LoadError::TooManyLoads) => ProblemType::Overloaded,
        NotDone::NotLoaded(LoadError::Unreadable) => ProblemType::UnreadableBlock,
        NotDone::Unknown => ProblemType::OutcomeUnknown,
    }
}

fn next_step(not_done: NotDone) -> &'static str {
    match not_done {
        NotDone::Refused(Refused::TooManyReadStates(_)) => {
            "delete read states of channels that are gone"
        }
        NotDone::Refused(Refused::TooManyUnwritten | Refused::UserTooBusy | Refused::Sealed)
        | NotDone::NotLoaded(LoadError::StoreAway | LoadError::TooManyLoads) => "try again later",
        NotDone::NotLoaded(LoadError::Unreadable) => "the member's log says why",
        NotDone::Unknown => "send it again",
    }
}
