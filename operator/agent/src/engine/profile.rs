//! What differs between the engines, as facts: one [`Profile`] each, which the agent and the operator go by.
//!
//! What its pods are made of is not here but in the operator's `templates::database`, one module each: that takes the spec of a
//! cluster and makes pieces of pods, and an agent knows neither.

use std::fmt;

use readstates_operator_api::Engine;

use super::{Access, LocalNode, cassandra, scylla};
use crate::start::Dialect;

/// What is known of an engine.
#[derive(Debug)]
pub struct Profile {
    /// Its name as an argument of the agent.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The image of its nodes where the operator was started without one.
    pub image: &'static str,
    /// Beginnings of the names of variables that the operator sets in its pods.
    pub variables: &'static [&'static str],
    /// Folders of its container that it needs: nothing is mounted over, in or above them.
    pub folders: &'static [&'static str],
    /// Ports in its pods, beside that of its metrics and those that the pods of every engine have.
    pub ports: &'static [u16],
    /// The superuser of a new database.
    pub superuser: &'static str,
    /// Whether TLS between its nodes is switched on and off by stages while they serve. Where it is not, it is decided when
    /// the cluster is created.
    pub internode_by_stages: bool,
    /// Whether a setting may be one within another, such as `audit_logging_options.enabled`.
    pub inner_settings: bool,
    /// Whether `spec.database.developerMode` means something to it.
    pub developer_mode: bool,
    /// Whether each of its threads keeps a CPU to itself, so that its CPUs are limited to those it asks for.
    pub own_cpus: bool,
    /// Whether it reads a private key in the form PKCS #8 only.
    pub only_pkcs8: bool,
    /// The port of its own metrics; without one, the agent's page has what its tool says.
    pub metrics_port: Option<u16>,
    /// Whether nodes that come back after all were away need a majority of them to come up: then a rack's nodes are started
    /// together.
    pub starts_together: bool,
    /// Whether a node that runs a release of another line is told to write its data in that format.
    pub rewrites: bool,
    /// Whether a node of the first line may get a release of the second one, which is not an earlier one.
    pub may_follow: fn(Line, Line) -> bool,
    /// Makes what queries its node in this pod, and tells it what to do. Fails when an HTTP client cannot be made.
    pub(crate) reach: fn(Access) -> reqwest::Result<Box<dyn LocalNode>>,
    /// Variable of the start file that names the file with the figures of the disk, for an engine that wants some.
    pub(crate) disk_figures: Option<&'static str>,
    /// How the start file says what it is ordered.
    pub(crate) start: Dialect,
}

impl Profile {
    /// That of an engine.
    #[must_use]
    pub fn of(engine: Engine) -> &'static Self {
        match engine {
            Engine::Cassandra => &cassandra::PROFILE,
            Engine::Scylla => &scylla::PROFILE,
        }
    }
}

/// A line of releases whose members read each other's disks: `5.0` of `5.0.9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor } = self;
        write!(f, "{major}.{minor}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_releases_follows_those_that_its_guide_names() {
        use Engine::{Cassandra, Scylla};
        for (engine, old, new, allowed) in [
            (Cassandra, (4, 1), (5, 0), true),
            (Cassandra, (4, 0), (5, 0), true),
            (Cassandra, (3, 11), (5, 0), false),
            (Cassandra, (3, 11), (4, 0), true),
            (Cassandra, (5, 0), (5, 0), true),
            (Scylla, (6, 2), (2025, 1), true),
            (Scylla, (6, 1), (2025, 1), false),
            (Scylla, (6, 1), (6, 2), true),
            (Scylla, (5, 4), (6, 0), true),
            (Scylla, (5, 2), (5, 4), false),
            (Scylla, (2024, 2), (2025, 1), true),
            (Scylla, (2025, 1), (2025, 4), true),
            (Scylla, (2025, 1), (2026, 1), true),
            (Scylla, (2025, 1), (2026, 2), false),
            (Scylla, (2025, 1), (2027, 1), false),
        ] {
            let [old, new] = [old, new].map(|(major, minor)| Line { major, minor });
            let may_follow = Profile::of(engine).may_follow;
            assert_eq!(may_follow(old, new), allowed, "{engine:?} {old} to {new}");
        }
    }
}
