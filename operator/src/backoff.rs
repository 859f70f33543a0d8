//! Back-off of failed reconciles, for each cluster, so that an API server that is away is not asked by all of them
//! every few seconds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::{ResourceExt, runtime::reflector::ObjectRef};
use readstates_operator_api::ReadStateCluster;

/// The longest distance.
const LONGEST: Duration = Duration::from_mins(1);
/// More doublings than that change nothing.
const DOUBLINGS: u32 = 8;

/// How often the reconcile of each cluster has failed in a row. Lost with the process: the next one counts from zero.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<Mutex<HashMap<ObjectRef<ReadStateCluster>, u32>>>);

impl Failures {
    /// One more; when to try again, where `first` is the distance after the first one.
    #[must_use]
    pub fn another(&self, cluster: &ReadStateCluster, first: Duration) -> Duration {
        let mut failures = self.counts();
        let count = failures.entry(key(cluster)).or_default();
        let distance = distance(first, *count);
        *count = count.saturating_add(1);
        distance
    }

    /// It has succeeded, or is gone.
    pub fn none(&self, cluster: &ReadStateCluster) {
        self.counts().remove(&key(cluster));
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<ObjectRef<ReadStateCluster>, u32>> {
        // Every change to it is one call: there is no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(cluster: &ReadStateCluster) -> ObjectRef<ReadStateCluster> {
    let named = ObjectRef::new(&cluster.name_any());
    match cluster.namespace() {
        Some(namespace) => named.within(&namespace),
        None => named,
    }
}

/// Doubled each time.
fn distance(first: Duration, before: u32) -> Duration {
    first
        .saturating_mul(1 << before.min(DOUBLINGS))
        .min(LONGEST.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ReadStateCluster {
        let spec = serde_json::from_value(serde_json::json!({ "database": {} })).unwrap();
        let mut cluster = ReadStateCluster::new(name, spec);
        cluster.metadata.namespace = Some("talk".to_owned());
        cluster
    }

    #[test]
    fn a_cluster_that_fails_again_and_again_is_tried_at_growing_distances_up_to_a_minute() {
        let failures = Failures::default();
        let first = Duration::from_secs(5);
        let tried: Vec<_> = (0..8)
            .map(|_| failures.another(&cluster("chat"), first).as_secs())
            .collect();
        assert_eq!(tried, [5, 10, 20, 40, 60, 60, 60, 60]);
        // Others are not meant, and success is a new beginning.
        assert_eq!(failures.another(&cluster("mail"), first), first);
        failures.none(&cluster("chat"));
        assert_eq!(failures.another(&cluster("chat"), first), first);
    }
}
