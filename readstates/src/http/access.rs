//! Admission at the API port: who calls, whether it may, and whether it has not too much under way already.
//!
//! It comes before the body, the limits of the member and any work. On the other ports the connection has proven who
//! is there.

use std::{net::SocketAddr, sync::Arc};

use http::StatusCode;
use readstates_api::{Problem, ProblemType};

use super::{
    App,
    head::{Head, Imported},
    problem::Refusal,
    route::Resource,
    tls::ClientCertificate,
};
use crate::{
    access::{
        Access, Caller, NoCaller, Verb,
        audit::{self, Subject},
    },
    limit::{Limit, Permit},
    operation::{Class, Operation, Port},
};

/// The caller in an audit line when there is none.
const ANONYMOUS: &str = "anonymous";
/// The caller in an audit line for requests on the admin port.
const OPERATOR: &str = "operator";

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) certificate: Option<ClientCertificate>,
}

impl Peer {
    /// One that has shown no certificate.
    pub(super) fn at(address: SocketAddr) -> Self {
        Self {
            // On a socket of both families an IPv4 address looks like one of IPv6.
            address: SocketAddr::new(address.ip().to_canonical(), address.port()),
            certificate: None,
        }
    }
}

/// A caller that was let in, and its place among those that it may have; given back when the request is answered.
#[derive(Debug)]
pub(super) struct Admitted {
    caller: Arc<Caller>,
    _permits: [Option<Permit<Arc<Limit>>>; 2],
}

impl Admitted {
    /// Notes what the caller may not, beside what it was let in for: a batch can have more than changes.
    pub(super) fn bind(&self, head: &Head) {
        if !self.caller.may(Verb::Read) {
            head.forbid_reads();
        }
        if !self.caller.may(Verb::Import) {
            head.forbid_imports();
        }
    }
}

/// What an operation asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// To be one.
    Caller,
    Verb(Verb),
}

fn needs(operation: Operation) -> Needs {
    match operation {
        Operation::Openapi => Needs::Nothing,
        Operation::List | Operation::Get | Operation::Summary | Operation::Ring => {
            Needs::Verb(Verb::Read)
        }
        Operation::Ack
        | Operation::AckPins
        | Operation::AckBulk
        | Operation::Mention
        | Operation::Batch => Needs::Verb(Verb::Write),
        Operation::Delete | Operation::DeleteUser => Needs::Verb(Verb::Delete),
        // That there is nothing at a path is said to callers only. The others are not on this port.
        Operation::Unrouted
        | Operation::Livez
        | Operation::Readyz
        | Operation::Metrics
        | Operation::AdminStatus
        | Operation::AdminFlush
        | Operation::AdminSetCapacity
        | Operation::AdminMove
        | Operation::AdminDrain
        | Operation::Handoff
        | Operation::Singles => Needs::Caller,
    }
}

/// Lets a request in, or says why not. Without an access file every request is let in, with no caller.
pub(super) async fn admit(
    app: &App,
    peer: &Peer,
    head: &Head,
    operation: Operation,
) -> Result<Option<Admitted>, Refusal> {
    let Some(access) = &app.access else {
        return Ok(None);
    };
    let needs = needs(operation);
    if needs == Needs::Nothing {
        return Ok(None);
    }
    let names = app.names_of(peer);
    let caller = match access.authenticate(&head.headers, names).await {
        Ok(caller) => caller,
        Err(why) => return Err(nobody(access, peer, head, operation, &why)),
    };
    if let Needs::Verb(verb) = needs
        && !caller.may(verb)
    {
        return Err(forbidden(access, &caller, (peer, head), operation, verb));
    }
    let permits = places(&caller, operation)?;
    Ok(Some(Admitted {
        caller,
        _permits: permits,
    }))
}

/// The places that a request takes of those that its caller may have.
fn places(
    caller: &Caller,
    operation: Operation,
) -> Result<[Option<Permit<Arc<Limit>>>; 2], Refusal> {
    let limits = &caller.limits;
    let all = Some((&limits.requests, "requests"));
    let wanted = match operation.class() {
        Class::Reads => [all, Some((&limits.reads, "reads"))],
        Class::Changes => [all, Some((&limits.changes, "changes"))],
        Class::Batches => [all, Some((&limits.batches, "batches"))],
        Class::Mentions => [all, Some((&limits.mentions, "mentions"))],
        Class::RingWaiters => [None, Some((&limits.ring_waiters, "requests for the ring"))],
        Class::Open => [all, None],
    };
    let [first, second] = wanted.map(|limit| match limit {
        None => Ok(None),
        Some((limit, what)) => match Permit::take(Arc::clone(limit), 1) {
            Some(permit) => Ok(Some(permit)),
            None => Err(over(caller, limit, what)),
        },
    });
    Ok([first?, second?])
}

fn over(caller: &Caller, limit: &Limit, what: &str) -> Refusal {
    let detail = format!(
        "{} has {} {what} under way at this member, which is its limit; try again later",
        caller.name,
        limit.most()
    );
    Problem::new(ProblemType::CallerTooBusy, detail).into()
}

fn nobody(
    access: &Access,
    peer: &Peer,
    head: &Head,
    operation: Operation,
    why: &NoCaller,
) -> Refusal {
    let problem = match why {
        NoCaller::NoProof
        | NoCaller::Header(_)
        | NoCaller::Headers
        | NoCaller::UnknownToken
        | NoCaller::UnknownCertificate => ProblemType::Unauthenticated,
        NoCaller::NotReviewed => ProblemType::AccessUnavailable,
    };
    let why = why.to_string();
    let subject = subject(ANONYMOUS, peer, head, operation);
    access.audit_refusal(None, subject, problem.status(), &why);
    Problem::new(problem, why).into()
}

fn forbidden(
    access: &Access,
    caller: &Caller,
    (peer, head): (&Peer, &Head),
    operation: Operation,
    verb: Verb,
) -> Refusal {
    let detail = lacks(caller, verb);
    let problem = ProblemType::Forbidden;
    let subject = subject(&caller.name, peer, head, operation);
    access.audit_refusal(Some(caller), subject, problem.status(), &detail);
    Problem::new(problem, detail).into()
}

fn lacks(caller: &Caller, verb: Verb) -> String {
    let name = &caller.name;
    format!("{name} lacks the verb {verb}; add it to the caller's verbs")
}

/// Writes the audit line of what was refused in a frame once its records were looked at: reads among other work, which
/// was done, or an import.
pub(super) fn audit_refused_part(
    app: &App,
    peer: &Peer,
    head: &Head,
    admitted: &Admitted,
    (operation, verb): (Operation, Verb),
) {
    let caller = &admitted.caller;
    if let Some(access) = &app.access {
        let subject = subject(&caller.name, peer, head, operation);
        let why = lacks(caller, verb);
        access.audit_refusal(Some(caller), subject, ProblemType::Forbidden.status(), &why);
    }
}

fn subject<'a>(who: &'a str, peer: &Peer, head: &'a Head, operation: Operation) -> Subject<'a> {
    Subject {
        who,
        from: peer.address,
        method: operation.method(),
        route: operation.route(),
        request_id: head.id(),
    }
}

/// Writes the audit line of what was done, where there is one: deletions of users, imports, and orders on the admin port.
pub(super) fn audit(
    port: Port,
    peer: &Peer,
    head: &Head,
    admitted: Option<&Admitted>,
    (operation, resource): (Operation, Resource<'_>),
    status: StatusCode,
) {
    let who = admitted.map_or(ANONYMOUS, |admitted| &admitted.caller.name);
    match operation {
        // What another member forwards has its line there.
        Operation::DeleteUser if port == Port::Api => {
            let user = resource.ids().0.unwrap_or_default();
            audit::user_deleted(subject(who, peer, head, operation), user, status);
        }
        Operation::Batch if port == Port::Api => {
            if let Some(imported) = head.imported() {
                let Imported { records, applied } = imported;
                let subject = subject(who, peer, head, operation);
                audit::imported(subject, (records, applied), status);
            }
        }
        Operation::AdminFlush
        | Operation::AdminSetCapacity
        | Operation::AdminMove
        | Operation::AdminDrain => audit::ordered(subject(OPERATOR, peer, head, operation), status),
        Operation::DeleteUser
        | Operation::List
        | Operation::Get
        | Operation::Summary
        | Operation::Ack
        | Operation::AckPins
        | Operation::AckBulk
        | Operation::Delete
        | Operation::Mention
        | Operation::Batch
        | Operation::Ring
        | Operation::Livez
        | Operation::Readyz
        | Operation::Metrics
        | Operation::Openapi
        | Operation::AdminStatus
        | Operation::Handoff
        | Operation::Singles
        | Operation::Unrouted => {}
    }
}
