//! Logs and metrics: how they are started, and the names of the metrics in one place.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use readstates_operator_api::conditions::Reason;
use strum::{IntoStaticStr, VariantArray, VariantNames};
use tracing_subscriber::EnvFilter;

use crate::error::{Error, Label};

const RECONCILES: &str = "readstates_operator_reconciles_total";
const ERRORS: &str = "readstates_operator_reconcile_errors_total";
const DURATION: &str = "readstates_operator_reconcile_duration_seconds";
const WAITS: &str = "readstates_operator_waits_total";
const WRITES: &str = "readstates_operator_writes_total";
const ACTIONS: &str = "readstates_operator_member_actions_total";
const TAKEN_OVER: &str = "readstates_operator_slots_taken_over_total";
const SUPER_DISKS: &str = "readstates_operator_super_disk_changes_total";
const REQUESTS: &str = "readstates_operator_api_requests_total";
const STEP: &str = "readstates_operator_reconcile_step_seconds";
const UNREADABLE: &str = "readstates_operator_unreadable_clusters_total";
const LEADER: &str = "readstates_operator_leader";
const BUILD: &str = "readstates_operator_build_info";

/// The outcome of a reconcile that failed.
const FAILED: &str = "error";

/// Starts logging: for people on a terminal, JSON otherwise.
///
/// # Errors
/// When `filter` is not one.
pub fn start_logs(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("--log-level: {filter:?} is not a log filter"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder.init();
    } else {
        builder
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .init();
    }
    Ok(())
}

/// Installs the metrics recorder of this process.
///
/// # Errors
/// When there is one already.
pub fn start_metrics() -> anyhow::Result<PrometheusHandle> {
    let handle = recorder()?
        .install_recorder()
        .context("failed to install the metrics recorder")?;
    describe();
    begin_at_zero();
    Ok(handle)
}

fn recorder() -> anyhow::Result<PrometheusBuilder> {
    let buckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(DURATION.to_owned()), &buckets)
        .context("failed to set the buckets of the reconcile duration")?
        .set_buckets_for_metric(Matcher::Full(STEP.to_owned()), &buckets)
        .context("failed to set the buckets of the steps' durations")
}

fn describe() {
    metrics::describe_counter!(RECONCILES, "Reconciles, by how they ended.");
    metrics::describe_counter!(ERRORS, "Reconciles that failed, by what failed.");
    metrics::describe_histogram!(DURATION, "Time one reconcile took.");
    metrics::describe_counter!(WAITS, "Reconciles that ended waiting, by what for.");
    metrics::describe_counter!(WRITES, "Objects written, by kind.");
    metrics::describe_counter!(
        ACTIONS,
        "What cache pods were asked, or had done to them, by what."
    );
    metrics::describe_counter!(
        TAKEN_OVER,
        "Slots taken over from cache pods that ended without handing them on: what those \
         acknowledged in their last flush interval may be lost."
    );
    metrics::describe_counter!(
        SUPER_DISKS,
        "Changes of super-disks from one state to another, by the new one. How each is now, its own agent tells."
    );
    metrics::describe_counter!(
        REQUESTS,
        "Requests to the API server, by verb and kind, as its audit log calls them."
    );
    metrics::describe_histogram!(STEP, "Time one step of a reconcile took.");
    metrics::describe_counter!(
        UNREADABLE,
        "Times a ReadStateCluster was told of that this operator cannot read, and leaves as it is."
    );
    metrics::describe_gauge!(LEADER, "1 while this process leads.");
    metrics::describe_gauge!(BUILD, "Always 1; the labels say which build this is.");
}

/// What never happened is 0 and not absent: the increase to the first one is seen. Left out is what has too many values
/// (requests by verb and kind, waits by reason, which are a gauge of each cluster anyway).
fn begin_at_zero() {
    metrics::gauge!(LEADER).set(0.0);
    metrics::gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    for outcome in Outcome::VARIANTS.iter().chain(&[FAILED]) {
        metrics::counter!(RECONCILES, "outcome" => *outcome).increment(0);
    }
    for label in Label::VARIANTS {
        metrics::counter!(ERRORS, "error" => label.as_str()).increment(0);
    }
    for action in Action::VARIANTS {
        metrics::counter!(ACTIONS, "action" => action.as_str()).increment(0);
    }
    metrics::counter!(TAKEN_OVER).increment(0);
    metrics::counter!(UNREADABLE).increment(0);
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Outcome {
    /// Everything is as the spec says.
    Done,
    /// The next step waits for something.
    Waiting(Reason),
    /// A person has to do something.
    Degraded,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Counts a reconcile that ended.
pub fn reconciled(outcome: Outcome, took: Duration) {
    if let Outcome::Waiting(reason) = outcome {
        metrics::counter!(WAITS, "reason" => reason.as_str()).increment(1);
    }
    metrics::counter!(RECONCILES, "outcome" => outcome.as_str()).increment(1);
    metrics::histogram!(DURATION).record(took);
}

/// Counts a reconcile that failed.
pub fn failed(error: &Error) {
    metrics::counter!(RECONCILES, "outcome" => FAILED).increment(1);
    metrics::counter!(ERRORS, "error" => error.label().as_str()).increment(1);
}

/// A step of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading the world: the API server, cache pods, agents.
    Observe,
    /// Deciding.
    Plan,
    /// Doing it.
    Apply,
    /// Telling it.
    Status,
}

impl Step {
    fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Status => "status",
        }
    }
}

/// Tells how long a step took that began then; the time now, for the next one.
pub fn stepped(step: Step, began: Instant) -> Instant {
    let now = Instant::now();
    metrics::histogram!(STEP, "step" => step.as_str()).record(now - began);
    now
}

/// Counts a request to the API server.
pub fn asked(verb: &'static str, kind: String) {
    metrics::counter!(REQUESTS, "verb" => verb, "kind" => kind).increment(1);
}

/// Counts a write.
pub fn wrote(kind: &'static str) {
    metrics::counter!(WRITES, "kind" => kind).increment(1);
}

/// What a member is asked, or what is done to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum Action {
    /// To hand on what it owns.
    Drain,
    /// To hand on some slots.
    Move,
    /// To change its capacity.
    Capacity,
    /// Its pod was given memory.
    Grow,
    /// To write what is dirty.
    Flush,
    /// Its pod was deleted.
    Delete,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Move => "move",
            Self::Capacity => "capacity",
            Self::Grow => "grow",
            Self::Flush => "flush",
            Self::Delete => "delete",
        }
    }
}

/// Counts it.
pub fn acted(action: Action) {
    metrics::counter!(ACTIONS, "action" => action.as_str()).increment(1);
}

/// Counts slots that were taken over from a process that had not handed them on.
pub fn taken_over(slots: u64) {
    metrics::counter!(TAKEN_OVER).increment(slots);
}

/// Counts a super-disk that is in another state than before.
pub fn super_disk_changed(state: Reason) {
    metrics::counter!(SUPER_DISKS, "state" => state.as_str()).increment(1);
}

/// Counts a cluster that could not be read.
pub fn unreadable() {
    metrics::counter!(UNREADABLE).increment(1);
}

/// Says whether this process leads.
pub fn leading(yes: bool) {
    metrics::gauge!(LEADER).set(if yes { 1.0 } else { 0.0 });
}

/// What a process says that has counted everything at least once.
#[cfg(test)]
pub(crate) fn page_with_everything() -> String {
    let recorder = recorder().unwrap().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        describe();
        begin_at_zero();
        reconciled(Outcome::Waiting(Reason::NotObserved), Duration::ZERO);
        stepped(Step::Observe, Instant::now());
        asked("get", "pods".to_owned());
        wrote("Pod");
        super_disk_changed(Reason::SuperDiskHealthy);
    });
    recorder.handle().render()
}
