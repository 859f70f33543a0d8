//! What comes in, parsed once: ids in paths, JSON bodies, the query.

use axum::{
    body::Body,
    extract::{FromRequest, Query, Request, rejection::QueryRejection},
};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::{HeaderMap, header};
use readstates_api::{Id, Problem, ProblemType};
use serde::{Deserialize, de::DeserializeOwned};
use serde_path_to_error::{Path, Segment};

use super::problem::Refusal;

/// The largest body.
const MOST_BYTES: usize = 4 << 20;
/// A client that has not sent its body by then holds a place that others could use.
const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// An id from a path.
pub(super) fn id(what: &str, text: &str) -> Result<Id, Refusal> {
    text.parse().map_err(|error| {
        let detail = format!("{what} in the path is {text:?}; {error}");
        Problem::new(ProblemType::BadValue, detail).into()
    })
}

/// A JSON body.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        require_json(request.headers())?;
        let bytes = collect(request.into_body()).await?;
        let mut json = serde_json::Deserializer::from_slice(&bytes);
        let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let pointer = pointer(error.path());
            let problem = Problem::new(ProblemType::MalformedBody, error.inner().to_string());
            if pointer.is_empty() {
                problem
            } else {
                problem.at(pointer)
            }
        })?;
        json.end()
            .map_err(|error| Problem::new(ProblemType::MalformedBody, error.to_string()))?;
        Ok(Self(value))
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let declared = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = declared
        .and_then(|value| value.split(';').next())
        .map(str::trim);
    if essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let declared = declared.map_or("nothing".into(), |declared| format!("{declared:?}"));
    let detail = format!("the body is declared as {declared}; send content-type: application/json");
    Err(Problem::new(ProblemType::UnsupportedMediaType, detail).into())
}

/// The bytes of a body, as long as they are not too many and not too slow.
pub(super) async fn collect(body: Body) -> Result<Bytes, Refusal> {
    let mut chunks = body.into_data_stream();
    let read = async {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| {
                let detail = format!("the body could not be read: {error}");
                Problem::new(ProblemType::MalformedBody, detail)
            })?;
            if bytes.len() + chunk.len() > MOST_BYTES {
                let detail = format!("the body may have {MOST_BYTES} bytes; send it in parts");
                return Err(Problem::new(ProblemType::BodyTooLarge, detail));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    };
    let in_time = tokio::time::timeout(BODY_TIMEOUT, read)
        .await
        .map_err(|_| {
            let detail = format!("the body did not arrive within {BODY_TIMEOUT:?}");
            Problem::new(ProblemType::MalformedBody, detail)
        })?;
    Ok(in_time?)
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

/// The query of `GET …/read-states`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SinceQuery {
    since: Option<String>,
}

/// The version in `?since=`, if there is one.
pub(super) fn since(
    query: Result<Query<SinceQuery>, QueryRejection>,
) -> Result<Option<u64>, Refusal> {
    let wrong = |detail: String| Refusal::from(Problem::new(ProblemType::BadValue, detail));
    let Query(query) = query.map_err(|rejection| wrong(rejection.body_text()))?;
    let Some(text) = query.since else {
        return Ok(None);
    };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|_| digits)
        .map(Some)
        .ok_or_else(|| {
            wrong(format!(
                "since in the query is {text:?}; give a version as an answer had it"
            ))
        })
}

/// Whether `If-None-Match` names the entity tag.
pub(super) fn none_match(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    values.filter_map(|value| value.to_str().ok()).any(|value| {
        let mut tags = value.split(',').map(str::trim);
        tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    })
}
