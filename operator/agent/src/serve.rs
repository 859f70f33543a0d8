//! Beside the running database: answers for it, signs its disk, and lets it leave when told to.
//!
//! The engine is asked now and then, since a question may cost as much as a JVM; an answer is handed out with
//! its age, and the operator, when it needs a younger one, says so (`GET /v1/node?max_age=SECONDS`). One question at
//! a time, and none more often than every two seconds but before a decommission.

mod orders;

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    routing::{get, post},
};
use readstates_identity::Identity;
use serde::Deserialize;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use crate::{
    args::{Common, ServeArgs},
    disk,
    engine::{Access, LocalNode, Look, Pools, Profile, Snapshots},
    listen::listen,
    metrics, mutual,
    order::{self, Refusal},
    sockets,
    wire::{Facts, Job, Mode, Phase, Report, RequestedJob, View},
};

/// Interval of the looks that the probes rely on.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const AT_REST: Duration = Duration::from_secs(30);
/// How long a node that said it serves is taken at its word, however busy it is.
const STALE: Duration = Duration::from_secs(150);
/// Interval at which thread pools are queried, while metrics are collected.
const POOLS_EVERY: Duration = Duration::from_secs(60);
/// Pause between queries of the engine that outside requests cause: each may start a JVM.
const FRESH: Duration = Duration::from_secs(2);

/// Serves until SIGTERM.
///
/// # Errors
/// When the address cannot be listened on.
pub(super) async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let ServeArgs {
        common,
        nodetool,
        admin,
        cql_port,
        watch_listen,
    } = args;
    let access = Access {
        admin,
        nodetool,
        address: Some(common.address),
    };
    let node = (Profile::of(common.engine).reach)(access)?;
    let probes =
        listen(watch_listen).with_context(|| format!("failed to listen on {watch_listen}"))?;
    let mut terminate = signal(SignalKind::terminate()).context("failed to wait for SIGTERM")?;
    let agent = Arc::new(Agent::new(node, common, cql_port));
    // Both end with the process; nothing waits for them.
    tokio::spawn(watch(agent.clone()));
    let probed = axum::serve(probes, probed(agent.clone()));
    tokio::spawn(async move { probed.await });
    // Cancel-safe on both sides: whichever is dropped has only waited.
    let identity = tokio::select! {
        identity = mutual::identity(&agent.common.identity) => identity,
        _ = terminate.recv() => return Ok(()),
    };
    let operators = mutual::listen(agent.common.listen, &identity).await?;
    let identity = agent.identity.get_or_init(|| identity);
    tracing::info!(certificate = %identity.mark(), "the operator is answered");
    axum::serve(operators, router(agent))
        .with_graceful_shutdown(async move {
            terminate.recv().await;
        })
        .await
        .context("failed to serve")
}

struct Agent {
    node: Box<dyn LocalNode>,
    common: Common,
    cql_port: u16,
    /// Held while the engine is queried.
    asking: tokio::sync::Mutex<()>,
    /// None until the certificates can be used.
    identity: OnceLock<Arc<Identity>>,
    /// The last facts; locked while they are queried.
    facts: tokio::sync::Mutex<Option<(Instant, Facts)>>,
    seen: Mutex<Option<Seen>>,
    /// When the question was asked that the engine last answered with "this node serves", if it has not said otherwise
    /// since.
    served: Mutex<Option<Instant>>,
    decommission: Mutex<Option<Job>>,
    cleanup: Mutex<Option<RequestedJob>>,
    repair: Mutex<Option<RequestedJob>>,
    upgrade: Mutex<Option<RequestedJob>>,
    /// How the flush is that was ordered last.
    flush: Mutex<Option<RequestedJob>>,
    /// The snapshots that steps of upgrades have taken and removed.
    snapshots: Mutex<Snapshots>,
    /// The last ones, and when they were asked for.
    pools: Mutex<Option<Pools>>,
    /// Held while they are queried.
    pools_asked: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Seen {
    at: Instant,
    look: Result<Look, String>,
}

async fn watch(agent: Arc<Agent>) {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut at_rest = false;
    loop {
        ticks.tick().await;
        let max_age = if at_rest {
            AT_REST
        } else {
            LOOK_EVERY.saturating_sub(Duration::from_secs(1))
        };
        let look = agent.look(max_age).await.look;
        at_rest = look
            .is_ok_and(|look| look.mode == Mode::Normal && look.nodes.iter().all(|node| node.up));
    }
}

impl Agent {
    fn new(node: Box<dyn LocalNode>, common: Common, cql_port: u16) -> Self {
        Self {
            node,
            common,
            cql_port,
            asking: tokio::sync::Mutex::default(),
            identity: OnceLock::new(),
            facts: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
            served: Mutex::default(),
            decommission: Mutex::default(),
            cleanup: Mutex::default(),
            repair: Mutex::default(),
            upgrade: Mutex::default(),
            flush: Mutex::default(),
            snapshots: Mutex::default(),
            pools: Mutex::default(),
            pools_asked: tokio::sync::Mutex::default(),
        }
    }

    /// A look that is at most this old.
    async fn look(&self, max_age: Duration) -> Seen {
        // A caller that waited here gets the answer of the caller before it, if that is recent enough.
        let _asking = self.asking.lock().await;
        if let Some(seen) = self.seen()
            && seen.at.elapsed() <= max_age
        {
            return seen;
        }
        // The moment before the question: what it tells may have changed while it was answered.
        let at = Instant::now();
        let look = self.node.look().await.map_err(|error| error.to_string());
        if let Ok(look) = &look {
            self.sign(look);
            *locked(&self.served) = look.serves().map(|_| at);
        }
        let fresh = Seen { at, look };
        *locked(&self.seen) = Some(fresh.clone());
        fresh
    }

    /// The last answer, however old.
    fn seen(&self) -> Option<Seen> {
        locked(&self.seen).clone()
    }

    /// A member's disk says whose it is.
    fn sign(&self, look: &Look) {
        let Some(host_id) = look
            .host_id
            .as_deref()
            .filter(|_| look.mode == Mode::Normal)
        else {
            return;
        };
        let Common { data, pod_name, .. } = &self.common;
        if disk::is_signed(data, host_id, pod_name) {
            return;
        }
        match disk::sign(data, Some(host_id), pod_name) {
            Ok(()) => tracing::info!(host_id, "signed the disk"),
            Err(error) => tracing::warn!(%error, host_id, "failed to sign the disk"),
        }
    }

    /// Whether the CQL port is listened on. No connection is opened to find out: the database would log a broken TLS
    /// handshake each time.
    fn cql_open(&self) -> bool {
        sockets::listens(self.cql_port)
    }

    fn ordered(&self) -> MutexGuard<'_, Option<Job>> {
        locked(&self.decommission)
    }

    /// Asks for thread pools, unless that was done a moment ago, or is being done.
    async fn refresh_pools(&self) {
        let Ok(mut asked) = self.pools_asked.try_lock() else {
            return;
        };
        if asked.is_some_and(|at| at.elapsed() < POOLS_EVERY) {
            return;
        }
        *asked = Some(Instant::now());
        match self.node.pools().await {
            Ok(pools) => *locked(&self.pools) = pools,
            Err(error) => {
                tracing::warn!(%error, "failed to ask for thread pools");
                *locked(&self.pools) = None;
            }
        }
    }

    async fn report(&self, max_age: Duration) -> Report {
        let seen = self.look(max_age).await;
        let phase = match seen.look {
            Err(error) => Phase::Unreachable { error },
            Ok(look) => {
                let Look {
                    host_id,
                    mode,
                    progress,
                    nodes,
                } = look;
                Phase::Running(View {
                    host_id,
                    mode,
                    progress,
                    cql: self.cql_open(),
                    nodes,
                    free_bytes: disk::free_bytes(&self.common.data).unwrap_or_default(),
                    age_seconds: seen.at.elapsed().as_secs(),
                    decommission: self.ordered().clone(),
                    cleans_up: true,
                    cleanup: locked(&self.cleanup).clone(),
                    repairs: true,
                    repair: locked(&self.repair).clone().map(Box::new),
                    upgrades: true,
                    upgrade: locked(&self.upgrade).clone().map(Box::new),
                    flushes: true,
                    flush: locked(&self.flush).clone().map(Box::new),
                })
            }
        };
        Report {
            pod_uid: self.common.pod_uid.clone(),
            identity: self.identity.get().map(|identity| mutual::status(identity)),
            phase,
        }
    }
}

/// What the locks guard is replaced as a whole: there is no half of it that a panic could leave.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn router(agent: Arc<Agent>) -> Router {
    Router::new()
        .route("/v1/node", get(node))
        .route("/v1/facts", get(facts))
        .route("/v1/decommission", post(orders::decommission))
        .route("/v1/cleanup", post(orders::cleanup))
        .route("/v1/repair", post(orders::repair))
        .route("/v1/upgrade", post(orders::upgrade))
        .route("/v1/flush", post(orders::flush))
        .with_state(agent)
}

/// Open to all, at no cost to the engine.
fn probed(agent: Arc<Agent>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics_page))
        .with_state(agent)
}

#[derive(Deserialize)]
struct MaxAge {
    max_age: Option<u64>,
}

async fn node(
    State(agent): State<Arc<Agent>>,
    Query(MaxAge { max_age }): Query<MaxAge>,
) -> Json<Report> {
    let max_age = max_age.map_or(AT_REST, Duration::from_secs).max(FRESH);
    Json(agent.report(max_age).await)
}

async fn facts(State(agent): State<Arc<Agent>>) -> Result<Json<Facts>, Refusal> {
    let mut last = agent.facts.lock().await;
    if let Some((at, facts)) = last.as_ref()
        && at.elapsed() <= FRESH
    {
        return Ok(Json(facts.clone()));
    }
    let at = Instant::now();
    let facts = agent.node.facts().await;
    let facts = facts.map_err(|e| order::refuse(StatusCode::SERVICE_UNAVAILABLE, e.to_string()))?;
    *last = Some((at, facts.clone()));
    Ok(Json(facts))
}

/// What is known; what is queried now appears on the next page.
async fn metrics_page(State(agent): State<Arc<Agent>>) -> String {
    let refreshed = agent.clone();
    // Not joined: it ends with its one query.
    tokio::spawn(async move { refreshed.refresh_pools().await });
    let seen = agent.seen();
    let look = seen.as_ref().and_then(|seen| {
        let look = seen.look.as_ref().ok()?;
        Some((look, seen.at.elapsed()))
    });
    let data = &agent.common.data;
    let disk_bytes = disk::free_bytes(data).ok().zip(disk::size_bytes(data).ok());
    let pools = locked(&agent.pools).clone();
    metrics::page(&metrics::Told {
        look,
        cql: agent.cql_open(),
        disk_bytes,
        pools: pools.as_ref(),
    })
}

async fn livez(State(agent): State<Arc<Agent>>) -> (StatusCode, &'static str) {
    if agent.node.alive().await {
        (StatusCode::OK, "ok")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the database does not answer",
        )
    }
}

/// Ready: this node is a member that is up among the nodes that it knows, and accepts CQL now.
async fn readyz(State(agent): State<Arc<Agent>>) -> (StatusCode, String) {
    let unready = |words: String| (StatusCode::SERVICE_UNAVAILABLE, words);
    let Some(Seen { at: _, look }) = agent.seen() else {
        return unready("the database has not been asked yet".to_owned());
    };
    // A question that failed tells nothing of the node: its tool may have had no time to run.
    let served = *locked(&agent.served);
    if served.is_none_or(|at| at.elapsed() > STALE) {
        return unready(match look {
            Err(words) => words,
            Ok(look) if look.serves().is_none() => {
                format!("the node is {:?} and no member that is up", look.mode)
            }
            Ok(_) => "the database has not answered for long".to_owned(),
        });
    }
    if agent.cql_open() {
        (StatusCode::OK, "ok".to_owned())
    } else {
        unready("the node does not accept CQL".to_owned())
    }
}

#[cfg(test)]
mod tests;
