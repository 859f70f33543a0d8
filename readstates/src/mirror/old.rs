//! The old system, as a proxy asks it: requests and answers unchanged, but for what is about one connection only.

use std::{fs, path::Path, time::Duration};

use http::{HeaderMap, HeaderName, Method, Response, header, request::Parts, uri::PathAndQuery};
use reqwest::{Certificate, Url, redirect::Policy};

use super::error::MirrorError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than servers keep idle connections (5 s and more), so that no request is written into one that is just being
/// closed.
const POOL_IDLE: Duration = Duration::from_secs(3);

/// Headers about one connection (RFC 9110 §7.6.1). `Expect` is answered by this process itself.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

pub(super) struct Old {
    client: reqwest::Client,
    /// Without a slash at the end.
    origin: String,
}

/// A request without its body. It has what callers prove themselves with, so it is never printed.
#[derive(Clone)]
pub(super) struct Head {
    pub(super) method: Method,
    target: PathAndQuery,
    pub(super) headers: HeaderMap,
}

impl Head {
    /// What of a request is passed on; `None`: it has no path, and is for a proxy of another kind.
    pub(super) fn of(parts: Parts) -> Option<Self> {
        let target = parts.uri.into_parts().path_and_query?;
        target.path().starts_with('/').then(|| Self {
            method: parts.method,
            target,
            headers: end_to_end(parts.headers),
        })
    }

    pub(super) fn path(&self) -> &str {
        self.target.path()
    }

    pub(super) fn query(&self) -> Option<&str> {
        self.target.query()
    }

    /// Asks for an answer that is not compressed, which can be compared.
    pub(super) fn uncompressed(mut self) -> Self {
        self.headers.remove(header::ACCEPT_ENCODING);
        self
    }
}

impl Old {
    pub(super) fn new(url: &str, ca_file: Option<&Path>) -> Result<Self, MirrorError> {
        let wrong = || MirrorError::Old(url.to_owned());
        let parsed = Url::parse(url).map_err(|_| wrong())?;
        let plain = matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
        let bare = parsed.path() == "/" && parsed.query().is_none() && parsed.fragment().is_none();
        if !plain || !bare || !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong());
        }
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE)
            .tcp_nodelay(true);
        let client = match ca_file {
            Some(file) => {
                let read = fs::read(file).map_err(|source| MirrorError::CaFile {
                    file: file.to_owned(),
                    source,
                })?;
                client.tls_certs_only(Certificate::from_pem_bundle(&read)?)
            }
            // The certificates of the system are read for TLS alone.
            None if parsed.scheme() == "http" => client.tls_certs_only([]),
            None => client,
        };
        Ok(Self {
            client: client.build()?,
            origin: parsed.as_str().trim_end_matches('/').to_owned(),
        })
    }

    /// Sends a request and returns the head of the answer. There is no limit to how long that takes: the caller's own
    /// counts.
    pub(super) async fn send(
        &self,
        head: &Head,
        body: Option<reqwest::Body>,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let repeats = body.is_none() && head.method.is_safe();
        let sent = self.once(head, body).await;
        match sent {
            // The connection was closed while the request was on its way; nothing is changed by asking again.
            Err(error) if repeats && !error.is_connect() && !error.is_builder() => {
                self.once(head, None).await
            }
            sent => sent,
        }
    }

    async fn once(
        &self,
        head: &Head,
        body: Option<reqwest::Body>,
    ) -> Result<reqwest::Response, reqwest::Error> {
        let url = format!("{}{}", self.origin, head.target);
        let request = self.client.request(head.method.clone(), url);
        let request = request.headers(head.headers.clone());
        match body {
            Some(body) => request.body(body).send().await,
            None => request.send().await,
        }
    }
}

/// The head of an answer, to be passed on, and its body.
pub(super) fn parted(answer: reqwest::Response) -> (Response<()>, reqwest::Body) {
    let mut head = Response::new(());
    *head.status_mut() = answer.status();
    *head.headers_mut() = end_to_end(answer.headers().clone());
    (head, answer.into())
}

/// Headers that are for the other end.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    let named = headers.get_all(header::CONNECTION).iter();
    let named = named.filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> = named
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_a_connection_stays_on_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-One"),
            ("x-one", "1"),
            ("transfer-encoding", "chunked"),
            ("authorization", "secret"),
            ("cookie", "a=b"),
            ("host", "chat"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let kept = end_to_end(headers);
        let mut names: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "cookie", "host"]);
    }

    #[test]
    fn the_old_system_is_an_origin() {
        for url in [
            "chat:80",
            "ftp://chat",
            "http://chat/api",
            "http://chat/?a=b",
            "http://a:b@chat",
            "",
        ] {
            assert!(Old::new(url, None).is_err(), "{url}");
        }
        assert_eq!(
            Old::new("http://chat:81/", None).unwrap().origin,
            "http://chat:81"
        );
    }
}
