//! `/livez`, `/readyz` and `/metrics` of the operator itself.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context as _;
use axum::{Router, extract::State, http::StatusCode, routing::get};
use jiff::Timestamp;
use metrics_exporter_prometheus::PrometheusHandle;
use readstates_agent::listen::listen;
use tokio_util::sync::CancellationToken;

use crate::{backups::Schedules, gauges::Clusters, migrations::Moves};

/// Whether the process can do its work: it has reached the API server, as leader or as follower.
#[derive(Clone, Debug, Default)]
pub struct Ready(Arc<AtomicBool>);

impl Ready {
    /// From now on.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What gauges are computed from, for each scrape.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    pub clusters: Clusters,
    pub schedules: Schedules,
    pub moves: Moves,
}

impl Gauges {
    fn render(&self, now: Timestamp) -> String {
        let Self {
            clusters,
            schedules,
            moves,
        } = self;
        clusters.render(now) + &schedules.render(now) + &moves.render(now)
    }
}

/// Serves until `stop`.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve(
    address: SocketAddr,
    ready: Ready,
    metrics: PrometheusHandle,
    gauges: Gauges,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener =
        listen(address).with_context(|| format!("failed to listen on {address} (--listen)"))?;
    let app = Router::new()
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(readyz).with_state(ready))
        .route(
            "/metrics",
            get(async move || metrics.render() + &gauges.render(Timestamp::now())),
        );
    axum::serve(listener, app)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
        .context("failed to serve")
}

async fn readyz(State(ready): State<Ready>) -> (StatusCode, &'static str) {
    if ready.get() {
        (StatusCode::OK, "ok")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the API server has not answered yet",
        )
    }
}

#[cfg(test)]
mod tests {
    use readstates_metrics::table_of;

    use super::*;
    use crate::telemetry;

    #[test]
    fn every_metric_is_documented_with_its_kind_and_meaning_and_none_else() {
        let gauges = Gauges::default().render(Timestamp::UNIX_EPOCH);
        let page = telemetry::page_with_everything() + &gauges;
        let documented: Vec<&str> = include_str!("../METRICS.md")
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        assert_eq!(
            table_of(&page),
            documented,
            "METRICS.md and /metrics differ"
        );
    }
}
