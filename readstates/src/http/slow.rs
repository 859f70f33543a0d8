//! Log lines about requests that took long: rationed, and found again by their id.

use std::time::Duration;

use http::StatusCode;

use super::{FORWARDED, head::Head};
use crate::{
    operation::{Class, Operation, Port},
    {clock, metrics::Counter, ration::Ration},
};

/// What is said about slow requests.
#[derive(Debug, Default)]
pub(super) struct Slow {
    /// `None`: nothing.
    threshold: Option<Duration>,
    ration: Ration,
    pub(super) count: Counter,
}

impl Slow {
    pub(super) fn new(threshold: Option<Duration>) -> Self {
        Self {
            threshold,
            ..Self::default()
        }
    }

    /// Looks at a request about users that was answered.
    pub(super) fn look(
        &self,
        (port, operation): (Port, Operation),
        head: &Head,
        status: StatusCode,
        took: Duration,
    ) {
        if self.threshold.is_none_or(|threshold| took < threshold) || waits(operation) {
            return;
        }
        self.count.increment(1);
        let Some(left_out) = self.ration.take(clock::now()) else {
            return;
        };
        let from = head.headers.get(FORWARDED);
        tracing::warn!(
            target: "slow",
            request_id = head.id(),
            trace_id = head.trace_id(),
            port = port.name(),
            method = operation.method(),
            route = operation.route(),
            path = head.uri.path(),
            status = status.as_u16(),
            seconds = took.as_secs_f64(),
            forwarded_by = from.and_then(|name| name.to_str().ok()),
            left_out,
            "slow request"
        );
    }
}

/// Whether an operation takes as long as its sender wants, or is an order that takes what it takes.
fn waits(operation: Operation) -> bool {
    match operation.class() {
        Class::Reads | Class::Changes | Class::Batches | Class::Mentions => false,
        Class::RingWaiters | Class::Open => true,
    }
}
