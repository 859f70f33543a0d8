//! Database engines, one module each: how a node is queried and told what to do (`LocalNode`), and what else differs
//! ([`Profile`]). A further engine is a module with both, a variant of the spec's `Engine`, and a module of its pods in the
//! operator's `templates::database`.

mod cassandra;
pub(crate) mod pools;
mod profile;
mod scylla;
mod snapshots;

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use async_trait::async_trait;
use thiserror::Error;

pub(crate) use self::pools::Pools;
pub use self::{
    profile::{Line, Profile},
    snapshots::Snapshots,
};
use crate::wire::{self, Facts, Mode, Node, Ranges, UpgradeStep};

/// The node in this pod, by the admin port of its engine.
#[async_trait]
pub(crate) trait LocalNode: Send + Sync {
    /// This node, and the others as it sees them.
    async fn look(&self) -> Result<Look, EngineError>;

    /// What must be known of the whole cluster before a node may join or leave it.
    async fn facts(&self) -> Result<Facts, EngineError>;

    /// Gives this node's data to the others and leaves. Returns when it is done, hours later.
    async fn decommission(&self) -> Result<(), EngineError>;

    /// Drops the data of ranges that other nodes have taken over. Returns when it is done, perhaps hours later.
    async fn cleanup(&self) -> Result<(), EngineError>;

    /// Compares the data of these ranges with the other copies and makes all equal. Returns when it is done, perhaps
    /// hours later, and says how far it is in between.
    async fn repair(
        &self,
        ranges: Ranges,
        progress: &(dyn Fn(String) + Send + Sync),
    ) -> Result<(), EngineError>;

    /// Takes this step of a change to another release. Returns when it is done, perhaps hours later.
    async fn upgrade(&self, step: &UpgradeStep) -> Result<(), EngineError>;

    /// Writes what is in memory to the disk, and goes on serving. Returns when it is done, perhaps minutes later.
    async fn flush(&self) -> Result<(), EngineError>;

    /// Writes what is in memory and serves no more.
    async fn drain(&self) -> Result<(), EngineError>;

    /// What it has under way; nothing where the engine tells Prometheus itself.
    async fn pools(&self) -> Result<Option<Pools>, EngineError>;

    /// Whether the process answers at all, however busy it is.
    async fn alive(&self) -> bool;
}

/// How the node in this pod is reached.
#[derive(Debug)]
pub(crate) struct Access {
    /// Its admin port: JMX, or the REST API.
    pub(crate) admin: SocketAddr,
    /// Where Cassandra's `nodetool` is. ScyllaDB has an API in its place.
    pub(crate) nodetool: PathBuf,
    /// Its address among the others; needed to look at them.
    pub(crate) address: Option<IpAddr>,
}

/// An address as this program writes it: engines have ways of their own to write those of IPv6.
fn canonical(address: &str) -> String {
    let parsed = address.parse::<IpAddr>();
    parsed.map_or_else(|_| address.to_owned(), |ip| ip.to_string())
}

/// What an engine says of itself and of its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The identity it has in the ring; none while it has not joined far enough to have one.
    pub(crate) host_id: Option<String>,
    /// What it is doing.
    pub(crate) mode: Mode,
    /// How far a transfer is, in words.
    pub(crate) progress: Option<String>,
    /// Every node it knows, itself too.
    pub(crate) nodes: Vec<Node>,
}

impl Look {
    /// The identity of a node that sees itself as a member.
    pub(crate) fn serves(&self) -> Option<&str> {
        wire::serves(self.host_id.as_deref(), self.mode, &self.nodes)
    }
}

/// An engine could not be asked, or refused.
#[derive(Debug, Error)]
pub(crate) enum EngineError {
    /// It was not reached.
    #[error("failed to ask the database: {0}")]
    Unreachable(String),
    /// It answered with something else than its documentation says.
    #[error("the database answered {what} that is not understood: {text}")]
    Odd {
        what: &'static str,
        /// The part of the answer.
        text: String,
    },
    /// It refused, in its own words.
    #[error("{0}")]
    Refused(String),
}
