//! Orders to a running node, each of which takes long: leave, clean up, repair, flush, a step of an upgrade. In: the order, which names pod and node.
//! Out: 202 once it is under way, or why it is not. How it ends is told by every report after it.

use std::sync::{Arc, Mutex};

use axum::{Json, extract::State, http::StatusCode};

use super::{Agent, locked};
use crate::{
    engine::EngineError,
    order::{self, Refusal},
    wire::{Cleanup, Flush, Job, Mode, Repair, RequestedJob, Target, Upgrade},
    words::one_line,
};

/// The order to leave.
pub(super) async fn decommission(
    State(agent): State<Arc<Agent>>,
    Json(target): Json<Target>,
) -> Result<StatusCode, Refusal> {
    let common = &agent.common;
    order::check(&target.pod_uid, &common.pod_uid)?;
    if *agent.ordered() == Some(Job::Running) {
        return Ok(StatusCode::ACCEPTED);
    }
    agent.may_leave(&target).await?;
    {
        let mut ordered = agent.ordered();
        if *ordered == Some(Job::Running) {
            return Ok(StatusCode::ACCEPTED);
        }
        *ordered = Some(Job::Running);
    }
    tracing::info!(host_id = target.host_id, "leaving the cluster");
    // Not joined: it ends with the process.
    tokio::spawn(async move {
        let ended = ended(agent.node.decommission().await);
        tracing::info!(?ended, "the decommission ended");
        *agent.ordered() = Some(ended);
    });
    Ok(StatusCode::ACCEPTED)
}

/// The order to drop what other nodes have taken over.
pub(super) async fn cleanup(
    State(agent): State<Arc<Agent>>,
    Json(order): Json<Cleanup>,
) -> Result<StatusCode, Refusal> {
    let Cleanup {
        pod_uid,
        host_id,
        request,
    } = order;
    let may_begin = agent
        .may_begin(&agent.cleanup, &pod_uid, &host_id, &request)
        .await?;
    if may_begin {
        tracing::info!(request, "dropping what other nodes have taken over");
        // Not joined: it ends with the process.
        tokio::spawn(async move {
            let job = ended(agent.node.cleanup().await);
            tracing::info!(request, ?job, "the cleanup ended");
            end(&agent.cleanup, job);
        });
    }
    Ok(StatusCode::ACCEPTED)
}

/// The order to compare this node's data with the other copies.
pub(super) async fn repair(
    State(agent): State<Arc<Agent>>,
    Json(order): Json<Repair>,
) -> Result<StatusCode, Refusal> {
    let Repair {
        pod_uid,
        host_id,
        request,
        ranges,
    } = order;
    let may_begin = agent
        .may_begin(&agent.repair, &pod_uid, &host_id, &request)
        .await?;
    if may_begin {
        tracing::info!(request, ?ranges, "repairing this node's data");
        // Not joined: it ends with the process.
        tokio::spawn(async move {
            let progress = |words: String| {
                if let Some(job) = &mut *locked(&agent.repair) {
                    job.progress = Some(words);
                }
            };
            let job = ended(agent.node.repair(ranges, &progress).await);
            tracing::info!(request, ?job, "the repair ended");
            end(&agent.repair, job);
        });
    }
    Ok(StatusCode::ACCEPTED)
}

/// The order to write what is in memory to the disk.
pub(super) async fn flush(
    State(agent): State<Arc<Agent>>,
    Json(order): Json<Flush>,
) -> Result<StatusCode, Refusal> {
    let Flush {
        pod_uid,
        host_id,
        request,
    } = order;
    let may_begin = agent
        .may_begin(&agent.flush, &pod_uid, &host_id, &request)
        .await?;
    if may_begin {
        tracing::info!(request, "flushing");
        // Not joined: it ends with the process.
        tokio::spawn(async move {
            let job = ended(agent.node.flush().await);
            tracing::info!(request, ?job, "the flush ended");
            end(&agent.flush, job);
        });
    }
    Ok(StatusCode::ACCEPTED)
}

/// The order to take a step of a change to another release.
pub(super) async fn upgrade(
    State(agent): State<Arc<Agent>>,
    Json(order): Json<Upgrade>,
) -> Result<StatusCode, Refusal> {
    let Upgrade {
        pod_uid,
        host_id,
        request,
        step,
    } = order;
    let may_begin = agent
        .may_begin(&agent.upgrade, &pod_uid, &host_id, &request)
        .await?;
    if may_begin {
        let decided_before = locked(&agent.snapshots).begin(&step).err();
        if let Some(error) = decided_before {
            tracing::warn!(request, ?step, "refused a step of an upgrade: {error}");
            end(
                &agent.upgrade,
                Job::Failed {
                    error: error.clone(),
                },
            );
            return Err(conflict(error));
        }
        tracing::info!(request, ?step, "taking a step of an upgrade");
        // Not joined: it ends with the process.
        tokio::spawn(async move {
            let job = ended(agent.node.upgrade(&step).await);
            tracing::info!(request, ?job, "the step of an upgrade ended");
            end(&agent.upgrade, job);
        });
    }
    Ok(StatusCode::ACCEPTED)
}

impl Agent {
    /// What this node is doing, if it is the one that is meant.
    async fn mode_of(&self, host_id: &str) -> Result<Mode, Refusal> {
        let look = self.look(std::time::Duration::ZERO).await.look;
        let look = look.map_err(|e| order::refuse(StatusCode::SERVICE_UNAVAILABLE, e))?;
        if look.host_id.as_deref() != Some(host_id) {
            let own = look.host_id.as_deref().unwrap_or("none yet");
            return Err(conflict(format!(
                "the order is for the node {host_id}, this one is {own}"
            )));
        }
        Ok(look.mode)
    }

    /// Whether this node may be told to leave: it is the one that is meant, and serves.
    async fn may_leave(&self, target: &Target) -> Result<(), Refusal> {
        let mode = self.mode_of(&target.host_id).await?;
        // A node that is told to leave while it still starts fails for ever.
        if !self.cql_open() {
            return Err(conflict("the node does not accept CQL yet".to_owned()));
        }
        match mode {
            Mode::Normal | Mode::DecommissionFailed => Ok(()),
            mode => Err(conflict(format!("the node is {mode:?}"))),
        }
    }

    /// Whether a cleanup, a repair or a step of an upgrade begins now; noted if so. False: it runs already, or is done. Refused, unless the
    /// order is for this pod and this node, and the node serves and stays.
    async fn may_begin(
        &self,
        job: &Mutex<Option<RequestedJob>>,
        pod_uid: &str,
        host_id: &str,
        request: &str,
    ) -> Result<bool, Refusal> {
        order::check(pod_uid, &self.common.pod_uid)?;
        let mode = self.mode_of(host_id).await?;
        if *self.ordered() == Some(Job::Running) {
            return Err(conflict("the node leaves".to_owned()));
        }
        match mode {
            Mode::Normal => begins(job, request),
            mode => Err(conflict(format!("the node is {mode:?}"))),
        }
    }
}

/// Notes that this work begins. False: it runs already, or is done.
fn begins(job: &Mutex<Option<RequestedJob>>, request: &str) -> Result<bool, Refusal> {
    let mut last = locked(job);
    if let Some(last) = &*last {
        let same = last.request == request;
        match &last.job {
            Job::Running | Job::Done if same => return Ok(false),
            Job::Running => {
                let words = format!("an earlier one, {}, still runs", last.request);
                return Err(conflict(words));
            }
            Job::Done | Job::Failed { .. } => {}
        }
    }
    *last = Some(RequestedJob {
        request: request.to_owned(),
        progress: None,
        job: Job::Running,
    });
    Ok(true)
}

fn end(job: &Mutex<Option<RequestedJob>>, ended: Job) {
    if let Some(last) = &mut *locked(job) {
        (last.progress, last.job) = (None, ended);
    }
}

/// How something that the engine was told to do ended.
fn ended(result: Result<(), EngineError>) -> Job {
    match result {
        Ok(()) => Job::Done,
        Err(error) => Job::Failed {
            error: one_line(&error.to_string()),
        },
    }
}

fn conflict(words: String) -> Refusal {
    order::refuse(StatusCode::CONFLICT, words)
}
