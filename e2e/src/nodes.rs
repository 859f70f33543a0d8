//! The machines below the pods: what is where, a machine that is drained, one that dies and returns.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt, api::ListParams};
use readstates_operator_api::labels;

use crate::{cluster::Cluster, programs, wait::watched, world::World};

/// Label of a machine's zone.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of a machine without which there is no Kubernetes.
pub(crate) const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// Stops the API server for the number of seconds given, and lets it go on whatever happens to this script.
const STOP_API_SERVER: &str = r#"
pids=
for comm in /proc/[0-9]*/comm; do
    if [ "$(cat "$comm" 2>/dev/null)" = kube-apiserver ]; then pid=${comm#/proc/} && pids="$pids ${pid%/comm}"; fi
done
[ -n "$pids" ] || exit 0
trap 'kill -CONT $pids' EXIT
kill -STOP $pids
sleep "$1"
kill -CONT $pids && echo "went on"
"#;
/// A kubelet that starts again looks at all that it had.
const COMES_BACK: Duration = Duration::from_mins(3);

impl World {
    /// Runs `work` while a machine takes no new pods, and makes it schedulable again, even if `work` fails.
    ///
    /// # Errors
    /// When that cannot be said, or `work` fails.
    pub async fn while_cordoned(
        &self,
        node: &str,
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        self.kubectl(&["cordon", node]).await?.success()?;
        let done = work.await;
        self.kubectl(&["uncordon", node]).await?.success()?;
        done
    }

    /// `kubectl drain`: everything but what belongs to the machine is evicted, as budgets allow it.
    ///
    /// # Errors
    /// When something may not be evicted for five minutes.
    pub async fn drain(&self, node: &str) -> Result<()> {
        self.kubectl(&[
            "drain",
            node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--timeout=300s",
        ])
        .await?
        .success()?;
        Ok(())
    }

    /// Ends everything on a machine at once, as a power cut does.
    ///
    /// # Errors
    /// When the machines are no containers of a docker that is known.
    pub async fn kill_node(&self, node: &str) -> Result<()> {
        self.docker(&["kill", node]).await
    }

    /// Starts a machine that was killed, and waits until Kubernetes has it back.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn start_node(&self, node: &str) -> Result<()> {
        // Kubernetes may still take it for ready from before: wait for its own report. Timestamps have seconds.
        let second = Timestamp::from_second(Timestamp::now().as_second())?;
        self.docker(&["start", node]).await?;
        let nodes: Api<Node> = Api::all(self.client());
        let ready = |node: Option<&Node>| node.is_some_and(|n| said_it_is_ready(n) >= Some(second));
        watched(nodes, node, "is ready", COMES_BACK, ready).await?;
        Ok(())
    }

    /// Stops the API server's process on every control plane for this time, then lets it continue; requests get no
    /// answer meanwhile. The time has to be shorter than the kubelet waits before it restarts the process.
    ///
    /// # Errors
    /// When nothing can be done on a node, or there is no such process.
    pub async fn stop_api_server(&self, time: Duration) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client());
        let planes = nodes
            .list(&ListParams::default().labels(CONTROL_PLANE))
            .await?;
        let planes: Vec<String> = planes.iter().map(ResourceExt::name_any).collect();
        println!("    the API server stops for {} s", time.as_secs());
        let seconds = time.as_secs().to_string();
        let words = [seconds.as_str()];
        // Timed on the node itself, so that the process continues even if this test is killed.
        let stops = planes
            .iter()
            .map(|node| self.on_node(node, STOP_API_SERVER, &words));
        for (node, said) in planes.iter().zip(join_all(stops).await) {
            let said = said?;
            ensure!(
                said.contains("went on"),
                "no API server on {node}: {said:?}"
            );
        }
        Ok(())
    }

    async fn docker(&self, arguments: &[&str]) -> Result<()> {
        let environment = self.environment();
        let docker = environment
            .docker
            .as_deref()
            .context("READSTATES_E2E_DOCKER is not set: nothing can be done to a machine")?;
        programs::run(docker, &environment.kubeconfig, arguments, "")
            .await?
            .success()?;
        Ok(())
    }

    async fn zone_of(&self, node: &str) -> Result<String> {
        let nodes: Api<Node> = Api::all(self.client());
        let labels = nodes.get(node).await?.metadata.labels.unwrap_or_default();
        let zone = labels.get(ZONE);
        zone.cloned()
            .with_context(|| format!("{node} is in no zone"))
    }
}

impl Cluster {
    /// The machine that a pod of the cluster is on.
    ///
    /// # Errors
    /// When there is no such pod, or it is on none.
    pub async fn node_of(&self, pod: &str) -> Result<String> {
        let pod = self.api::<Pod>().get(pod).await?;
        node(&pod).with_context(|| format!("{} is on no machine", pod.name_any()))
    }

    /// The machines that cache pods are on.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn nodes_of_members(&self) -> Result<BTreeSet<String>> {
        Ok(self.cache_pods().await?.iter().filter_map(node).collect())
    }

    /// The zones that cache pods are in.
    ///
    /// # Errors
    /// When a machine's zone is not known.
    pub async fn zones_of_members(&self) -> Result<BTreeSet<String>> {
        let mut zones = BTreeSet::new();
        for node in self.nodes_of_members().await? {
            zones.insert(self.world.zone_of(&node).await?);
        }
        Ok(zones)
    }

    /// A machine that has none of the cluster's database, and is not Kubernetes' own.
    ///
    /// # Errors
    /// When there is none.
    pub async fn node_without_database(&self) -> Result<String> {
        let selector = labels::selector_text(&self.name, labels::Component::Database);
        let pods = self.api::<Pod>();
        let databases = pods
            .list(&ListParams::default().labels(&selector))
            .await?
            .items;
        let taken: BTreeSet<String> = databases.iter().filter_map(node).collect();
        let nodes: Api<Node> = Api::all(self.world.client());
        let nodes = nodes.list(&ListParams::default()).await?;
        let ours = |node: &&Node| !node.labels().contains_key(CONTROL_PLANE);
        let mut names = nodes.iter().filter(ours).map(ResourceExt::name_any);
        names
            .find(|name| !taken.contains(name))
            .context("the database is on every machine")
    }
}

fn node(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

pub(crate) fn is_ready(node: &Node) -> bool {
    said_it_is_ready(node).is_some()
}

/// When it said so last, if it is.
fn said_it_is_ready(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|one| one.type_ == "Ready" && one.status == "True")?;
    Some(ready.last_heartbeat_time.as_ref()?.0)
}
