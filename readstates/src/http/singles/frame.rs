//! Byte layout of frames of forwarded requests, and of their answers. Pure.
//!
//! Little endian. A request frame is the count of its requests as u32, and the requests; its answer is a stream of
//! answers, in the order in which they are made.
//!
//! ```text
//! request  milliseconds u32 · operation u8 · headers u8 · length of the body u16 · user u64 · channel u64 (0: none) ·
//!          headers · body
//! answer   length of the rest u32 · place u16 · status u16 · ring u64 · headers u8 · headers · body
//! header   name u8 · length u16 · value
//! ```

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, response::Parts};
use readstates_api::{Id, headers};

use crate::{
    http::{
        passed::RESPONSE_HEADERS,
        reply::{self, Body},
        selection::Selection,
        target::Target,
    },
    operation::Operation,
};

/// A request with its headers and body; what is longer travels alone.
const MOST_REQUEST_BYTES: usize = 4 << 10;
/// A frame: as many as the queue takes for one.
pub(in crate::http) const MOST_BYTES: usize =
    4 + readstates_queues::MOST_RECORDS * MOST_REQUEST_BYTES;
/// Far more than an answer of these operations has.
const MOST_ANSWER_BYTES: usize = 1 << 20;
/// Up to its headers.
const REQUEST_HEAD: usize = 24;
const ANSWER_HEAD: usize = 13;

/// Operations by their number, from 1: small requests with small answers.
const OPERATIONS: [Operation; 6] = [
    Operation::Get,
    Operation::Summary,
    Operation::Ack,
    Operation::AckPins,
    Operation::Delete,
    Operation::Mention,
];

/// Headers of a request by their number, from 0: those that a member passes on.
static REQUEST_HEADERS: [HeaderName; 8] = [
    header::CONTENT_TYPE,
    header::IF_NONE_MATCH,
    header::IF_MATCH,
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    HeaderName::from_static(headers::REQUEST_ID),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
];

/// A request as it lies in a frame, without the time that is left for it.
#[derive(Debug)]
pub(super) struct Encoded(Vec<u8>);

/// A request of a frame.
#[derive(Debug)]
pub(in crate::http) struct Request {
    pub(in crate::http) operation: Operation,
    pub(in crate::http) target: Target,
    pub(in crate::http) timeout: Duration,
    pub(in crate::http) headers: HeaderMap,
    pub(in crate::http) body: Bytes,
}

/// An answer to the request at this place in the frame, and the number of the ring that its owner works by.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) place: usize,
    pub(super) response: Response<Body>,
    pub(super) ring: u64,
}

/// The bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(in crate::http) struct Malformed(&'static str);

const CUT_OFF: Malformed = Malformed("the frame ends within a request");
const NOT_KNOWN: Result<(), Malformed> = Err(Malformed("a header is not known"));

/// `None` when it has no place in a frame.
pub(super) fn encode_request(
    operation: Operation,
    target: Target,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<Encoded> {
    let Target {
        user,
        channel,
        selection: _,
    } = target;
    let operation = OPERATIONS.iter().position(|&known| known == operation)?;
    let mut bytes = Vec::with_capacity(256);
    bytes.put_u8(operation as u8 + 1);
    bytes.put_u8(u8::try_from(headers.len()).ok()?);
    bytes.put_u16_le(u16::try_from(body.len()).ok()?);
    bytes.put_u64_le(user.get());
    bytes.put_u64_le(channel.map_or(0, Id::get));
    for (name, value) in headers {
        put_header(&mut bytes, number(&REQUEST_HEADERS, name)?, value)?;
    }
    bytes.put_slice(body);
    (bytes.len() + 4 <= MOST_REQUEST_BYTES).then_some(Encoded(bytes))
}

/// A frame of requests, each with the time that is left for it.
pub(super) fn encode<'a>(
    requests: impl ExactSizeIterator<Item = (Duration, &'a Encoded)> + Clone,
) -> Bytes {
    let length: usize = requests
        .clone()
        .map(|(_, request)| request.0.len() + 4)
        .sum();
    let mut bytes = BytesMut::with_capacity(length + 4);
    bytes.put_u32_le(requests.len() as u32);
    for (left, Encoded(request)) in requests {
        // 0 would be no time at all.
        let millis = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
        bytes.put_u32_le(millis.max(1));
        bytes.put_slice(request);
    }
    bytes.freeze()
}

/// The requests of a frame: all of them make sense, or none is taken.
pub(in crate::http) fn parse(mut frame: Bytes) -> Result<Vec<Request>, Malformed> {
    let count = frame.try_get_u32_le().map_err(|_| CUT_OFF)?;
    if !(1..=readstates_queues::MOST_RECORDS as u32).contains(&count) {
        return Err(Malformed("the count of requests is out of range"));
    }
    let requests: Result<Vec<_>, _> = (0..count).map(|_| take_request(&mut frame)).collect();
    match frame.is_empty() {
        true => requests,
        false => requests.and(Err(Malformed("there is more than the requests"))),
    }
}

fn take_request(frame: &mut Bytes) -> Result<Request, Malformed> {
    if frame.len() < REQUEST_HEAD {
        return Err(CUT_OFF);
    }
    let timeout = Duration::from_millis(frame.get_u32_le().into());
    let number = usize::from(frame.get_u8());
    let operation = number.checked_sub(1).and_then(|at| OPERATIONS.get(at));
    let headers = frame.get_u8();
    let body = usize::from(frame.get_u16_le());
    let (user, channel) = (Id::new(frame.get_u64_le()), Id::new(frame.get_u64_le()));
    let headers = take_headers(frame, &REQUEST_HEADERS, headers, NOT_KNOWN)?;
    if frame.len() < body {
        return Err(CUT_OFF);
    }
    Ok(Request {
        operation: *operation.ok_or(Malformed("an operation is not known"))?,
        target: Target {
            user: user.ok_or(Malformed("a user is 0"))?,
            channel,
            selection: Selection::All,
        },
        timeout,
        headers,
        body: frame.split_to(body),
    })
}

/// An answer as it lies in the stream. What is not a part of the owner's answer to a single request is left out.
pub(in crate::http) fn encode_answer(
    place: usize,
    parts: &Parts,
    body: &[u8],
    ring: u64,
) -> Vec<u8> {
    let kept = parts.headers.iter();
    let kept = kept.filter_map(|(name, value)| Some((number(&RESPONSE_HEADERS, name)?, value)));
    let mut bytes = Vec::with_capacity(4 + ANSWER_HEAD + 64 + body.len());
    bytes.put_u32_le(0);
    bytes.put_u16_le(place as u16);
    bytes.put_u16_le(parts.status.as_u16());
    bytes.put_u64_le(ring);
    let count_at = bytes.len();
    bytes.put_u8(0);
    for (name, value) in kept {
        if put_header(&mut bytes, name, value).is_some() {
            bytes[count_at] += 1;
        }
    }
    bytes.put_slice(body);
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Takes the next answer from what has come of the stream; `None`: more has to come.
pub(super) fn take_answer(stream: &mut BytesMut) -> Result<Option<Answered>, Malformed> {
    let Some(length) = stream.first_chunk().copied() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(length) as usize;
    if !(ANSWER_HEAD..=MOST_ANSWER_BYTES).contains(&length) {
        return Err(Malformed("the length of an answer is out of range"));
    }
    if stream.len() < 4 + length {
        return Ok(None);
    }
    stream.advance(4);
    let mut answer = stream.split_to(length).freeze();
    let place = usize::from(answer.get_u16_le());
    let status = StatusCode::from_u16(answer.get_u16_le());
    let ring = answer.get_u64_le();
    let headers = answer.get_u8();
    // An owner of a later release may know more.
    let headers = take_headers(&mut answer, &RESPONSE_HEADERS, headers, Ok(()))?;
    let mut response = reply::empty(status.map_err(|_| Malformed("a status is none"))?);
    *response.headers_mut() = headers;
    *response.body_mut() = Body::whole(answer);
    Ok(Some(Answered {
        place,
        response,
        ring,
    }))
}

fn number(of: &[HeaderName], name: &HeaderName) -> Option<u8> {
    let at = of.iter().position(|known| known == name)?;
    Some(at as u8)
}

fn put_header(bytes: &mut Vec<u8>, name: u8, value: &HeaderValue) -> Option<()> {
    let length = u16::try_from(value.len()).ok()?;
    bytes.put_u8(name);
    bytes.put_u16_le(length);
    bytes.put_slice(value.as_bytes());
    Some(())
}

/// `unknown`: what a header comes to that is none of these; it is left out if that is no error.
fn take_headers(
    bytes: &mut Bytes,
    of: &[HeaderName],
    count: u8,
    unknown: Result<(), Malformed>,
) -> Result<HeaderMap, Malformed> {
    let mut headers = HeaderMap::with_capacity(count.into());
    for _ in 0..count {
        if bytes.len() < 3 {
            return Err(CUT_OFF);
        }
        let name = of.get(usize::from(bytes.get_u8()));
        let length = usize::from(bytes.get_u16_le());
        if bytes.len() < length {
            return Err(CUT_OFF);
        }
        let value = HeaderValue::from_maybe_shared(bytes.split_to(length));
        let value = value.map_err(|_| Malformed("a header's value is none"))?;
        match name {
            Some(name) => _ = headers.append(name, value),
            None => unknown?,
        }
    }
    Ok(headers)
}
