//! Ways to lose a pod or its process: asked for, evicted, by force, killed.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, EvictParams},
};
use tokio::time::Instant;

use crate::{
    cluster::Cluster,
    objects::is_ready,
    wait::{Look, until},
};

/// A disruption budget may hold an eviction off for as long as others move.
const MAY_EVICT: Duration = Duration::from_mins(5);

/// Kills the program of the pod with this UID, on its node: a pod's processes are in the pod's cgroup, whose name
/// has the UID in it, with dashes or underscores.
const KILL: &str = r#"
dashes=$1 underscores=$(echo "$1" | tr - _)
for file in /proc/[0-9]*/cgroup; do
    grep -q -e "$dashes" -e "$underscores" "$file" 2>/dev/null || continue
    pid=${file#/proc/} && pid=${pid%/cgroup}
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = readstates ]; then kill -9 "$pid" && echo "killed $pid"; fi
done
"#;

impl Cluster {
    /// Evicts a cache pod, as `kubectl drain` does, and waits until another in its place is ready.
    ///
    /// # Errors
    /// When it may not be evicted for too long, or none comes back.
    pub async fn evict_pod(&self, ordinal: usize) -> Result<()> {
        let (pods, name) = (self.api::<Pod>(), self.pod_name(ordinal));
        let old = pods.get(&name).await?.uid();
        println!("    evicting {name}");
        until(&format!("{name} is evicted"), MAY_EVICT, async || {
            match pods.evict(&name, &EvictParams::default()).await {
                Ok(_) => Ok(Look::Done(())),
                // The budget has no room now.
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    Ok(Look::NotYet(status.message.clone()))
                }
                Err(error) => Err(error.into()),
            }
        })
        .await?;
        self.another_is_ready(&name, old).await
    }

    /// Takes a cache pod's name away from it at once, whether its process has ended or not, and waits until another in
    /// its place is ready.
    ///
    /// # Errors
    /// When none comes back.
    pub async fn force_pod(&self, ordinal: usize) -> Result<()> {
        let (pods, name) = (self.api::<Pod>(), self.pod_name(ordinal));
        let old = pods.get(&name).await?.uid();
        println!("    deleting {name} by force");
        pods.delete(&name, &DeleteParams::default().grace_period(0))
            .await?;
        self.another_is_ready(&name, old).await
    }

    /// `kill -9` of a cache pod's process, and until the next in the same pod is ready. Tells when the process was
    /// dead: finding it takes seconds on a busy node.
    ///
    /// # Errors
    /// When nothing can be done on the node, or the process is not found or does not come back.
    pub async fn kill_process(&self, ordinal: usize) -> Result<Instant> {
        let name = self.pod_name(ordinal);
        let pod = self.api::<Pod>().get(&name).await?;
        let before = restarts(&pod);
        self.kill_process_of(&pod).await?;
        let dead = Instant::now();
        let again = |pod: &Pod| restarts(pod) > before && is_ready(pod);
        self.watch(&name, "is up again", crate::cluster::PODS_CHANGE, again)
            .await?;
        Ok(dead)
    }

    /// `kill -9` of a cache pod's process, and another pod at once: a kubelet waits longer each time before it starts
    /// the next process in the same one.
    ///
    /// # Errors
    /// When nothing can be done on the node, the process is not found, or no other pod comes.
    pub async fn crash_pod(&self, ordinal: usize) -> Result<()> {
        let (pods, name) = (self.api::<Pod>(), self.pod_name(ordinal));
        let pod = pods.get(&name).await?;
        self.kill_process_of(&pod).await?;
        pods.delete(&name, &DeleteParams::default().grace_period(0))
            .await?;
        self.another_is_ready(&name, pod.uid()).await
    }

    async fn kill_process_of(&self, pod: &Pod) -> Result<()> {
        let name = pod.name_any();
        let uid = pod.uid().context("a pod without a UID")?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.with_context(|| format!("{name} is on no node"))?;
        let said = self.world.on_node(node, KILL, &[&uid]).await?;
        ensure!(
            said.contains("killed"),
            "no process of {name} on {node}: {said:?}"
        );
        Ok(())
    }

    /// The UIDs of the cache pods.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn pod_uids(&self) -> Result<Vec<String>> {
        let pods = self.cache_pods().await?;
        Ok(pods.iter().filter_map(ResourceExt::uid).collect())
    }

    fn pod_name(&self, ordinal: usize) -> String {
        format!("{}-{ordinal}", self.name)
    }

    async fn another_is_ready(&self, name: &str, old: Option<String>) -> Result<()> {
        let another = |pod: &Pod| pod.uid() != old && is_ready(pod);
        self.watch(name, "comes back", crate::cluster::PODS_CHANGE, another)
            .await?;
        Ok(())
    }
}

/// How often containers of a pod were started again.
fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_ref());
    containers.map_or(0, |all| all.iter().map(|one| one.restart_count).sum())
}
