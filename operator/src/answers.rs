//! Answers of pods, read up to a bound: anybody who may run a pod can have it answer without an end. In: a response, and
//! how long the answer may be. Out: what it says, or why that is not known.

use reqwest::Response;
use serde::de::DeserializeOwned;

/// Characters that are kept of what is not an answer: enough for a problem's detail.
const LONGEST_WORDS: usize = 400;
/// Bytes of the longest character in UTF-8.
const LONGEST_CHAR: usize = 4;

/// Why an answer is not known.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// Less than all of it came.
    #[error("its answer broke off")]
    Broken(#[source] reqwest::Error),
    /// It was not read to its end.
    #[error("its answer is longer than {longest} bytes")]
    TooLong { longest: usize },
    /// It says something else.
    #[error("its answer is not what it should be")]
    Other(#[source] serde_json::Error),
}

/// The answer, of at most `longest` bytes of JSON.
///
/// # Errors
/// When it is longer, breaks off, or says something else.
pub async fn json<T: DeserializeOwned>(
    mut response: Response,
    longest: usize,
) -> Result<T, Unread> {
    let broken = |error: reqwest::Error| Unread::Broken(error.without_url());
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(broken)? {
        if body.len() + part.len() > longest {
            return Err(Unread::TooLong { longest });
        }
        body.extend_from_slice(&part);
    }
    serde_json::from_slice(&body).map_err(Unread::Other)
}

/// The beginning of what is not an answer.
pub async fn words(mut response: Response) -> String {
    let mut body = Vec::new();
    while body.len() < LONGEST_WORDS * LONGEST_CHAR
        && let Ok(Some(part)) = response.chunk().await
    {
        body.extend_from_slice(&part);
    }
    let text = String::from_utf8_lossy(&body);
    text.trim().chars().take(LONGEST_WORDS).collect()
}

/// Processes that answer on loopback, each at an address of its own.
#[cfg(test)]
pub(crate) mod fixtures {
    use std::{convert::Infallible, net::SocketAddr};

    use axum::{
        Router,
        body::{Body, Bytes},
        http::{StatusCode, header::LOCATION},
        response::{IntoResponse as _, Response},
    };
    use futures::stream;
    use tokio::net::TcpListener;

    /// One that gives this answer to every request, until the test ends.
    pub(crate) async fn answering(
        ip: &str,
        port: u16,
        answer: impl Fn() -> Response + Clone + Send + Sync + 'static,
    ) {
        let address = SocketAddr::new(ip.parse().unwrap(), port);
        let listener = TcpListener::bind(address).await.unwrap();
        let app = Router::new().fallback(move || {
            let answer = answer();
            async move { answer }
        });
        // Not joined: it ends with the test.
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
    }

    /// An answer that never ends.
    pub(crate) fn endless(status: StatusCode) -> Response {
        const PART: &[u8] = &[b'x'; 4096];
        let parts = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(PART)));
        (status, Body::from_stream(parts)).into_response()
    }

    /// An answer that it is to be had there.
    pub(crate) fn elsewhere(url: &str) -> Response {
        (StatusCode::FOUND, [(LOCATION, url)]).into_response()
    }
}
