//! What a request is taken for: which of its headers are believed, to which host it is, and what it asks for.

use http::{HeaderMap, HeaderValue, Method, Uri, Version, header, request::Parts};
use readstates_api::{Problem, ProblemType};

use super::{FORWARDED, INCARNATION, problem::Refusal, route::Resource};
use crate::operation::{Operation, Port};

/// Leaves only those headers that say something where they came in.
pub(super) fn believe(port: Port, headers: &mut HeaderMap) {
    match port {
        // Members speak of other members, and forward once.
        Port::Members => {
            let unnamed = HeaderValue::from_static("unnamed");
            headers.entry(FORWARDED).or_insert(unnamed);
        }
        Port::Api | Port::Admin | Port::Watch => {
            headers.remove(FORWARDED);
            headers.remove(INCARNATION);
        }
    }
}

pub(super) fn routed(port: Port, parts: &Parts) -> Result<(Operation, Resource<'_>), Refusal> {
    is_addressed(parts)?;
    let path = parts.uri.path();
    let resource = Resource::at(port, path).ok_or_else(|| no_route(&parts.uri))?;
    match resource.operation(&parts.method) {
        Ok(operation) => Ok((operation, resource)),
        Err(allow) => Err(no_method(&parts.method, &parts.uri, allow)),
    }
}

/// Refuses a request that does not say once to which host it is, as RFC 9112 (3.2) demands.
fn is_addressed(parts: &Parts) -> Result<(), Refusal> {
    let wrong = |detail: &str| Err(Problem::new(ProblemType::BadValue, detail).into());
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_a_host(host.as_bytes()) => Ok(()),
        (Some(_), None) => wrong("Host is no HOST[:PORT]; give the host of the URL"),
        (Some(_), Some(_)) => wrong("Host is there twice; give it once"),
        (None, _) if parts.version < Version::HTTP_11 => Ok(()),
        (None, _) => wrong("Host is missing; give the host of the URL"),
    }
}

/// Whether there is nothing but what may be in a host and its port; it may be empty.
fn is_a_host(bytes: &[u8]) -> bool {
    let may_be = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte);
    bytes.iter().all(may_be)
}

pub(super) fn no_route(uri: &Uri) -> Refusal {
    let detail = format!(
        "there is nothing at {}; GET /openapi.json lists what there is",
        uri.path()
    );
    Problem::new(ProblemType::NoRoute, detail).into()
}

fn no_method(method: &Method, uri: &Uri, allow: &'static str) -> Refusal {
    let detail = format!("{} does not take {method}", uri.path());
    Refusal::method_not_allowed(detail, allow)
}
