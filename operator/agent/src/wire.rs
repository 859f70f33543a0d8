//! The JSON between operator and agents: reports and orders.

use std::collections::BTreeMap;

use readstates_api::admin::IdentityStatus;
use serde::{Deserialize, Serialize};

/// Answer of `GET /v1/node`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// UID of the pod that answers: a later pod of the same name has a different one.
    pub pod_uid: String,
    /// Which certificates the agent shows and trusts; agents of the release before have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityStatus>,
    /// How far it is.
    #[serde(flatten)]
    pub phase: Phase,
}

/// How far a database pod is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "phase", rename_all_fields = "camelCase")]
pub enum Phase {
    /// The database has not been started: that needs an order, since only the operator knows whether
    /// a disk like this is a new one or a lost one.
    Waiting {
        /// What is on the disk.
        disk: Disk,
        /// Bytes free on it; agents of the release before do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        free_bytes: Option<u64>,
    },
    /// The database was started and cannot be asked.
    Unreachable { error: String },
    /// The database was asked.
    Running(View),
}

/// What is on the disk of a node.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "disk", rename_all_fields = "camelCase")]
pub enum Disk {
    /// Nothing.
    Blank,
    /// A node that was started on it and has never been seen as a member.
    Begun,
    /// Data that no agent has signed: written before there were agents.
    Unmarked,
    /// The data of this node.
    Known {
        /// Its identity in the ring.
        host_id: String,
        /// The pod that it was signed by, where that was signed, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pod: Option<String>,
    },
}

/// The database as one node sees it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// This node's identity in the ring.
    pub host_id: Option<String>,
    /// What this node is doing.
    pub mode: Mode,
    /// How far a transfer is, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Whether it accepts CQL connections.
    pub cql: bool,
    /// Every node it knows, itself too.
    pub nodes: Vec<Node>,
    /// Bytes free on its disk.
    pub free_bytes: u64,
    /// How old this view is.
    pub age_seconds: u64,
    /// How the decommission is, if one was ordered since the agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decommission: Option<Job>,
    /// Whether the agent can be told to clean up; agents of the release before cannot.
    #[serde(default)]
    pub cleans_up: bool,
    /// How the cleanup is, if one was ordered since the agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<RequestedJob>,
    /// Whether the agent can be told to repair; agents of the release before cannot.
    #[serde(default)]
    pub repairs: bool,
    /// How the repair is, if one was ordered since the agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Box<RequestedJob>>,
    /// Whether the agent can be told the steps of an upgrade; agents of the release before cannot.
    #[serde(default)]
    pub upgrades: bool,
    /// How the step of an upgrade is, if one was ordered since the agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Box<RequestedJob>>,
    /// Whether the agent can be told to flush; agents of the release before cannot.
    #[serde(default)]
    pub flushes: bool,
    /// How the flush is, if one was ordered since the agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<Box<RequestedJob>>,
}

impl View {
    /// The identity of a node that sees itself as a member.
    #[must_use]
    pub fn serves(&self) -> Option<&str> {
        serves(self.host_id.as_deref(), self.mode, &self.nodes)
    }

    /// Why the decommission that was ordered last has failed, if it has.
    #[must_use]
    pub fn decommission_error(&self) -> Option<String> {
        match &self.decommission {
            Some(Job::Failed { error }) => Some(error.clone()),
            Some(Job::Running | Job::Done) | None => None,
        }
    }
}

/// The identity of a node that sees itself as a member: it says so, and is up among the nodes that it knows.
pub(crate) fn serves<'a>(host_id: Option<&'a str>, mode: Mode, nodes: &[Node]) -> Option<&'a str> {
    let own = nodes.iter().find(|n| Some(n.host_id.as_str()) == host_id)?;
    let member = mode == Mode::Normal && own.up && own.state == NodeState::Normal;
    host_id.filter(|_| member)
}

/// What a node is doing.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It starts.
    Starting,
    /// It takes over its share of the data.
    Joining,
    /// It wanted to take over its share of the data and could not.
    JoinFailed,
    /// It serves.
    Normal,
    /// It gives its data away.
    Leaving,
    /// It gave its data away and is no member any more.
    Decommissioned,
    /// It wanted to give its data away and could not.
    DecommissionFailed,
    /// It has written everything and serves no more.
    Drained,
    /// Something else: a word of the engine, or of an agent of a later release, that is not known here.
    #[serde(other)]
    Other,
}

/// A node as another node sees it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its identity in the ring.
    pub host_id: String,
    pub address: String,
    /// Whether it is up.
    pub up: bool,
    /// Its state in the ring.
    pub state: NodeState,
    /// Bytes that it holds, where that is known; 0 on the wire where it is not, which no node holds.
    #[serde(with = "known")]
    pub load_bytes: Option<u64>,
}

/// A number that is 0 where it is not known, as agents of every version say it.
mod known {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(
        clippy::ref_option,
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(super) fn serialize<S: Serializer>(
        number: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        number.unwrap_or_default().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let number = u64::deserialize(deserializer)?;
        Ok((number > 0).then_some(number))
    }
}

/// The state of a node in the ring.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It owns its tokens.
    Normal,
    /// It is about to.
    Joining,
    /// It is about to own none.
    Leaving,
    /// It exchanges them.
    Moving,
    /// A word of an agent of a later release, that is not known here.
    #[serde(other)]
    Other,
}

/// How something long that was ordered is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(tag = "state", rename_all_fields = "camelCase")]
pub enum Job {
    /// On the way.
    Running,
    /// The engine says that it is done.
    Done,
    /// The engine gave up.
    Failed {
        /// Its words.
        error: String,
    },
}

/// How the cleanup, repair or step of an upgrade that was last ordered is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RequestedJob {
    /// Which one, as the order said.
    pub request: String,
    /// How far it is, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    #[serde(flatten)]
    pub job: Job,
}

/// Answer of `GET /v1/facts`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Versions of the schema among the nodes that can be reached, and `UNREACHABLE` where some cannot.
    pub schema_versions: Vec<String>,
    /// Addresses of the nodes that have each of these versions; agents of the release before do not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub schema_nodes: BTreeMap<String, Vec<String>>,
    /// Every keyspace that is spread over nodes.
    pub keyspaces: Vec<Keyspace>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Keyspace {
    pub name: String,
    /// On how many nodes of the one data center each row is kept.
    pub replication_factor: i32,
}

/// Body of `POST /v1/start`: start the database on the disk there is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Start {
    /// The pod that is meant.
    pub pod_uid: String,
    /// Addresses to join by; the pod's own one only where it is the first node of all.
    pub seeds: Vec<String>,
    /// The node whose place it takes, if it takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<Node>,
    /// Nodes that are down and that it must not wait for while it takes that place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_dead: Vec<String>,
}

/// Body of `POST /v1/decommission`: names the node twice, so that no later pod can be meant.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    pub pod_uid: String,
    /// The node.
    pub host_id: String,
}

/// Body of `POST /v1/cleanup`: drop what other nodes have taken over.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cleanup {
    pub pod_uid: String,
    /// The node.
    pub host_id: String,
    /// Which cleanup this is: the same order again begins no second one.
    pub request: String,
}

/// Body of `POST /v1/repair`: compare this node's data with the other copies, and make all equal.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repair {
    pub pod_uid: String,
    /// The node.
    pub host_id: String,
    /// Which repair this is: the same order again begins no second one.
    pub request: String,
    /// Which of the node's data.
    pub ranges: Ranges,
}

/// Body of `POST /v1/flush`: write what is in memory to the disk, and go on serving.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flush {
    pub pod_uid: String,
    /// The node.
    pub host_id: String,
    /// Which flush this is: the same order again begins no second one.
    pub request: String,
}

/// Body of `POST /v1/upgrade`: one step of a change to another release of the engine.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Upgrade {
    pub pod_uid: String,
    /// The node.
    pub host_id: String,
    /// Which step this is: the same order again begins no second one.
    pub request: String,
    /// What the node has to do.
    pub step: UpgradeStep,
}

/// What a node does for a change to another release of its engine.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum UpgradeStep {
    /// Take a snapshot of this name of all its data, in place of an unfinished one.
    Snapshot(String),
    /// Write all data in the format of the release that runs.
    Rewrite,
    /// Remove the snapshot of this name, and what earlier upgrades have left.
    Release(String),
}

/// How the names of all snapshots of upgrades begin.
pub const SNAPSHOTS: &str = "readstates-before-upgrade-from-";

/// Which of a node's data is repaired.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Of what the node is the first replica: once all nodes have done that, all data was repaired once.
    Primary,
    /// All that it has a copy of.
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_not_known_is_zero_on_the_wire_and_is_not_known_after_it() {
        for (load_bytes, wire) in [(None, 0), (Some(7), 7)] {
            let node = Node {
                host_id: "id-1".to_owned(),
                address: "10.0.0.1".to_owned(),
                up: true,
                state: NodeState::Normal,
                load_bytes,
            };
            let json = serde_json::to_value(&node).unwrap();
            assert_eq!(json["loadBytes"], wire);
            assert_eq!(serde_json::from_value::<Node>(json).unwrap(), node);
        }
    }
    #[test]
    fn words_of_an_agent_of_a_later_release_are_no_member_that_serves() {
        let node = |state: &str| {
            serde_json::json!({
                "hostId": "id-1", "address": "10.0.0.1", "up": true, "state": state, "loadBytes": 1
            })
        };
        let view = |mode: &str, state: &str| {
            let json = serde_json::json!({
                "podUid": "uid", "phase": "Running", "hostId": "id-1", "mode": mode, "cql": true,
                "nodes": [node(state)], "freeBytes": 1, "ageSeconds": 0
            });
            match serde_json::from_value::<Report>(json).unwrap().phase {
                Phase::Running(view) => view,
                Phase::Waiting { .. } | Phase::Unreachable { .. } => panic!("{mode} {state}"),
            }
        };
        assert_eq!(view("Normal", "Normal").serves(), Some("id-1"));
        assert_eq!(view("Resting", "Normal").serves(), None);
        assert_eq!(view("Normal", "Resting").serves(), None);
    }
}
