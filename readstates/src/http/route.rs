//! Which operation a request asks for: its path and method, nothing else. Pure.

use http::Method;

use crate::ownership::PATH;

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
}

/// Where a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// From clients, members and probes.
    Public,
    /// From the operator.
    Admin,
}

macro_rules! operations {
    ($($variant:ident = ($method:literal, $route:literal, $class:ident),)+) => {
        /// What is done, without the data: what limits and metrics go by.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Operation {
            $($variant,)+
        }

        impl Operation {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The method, as a metric label.
            pub(crate) fn method(self) -> &'static str {
                match self {
                    $(Self::$variant => $method,)+
                }
            }

            /// The path with names for the ids, as a metric label.
            pub(crate) fn route(self) -> &'static str {
                match self {
                    $(Self::$variant => $route,)+
                }
            }

            /// The limit that it comes under.
            pub(crate) fn class(self) -> Class {
                match self {
                    $(Self::$variant => Class::$class,)+
                }
            }
        }
    };
}

operations! {
    List = ("GET", "/v1/users/{user}/read-states", Reads),
    Get = ("GET", "/v1/users/{user}/read-states/{channel}", Reads),
    Summary = ("GET", "/v1/users/{user}/summary", Reads),
    Ack = ("POST", "/v1/users/{user}/read-states/{channel}/ack", Changes),
    AckPins = ("POST", "/v1/users/{user}/read-states/{channel}/pins/ack", Changes),
    AckBulk = ("POST", "/v1/users/{user}/read-states/ack-bulk", Changes),
    Delete = ("DELETE", "/v1/users/{user}/read-states/{channel}", Changes),
    DeleteUser = ("DELETE", "/v1/users/{user}", Changes),
    Mention = ("POST", "/v1/mentions", Mentions),
    Batch = ("POST", "/v1/batch", Batches),
    Ring = ("GET", "/v1/ring", RingWaiters),
    Livez = ("GET", "/livez", Open),
    Readyz = ("GET", "/readyz", Open),
    Metrics = ("GET", "/metrics", Open),
    Openapi = ("GET", "/openapi.json", Open),
    AdminStatus = ("GET", "/admin/v1/status", Open),
    AdminFlush = ("POST", "/admin/v1/flush", Open),
    AdminSetCapacity = ("PUT", "/admin/v1/capacity", Open),
    AdminMove = ("POST", "/admin/v1/moves", Open),
    AdminDrain = ("POST", "/admin/v1/drain", Open),
    Handoff = ("POST", "/internal/v1/handoff", Open),
    Unrouted = ("other", "unmatched", Open),
}

/// Operations that share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Reads,
    Changes,
    Batches,
    Mentions,
    /// Only those that wait.
    RingWaiters,
    /// What must answer also when everything else is at its limit.
    Open,
}

impl<'a> Resource<'a> {
    /// What is at this path.
    pub(super) fn at(port: Port, path: &'a str) -> Option<Self> {
        match port {
            Port::Public => Self::at_public(path),
            Port::Admin => match path {
                "/admin/v1/status" => Some(Self::AdminStatus),
                "/admin/v1/flush" => Some(Self::AdminFlush),
                "/admin/v1/capacity" => Some(Self::AdminCapacity),
                "/admin/v1/moves" => Some(Self::AdminMoves),
                "/admin/v1/drain" => Some(Self::AdminDrain),
                _ => None,
            },
        }
    }

    fn at_public(path: &'a str) -> Option<Self> {
        let Some(rest) = path.strip_prefix("/v1/users/") else {
            return match path {
                "/v1/mentions" => Some(Self::Mentions),
                "/v1/batch" => Some(Self::Batch),
                "/v1/ring" => Some(Self::Ring),
                "/livez" => Some(Self::Livez),
                "/readyz" => Some(Self::Readyz),
                "/metrics" => Some(Self::Metrics),
                "/openapi.json" => Some(Self::Openapi),
                PATH => Some(Self::Handoff),
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

    /// What a method does here. Whoever may `GET` may `HEAD`.
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
            | Self::Handoff => (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_at_its_own_route() {
        for &operation in Operation::ALL {
            if operation == Operation::Unrouted {
                continue;
            }
            let path = operation
                .route()
                .replace("{user}", "12")
                .replace("{channel}", "34");
            let admin = path.starts_with("/admin");
            let (port, other) = if admin {
                (Port::Admin, Port::Public)
            } else {
                (Port::Public, Port::Admin)
            };
            let resource = Resource::at(port, &path).unwrap();
            let method = operation.method().parse().unwrap();
            assert_eq!(resource.operation(&method), Ok(operation), "{path}");
            assert_eq!(Resource::at(other, &path), None, "{path}");
            let (user, channel) = resource.ids();
            assert_eq!(user.is_some(), operation.route().contains("{user}"));
            assert_eq!(channel.is_some(), operation.route().contains("{channel}"));
            assert!(user.is_none_or(|user| user == "12"));
            assert!(channel.is_none_or(|channel| channel == "34"));
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
            assert_eq!(Resource::at(Port::Public, path), None, "{path}");
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
