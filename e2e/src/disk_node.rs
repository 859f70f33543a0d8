//! A machine of the cluster with local disks: a virtual one that joins, loses its power and comes back with others.
//!
//! It is the disk machine with the system of kind's nodes on a further disk and a cable to their network
//! (`hack/lib/disk-node.sh`). Everything in it is emulated, so whatever it does takes minutes.

use std::{collections::BTreeMap, env, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use e2e_disk::{Node as Hardware, Rack, Vm};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;
use tokio::task::block_in_place;

use crate::{
    nodes::{CONTROL_PLANE, is_ready},
    wait::watched,
    world::World,
};

/// The machine's name, and that of the class of its one volume.
const NAME: &str = "disk-node";
/// Its local disks, as a database asks for them.
pub const LOCAL_DISKS: &str = "/dev/disk/by-id/google-local-nvme-ssd-*";

/// `kubeadm join` starts the kubelet and waits for it.
const JOINS: Duration = Duration::from_mins(12);
/// After that it wants a network, which is a pod.
const IS_READY: Duration = Duration::from_mins(12);
/// A reaper starts, looks, and looks again every minute.
const IS_REAPED: Duration = Duration::from_mins(12);
/// A machine that says nothing is missed after 50 s.
const IS_MISSED: Duration = Duration::from_mins(3);
/// Finds those that are assembled.
const ARRAYS: &str = "grep ^md /proc/mdstat";

/// The machine; it is switched off when this is dropped.
#[derive(Debug)]
pub struct DiskNode {
    world: World,
    rack: Rack,
    vm: Option<Vm>,
}

impl DiskNode {
    /// Switches it on with two blank local disks and a network disk that is as large as both, in bytes, and has it
    /// join.
    ///
    /// # Errors
    /// When the environment lacks something, or Kubernetes does not take it.
    pub async fn joined(world: &World, size: u64) -> Result<Self> {
        let control_plane = control_plane(world).await?;
        let mut rack = Rack::of_size(NAME, size)?;
        rack.as_node(Hardware {
            system: PathBuf::from(variable("SYSTEM")?),
            tap: variable("TAP")?,
        });
        rack.kernel_arguments(&format!(
            "mitigations=off systemd.getty_auto=no readstates.node={NAME} readstates.address={} readstates.gateway={} \
             readstates.host={}={}",
            variable("ADDRESS")?,
            variable("GATEWAY")?,
            address(&control_plane)?,
            control_plane.name_any(),
        ));
        let mut node = Self {
            world: world.clone(),
            rack,
            vm: None,
        };
        node.boot()?;
        node.join(&control_plane.name_any()).await?;
        node.is_back().await?;
        Ok(node)
    }

    async fn join(&self, control_plane: &str) -> Result<()> {
        let ask = "kubeadm token create --ttl 1h --print-join-command 2>/dev/null";
        let join = self.world.on_node(control_plane, ask, &[]).await?;
        let join = format!(
            "{} --node-name {NAME} --cri-socket unix:///run/containerd/containerd.sock \
             --ignore-preflight-errors all",
            join.trim()
        );
        let vm = self.vm()?;
        block_in_place(|| vm.begin(&join, JOINS)?.wait()?.success())?;
        Ok(())
    }

    fn boot(&mut self) -> Result<()> {
        self.vm = Some(block_in_place(|| self.rack.boot())?);
        Ok(())
    }

    fn vm(&self) -> Result<&Vm> {
        self.vm.as_ref().context("the machine is off")
    }

    async fn is_back(&self) -> Result<()> {
        let ready = |node: Option<&Node>| node.is_some_and(is_ready);
        let waited = watched(self.nodes(), NAME, "is ready", IS_READY, ready).await;
        if let Err(error) = waited {
            return Err(error.context(self.says()?));
        }
        Ok(())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.world.client())
    }

    /// What its programs complain about.
    fn says(&self) -> Result<String> {
        let look = "systemctl --failed --no-pager; journalctl --no-pager -u kubelet -u containerd | tail -n 40";
        block_in_place(|| self.vm()?.run(look))
    }

    /// Offers its network disk to the cluster: one volume without a filesystem, of a class that is returned.
    ///
    /// # Errors
    /// When Kubernetes refuses it.
    pub async fn offer_network_disk(&self) -> Result<String> {
        let disk = self.rack.durable();
        let class = json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": { "name": NAME },
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        let here = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [NAME] });
        let volume = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": NAME },
            "spec": {
                "capacity": { "storage": disk.size().to_string() },
                "volumeMode": "Block",
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": NAME,
                "local": { "path": format!("/dev/disk/by-id/google-{}", disk.name()) },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [here] }] } },
            },
        });
        for object in [class, volume] {
            let text = object.to_string();
            let applied = self.world.kubectl_with(&["apply", "-f", "-"], &text);
            applied.await?.success()?;
        }
        Ok(NAME.to_owned())
    }

    /// The image of a database that it can run.
    ///
    /// # Errors
    /// When the environment lacks it.
    pub fn database_image(&self) -> Result<String> {
        variable("DATABASE")
    }

    /// Labels that only it has.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("kubernetes.io/hostname".to_owned(), NAME.to_owned())])
    }

    /// Cuts its power, and waits until Kubernetes misses it.
    ///
    /// # Errors
    /// When it does not.
    pub async fn lose_power(&mut self) -> Result<()> {
        let vm = self.vm.take().context("the machine is off")?;
        block_in_place(|| vm.cut_power())?;
        let missed = |node: Option<&Node>| node.is_some_and(|node| !is_ready(node));
        watched(self.nodes(), NAME, "is missed", IS_MISSED, missed).await?;
        Ok(())
    }

    /// Switches it on with blank local disks, as on another host, and waits until Kubernetes has it back.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn come_back_on_another_host(&mut self) -> Result<()> {
        ensure!(self.vm.is_none(), "the machine is on");
        self.rack.migrate_host()?;
        self.boot()?;
        self.is_back().await
    }

    /// Kills all pod processes on the machine while the kubelet is stopped, so that nothing restarts them or cleans up
    /// after them: what they assembled stays.
    ///
    /// # Errors
    /// When something cannot be killed, or nothing was assembled.
    pub fn kill_pods(&self) -> Result<()> {
        let kill = "PATH=$PATH:/usr/local/bin; systemctl stop kubelet && ctr --namespace k8s.io tasks list --quiet \
                    | xargs --max-args 1 ctr --namespace k8s.io tasks kill --signal SIGKILL";
        let vm = self.vm()?;
        block_in_place(|| {
            vm.begin(kill, IS_READY)?.wait()?.success()?;
            vm.run(ARRAYS)
        })?;
        Ok(())
    }

    /// Has the kubelet look again at what it is to run.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn look_again(&self) -> Result<()> {
        block_in_place(|| self.vm()?.run("systemctl start kubelet"))?;
        self.is_back().await
    }

    /// Installs the reaper there, and waits until it has taken down the super-disks that no agent holds.
    ///
    /// # Errors
    /// When something is still assembled.
    pub async fn reap(&self) -> Result<()> {
        let here = format!(r"superdiskReaper.nodeSelector.kubernetes\.io/hostname={NAME}");
        let settings = ["superdiskReaper.enabled=true", &here];
        self.world.install_privileged(&settings).await?;
        let wait = format!("while {ARRAYS}; do sleep 2; done");
        block_in_place(|| self.vm()?.begin(&wait, IS_REAPED)?.wait()?.success())?;
        Ok(())
    }

    /// Has Kubernetes forget the machine.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn leave(self) -> Result<()> {
        let forgotten = ["delete", "node", NAME, "--timeout=60s"];
        self.world.kubectl(&forgotten).await?.success()?;
        Ok(())
    }
}

fn variable(name: &str) -> Result<String> {
    let name = format!("READSTATES_E2E_NODE_{name}");
    env::var(&name).with_context(|| format!("{name} is not set: hack/e2e --disk-node"))
}

async fn control_plane(world: &World) -> Result<Node> {
    let nodes: Api<Node> = Api::all(world.client());
    let found = nodes
        .list(&ListParams::default().labels(CONTROL_PLANE))
        .await?;
    let first = found.items.into_iter().next();
    first.context("no machine of the cluster has its control plane")
}

fn address(node: &Node) -> Result<String> {
    let addresses = node.status.as_ref().and_then(|s| s.addresses.as_ref());
    let mut inside = addresses
        .into_iter()
        .flatten()
        .filter(|address| address.type_ == "InternalIP" && !address.address.contains(':'));
    let first = inside.next().map(|address| address.address.clone());
    first.with_context(|| format!("{} has no address", node.name_any()))
}
