//! Cache pods that a HorizontalPodAutoscaler adds and removes, by what the service itself measures.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::{Cluster, Look, Told, World, until};
use readstates_operator_api::ReadStateCluster;
use serde_json::Value;

/// What the autoscaler goes by: the read states in memory.
const STATES: &str = "readstates_cached_states";
/// Autoscalers look every quarter of a minute, and Kubernetes asks for a metric a moment after it is offered.
const DECIDES: Duration = Duration::from_mins(4);
/// Users whose states the cache has at least.
const USERS: u64 = 600;

/// Waits until the autoscaler has decided on this many replicas, and `spec.replicas` says so.
async fn scaled_to(cluster: &Cluster, replicas: i32) -> Result<()> {
    until("the autoscaler decides", DECIDES, async || {
        let seen = cluster
            .kubectl(&["get", "hpa", "chat", "-o", "json"])
            .await?;
        let seen: Value = serde_json::from_str(&seen)?;
        let wanted: ReadStateCluster = cluster.get().await?;
        let decided = seen["status"]["desiredReplicas"] == replicas;
        Ok(match decided && wanted.spec.replicas == replicas {
            true => Look::Done(()),
            false => Look::NotYet(format!(
                "{} replicas; the autoscaler says {}",
                wanted.spec.replicas, seen["status"]["conditions"]
            )),
        })
    })
    .await
}

#[tokio::test]
async fn an_autoscaler_adds_a_cache_pod_and_removes_it_by_the_states_in_memory_and_nothing_is_lost()
-> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let before = Told::by(&service, USERS).await?;
    let meanwhile = cluster
        .autoscaled(async |metrics| {
            let states = metrics.sum(STATES).await?;
            ensure!(states >= USERS, "{states} states of {USERS} users");
            // A fifth too much for three pods: more than the tenth that an autoscaler tolerates.
            let work = Box::pin(async {
                metrics
                    .keeps(STATES, (states * 10 / 36).max(1), 3..=4)
                    .await?;
                scaled_to(&cluster, 4).await?;
                cluster.has_members(4).await?;
                // From now on, a pod may hold all of them.
                metrics.keeps(STATES, states * 100, 3..=4).await?;
                scaled_to(&cluster, 3).await?;
                cluster.has_members(3).await
            });
            let meanwhile = Told::during(&service, work).await?;
            meanwhile.holds(&service).await
        })
        .await;
    meanwhile?;
    before.holds(&service).await
}
