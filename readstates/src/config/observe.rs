//! Flags for logging and tracing of requests.

use std::time::Duration;

use clap::Args;

use crate::trace::ObserveConfig;

/// What is said about requests.
#[derive(Debug, Args)]
#[command(next_help_heading = "Observing")]
pub struct ObserveArgs {
    /// Requests that take at least this long are logged with their id (target slow): up to 20 lines at once, then one
    /// per second. 0s: none are logged.
    ///
    /// Requests are also traced, and their spans exported over OTLP (http/protobuf), if the environment variables of
    /// OpenTelemetry are set: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and others.
    #[arg(
        long,
        env = "READSTATES_SLOW_REQUEST",
        default_value = "1s",
        value_parser = humantime::parse_duration,
        value_name = "DURATION"
    )]
    pub slow_request: Duration,
}

impl ObserveArgs {
    pub(super) fn config(&self) -> ObserveConfig {
        ObserveConfig {
            slow_request: Some(self.slow_request).filter(|threshold| !threshold.is_zero()),
            tracing: None,
        }
    }
}
