//! Serve or forward: every request about a user is answered by the user's owner.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Uri};
use readstates_api::{Id, Problem, ProblemType, headers};

use super::{App, body, problem::Refusal};
use crate::{
    forward::Passed,
    membership::{Member, Owner},
};

/// Answers for users of this member, and passes the others on.
pub(super) async fn serve_or_forward(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let user = match user_of(request.uri()) {
        Ok(user) => user,
        Err(refusal) => return refusal.into_response(),
    };
    match app.membership.owner(user.get()) {
        Owner::Me => next.run(request).await,
        Owner::Other(index, member) => forward(&app, index, member, request)
            .await
            .unwrap_or_else(IntoResponse::into_response),
    }
}

/// The user in `/v1/users/{user}…`.
fn user_of(uri: &Uri) -> Result<Id, Refusal> {
    let text = uri.path().split('/').nth(3).unwrap_or_default();
    body::id("the user", text)
}

async fn forward(
    app: &App,
    index: usize,
    member: &Member,
    request: Request,
) -> Result<Response, Refusal> {
    if let Some(problem) = not_here(app, member, request.headers()) {
        return Err(problem.into());
    }
    let (parts, content) = request.into_parts();
    let path_and_query = parts
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    let body = body::collect(content).await?;
    let passed = Passed {
        method: parts.method,
        path_and_query,
        headers: parts.headers,
        body,
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

/// Why a request for a user of `owner` is not forwarded, if it is not.
pub(super) fn not_here(app: &App, owner: &Member, headers: &HeaderMap) -> Option<Problem> {
    let ring_number = app.membership.ring().number();
    if headers
        .get(headers::DIRECT)
        .is_some_and(|value| value == "1")
    {
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
    let forwarder = headers.get(headers::FORWARDED)?;
    let detail = format!(
        "{:?} forwarded this to {}, which says by ring {ring_number} that {} owns the user",
        forwarder.to_str().unwrap_or("somebody"),
        app.membership.name(),
        owner.name,
    );
    Some(Problem::new(ProblemType::RingDisagreement, detail))
}
