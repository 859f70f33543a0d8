//! What is to be done about the database, as data: racks to write, nodes to order about.

use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::api::resource::Quantity};
use readstates_operator_api::{DatabaseNode, DatabaseUpgrade};

use super::DatabaseTrouble;
use crate::{
    engine::{Cleanup, Repair, Start, Target, Upgrade},
    observe::{PodSeen, StatefulSetSeen},
};

/// A rack's StatefulSet as it may be written now.
#[derive(Clone, Debug, PartialEq)]
pub struct RackStep {
    /// Which rack, by its name in the spec.
    pub rack: String,
    /// Members it may have now.
    pub members: i32,
    /// Ordinal from which members get the template.
    pub partition: i32,
    /// What its pods are to be made from.
    pub template: Template,
    /// The request that its pods are restarted for.
    pub restarted: Option<String>,
    /// Whether its pods start all at once; never changed.
    pub parallel: bool,
    /// The size at which it makes claims, if it is there; never changed.
    pub claim_size: Option<Quantity>,
    /// The version of the StatefulSet that this was decided by; `None`: there was none.
    pub version: Option<String>,
}

/// A template of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Template {
    /// The one that the spec and this operator come to.
    #[default]
    Wanted,
    /// The one that is there: the other one has to wait.
    Held {
        /// The template as the StatefulSet has it.
        template: Box<PodTemplateSpec>,
        /// Its hash, if it had one.
        template_hash: Option<String>,
        /// Hash of the spec that it was made for.
        spec_hash: Option<String>,
    },
}

impl Template {
    /// The one that this StatefulSet has.
    pub(in crate::plan) fn as_seen(set: &StatefulSetSeen) -> Self {
        set.template
            .clone()
            .map_or(Self::Wanted, |template| Self::Held {
                template,
                template_hash: set.template_hash.clone(),
                spec_hash: set.spec_hash.clone(),
            })
    }
}

/// What to do with the nodes of the database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodesStep {
    /// The records to keep in the status.
    pub records: Vec<DatabaseNode>,
    /// The change to another release of the engine, to keep in the status.
    pub upgrade: Option<DatabaseUpgrade>,
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
    /// Which.
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
