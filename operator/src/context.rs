//! What every reconcile shares, whatever its cluster.

use std::sync::Arc;

use kube::{Client, runtime::events::Reporter};

use crate::{
    agents::Agents, backoff::Failures, connections::Connections, known::Known,
    remembered::Remembered, rollouts::Rollouts, spec::Images,
};

#[derive(Clone)]
pub struct Context {
    pub client: Client,
    /// The reporter of events.
    pub reporter: Reporter,
    /// The ways to the pods of each cluster.
    pub connections: Connections,
    /// Asks the agents of database pods, and tells them what to do.
    pub agents: Arc<dyn Agents>,
    /// What the watches have told.
    pub known: Known,
    /// What needs no reading while nothing happens.
    pub remembered: Remembered,
    /// Reconciles that have failed.
    pub failures: Failures,
    /// Which clusters restart pods, and how many may at once.
    pub rollouts: Rollouts,
    /// How many clusters are reconciled at once, at most.
    pub concurrency: u16,
    /// Namespace of the operator's own pod.
    pub namespace: String,
    /// The ClusterRole by which cache pods may have tokens reviewed, where the operator may bind them to it.
    pub token_review_role: Option<String>,
    /// Images for clusters that name none.
    pub images: Images,
}

impl Context {
    /// The same, asking the API server by another client.
    #[must_use]
    pub fn with_client(&self, client: Client) -> Self {
        Self {
            client,
            ..Self::clone(self)
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("images", &self.images)
            .finish_non_exhaustive()
    }
}
