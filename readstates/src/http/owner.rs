//! Serve or forward: every request about a user is answered by the user's owner.

use http::{HeaderMap, HeaderName, request::Parts};
use hyper::body::Incoming;
use readstates_api::{Problem, ProblemType, headers};

use super::{
    App,
    body::{self, Arrived},
    problem::Refusal,
    read_states,
    reply::Answer,
    route::{Operation, Resource},
};
use crate::{
    forward::Passed,
    membership::{Member, Owner},
};

const DIRECT: HeaderName = HeaderName::from_static(headers::DIRECT);
const FORWARDED: HeaderName = HeaderName::from_static(headers::FORWARDED);

/// Answers for users of this member, and passes the others on.
pub(super) async fn serve(
    app: &App,
    operation: Operation,
    resource: Resource<'_>,
    parts: &Parts,
    body: Incoming,
) -> Answer {
    let (user, channel) = resource.ids();
    let user = body::id("the user", user.unwrap_or_default())?;
    let owner = app.membership.owner(user.get());
    if let Owner::Other(_, member) = owner
        && let Some(problem) = not_here(app, member, &parts.headers)
    {
        return Err(problem.into());
    }
    app.gates.look(operation.class())?;
    let body = match operation.method() {
        "POST" => Some(body::read(&app.gates, body).await?),
        _ => None,
    };
    let _permit = app.gates.enter(operation.class())?;
    let _from = app.gates.enter_from(&parts.headers)?;
    match owner {
        Owner::Me => {
            let request = read_states::Asked {
                user,
                channel,
                parts,
                body: body.as_ref().map_or(&[], |body| &body.bytes),
            };
            read_states::serve(app, operation, &request).await
        }
        // The other member is asked by all means, so its answer may be waited for in a box.
        Owner::Other(index, member) => Box::pin(forward(app, index, member, parts, body)).await,
    }
}

async fn forward(
    app: &App,
    index: usize,
    member: &Member,
    parts: &Parts,
    body: Option<Arrived>,
) -> Answer {
    let passed = Passed {
        method: &parts.method,
        path_and_query: parts.uri.path_and_query().map_or("/", |path| path.as_str()),
        headers: &parts.headers,
        body: body
            .as_ref()
            .map_or_else(Default::default, |body| body.bytes.clone()),
    };
    match app.forwarder.pass(index, member, passed).await {
        Ok(response) => {
            app.metrics.forwards.increment(1);
            Ok(response)
        }
        Err(problem) => {
            app.metrics.forward_failures.increment(1);
            Err(problem.into())
        }
    }
}

/// Whether the client chose the owner itself.
pub(super) fn is_direct(headers: &HeaderMap) -> bool {
    headers.get(DIRECT).is_some_and(|value| value == "1")
}

/// Why a request for a user of `owner` is not forwarded, if it is not.
pub(super) fn not_here(app: &App, owner: &Member, headers: &HeaderMap) -> Option<Problem> {
    let ring_number = app.membership.ring().number();
    if is_direct(headers) {
        let detail = format!(
            "{} owns this user by ring {ring_number}; ask it",
            owner.name
        );
        let mut problem = Problem::new(ProblemType::NotTheOwner, detail);
        problem.owner = Some(owner.name.clone());
        problem.owner_url = Some(owner.url.clone());
        problem.ring_number = Some(ring_number);
        return Some(problem);
    }
    let forwarder = headers.get(FORWARDED)?;
    let detail = format!(
        "{:?} forwarded this to {}, which says by ring {ring_number} that {} owns the user",
        forwarder.to_str().unwrap_or("somebody"),
        app.membership.name(),
        owner.name,
    );
    Some(Problem::new(ProblemType::RingDisagreement, detail))
}

/// Users of other members that one request for many users names: the refusal of the whole request
/// when its sender chose the owner itself, the type of their refusal when another member did.
pub(super) fn refuse_others(
    app: &App,
    first: Option<&Member>,
    headers: &HeaderMap,
) -> Result<Option<ProblemType>, Refusal> {
    match first.and_then(|owner| not_here(app, owner, headers)) {
        Some(problem) if is_direct(headers) => Err(problem.into()),
        Some(problem) => Ok(Some(problem.problem)),
        None => Ok(None),
    }
}
