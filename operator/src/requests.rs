//! Counts what this program asks of the API server. In: every request on its way. Out: a counter by verb
//! and kind; the request itself is left as it is.
//!
//! The words are those of Kubernetes' audit log: a path tells the kind, the method and query the verb.

use std::time::Duration;

use http::{Method, Request};
use kube::{Client, Config, client::ClientBuilder};
use tower::util::MapRequestLayer;

use crate::telemetry;

/// How long an answer may be silent: longer than a watch is, which the API server ends before, and an API server that has
/// vanished without a word ends nothing else.
const SILENCE: Duration = Duration::from_secs(295);

/// A client of `config` whose requests are counted, and end.
///
/// # Errors
/// When there cannot be one.
pub fn counted(mut config: Config) -> kube::Result<Client> {
    config.read_timeout = Some(SILENCE);
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&MapRequestLayer::new(count)).build())
}

fn count<B>(request: Request<B>) -> Request<B> {
    let query = request.uri().query().unwrap_or_default();
    let asked = Asked::of(request.method(), request.uri().path(), query);
    telemetry::asked(asked.verb, asked.kind);
    request
}

/// What a request is about.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    verb: &'static str,
    /// The plural of the kind, with the subresource: `readstateclusters/status`. Of what is no resource: its
    /// first folder.
    kind: String,
}

impl Asked {
    fn of(method: &Method, path: &str, query: &str) -> Self {
        let mut rest = path.split('/').filter(|part| !part.is_empty());
        let group = rest.next().unwrap_or_default();
        // /api/v1/… and /apis/GROUP/VERSION/…
        let skipped = match group {
            "api" => rest.nth(0),
            "apis" => rest.nth(1),
            _ => None,
        };
        let mut rest: Vec<_> = rest.collect();
        if skipped.is_none() || rest.is_empty() {
            return Self {
                verb: "get",
                kind: group.to_owned(),
            };
        }
        if rest.len() > 2 && rest[0] == "namespaces" {
            rest.drain(..2);
        }
        let one = rest.len() > 1;
        let kind = match rest.get(2) {
            Some(subresource) => format!("{}/{subresource}", rest[0]),
            None => rest[0].to_owned(),
        };
        let watch = query
            .split('&')
            .any(|q| matches!(q, "watch=true" | "watch=1"));
        let verb = match *method {
            Method::GET if watch => "watch",
            Method::GET if one => "get",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "other",
        };
        Self { verb, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_by_verb_and_kind() {
        for (method, url, expected) in [
            (Method::GET, "/version", "get version"),
            (Method::GET, "/api/v1/pods?watch=true", "watch pods"),
            (
                Method::GET,
                "/api/v1/namespaces/chat/pods?&labelSelector=a%3Db",
                "list pods",
            ),
            (Method::GET, "/api/v1/namespaces/chat/pods/x", "get pods"),
            (Method::GET, "/api/v1/namespaces/chat", "get namespaces"),
            (
                Method::PATCH,
                "/apis/readstates.dev/v1alpha1/namespaces/a/readstateclusters/b/status?force=true",
                "patch readstateclusters/status",
            ),
            (
                Method::POST,
                "/apis/events.k8s.io/v1/namespaces/a/events",
                "create events",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods/b?",
                "delete pods",
            ),
        ] {
            let (path, query) = url.split_once('?').unwrap_or((url, ""));
            let Asked { verb, kind } = Asked::of(&method, path, query);
            assert_eq!(format!("{verb} {kind}"), expected, "{url}");
        }
    }
}
