//! Messages about slots, from other members.

use http::{HeaderValue, request::Parts};
use hyper::body::Incoming;
use readstates_api::{Problem, ProblemType};

use super::{
    App, INCARNATION, body,
    problem::Refusal,
    reply::{self, Answer},
};
use crate::ownership::{MOST_BYTES, NotReceived};

/// Takes a message that is meant for this very process.
pub(super) async fn receive(app: &App, parts: &Parts, content: Incoming) -> Answer {
    let me = app.ownership.me().incarnation().to_string();
    let meant = parts.headers.get(INCARNATION);
    if meant.is_none_or(|meant| meant.as_bytes() != me.as_bytes()) {
        return Err(another_incarnation(&me));
    }
    let message = body::read_message(&app.gates, content, MOST_BYTES).await?;
    let answer = app.ownership.receive(&message.bytes).await.map_err(|why| {
        let problem = match why {
            NotReceived::Malformed => ProblemType::MalformedBody,
            NotReceived::OutOfPlace => ProblemType::BadValue,
            NotReceived::Leaving => ProblemType::Draining,
            NotReceived::NoRoom => ProblemType::Overloaded,
            NotReceived::NotYet | NotReceived::NoBackup | NotReceived::NotListed => {
                ProblemType::NotAMember
            }
        };
        Problem::new(problem, why.to_string())
    })?;
    let bytes = HeaderValue::from_static("application/octet-stream");
    Ok(reply::typed(bytes, answer))
}

/// The request is meant for another process than this one.
pub(super) fn another_incarnation(me: &str) -> Refusal {
    let detail = format!("the process here is {me}; look up the member's process again");
    Problem::new(ProblemType::AnotherIncarnation, detail).into()
}
