//! What comes in, parsed once: ids in paths, the query, bodies.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use readstates_api::{Id, Problem, ProblemType};
use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use super::{gates::Gates, problem::Refusal};
use crate::limit::{Limit, Permit};

/// Bodies and answers up to this size are not counted: a connection has as much in its buffers.
pub(super) const SMALL_BYTES: usize = 16 << 10;

/// An id from a path.
pub(super) fn id(what: &str, text: &str) -> Result<Id, Refusal> {
    text.parse().map_err(|error| {
        let detail = format!("{what} in the path is {text:?}; {error}");
        Problem::new(ProblemType::BadValue, detail).into()
    })
}

/// A body that has arrived, and its share of the memory for bodies.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) bytes: Bytes,
    permit: Option<Permit<Arc<Limit>>>,
}

impl Arrived {
    /// Counts what the work on it will take besides, before any of that is allocated, until this is
    /// dropped.
    pub(super) fn count_work(&mut self, gates: &Gates, bytes: usize) -> Result<(), Refusal> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        let counted = match &mut self.permit {
            Some(permit) => permit.grow(bytes),
            None => {
                self.permit = Permit::take(Arc::clone(&gates.buffered), bytes);
                self.permit.is_some()
            }
        };
        counted.then_some(()).ok_or_else(no_memory)
    }

    /// An answer in the memory that is counted, until its last byte is on its way.
    pub(super) fn lend(self, answer: Vec<u8>) -> Bytes {
        let Self { bytes: _, permit } = self;
        match permit {
            Some(permit) => Bytes::from_owner(Lent {
                answer,
                _permit: permit,
            }),
            None => answer.into(),
        }
    }

    /// Forgets the bytes, and keeps what is counted.
    pub(super) fn done_with_bytes(&mut self) {
        self.bytes = Bytes::new();
    }
}

/// An answer and the memory that it is counted in.
struct Lent {
    answer: Vec<u8>,
    _permit: Permit<Arc<Limit>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

/// Reads a body, as long as it is not too long, not too slow, and there is memory for it.
pub(super) async fn read(gates: &Gates, body: Incoming) -> Result<Arrived, Refusal> {
    let limits = &gates.limits;
    in_time(gates, collect(&gates.buffered, body, limits.max_body_bytes)).await
}

/// Reads what only other members send, in memory that clients have no part of.
pub(super) async fn read_message(
    gates: &Gates,
    body: Incoming,
    most: usize,
) -> Result<Arrived, Refusal> {
    in_time(gates, collect(&gates.messages, body, most)).await
}

async fn in_time(
    gates: &Gates,
    read: impl Future<Output = Result<Arrived, Refusal>>,
) -> Result<Arrived, Refusal> {
    let patience = gates.limits.body_timeout;
    tokio::time::timeout(patience, read)
        .await
        .unwrap_or_else(|_| {
            let detail = format!("the body did not arrive within {patience:?}");
            Err(Problem::new(ProblemType::MalformedBody, detail).into())
        })
}

async fn collect(limit: &Arc<Limit>, mut body: Incoming, most: usize) -> Result<Arrived, Refusal> {
    if body.size_hint().lower() > most as u64 {
        discard(body, most).await;
        return Err(too_large(most));
    }
    let mut share = Share::of(limit);
    let mut bytes = BytesMut::new();
    while let Some(chunk) = chunk(&mut body).await? {
        let length = bytes.len() + chunk.len();
        if length > most {
            drop((bytes, share));
            discard(body, most).await;
            return Err(too_large(most));
        }
        // By what has arrived: who announces a body and does not send it holds nothing that others could use.
        share.grow_to(length)?;
        if bytes.is_empty() && body.is_end_stream() {
            return Ok(share.hold(chunk));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(share.hold(bytes.freeze()))
}

async fn chunk(body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let detail = format!("the body could not be read: {error}");
            Problem::new(ProblemType::MalformedBody, detail)
        })?;
        // What is no data are trailers, which say nothing here.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Reads on for a while and forgets it: a client that is cut off while it sends often never sees the
/// answer.
async fn discard(mut body: Incoming, most: usize) {
    let mut left = most;
    while let Ok(Some(chunk)) = chunk(&mut body).await
        && let Some(less) = left.checked_sub(chunk.len())
    {
        left = less;
    }
}

fn too_large(most: usize) -> Refusal {
    let detail = format!("the body may have {most} bytes; send it in parts");
    Problem::new(ProblemType::BodyTooLarge, detail).into()
}

/// The share of one body of the memory for bodies.
struct Share<'a> {
    limit: &'a Arc<Limit>,
    permit: Option<Permit<Arc<Limit>>>,
    counted: usize,
}

impl<'a> Share<'a> {
    fn of(limit: &'a Arc<Limit>) -> Self {
        Self {
            limit,
            permit: None,
            counted: 0,
        }
    }

    fn grow_to(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes <= SMALL_BYTES || bytes <= self.counted {
            return Ok(());
        }
        let more = bytes - self.counted;
        let grown = match &mut self.permit {
            Some(permit) => permit.grow(more),
            None => {
                self.permit = Permit::take(Arc::clone(self.limit), more);
                self.permit.is_some()
            }
        };
        if !grown {
            return Err(no_memory());
        }
        self.counted = bytes;
        Ok(())
    }

    fn hold(self, bytes: Bytes) -> Arrived {
        Arrived {
            bytes,
            permit: self.permit,
        }
    }
}

/// There is no memory left for a body or an answer that is not small.
pub(super) fn no_memory() -> Refusal {
    let detail = "too many bytes of requests and answers are in memory; try again later";
    Problem::new(ProblemType::Overloaded, detail).into()
}

pub(super) fn json<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Refusal> {
    require(headers, "application/json")?;
    // Where a mistake is, is only looked for when there is one.
    serde_json::from_slice(bytes).map_err(|error| {
        let mut json = serde_json::Deserializer::from_slice(bytes);
        match serde_path_to_error::deserialize::<_, T>(&mut json) {
            Ok(_) => Problem::new(ProblemType::MalformedBody, error.to_string()).into(),
            Err(error) => {
                let pointer = pointer(error.path());
                let problem = Problem::new(ProblemType::MalformedBody, error.inner().to_string());
                Refusal::from(if pointer.is_empty() {
                    problem
                } else {
                    problem.at(pointer)
                })
            }
        }
    })
}

/// Refuses a body that is not declared as this media type.
pub(super) fn require(headers: &HeaderMap, media_type: &str) -> Result<(), Refusal> {
    let declared = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = declared
        .and_then(|value| value.split(';').next())
        .map(str::trim);
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case(media_type)) {
        return Ok(());
    }
    let declared = declared.map_or("nothing".into(), |declared| format!("{declared:?}"));
    let detail = format!("the body is declared as {declared}; send content-type: {media_type}");
    Err(Problem::new(ProblemType::UnsupportedMediaType, detail).into())
}

/// RFC 6901 of where the deserializer was.
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Segment::Unknown => {}
        }
    }
    pointer
}

/// The numbers of the parameters that a query may have, each once, in the order of these names.
pub(super) fn numbers_in_query<const N: usize>(
    query: Option<&str>,
    names: [&str; N],
) -> Result<[Option<u64>; N], Refusal> {
    let wrong = |detail| Err(Refusal::from(Problem::new(ProblemType::BadValue, detail)));
    let mut numbers = [None; N];
    let parameters = query.filter(|query| !query.is_empty()).into_iter();
    for parameter in parameters.flat_map(|query| query.split('&')) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let Some(place) = names.iter().position(|&name| name == key) else {
            let names = names.map(|name| format!("{name}=NUMBER")).join(" and ");
            return wrong(format!(
                "{key:?} in the query is not known; all that there may be is {names}"
            ));
        };
        let digits = value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse().ok().filter(|_| digits);
        let Some(number) = number else {
            return wrong(format!(
                "{key} in the query is {value:?}; give a number as an answer had it"
            ));
        };
        if numbers[place].replace(number).is_some() {
            return wrong(format!("{key} is in the query twice; give it once"));
        }
    }
    Ok(numbers)
}

/// The entity tags that a client knows: `If-None-Match`.
#[derive(Debug)]
pub(super) struct KnownTags(Vec<HeaderValue>);

impl KnownTags {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        // Nothing is allocated where there is none, which is nearly always.
        let values = headers.get_all(header::IF_NONE_MATCH).iter();
        Self(values.cloned().collect())
    }

    /// Whether this one is known.
    pub(super) fn have(&self, etag: &str) -> bool {
        let values = self.0.iter();
        values.filter_map(|value| value.to_str().ok()).any(|value| {
            let mut tags = value.split(',').map(str::trim);
            tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_known_numbers_each_once_or_refused() {
        let read = |query| numbers_in_query(query, ["since", "limit"]).ok();
        assert_eq!(read(None), Some([None, None]));
        assert_eq!(read(Some("")), Some([None, None]));
        assert_eq!(read(Some("since=57")), Some([Some(57), None]));
        assert_eq!(read(Some("limit=5&since=0")), Some([Some(0), Some(5)]));
        let bad = [
            "since",
            "since=",
            "since=+1",
            "since=1&since=2",
            "since=1&",
            "&since=1",
            "sinse=1",
            "a=b",
            "since=18446744073709551616",
        ];
        for query in bad {
            assert_eq!(read(Some(query)), None, "{query}");
        }
    }

    #[test]
    fn an_entity_tag_matches_weakly_in_a_list_or_by_a_star() {
        let matches = |value: &'static str| {
            let value = http::HeaderValue::from_static(value);
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, value)]);
            KnownTags::of(&headers).have("\"57\"")
        };
        assert!(
            matches("\"57\"") && matches("W/\"57\"") && matches("\"1\", \"57\"") && matches("*")
        );
        assert!(
            !matches("\"5\"") && !matches("57") && !KnownTags::of(&HeaderMap::new()).have("\"57\"")
        );
    }
}
