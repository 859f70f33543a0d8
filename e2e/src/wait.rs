//! Waiting: by a watch where Kubernetes has one, by asking again where it has not; always with a deadline,
//! and saying what is still missing.

use std::{fmt::Debug, time::Duration};

use anyhow::{Context as _, Result, bail};
use kube::{
    Api, Resource,
    runtime::wait::{Condition, await_condition},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Between two questions to something that cannot be watched.
const TICK: Duration = Duration::from_millis(500);
/// Between two lines that say the same.
const REMIND: Duration = Duration::from_secs(15);

/// The result of one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    /// It is as wanted.
    Done(T),
    /// It is not: the text says what is missing.
    NotYet(String),
}

/// Looks again and again until `look` is done.
///
/// # Errors
/// What `look` fails with, or what was still missing after `limit`.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<Look<T>>,
) -> Result<T> {
    let started = Instant::now();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said: Option<(String, Instant)> = None;
    loop {
        ticks.tick().await;
        let missing = match look().await? {
            Look::Done(value) => return Ok(value),
            Look::NotYet(missing) => missing,
        };
        if started.elapsed() > limit {
            bail!("{what}: not within {limit:?}: {missing}");
        }
        if said
            .as_ref()
            .is_none_or(|(text, at)| *text != missing || at.elapsed() > REMIND)
        {
            println!("    {what}: {missing} ({} s)", started.elapsed().as_secs());
            said = Some((missing, Instant::now()));
        }
    }
}

/// Watches one object until it meets a condition; `None` when the condition is that it is gone.
///
/// # Errors
/// When the API server cannot be watched, or the condition was not met within `limit`.
pub async fn watched<K>(
    api: Api<K>,
    name: &str,
    what: &str,
    limit: Duration,
    condition: impl Condition<K>,
) -> Result<Option<K>>
where
    K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
{
    println!("    {name}: waiting until it {what}");
    timeout(limit, await_condition(api, name, condition))
        .await
        .with_context(|| format!("{name}: not within {limit:?}: {what}"))?
        .with_context(|| format!("failed to watch {name}"))
}
