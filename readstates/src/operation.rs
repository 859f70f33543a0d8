//! What can be asked of a member, and at which of its ports: what requests are routed, limited and counted by. Pure.

use readstates_api::Id;
use strum::{EnumCount, IntoStaticStr, VariantArray};

/// Where a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Port {
    /// Clients.
    Api,
    /// The operator.
    Admin,
    /// The other members: requests they forward, and slots they hand on.
    Members,
    /// Probes and Prometheus.
    Watch,
}

impl Port {
    /// As a metric label.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
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

            /// The path with these ids in the places of their names.
            pub(crate) fn path(self, user: Id, channel: Option<Id>) -> String {
                let path = self.route().replace("{user}", &user.to_string());
                match channel {
                    Some(channel) => path.replace("{channel}", &channel.to_string()),
                    None => path,
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
    Singles = ("POST", "/internal/v1/singles", Open),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_of_ids_alone() {
        let (user, channel) = ("12".parse().unwrap(), "34".parse().unwrap());
        let path = Operation::AckPins.path(user, Some(channel));
        assert_eq!(path, "/v1/users/12/read-states/34/pins/ack");
        assert_eq!(Operation::DeleteUser.path(user, None), "/v1/users/12");
    }
}
