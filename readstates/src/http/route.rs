//! Which operation a request asks for: its path and method, nothing else. Pure.

use http::Method;

use crate::{
    operation::{Operation, Port},
    ownership::PATH,
};

/// Where a member takes frames of forwarded requests, beside the path of hand-offs.
pub(super) const SINGLES: &str = "/internal/v1/singles";

/// What is at a path, with the ids in it as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource<'a> {
    User(&'a str),
    Summary(&'a str),
    ReadStates(&'a str),
    AckBulk(&'a str),
    ReadState(&'a str, &'a str),
    Ack(&'a str, &'a str),
    PinsAck(&'a str, &'a str),
    Mentions,
    Batch,
    Ring,
    Livez,
    Readyz,
    Metrics,
    Openapi,
    AdminStatus,
    AdminFlush,
    AdminCapacity,
    AdminMoves,
    AdminDrain,
    Handoff,
    Singles,
}

impl<'a> Resource<'a> {
    /// What is at this path.
    pub(super) fn at(port: Port, path: &'a str) -> Option<Self> {
        match (port, path) {
            (Port::Api, "/v1/ring") => Some(Self::Ring),
            (Port::Api, "/openapi.json") => Some(Self::Openapi),
            (Port::Members, PATH) => Some(Self::Handoff),
            (Port::Members, SINGLES) => Some(Self::Singles),
            (Port::Api | Port::Members, path) => Self::of_users(path),
            (Port::Admin, "/admin/v1/status") => Some(Self::AdminStatus),
            (Port::Admin, "/admin/v1/flush") => Some(Self::AdminFlush),
            (Port::Admin, "/admin/v1/capacity") => Some(Self::AdminCapacity),
            (Port::Admin, "/admin/v1/moves") => Some(Self::AdminMoves),
            (Port::Admin, "/admin/v1/drain") => Some(Self::AdminDrain),
            (Port::Watch, "/livez") => Some(Self::Livez),
            (Port::Watch, "/readyz") => Some(Self::Readyz),
            (Port::Watch, "/metrics") => Some(Self::Metrics),
            (Port::Admin | Port::Watch, _) => None,
        }
    }

    /// What clients ask for and members forward.
    fn of_users(path: &'a str) -> Option<Self> {
        let Some(rest) = path.strip_prefix("/v1/users/") else {
            return match path {
                "/v1/mentions" => Some(Self::Mentions),
                "/v1/batch" => Some(Self::Batch),
                _ => None,
            };
        };
        let (user, rest) = rest.split_once('/').unwrap_or((rest, ""));
        if user.is_empty() {
            return None;
        }
        let Some(rest) = rest.strip_prefix("read-states") else {
            return match rest {
                // A slash at the end is another path.
                "" if !path.ends_with('/') => Some(Self::User(user)),
                "summary" => Some(Self::Summary(user)),
                _ => None,
            };
        };
        let rest = match rest {
            "" => return Some(Self::ReadStates(user)),
            "/ack-bulk" => return Some(Self::AckBulk(user)),
            rest => rest.strip_prefix('/')?,
        };
        let (channel, rest) = rest
            .split_once('/')
            .map_or((rest, None), |(a, b)| (a, Some(b)));
        match rest {
            _ if channel.is_empty() => None,
            None => Some(Self::ReadState(user, channel)),
            Some("ack") => Some(Self::Ack(user, channel)),
            Some("pins/ack") => Some(Self::PinsAck(user, channel)),
            Some(_) => None,
        }
    }

    /// The operation of a method here. `HEAD` is allowed where `GET` is.
    ///
    /// # Errors
    /// For a method that is none here: those that are, as `Allow` has them.
    pub(super) fn operation(self, method: &Method) -> Result<Operation, &'static str> {
        let get = *method == Method::GET || *method == Method::HEAD;
        let post = *method == Method::POST;
        let delete = *method == Method::DELETE;
        let (operation, allow) = match self {
            Self::User(_) => (delete.then_some(Operation::DeleteUser), "DELETE"),
            Self::Summary(_) => (get.then_some(Operation::Summary), "GET,HEAD"),
            Self::ReadStates(_) => (get.then_some(Operation::List), "GET,HEAD"),
            Self::AckBulk(_) => (post.then_some(Operation::AckBulk), "POST"),
            Self::ReadState(..) if delete => (Some(Operation::Delete), ""),
            Self::ReadState(..) => (get.then_some(Operation::Get), "GET,HEAD,DELETE"),
            Self::Ack(..) => (post.then_some(Operation::Ack), "POST"),
            Self::PinsAck(..) => (post.then_some(Operation::AckPins), "POST"),
            Self::Mentions => (post.then_some(Operation::Mention), "POST"),
            Self::Batch => (post.then_some(Operation::Batch), "POST"),
            Self::Ring => (get.then_some(Operation::Ring), "GET,HEAD"),
            Self::Livez => (get.then_some(Operation::Livez), "GET,HEAD"),
            Self::Readyz => (get.then_some(Operation::Readyz), "GET,HEAD"),
            Self::Metrics => (get.then_some(Operation::Metrics), "GET,HEAD"),
            Self::Openapi => (get.then_some(Operation::Openapi), "GET,HEAD"),
            Self::AdminStatus => (get.then_some(Operation::AdminStatus), "GET,HEAD"),
            Self::AdminFlush => (post.then_some(Operation::AdminFlush), "POST"),
            Self::AdminCapacity => {
                let put = *method == Method::PUT;
                (put.then_some(Operation::AdminSetCapacity), "PUT")
            }
            Self::AdminMoves => (post.then_some(Operation::AdminMove), "POST"),
            Self::AdminDrain => (post.then_some(Operation::AdminDrain), "POST"),
            Self::Handoff => (post.then_some(Operation::Handoff), "POST"),
            Self::Singles => (post.then_some(Operation::Singles), "POST"),
        };
        operation.ok_or(allow)
    }

    /// The ids in the path as they were written: the user, the channel.
    pub(super) fn ids(self) -> (Option<&'a str>, Option<&'a str>) {
        match self {
            Self::User(user)
            | Self::Summary(user)
            | Self::ReadStates(user)
            | Self::AckBulk(user) => (Some(user), None),
            Self::ReadState(user, channel)
            | Self::Ack(user, channel)
            | Self::PinsAck(user, channel) => (Some(user), Some(channel)),
            Self::Mentions
            | Self::Batch
            | Self::Ring
            | Self::Livez
            | Self::Readyz
            | Self::Metrics
            | Self::Openapi
            | Self::AdminStatus
            | Self::AdminFlush
            | Self::AdminCapacity
            | Self::AdminMoves
            | Self::AdminDrain
            | Self::Handoff
            | Self::Singles => (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;

    /// The ports at which an operation is.
    fn ports(operation: Operation) -> &'static [Port] {
        match operation {
            Operation::List
            | Operation::Get
            | Operation::Summary
            | Operation::Ack
            | Operation::AckPins
            | Operation::AckBulk
            | Operation::Delete
            | Operation::DeleteUser
            | Operation::Mention
            | Operation::Batch => &[Port::Api, Port::Members],
            Operation::Ring | Operation::Openapi => &[Port::Api],
            Operation::Livez | Operation::Readyz | Operation::Metrics => &[Port::Watch],
            Operation::AdminStatus
            | Operation::AdminFlush
            | Operation::AdminSetCapacity
            | Operation::AdminMove
            | Operation::AdminDrain => &[Port::Admin],
            Operation::Handoff | Operation::Singles => &[Port::Members],
            Operation::Unrouted => &[],
        }
    }

    #[test]
    fn every_operation_is_found_at_its_own_ports_and_at_no_other() {
        for &operation in Operation::ALL {
            let path = operation
                .route()
                .replace("{user}", "12")
                .replace("{channel}", "34");
            for &port in Port::VARIANTS {
                let resource = Resource::at(port, &path);
                if !ports(operation).contains(&port) {
                    assert_eq!(resource, None, "{path} at {port:?}");
                    continue;
                }
                let resource = resource.unwrap();
                let method = operation.method().parse().unwrap();
                assert_eq!(resource.operation(&method), Ok(operation), "{path}");
                let (user, channel) = resource.ids();
                assert_eq!(user.is_some(), operation.route().contains("{user}"));
                assert_eq!(channel.is_some(), operation.route().contains("{channel}"));
                assert!(user.is_none_or(|user| user == "12"));
                assert!(channel.is_none_or(|channel| channel == "34"));
            }
        }
    }

    #[test]
    fn what_is_nearly_a_path_is_none() {
        for path in [
            "",
            "/",
            "/v1",
            "/v1/users",
            "/v1/users/",
            "/v1/users//read-states",
            "/v1/users/1/",
            "/v1/users/1/read-state",
            "/v1/users/1/read-statesx",
            "/v1/users/1/read-states/",
            "/v1/users/1/read-states/2/",
            "/v1/users/1/read-states/2/acks",
            "/v1/users/1/read-states/2/pins",
            "/v1/users/1/read-states/2/ack/3",
            "/v1/users/1/read-states//ack",
            "/v1/users/1/summary/",
            "/v1/mentions/",
            "/livez/x",
        ] {
            for &port in Port::VARIANTS {
                assert_eq!(Resource::at(port, path), None, "{path}");
            }
        }
    }

    #[test]
    fn another_method_is_told_those_that_are() {
        let state = Resource::ReadState("1", "2");
        assert_eq!(state.operation(&Method::PATCH), Err("GET,HEAD,DELETE"));
        assert_eq!(state.operation(&Method::HEAD), Ok(Operation::Get));
        assert_eq!(Resource::Batch.operation(&Method::GET), Err("POST"));
    }
}
