//! A request on its way to another member.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method};
use readstates_api::{Problem, ProblemType};

use crate::ownership::Peer;

/// A request to pass on.
#[derive(Debug)]
pub(crate) struct Passed<'a> {
    /// Where the member takes it: a URL without a slash at the end.
    pub(crate) at: Arc<str>,
    pub(crate) method: &'a Method,
    pub(crate) path_and_query: &'a str,
    /// All that are passed on, but for those that are about the way itself.
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: Bytes,
    /// How long the answer is waited for, which the owner is told.
    pub(crate) timeout: Duration,
}

/// The refusal when the most requests that a member is sent at once are under way.
pub(super) fn too_many(member: &Peer) -> Problem {
    let detail = format!(
        "too many requests are under way to {}; try again later",
        member.name
    );
    Problem::new(ProblemType::Overloaded, detail)
}
