//! The head of a request, with its deadline, id and span.

use std::{
    ops::Deref,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use rand::Rng;
use readstates_api::headers;

use super::deadline::Deadline;
use crate::{access::Verb, trace::Span};

const REQUEST_ID: HeaderName = HeaderName::from_static(headers::REQUEST_ID);
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// Headers of a request about one user that mean something to the user's owner.
const FOR_THE_OWNER: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::IF_NONE_MATCH,
    header::IF_MATCH,
    header::ACCEPT,
    header::ACCEPT_ENCODING,
];

/// The longest id that is taken.
const LONGEST_ID: usize = 128;

/// The head of a request on its way through this member.
#[derive(Debug)]
pub(super) struct Head {
    parts: Parts,
    /// When its sender stops waiting, where it says so.
    pub(super) deadline: Option<Deadline>,
    /// The span of its work here, where requests are traced.
    span: OnceLock<Span>,
    /// The sender's, or one made here when it will be logged or answered: most requests need none.
    id: OnceLock<HeaderValue>,
    /// Whether its caller may not read: a batch of a caller that may write can have reads.
    no_reads: AtomicBool,
    /// Whether its caller may not import.
    no_imports: AtomicBool,
    /// What part of it, or all of it, was refused for want of this verb, once its records were looked at.
    refused: OnceLock<Verb>,
    /// What was imported, where that is what it asks for.
    imported: OnceLock<Imported>,
}

/// What came of the records of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Imported {
    pub(super) records: usize,
    pub(super) applied: usize,
}

impl Deref for Head {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl Head {
    /// For how long another member may be waited for, at most `most`.
    pub(super) fn time_left(&self, most: Duration) -> Duration {
        self.deadline
            .map_or(most, |deadline| deadline.left().min(most))
    }

    pub(super) fn new(parts: Parts, deadline: Option<Deadline>) -> Self {
        let given = parts.headers.get(REQUEST_ID).filter(|id| is_an_id(id));
        let id = given.cloned().map_or_else(OnceLock::new, OnceLock::from);
        Self {
            parts,
            deadline,
            span: OnceLock::new(),
            id,
            no_reads: AtomicBool::new(false),
            no_imports: AtomicBool::new(false),
            refused: OnceLock::new(),
            imported: OnceLock::new(),
        }
    }

    /// Its caller may not read.
    pub(super) fn forbid_reads(&self) {
        self.no_reads.store(true, Ordering::Relaxed);
    }

    /// Whether its caller may read.
    pub(super) fn may_read(&self) -> bool {
        !self.no_reads.load(Ordering::Relaxed)
    }

    /// Its caller may not import.
    pub(super) fn forbid_imports(&self) {
        self.no_imports.store(true, Ordering::Relaxed);
    }

    /// Whether its caller may import.
    pub(super) fn may_import(&self) -> bool {
        !self.no_imports.load(Ordering::Relaxed)
    }

    /// Something in it was refused, since its caller lacks this verb.
    pub(super) fn refuse(&self, lacking: Verb) {
        // One is enough for the audit line.
        let _ = self.refused.set(lacking);
    }

    /// The verb that its caller lacks for something in it.
    pub(super) fn refused(&self) -> Option<Verb> {
        self.refused.get().copied()
    }

    /// Its records were imported.
    pub(super) fn note_import(&self, imported: Imported) {
        // A request has one frame.
        let _ = self.imported.set(imported);
    }

    /// What was imported, if it asked for that.
    pub(super) fn imported(&self) -> Option<Imported> {
        self.imported.get().copied()
    }

    /// Its work here is this span from now on.
    pub(super) fn trace(&self, span: Span) {
        // A request has one.
        let _ = self.span.set(span);
    }

    /// The span of its work here, where requests are traced.
    pub(super) fn span(&self) -> Option<&Span> {
        self.span.get()
    }

    /// The id of the request, as it came or made now. One that is too long or has unusual characters is not taken.
    pub(super) fn id(&self) -> &str {
        text(self.id.get_or_init(made))
    }

    /// The id of the request, if it came with one or one was made.
    pub(super) fn known_id(&self) -> Option<&HeaderValue> {
        self.id.get()
    }

    /// The id of the trace that the request belongs to, if it does.
    pub(super) fn trace_id(&self) -> Option<String> {
        match self.span() {
            Some(span) => Some(span.trace_id()),
            None => trace_id(self.headers.get(TRACE_PARENT)?.to_str().ok()?).map(str::to_owned),
        }
    }

    /// The headers with which it is passed on to the owner of its user, and the span of that.
    pub(super) fn to_owner(&self, owner: &str) -> (HeaderMap, Option<Span>) {
        let mut kept = HeaderMap::new();
        for name in FOR_THE_OWNER {
            // A list may come in several lines.
            for value in self.headers.get_all(&name) {
                kept.append(&name, value.clone());
            }
        }
        let span = self.sign(owner, &mut kept);
        (kept, span)
    }

    /// The headers with which a part of it is sent to the owner of that, and the span of that.
    pub(super) fn of_part(
        &self,
        owner: &str,
        content_type: HeaderValue,
    ) -> (HeaderMap, Option<Span>) {
        let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]);
        let span = self.sign(owner, &mut headers);
        (headers, span)
    }

    /// Says which request and trace this is of.
    fn sign(&self, owner: &str, headers: &mut HeaderMap) -> Option<Span> {
        headers.insert(REQUEST_ID, self.id.get_or_init(made).clone());
        if let Some(span) = self.span() {
            return Some(span.pass_on(owner, headers));
        }
        // Nothing is traced here: it goes on as it came.
        for name in [TRACE_PARENT, TRACE_STATE] {
            for value in self.headers.get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        None
    }
}

/// The id of an answer.
pub(super) fn name(headers: &mut HeaderMap, id: HeaderValue) {
    headers.insert(REQUEST_ID, id);
}

fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}

/// What can stand in a log and in JSON as it is.
fn is_an_id(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    let usual = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=~@".contains(byte);
    (1..=LONGEST_ID).contains(&bytes.len()) && bytes.iter().all(usual)
}

/// 128 random bits.
fn made() -> HeaderValue {
    let id = format!("{:032x}", rand::rng().random::<u128>());
    // Digits and letters: always a header's value.
    HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("unnamed"))
}

/// The trace in a `traceparent` of any version.
fn trace_id(parent: &str) -> Option<&str> {
    let mut fields = parent.trim().split('-');
    let (_version, id) = (fields.next()?, fields.next()?);
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let nothing = id.bytes().all(|byte| byte == b'0');
    (id.len() == 32 && id.bytes().all(hex) && !nothing).then_some(id)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(headers: &[(&str, &str)]) -> Head {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Head::new(request.body(()).unwrap().into_parts().0, None)
    }

    #[test]
    fn an_id_is_the_senders_where_it_can_be_logged_and_else_one_that_is_made_once() {
        let given = head(&[("x-request-id", "a1-B_2.c:/+=~@")]);
        assert_eq!(given.id(), "a1-B_2.c:/+=~@");
        let long = "x".repeat(129);
        for bad in ["", "a b", "a\"b", "a\tb", &long] {
            let made = head(&[("x-request-id", bad)]);
            assert!(made.known_id().is_none(), "{bad:?}");
            assert_eq!(made.id().len(), 32);
            assert_eq!(made.id(), made.id());
        }
        assert_ne!(head(&[]).id(), head(&[]).id());
    }

    #[test]
    fn what_is_passed_on_names_the_request_and_its_trace_and_nothing_of_its_callers() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let head = head(&[
            ("traceparent", parent),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
            ("if-match", "\"1\""),
            ("if-match", "\"2\""),
            ("authorization", "Bearer secret"),
        ]);
        let trace = head.trace_id();
        assert_eq!(trace.as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        let (kept, span) = head.to_owner("chat-1");
        assert!(span.is_none());
        let all = |name: &str| -> Vec<&str> {
            let values = kept.get_all(name).iter();
            values.map(|value| value.to_str().unwrap()).collect()
        };
        assert_eq!(all("traceparent"), [parent]);
        assert_eq!(all("tracestate"), ["a=1", "b=2"]);
        assert_eq!(all("if-match"), ["\"1\"", "\"2\""]);
        assert_eq!(all("x-request-id"), [head.id()]);
        assert!(!kept.contains_key("authorization"));
    }

    #[test]
    fn a_trace_is_thirty_two_digits_and_not_none() {
        assert_eq!(
            trace_id("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
            None
        );
        assert_eq!(
            trace_id("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"),
            None
        );
        for bad in ["", "00", "00-", "00-12-34-01"] {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }
}
