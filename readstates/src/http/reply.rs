//! Answers on their way out.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::Stream;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::{Frame, SizeHint};
use readstates_api::{ProblemType, Version};

use super::problem::Refusal;

/// What a handler comes to.
pub(super) type Answer = Result<Response<Body>, Refusal>;

/// What a client that is refused for now should wait, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
/// How a caller is to say who it is.
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Body {
    /// All of it; `None` once it was taken.
    Whole(Option<Bytes>),
    /// All of it, in memory that is counted already or that all who ask share.
    Shared(Option<Bytes>),
    /// As another member sends it.
    Passed(reqwest::Body),
    /// In parts, each as it is made, after what is already there.
    Parts(Option<Bytes>, Parts),
}

/// Parts of a body.
pub(crate) type Parts = Pin<Box<dyn PartsOfBody>>;

/// Makes the parts of a body.
pub(crate) trait PartsOfBody: Stream<Item = Bytes> + fmt::Debug + Send {}

impl<S: Stream<Item = Bytes> + fmt::Debug + Send> PartsOfBody for S {}

impl Body {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self::Whole((!bytes.is_empty()).then_some(bytes))
    }

    /// All of it, if it is there in one piece.
    pub(super) fn in_one_piece(self) -> Option<Bytes> {
        match self {
            Self::Whole(bytes) | Self::Shared(bytes) => Some(bytes.unwrap_or_default()),
            Self::Passed(_) | Self::Parts(..) => None,
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) | Self::Shared(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Passed(body) => Pin::new(body).poll_frame(context),
            Self::Parts(first, others) => {
                let part = match first.take() {
                    Some(first) => Some(first),
                    None => ready!(others.as_mut().poll_next(context)),
                };
                Poll::Ready(part.map(|part| Ok(Frame::data(part))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) | Self::Shared(bytes) => bytes.is_none(),
            Self::Passed(body) => body.is_end_stream(),
            Self::Parts(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::Shared(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Passed(body) => body.size_hint(),
            Self::Parts(..) => SizeHint::default(),
        }
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// 200 with JSON.
pub(super) fn json(json: Vec<u8>) -> Response<Body> {
    typed(JSON, json.into())
}

/// 200 with JSON in memory that is counted already or that all who ask share.
pub(super) fn shared_json(json: Bytes) -> Response<Body> {
    shared(JSON, json)
}

/// 200 with a body of this type in such memory.
pub(super) fn shared(content_type: HeaderValue, bytes: Bytes) -> Response<Body> {
    let mut response = typed(content_type, Bytes::new());
    *response.body_mut() = Body::Shared((!bytes.is_empty()).then_some(bytes));
    response
}

/// 200 with a value as JSON.
pub(super) fn value(value: &impl serde::Serialize) -> Answer {
    Ok(json(
        serde_json::to_vec(value).map_err(Refusal::unwritable)?,
    ))
}

/// 202 with a value as JSON.
pub(super) fn accepted(body: &impl serde::Serialize) -> Answer {
    let mut response = value(body)?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// 200 with a body of this type.
pub(crate) fn typed(content_type: HeaderValue, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::whole(bytes));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// The entity tag of a user at this version.
pub(super) fn etag(version: u64) -> HeaderValue {
    // Digits between quotes: always a header's value.
    HeaderValue::try_from(format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// A status and a line for people.
pub(crate) fn text(status: StatusCode, line: String) -> Response<Body> {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut response = typed(plain, line.into());
    *response.status_mut() = status;
    response
}

/// A status and nothing else.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = status;
    response
}

/// The refusal of the request with this id.
pub(super) fn refused(refusal: Refusal, request_id: &str) -> Response<Body> {
    let status = refusal.status();
    let Refusal { mut problem, allow } = refusal;
    problem.request_id = Some(request_id.to_owned());
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let mut response = typed(PROBLEM_JSON, body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Some(Version(version)) = problem.version {
        headers.insert(header::ETAG, etag(version));
    }
    if problem.problem.passes() {
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    if problem.problem == ProblemType::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, BEARER);
    }
    if let Some(allow) = allow {
        headers.insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    response
}
