//! Flags about what a member says of its requests.

use std::time::Duration;

use clap::Args;

use crate::trace::Tracing;

/// What is said about requests.
#[derive(Debug, Args)]
#[command(next_help_heading = "Observing")]
pub struct ObserveArgs {
    /// A request that takes as long or longer gets a line in the log (target slow) with its id; 20 lines at once, and
    /// then one a second. 0s: none does.
    ///
    /// Requests are traced, and their spans exported over OTLP (http/protobuf), where the environment says so:
    /// OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and the others of OpenTelemetry.
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

/// What is said about requests.
#[derive(Debug, Clone, Default)]
pub struct ObserveConfig {
    /// Those that take so long are logged; `None`: none is.
    pub slow_request: Option<Duration>,
    /// Makes and exports spans; `None`: there are none.
    pub tracing: Option<Tracing>,
}
