//! What is to be done about the database, as data: racks to write, nodes to order about.

use readstates_agent::wire::{Cleanup, Repair, Start, Target, Upgrade};
use readstates_operator_api::{DatabaseNode, DatabaseReplication, DatabaseUpgrade};

use super::DatabaseTrouble;
use crate::world::PodSeen;

/// What to do with the nodes of the database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodesStep {
    /// The records to keep in the status.
    pub records: Vec<DatabaseNode>,
    /// The change to another release of the engine, to keep in the status.
    pub upgrade: Option<DatabaseUpgrade>,
    /// The copies of each read state, to keep in the status.
    pub replication: Option<DatabaseReplication>,
    /// What to tell agents.
    pub orders: Vec<Order>,
    /// Claims of nodes that have left, to delete.
    pub claims_to_delete: Vec<Named>,
    /// Claims that are to ask for more.
    pub claims_to_grow: Vec<Growth>,
    /// Pods that stand in the way of their own cure, to delete.
    pub pods_to_delete: Vec<Named>,
    /// What a person has to cure.
    pub trouble: Option<DatabaseTrouble>,
    /// The name of an update of the pods that waits for consent.
    pub update: Option<String>,
    /// Why the repair in turn does not begin: the pod, and what it waits for.
    pub repair_waits: Option<String>,
}

/// An object to change or to delete: exactly this one, not a later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name in the cluster's namespace.
    pub name: String,
    /// The UID that it must still have.
    pub uid: String,
}

/// A claim that is to ask for more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    pub claim: Named,
    /// The size, as Kubernetes writes quantities.
    pub size: String,
}

/// What an agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start the database on the disk there is.
    Start {
        /// The pod whose agent is told.
        pod: PodSeen,
        /// How it may start.
        order: Start,
    },
    /// Give the data to the other nodes and leave.
    Decommission {
        /// The pod whose agent is told.
        pod: PodSeen,
        /// Which node, by its host ID.
        target: Target,
    },
    /// Drop what other nodes have taken over.
    Cleanup {
        /// The pod whose agent is told.
        pod: PodSeen,
        /// The node, exactly, and which cleanup it is.
        order: Cleanup,
    },
    /// Compare the data with the other copies.
    Repair {
        /// The pod whose agent is told.
        pod: PodSeen,
        /// The node, exactly, and which repair it is.
        order: Repair,
    },
    /// Take a step of a change to another release.
    Upgrade {
        /// The pod whose agent is told.
        pod: PodSeen,
        /// The node, exactly, and which step it is.
        order: Upgrade,
    },
}
