//! What an answer means for a call: done, moved, again, refused. Pure.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use readstates_api::{Problem, ProblemType};

use crate::error::Outcome;

/// What an answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The answer to the call, 2xx or 304.
    Answered,
    /// Another member owns the user; the problem names it. Nothing was done.
    Moved(Box<Problem>),
    /// Worth another attempt.
    Again {
        /// What this attempt may have done.
        outcome: Outcome,
        problem: Box<Problem>,
        /// What the member asks to wait.
        after: Option<Duration>,
    },
    /// Another attempt would be refused as well. Nothing was done.
    Refused(Box<Problem>),
    /// Not an answer of the service. A service behind the one that answered may have done it.
    Strange,
}

/// What an answer means.
pub(crate) fn judge(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Verdict {
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Verdict::Answered;
    }
    let Ok(problem) = serde_json::from_slice::<Problem>(body).map(Box::new) else {
        return without_problem(status, headers);
    };
    if problem.status != status.as_u16() {
        return Verdict::Strange;
    }
    let after = retry_after(headers);
    match kind(problem.problem) {
        Kind::Moved => Verdict::Moved(problem),
        Kind::Again(outcome) => Verdict::Again {
            outcome,
            problem,
            after,
        },
        Kind::Refused => Verdict::Refused(problem),
    }
}

/// What a problem means, wherever it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Moved,
    Again(Outcome),
    Refused,
}

/// What a problem means.
pub(crate) fn kind(problem: ProblemType) -> Kind {
    match problem {
        ProblemType::NotTheOwner => Kind::Moved,
        ProblemType::OutcomeUnknown => Kind::Again(Outcome::Unknown),
        ProblemType::UserTooBusy
        | ProblemType::CallerTooBusy
        | ProblemType::AccessUnavailable
        | ProblemType::Overloaded
        | ProblemType::TooManyUnwritten
        | ProblemType::DatabaseAway
        | ProblemType::Draining
        | ProblemType::SlotMoving
        | ProblemType::NoOwner
        | ProblemType::OwnerUnreachable
        | ProblemType::RingDisagreement => Kind::Again(Outcome::NothingDone),
        // With the first of them deleting read states helps, waiting does not.
        ProblemType::TooManyReadStates
        | ProblemType::Unauthenticated
        | ProblemType::Forbidden
        | ProblemType::MalformedBody
        | ProblemType::BadValue
        | ProblemType::VersionMoved
        | ProblemType::NoReadState
        | ProblemType::NoRoute
        | ProblemType::MethodNotAllowed
        | ProblemType::AnotherIncarnation
        | ProblemType::NotAMember
        | ProblemType::BodyTooLarge
        | ProblemType::TooManyItems
        | ProblemType::UnsupportedMediaType
        | ProblemType::UnreadableBlock => Kind::Refused,
    }
}

/// Whether a problem is about who owns the user, so that a newer ring is worth an attempt at once.
pub(crate) fn is_about_ownership(problem: ProblemType) -> bool {
    matches!(
        problem,
        ProblemType::Draining
            | ProblemType::SlotMoving
            | ProblemType::NoOwner
            | ProblemType::OwnerUnreachable
            | ProblemType::RingDisagreement
    )
}

/// Statuses that a proxy gives in the name of a service it cannot reach, or a later version of the service
/// with a problem that this client does not know.
fn without_problem(status: StatusCode, headers: &HeaderMap) -> Verdict {
    let (problem, outcome) = match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            (ProblemType::Overloaded, Outcome::NothingDone)
        }
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            (ProblemType::OutcomeUnknown, Outcome::Unknown)
        }
        _ => return Verdict::Strange,
    };
    let detail = format!("answered {status} without a problem that this client knows");
    let mut problem = Problem::new(problem, detail);
    problem.status = status.as_u16();
    Verdict::Again {
        outcome,
        problem: Box::new(problem),
        after: retry_after(headers),
    }
}

/// Whole seconds; the other form, a date, is not used by the service.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    value.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(problem: ProblemType) -> Verdict {
        let body = serde_json::to_vec(&Problem::new(problem, "why")).unwrap();
        let status = StatusCode::from_u16(problem.status()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, "1".parse().unwrap());
        judge(status, &headers, &body)
    }

    #[test]
    fn every_problem_is_moved_again_or_refused() {
        for &problem in ProblemType::ALL {
            let verdict = judged(problem);
            match problem.status() {
                421 => assert!(matches!(verdict, Verdict::Moved(_)), "{problem}"),
                504 => assert!(
                    matches!(
                        verdict,
                        Verdict::Again {
                            outcome: Outcome::Unknown,
                            ..
                        }
                    ),
                    "{problem}"
                ),
                429 | 503 if problem != ProblemType::TooManyReadStates => {
                    let Verdict::Again { outcome, after, .. } = verdict else {
                        panic!("{problem}: {verdict:?}")
                    };
                    assert_eq!(outcome, Outcome::NothingDone, "{problem}");
                    assert_eq!(after, Some(Duration::from_secs(1)));
                }
                _ => assert!(matches!(verdict, Verdict::Refused(_)), "{problem}"),
            }
        }
    }

    #[test]
    fn what_a_proxy_says_is_taken_by_its_status() {
        let of = |status: u16| {
            judge(
                StatusCode::from_u16(status).unwrap(),
                &HeaderMap::new(),
                b"<html>",
            )
        };
        assert_eq!(of(200), Verdict::Answered);
        assert_eq!(of(304), Verdict::Answered);
        let unknown = |verdict| {
            matches!(
                verdict,
                Verdict::Again {
                    outcome: Outcome::Unknown,
                    ..
                }
            )
        };
        assert!(unknown(of(502)) && unknown(of(504)));
        assert!(matches!(
            of(503),
            Verdict::Again {
                outcome: Outcome::NothingDone,
                ..
            }
        ));
        for strange in [301, 404, 500] {
            assert_eq!(of(strange), Verdict::Strange, "{strange}");
        }
    }
}
