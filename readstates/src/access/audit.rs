//! Audit lines: who asked for what, and the outcome. Log target `audit`.
//!
//! One line for each deletion of a user, each frame of an import, each order on the admin port, and each refusal for want
//! of proof or rights.
//! Refusals are rationed, so that a flood of them cannot fill a disk: a line says how many were left out before it.

use std::net::SocketAddr;

use http::StatusCode;

/// What a line is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The caller's name, or `anonymous`.
    pub(crate) who: &'a str,
    /// Where it calls from.
    pub(crate) from: SocketAddr,
    pub(crate) method: &'a str,
    /// The route, with names for the ids.
    pub(crate) route: &'a str,
    pub(crate) request_id: &'a str,
}

/// A request was refused for want of proof or rights; `left_out`: how many before it have no line.
pub(super) fn refused(subject: Subject<'_>, status: u16, why: &str, left_out: u64) {
    let Subject {
        who,
        from,
        method,
        route,
        request_id,
    } = subject;
    tracing::warn!(target: "audit", who, %from, method, route, request_id, status, why, left_out, "refused");
}

/// A user was to be deleted.
pub(crate) fn user_deleted(subject: Subject<'_>, user: &str, status: StatusCode) {
    let Subject {
        who,
        from,
        method,
        route,
        request_id,
    } = subject;
    let status = status.as_u16();
    tracing::info!(target: "audit", who, %from, method, route, request_id, user, status, "deletion of a user");
}

/// Records of another system were imported; `applied`: of how many something changed.
pub(crate) fn imported(
    subject: Subject<'_>,
    (records, applied): (usize, usize),
    status: StatusCode,
) {
    let Subject {
        who,
        from,
        method,
        route,
        request_id,
    } = subject;
    let status = status.as_u16();
    tracing::info!(target: "audit", who, %from, method, route, request_id, records, applied, status, "import");
}

/// An order came in on the admin port.
pub(crate) fn ordered(subject: Subject<'_>, status: StatusCode) {
    let Subject {
        who,
        from,
        method,
        route,
        request_id,
    } = subject;
    let status = status.as_u16();
    tracing::info!(target: "audit", who, %from, method, route, request_id, status, "admin order");
}
