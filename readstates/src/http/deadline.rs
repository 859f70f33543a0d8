//! Request deadlines: read from a header, decreased on each hop; work stops once the client no longer waits.

use std::time::Duration;

use http::{HeaderMap, HeaderName, Method};
use readstates_api::{
    Problem, ProblemType,
    headers::{self, MAX_TIMEOUT},
};
use tokio::time::{Instant, timeout_at};

use super::{
    problem::{Refusal, UNKNOWN},
    reply::Answer,
};

const TIMEOUT: HeaderName = HeaderName::from_static(headers::TIMEOUT);

/// When the sender of a request stops waiting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: Instant,
    waits: Duration,
}

impl Deadline {
    /// The deadline of a request that has just arrived; `None`: it has none.
    ///
    /// # Errors
    /// When the header is not a number of milliseconds from 1 to [`MAX_TIMEOUT`].
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, Refusal> {
        let Some(value) = headers.get(TIMEOUT) else {
            return Ok(None);
        };
        let millis = value.to_str().ok().and_then(|text| text.parse().ok());
        let waits = millis.map(Duration::from_millis);
        match waits.filter(|waits| !waits.is_zero() && *waits <= MAX_TIMEOUT) {
            Some(waits) => Ok(Some(Self {
                at: Instant::now() + waits,
                waits,
            })),
            None => Err(malformed(value)),
        }
    }

    /// The deadline of a request whose sender waits for so long from now on.
    pub(super) fn after(waits: Duration) -> Self {
        Self {
            at: Instant::now() + waits,
            waits,
        }
    }

    pub(super) fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Works on a request of this method until it is answered or its deadline has passed.
    pub(super) async fn within(
        &self,
        method: &Method,
        work: impl Future<Output = Answer>,
    ) -> Answer {
        timeout_at(self.at, work)
            .await
            .unwrap_or_else(|_| Err(self.passed(method)))
    }

    fn passed(&self, method: &Method) -> Refusal {
        let waits = self.waits;
        if method.is_safe() {
            let detail = format!("there is no answer within the {waits:?} that its sender waits");
            Problem::new(ProblemType::Overloaded, detail).into()
        } else {
            let detail = format!(
                "it was not done within the {waits:?} that its sender waits, and may still be; {UNKNOWN}"
            );
            Problem::new(ProblemType::OutcomeUnknown, detail).into()
        }
    }
}

fn malformed(value: &http::HeaderValue) -> Refusal {
    let most = MAX_TIMEOUT.as_millis();
    let detail = format!(
        "{TIMEOUT}: {value:?} is no time to wait; give 1 to {most} milliseconds, or no such header"
    );
    Problem::new(ProblemType::BadValue, detail).into()
}
