//! One leader among several operators, by a `coordination.k8s.io` Lease.
//!
//! ```text
//! waiting ──acquire──▶ leading ──release (we stop)──▶ done
//!                         └──lost or not renewed in time──▶ the process must end
//! ```
//! A follower counts the Lease's duration from when *it* saw the last renewal, so the clocks of two
//! nodes need not agree. The leader stops well before a follower may begin. It elects an
//! operator and guards no data: what the operator does is safe with two of them at once.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Name of the Lease, where none is given.
pub const NAME: &str = "readstates-operator";

/// How long a renewal holds.
const HOLDS: Duration = Duration::from_secs(15);
/// How long a leader goes on trying to renew before it gives up; shorter than [`HOLDS`].
const RENEW_WITHIN: Duration = Duration::from_secs(10);
/// How often a leader renews and a follower looks.
const PERIOD: Duration = Duration::from_secs(3);

/// A claim on the Lease.
#[derive(Clone)]
pub struct Election {
    api: Api<Lease>,
    name: String,
    identity: String,
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// What a follower saw last, and when.
struct Sighting {
    holder: String,
    renewed: Option<MicroTime>,
    at: Instant,
}

impl Election {
    /// A claim on the Lease of this name by `identity`.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str, identity: String) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity,
        }
    }

    /// Waits until this process leads. Cancel-safe: a Lease that was taken and not used runs out.
    pub async fn acquire(&self) {
        let mut last: Option<Sighting> = None;
        let mut ticks = interval(PERIOD);
        loop {
            ticks.tick().await;
            match timeout(HOLDS, self.try_acquire(&mut last)).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "failed to look at the lease"),
                Err(_) => tracing::warn!("the API server does not answer who has the lease"),
            }
        }
    }

    async fn try_acquire(&self, last: &mut Option<Sighting>) -> kube::Result<bool> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            let new = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(0)),
            };
            return won(self.api.create(&PostParams::default(), &new).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let holds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default());
        let holds = Duration::from_secs(holds.unwrap_or_default());
        let same = |seen: &&Sighting| seen.holder == holder && seen.renewed == spec.renew_time;
        let seen_at = last
            .as_ref()
            .filter(same)
            .map_or_else(Instant::now, |seen| seen.at);
        *last = Some(Sighting {
            holder: holder.clone(),
            renewed: spec.renew_time,
            at: seen_at,
        });
        let free = holder.is_empty() || holder == self.identity || seen_at.elapsed() > holds;
        if !free {
            return Ok(false);
        }
        let transitions = spec.lease_transitions.unwrap_or_default() + 1;
        // The resource version of what was read goes along: of two that try, one wins.
        let taken = Lease {
            spec: Some(self.spec(transitions)),
            ..lease
        };
        won(self
            .api
            .replace(&self.name, &PostParams::default(), &taken)
            .await)
    }

    /// Renews for as long as it leads; returns when it does not any more.
    pub async fn hold(&self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewed = Instant::now();
        loop {
            ticks.tick().await;
            let left = RENEW_WITHIN.saturating_sub(renewed.elapsed());
            // Others count from the time that is written, or later: an answer that came late makes it no later here.
            let written = Instant::now();
            // With no time left, `timeout` would still take an answer that is there at once.
            let said = match left.is_zero() {
                true => None,
                false => timeout(left, self.renew()).await.ok(),
            };
            match said {
                Some(Ok(true)) => renewed = written,
                Some(Ok(false)) => {
                    tracing::error!("another operator holds the lease");
                    return;
                }
                Some(Err(error)) => tracing::warn!(%error, "failed to renew the lease"),
                None => {
                    tracing::error!(
                        seconds = RENEW_WITHIN.as_secs(),
                        "the lease was not renewed"
                    );
                    return;
                }
            }
        }
    }

    async fn renew(&self) -> kube::Result<bool> {
        let lease = self.api.get(&self.name).await?;
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            return Ok(false);
        }
        let renewed = LeaseSpec {
            renew_time: Some(MicroTime(Timestamp::now())),
            ..spec
        };
        let renewed = Lease {
            spec: Some(renewed),
            ..lease
        };
        // A conflict is retried with the next tick: it may be a changed annotation.
        self.api
            .replace(&self.name, &PostParams::default(), &renewed)
            .await
            .map(|_| true)
    }

    /// Gives the Lease back, so that the next leader need not wait for it to run out.
    pub async fn release(&self) {
        let given_back = async {
            let lease = self.api.get(&self.name).await?;
            let spec = lease.spec.clone().unwrap_or_default();
            if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
                return Ok(());
            }
            let free = LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..spec
            };
            let free = Lease {
                spec: Some(free),
                ..lease
            };
            self.api
                .replace(&self.name, &PostParams::default(), &free)
                .await
                .map(|_| ())
        };
        let done: Result<kube::Result<()>, _> = timeout(PERIOD, given_back).await;
        match done {
            Ok(Ok(())) => tracing::info!("released the lease"),
            Ok(Err(error)) => tracing::warn!(%error, "failed to release the lease"),
            Err(_) => tracing::warn!("failed to release the lease in time"),
        }
    }

    fn spec(&self, transitions: i32) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(HOLDS.as_secs()).ok(),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }
}

/// Whether a write that only one can win was won.
fn won(result: kube::Result<Lease>) -> kube::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
