//! Database engines, as the agent beside them queries them: one trait, one module for each engine. The differences in
//! the objects built for an engine are in `templates::database`, one module each as well.

mod cassandra;
mod pools;
mod scylla;
mod snapshots;

use std::{future::Future, net::IpAddr};

use thiserror::Error;

pub use self::{
    cassandra::Cassandra,
    pools::{Pool, Pools},
    scylla::Scylla,
    snapshots::Snapshots,
};
use crate::wire::{self, Facts, Mode, Node, Ranges, UpgradeStep};

/// An engine, as seen from inside the pod of one of its nodes.
pub trait Engine: Send + Sync + 'static {
    /// This node, and the others as it sees them.
    fn look(&self) -> impl Future<Output = Result<Look, EngineError>> + Send;

    /// What must be known of the whole cluster before a node may join or leave it.
    fn facts(&self) -> impl Future<Output = Result<Facts, EngineError>> + Send;

    /// Gives this node's data to the others and leaves. Returns when it is done, hours later.
    fn decommission(&self) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Drops the data of ranges that other nodes have taken over. Returns when it is done, perhaps hours later.
    fn cleanup(&self) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Compares the data of these ranges with the other copies and makes all equal. Returns when it is done, perhaps
    /// hours later, and says how far it is in between.
    fn repair(
        &self,
        ranges: Ranges,
        progress: &(dyn Fn(String) + Send + Sync),
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Takes this step of a change to another release. Returns when it is done, perhaps hours later.
    fn upgrade(&self, step: &UpgradeStep) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Writes what is in memory and serves no more.
    fn drain(&self) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// What it has under way; nothing where the engine tells Prometheus itself.
    fn pools(&self) -> impl Future<Output = Result<Option<Pools>, EngineError>> + Send;

    /// Whether the process answers at all, however busy it is.
    fn alive(&self) -> impl Future<Output = bool> + Send;
}

/// An address as this program writes it: engines have ways of their own to write those of IPv6.
fn canonical(address: &str) -> String {
    let parsed = address.parse::<IpAddr>();
    parsed.map_or_else(|_| address.to_owned(), |ip| ip.to_string())
}

/// What an engine says of itself and of its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The identity it has in the ring; none while it has not joined far enough to have one.
    pub host_id: Option<String>,
    /// What it is doing.
    pub mode: Mode,
    /// How far a transfer is, in words.
    pub progress: Option<String>,
    /// Every node it knows, itself too.
    pub nodes: Vec<Node>,
}

impl Look {
    /// The identity of a node that sees itself as a member.
    #[must_use]
    pub fn serves(&self) -> Option<&str> {
        wire::serves(self.host_id.as_deref(), self.mode, &self.nodes)
    }
}

/// An engine could not be asked, or refused.
#[derive(Debug, Error)]
pub enum EngineError {
    /// It was not reached.
    #[error("failed to ask the database: {0}")]
    Unreachable(String),
    /// It answered with something else than its documentation says.
    #[error("the database answered {what} that is not understood: {text}")]
    Odd {
        /// What was asked.
        what: &'static str,
        /// The part of the answer.
        text: String,
    },
    /// It refused, in its own words.
    #[error("{0}")]
    Refused(String),
}
