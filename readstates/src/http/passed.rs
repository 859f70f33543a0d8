//! A request on its way to another member, and what is kept of the answer.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, header};
use readstates_api::{Problem, ProblemType, headers};

use crate::ownership::Peer;

/// Headers of the owner's answer that mean something to the client. In frames each has its place here as its number: others
/// are added at the end.
pub(super) static RESPONSE_HEADERS: [HeaderName; 7] = [
    header::CONTENT_ENCODING,
    header::CONTENT_TYPE,
    header::VARY,
    header::ETAG,
    header::LINK,
    header::RETRY_AFTER,
    header::ALLOW,
];

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

/// What is kept of the headers of an owner's answer, and the number of its ring.
pub(super) fn kept(answered: &HeaderMap) -> (HeaderMap, u64) {
    let ring = answered.get(headers::RING);
    let ring = ring.and_then(|number| number.to_str().ok()?.parse().ok());
    let mut kept = HeaderMap::new();
    for name in &RESPONSE_HEADERS {
        if let Some(value) = answered.get(name) {
            kept.insert(name, value.clone());
        }
    }
    (kept, ring.unwrap_or(0))
}

/// The refusal when the most requests that a member is sent at once are under way.
pub(super) fn too_many(member: &Peer) -> Problem {
    let detail = format!(
        "too many requests are under way to {}; try again later",
        member.name
    );
    Problem::new(ProblemType::Overloaded, detail)
}
