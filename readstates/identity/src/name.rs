//! Roles of processes, names of clusters, and the DNS name made of both.

use std::{fmt, str::FromStr};

use strum::EnumCount;

/// The end of every name; `internal` is reserved for private use.
const SUFFIX: &str = ".readstates.internal";
/// The longest name of a cluster: with role and suffix it stays below the 253 bytes of a DNS name.
const MAX_CLUSTER_LENGTH: usize = 200;
/// The longest part of a DNS name between two dots.
const MAX_LABEL_LENGTH: usize = 63;

/// What a process is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, EnumCount)]
pub enum Role {
    /// A cache process that may own slots.
    Member,
    /// The operator, or a person who acts as one.
    Operator,
    /// The agent beside a database node.
    Agent,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; Self::COUNT] = [Self::Member, Self::Operator, Self::Agent];

    /// The role in lower case: the first label of the DNS name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Operator => "operator",
            Self::Agent => "agent",
        }
    }

    /// The only DNS name in a certificate of this role: `member.CLUSTER.readstates.internal`.
    #[must_use]
    pub fn host(self, cluster: &ClusterName) -> String {
        format!("{}.{cluster}{SUFFIX}", self.as_str())
    }

    /// Whether a process of this role accepts connections.
    pub(crate) const fn serves(self) -> bool {
        match self {
            Self::Member | Self::Agent => true,
            Self::Operator => false,
        }
    }

    /// Whether a process of this role connects to others.
    pub(crate) const fn connects(self) -> bool {
        match self {
            Self::Member | Self::Operator => true,
            Self::Agent => false,
        }
    }

    /// The role and the cluster in a DNS name, if it is such a name.
    pub(crate) fn of_host(host: &str) -> Option<(Self, ClusterName)> {
        let (role, cluster) = host.strip_suffix(SUFFIX)?.split_once('.')?;
        let role = Self::ALL.into_iter().find(|it| it.as_str() == role)?;
        Some((role, cluster.parse().ok()?))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of a cluster: DNS labels in lower case, `NAME.NAMESPACE` in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName(String);

/// A cluster cannot have this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a cluster name; use labels of a-z, 0-9 and '-' with dots between them, for example chat.talk, \
     at most {MAX_CLUSTER_LENGTH} characters"
)]
pub struct BadName(String);

impl FromStr for ClusterName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, BadName> {
        if name.len() <= MAX_CLUSTER_LENGTH && name.split('.').all(is_label) {
            Ok(Self(name.to_owned()))
        } else {
            Err(BadName(name.chars().take(MAX_CLUSTER_LENGTH).collect()))
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_LABEL_LENGTH).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_says_role_and_cluster() {
        let cluster: ClusterName = "chat.talk".parse().unwrap();
        for role in Role::ALL {
            let host = role.host(&cluster);
            assert_eq!(Role::of_host(&host), Some((role, cluster.clone())));
        }
    }

    #[test]
    fn what_is_no_host_of_ours_says_nothing() {
        for host in [
            "",
            "member",
            "member.readstates.internal",
            "member..readstates.internal",
            "boss.chat.talk.readstates.internal",
            "member.chat.talk.readstates.internal.example",
            "member.Chat.readstates.internal",
            "*.chat.talk.readstates.internal",
        ] {
            assert_eq!(Role::of_host(host), None, "{host}");
        }
    }

    #[test]
    fn a_bad_cluster_name_is_refused_with_an_example() {
        for name in [
            "",
            ".",
            "a..b",
            "-a",
            "a-",
            "a_b",
            "A",
            "a b",
            &"a".repeat(64),
        ] {
            let refusal = name.parse::<ClusterName>().unwrap_err().to_string();
            assert!(refusal.contains("for example chat.talk"), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in ".{0,300}") {
            if let Ok(name) = text.parse::<ClusterName>() {
                let host = Role::Member.host(&name);
                prop_assert!(host.len() <= 253);
                prop_assert_eq!(Role::of_host(&host), Some((Role::Member, name)));
            }
        }
    }
}
