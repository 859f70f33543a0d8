//! Serve or forward: every request about a user is answered by the user's owner.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, Response, StatusCode};
use hyper::body::Incoming;
use readstates_api::{Problem, ProblemType, headers};
use readstates_ring::Slot;

use super::{
    App, FORWARDED,
    asked::Asked,
    body::{self, Arrived},
    changes, forward,
    head::Head,
    passed::Passed,
    precondition,
    problem::{Refusal, UNKNOWN},
    read_states,
    reply::{Answer, Body},
    route::Resource,
    target::Target,
};
use crate::{
    engine::Rests,
    operation::{Class, Operation},
    ownership::{Pass, Peer, Routes, Way},
};

const DIRECT: HeaderName = HeaderName::from_static(headers::DIRECT);

/// How often a request looks for the owner: a slot may move while it is on its way.
const MOST_LOOKS: usize = 4;

/// Answers for users of this member, and passes the others on.
pub(super) async fn serve(
    app: &App,
    operation: Operation,
    resource: Resource<'_>,
    head: &Head,
    body: Incoming,
) -> Answer {
    // All of it before anything is looked up: the owner is passed what was understood, not what was written.
    let target = Target::of(operation, resource, head)?;
    let slot = Slot::of_user(target.user.get());
    let precondition = match operation.class() {
        Class::Changes => precondition::if_match(&head.headers, target.channel)?,
        _ => None,
    };
    if is_direct(&head.headers) {
        let routes = app.ownership.routes();
        if let Some(owner) = app.ownership.other(&routes, slot) {
            return Err(not_the_owner(&routes, &routes.peers()[owner]).into());
        }
    }
    app.gates.look(operation.class())?;
    let body = match operation.method() {
        "POST" => Some(body::read(&app.gates, body).await?),
        _ => None,
    };
    let permit = app.gates.enter(operation.class())?;
    let from = app
        .gates
        .enter_from(&app.ownership.routes(), &head.headers)?;
    let asked = Asked {
        target,
        head,
        body: body.as_ref().map_or(&[], |body| &body.bytes),
        precondition,
    };
    let answer = answer(app, operation, &asked, body.as_ref()).await;
    if operation != Operation::DeleteUser {
        return answer;
    }
    drop((permit, from));
    Box::pin(changes::written(app, &asked, answer)).await
}

/// Answers a request for a user of this member that another member has passed on.
pub(super) async fn serve_passed_on(
    app: &App,
    operation: Operation,
    target: Target,
    head: &Head,
    body: &[u8],
) -> Answer {
    let precondition = match operation.class() {
        Class::Changes | Class::Mentions => precondition::if_match(&head.headers, target.channel)?,
        Class::Reads | Class::Batches | Class::RingWaiters | Class::Open => None,
    };
    let _permit = app.gates.enter(operation.class())?;
    let _from = app
        .gates
        .enter_from(&app.ownership.routes(), &head.headers)?;
    let asked = Asked {
        target,
        head,
        body,
        precondition,
    };
    // It goes no further, and needs no body for that.
    answer(app, operation, &asked, None).await
}

/// The answer of this member or of another.
pub(super) async fn answer(
    app: &App,
    operation: Operation,
    asked: &Asked<'_>,
    body: Option<&Arrived>,
) -> Answer {
    let slot = Slot::of_user(asked.target.user.get());
    if let Some(pass) = app.ownership.enter(slot)
        && let Some(answer) = here(app, &pass, operation, asked).await
    {
        return answer;
    }
    // Who has to wait or to ask others may do so in a box.
    Box::pin(look_for_owner(app, operation, slot, asked, body)).await
}

/// What this member answers, once that survives a crash and may be acknowledged; `None` when the user moves, and nothing was
/// done.
async fn here(
    app: &App,
    pass: &Pass<'_>,
    operation: Operation,
    asked: &Asked<'_>,
) -> Option<Answer> {
    let answer = read_states::serve(app, operation, asked).await;
    if is_moving(&answer) {
        return None;
    }
    let answer = settled(app, operation, asked, answer).await;
    Some(acknowledged(pass, operation, answer))
}

fn is_moving(answer: &Answer) -> bool {
    let problem = answer.as_ref().err().map(Refusal::problem_type);
    problem == Some(ProblemType::SlotMoving)
}

/// The answer, once what it rests on survives a crash.
async fn settled(app: &App, operation: Operation, asked: &Asked<'_>, answer: Answer) -> Answer {
    let what = match operation.method() == "GET" {
        true => Rests::OnRead,
        false => Rests::OnChange,
    };
    if !says_something(&answer) || app.engine.settled(asked.target.user.get(), what).await {
        return answer;
    }
    let problem = if answer.is_err() || operation.method() == "GET" {
        let detail =
            "the disk or the backup has not taken the user's last changes yet; try again later";
        Problem::new(ProblemType::TooManyUnwritten, detail)
    } else {
        let detail = format!("the disk or the backup has not taken the change in time; {UNKNOWN}");
        Problem::new(ProblemType::OutcomeUnknown, detail)
    };
    Err(problem.into())
}

/// Whether an answer says something about the user.
fn says_something(answer: &Answer) -> bool {
    match answer {
        Ok(_) => true,
        Err(refusal) => refusal.problem_type().is_about_the_user(),
    }
}

/// The answer, if it may be given.
fn acknowledged(pass: &Pass<'_>, operation: Operation, answer: Answer) -> Answer {
    if !says_something(&answer) || pass.may_acknowledge() {
        return answer;
    }
    let problem = if answer.is_err() || operation.method() == "GET" {
        let detail = "this member may not answer for the user any more; try again later";
        Problem::new(ProblemType::NoOwner, detail)
    } else {
        let detail = format!("this member lost the user while it worked; {UNKNOWN}");
        Problem::new(ProblemType::OutcomeUnknown, detail)
    };
    Err(problem.into())
}

/// Follows a user whose slot is on the move, or another member's.
async fn look_for_owner(
    app: &App,
    operation: Operation,
    slot: Slot,
    asked: &Asked<'_>,
    body: Option<&Arrived>,
) -> Answer {
    let headers = &asked.head.headers;
    let mut refreshed = false;
    for _ in 0..MOST_LOOKS {
        match app.ownership.way(slot).await.map_err(no_way)? {
            Way::Here(pass) => {
                if let Some(answer) = here(app, &pass, operation, asked).await {
                    return answer;
                }
            }
            Way::There(routes, owner) => {
                let peer = &routes.peers()[owner];
                if is_direct(headers) {
                    return Err(not_the_owner(&routes, peer).into());
                }
                if let Some(forwarder) = forwarder(headers)
                    && refreshed
                {
                    return Err(disagreement(app, &routes, peer, forwarder).into());
                }
                if forwarder(headers).is_none() {
                    let Some((response, ring)) = forward(app, peer, operation, asked, body).await?
                    else {
                        continue;
                    };
                    let behind = ring > routes.number() && !refreshed;
                    if response.status() != StatusCode::SERVICE_UNAVAILABLE || !behind {
                        return Ok(response);
                    }
                }
                app.ownership.refresh().await;
                refreshed = true;
            }
        }
    }
    Err(no_way(ProblemType::SlotMoving))
}

/// The refusal when no owner could be asked.
pub(super) fn no_way(problem: ProblemType) -> Refusal {
    let detail = if problem == ProblemType::NoOwner {
        "no member may answer for the user now; try again later"
    } else {
        "the user is on the way to another member; try again later"
    };
    Problem::new(problem, detail).into()
}

/// The owner's answer, and the number of its ring; `None` when it owns the user no more.
async fn forward(
    app: &App,
    peer: &Arc<Peer>,
    operation: Operation,
    asked: &Asked<'_>,
    body: Option<&Arrived>,
) -> Result<Option<(Response<Body>, u64)>, Refusal> {
    let head = asked.head;
    let at = forward::address(&app.ownership, peer).await?;
    let (headers, span) = head.to_owner(&peer.name);
    let passed = Passed {
        at,
        method: &head.method,
        path_and_query: &asked.target.path_and_query(operation),
        headers: &headers,
        body: body.map_or_else(Default::default, |body| body.bytes.clone()),
        timeout: head.time_left(forward::TIMEOUT),
    };
    let about = (operation, asked.target);
    let passed = app
        .forwarder
        .pass_single(&app.ownership, peer, about, passed)
        .await;
    match passed {
        Ok(None) => Ok(None),
        Ok(Some(answer)) => {
            app.metrics.forwards.increment(1);
            if let Some(span) = span {
                span.answered(answer.0.status(), None);
            }
            Ok(Some(answer))
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

/// Who has forwarded the request, if another member has.
pub(super) fn forwarder(headers: &HeaderMap) -> Option<&str> {
    let name = headers.get(FORWARDED)?;
    Some(name.to_str().unwrap_or("somebody"))
}

fn not_the_owner(routes: &Routes, owner: &Peer) -> Problem {
    let ring_number = routes.number();
    let detail = format!(
        "{} owns this user by ring {ring_number}; ask it",
        owner.name
    );
    let mut problem = Problem::new(ProblemType::NotTheOwner, detail);
    problem.owner = Some(owner.name.clone());
    problem.owner_url = Some(owner.url.clone());
    problem.ring_number = Some(ring_number);
    problem
}

fn disagreement(app: &App, routes: &Routes, owner: &Peer, forwarder: &str) -> Problem {
    let detail = format!(
        "{forwarder:?} forwarded this to {}, which says by ring {} that {} owns the user",
        app.ownership.me().name(),
        routes.number(),
        owner.name,
    );
    Problem::new(ProblemType::RingDisagreement, detail)
}

/// Users of other members that one request for many users names: the refusal of the whole request
/// when its sender chose the owner itself, the type of their refusal when another member did.
pub(super) fn refuse_others(
    app: &App,
    first: Option<&Peer>,
    headers: &HeaderMap,
) -> Result<Option<ProblemType>, Refusal> {
    let Some(owner) = first else {
        return Ok(None);
    };
    if is_direct(headers) {
        return Err(not_the_owner(&app.ownership.routes(), owner).into());
    }
    Ok(forwarder(headers).map(|_| ProblemType::RingDisagreement))
}
