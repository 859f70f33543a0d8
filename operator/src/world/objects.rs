//! What was seen of single objects: StatefulSets, pods, and Jobs.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::api::resource::Quantity};
use readstates_operator_api::labels;

use crate::connections::Peer;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatefulSetSeen {
    /// Pods asked for.
    pub replicas: i32,
    /// Pods that exist.
    pub existing: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Whether its controller has seen its last change and every pod has the current template.
    pub settled: bool,
    /// Hash of what was applied last.
    pub applied_hash: Option<String>,
    /// Whether its controller has seen its last change.
    pub observed: bool,
    /// Ordinal from which pods get the current template.
    pub partition: i32,
    /// What pods made from its template now are labelled with.
    pub update_revision: Option<String>,
    /// Whether pods below the partition are made from that template as well: its last update is complete.
    pub revised: bool,
    /// Hash of the template that it was last given, and of the spec behind that.
    pub template_hash: Option<String>,
    /// See `template_hash`.
    pub spec_hash: Option<String>,
    /// Access modes of its pods' claims, which cannot be changed any more.
    pub access_modes: Vec<String>,
    /// The size at which it makes claims, which cannot be changed any more either.
    pub claim_size: Option<Quantity>,
    pub template: Option<Box<PodTemplateSpec>>,
    /// Whether its pods start all at once; never changed.
    pub parallel: bool,
    /// Its version: a write that names it fails when it was changed meanwhile.
    pub version: Option<String>,
}

impl StatefulSetSeen {
    /// The request that its pods were last restarted for.
    #[must_use]
    pub fn restarted(&self) -> Option<&String> {
        self.annotation(labels::RESTARTED)
    }

    /// What its pods are made for that they have to be replaced for, where it says so.
    #[must_use]
    pub fn replace_hash(&self) -> Option<&String> {
        self.annotation(labels::REPLACE_HASH)
    }

    fn annotation(&self, name: &str) -> Option<&String> {
        let metadata = self.template.as_ref()?.metadata.as_ref()?;
        metadata.annotations.as_ref()?.get(name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSeen {
    pub name: String,
    /// Whether it is on its way out.
    pub terminating: bool,
    /// Whether it is ready.
    pub ready: bool,
    pub ip: Option<String>,
    pub uid: Option<String>,
    /// The revision of the template it was made from.
    pub revision: Option<String>,
    /// Whether it has a node to run on.
    pub scheduled: bool,
    /// The zone of that node, where Kubernetes says it on the pod (1.35 and later).
    pub zone: Option<String>,
    /// Whether there is an agent in it (database only).
    pub has_agent: bool,
    /// Whether the operator reaches its process by mutual TLS; plain HTTP in pods of the release before.
    pub mutual_tls: bool,
    /// How far its super-disk is, if it has one (database only).
    pub disk: Option<DiskStage>,
    /// Whether a process of it runs, for all that is known.
    pub running: bool,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When it must be gone, once it was told to go.
    pub deadline: Option<Timestamp>,
    /// Why it is not ready, in Kubernetes' words.
    pub trouble: Option<String>,
    /// What it was made for that it has to be replaced for, where it says so (cache only).
    pub replace_hash: Option<String>,
    /// The request that it was restarted for.
    pub restarted: Option<String>,
    /// Bytes of memory that are set aside for it (cache only).
    pub memory: Option<u64>,
    /// How it can get those that it lacks, if it lacks nothing else (cache only).
    pub growth: Option<Growth>,
}

impl PodSeen {
    /// How what runs in it is reached.
    ///
    /// # Errors
    /// While it has no address.
    pub fn peer(&self) -> Result<Peer, &'static str> {
        let ip = self.ip.as_deref().and_then(|ip| ip.parse().ok());
        Ok(Peer {
            ip: ip.ok_or("it has no address yet")?,
            mutual_tls: self.mutual_tls,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// Its UID, so that a deletion means this one.
    pub uid: String,
    pub outcome: JobOutcome,
    /// The database and keyspace that are there when it has succeeded.
    pub makes: Option<String>,
}

/// How a Job went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// It is still trying.
    Running {
        /// What keeps its pod.
        trouble: Option<String>,
    },
    /// It did what it should.
    Succeeded,
    /// It gave up.
    Failed {
        at: Timestamp,
        /// Its last words.
        message: String,
    },
    /// It is being deleted.
    Going,
}

/// How a pod that runs can get the memory that its StatefulSet's template asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The API server would take it.
    Possible,
    /// It was asked for, and the node has not given it yet.
    Asked {
        /// When, if anything tells.
        since: Option<Timestamp>,
        /// What the node says.
        words: Option<String>,
    },
    /// It cannot be asked for now, for this reason.
    NotNow(String),
    /// Only by another pod, for this reason.
    Refused(String),
}

/// How far the disk's containers of a pod have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskStage {
    /// They have not been started.
    Before,
    /// The disk is being put together.
    Assembling,
    /// The one that should be running ended like this.
    Ended {
        status: i32,
        /// Its last words.
        said: String,
    },
    AgentRuns,
}
