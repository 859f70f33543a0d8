//! The cluster under test, with the operator installed, and namespaces to work in.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{Namespace, Pod},
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

use crate::{
    cluster::Cluster,
    environment::{Environment, Release},
    programs::{self, Ran},
    specs::cassandra_spec,
    wait::{Look, until, watched},
};

/// Namespace and name of the release that the tests install.
const SYSTEM: &str = "readstates-system";
const RELEASE: &str = "readstates";
/// Every namespace of the tests begins so.
const PREFIX: &str = "readstates-e2e-";

/// A namespace that had pods in it takes half the longest grace period of them, 15 minutes for a database.
const ENDS: Duration = Duration::from_mins(8);

/// A cluster and the programs to work on it.
#[derive(Clone)]
pub struct World {
    environment: Environment,
    client: Client,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct Place {
    pub name: String,
}

impl World {
    /// The cluster of the environment, with the operator installed or upgraded to the chart under test.
    ///
    /// # Errors
    /// When the environment lacks something, or the operator does not come up.
    pub async fn installed() -> Result<Self> {
        let world = Self::reached().await?;
        world.install(&[]).await?;
        Ok(world)
    }

    /// The cluster of the environment, whatever is installed.
    ///
    /// # Errors
    /// When the environment lacks something.
    pub async fn reached() -> Result<Self> {
        let environment = Environment::read()?;
        let kubeconfig = Kubeconfig::read_from(&environment.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Self {
            environment,
            client: Client::try_from(config)?,
        })
    }

    /// Installs the operator, or upgrades it to the chart under test with these settings (`--set`) on top
    /// of the environment's values. The next test goes without them again.
    ///
    /// # Errors
    /// When the operator does not come up.
    pub async fn install(&self, settings: &[&str]) -> Result<()> {
        // The chart promises to run where the strictest standard is enforced.
        self.ensure_namespace(SYSTEM, Some("restricted")).await?;
        self.release(&self.environment.release, settings).await
    }

    /// The same with pods beside the operator that need more than the strictest standard allows.
    ///
    /// # Errors
    /// When the operator does not come up.
    pub async fn install_privileged(&self, settings: &[&str]) -> Result<()> {
        self.ensure_namespace(SYSTEM, Some("privileged")).await?;
        self.release(&self.environment.release, settings).await
    }

    /// Installs the release before instead.
    ///
    /// # Errors
    /// When there is none, or its operator does not come up.
    pub async fn install_old(&self) -> Result<()> {
        self.ensure_namespace(SYSTEM, Some("restricted")).await?;
        let old = self.environment.old.as_ref();
        let old = old.context("READSTATES_E2E_OLD_CHART is not set; hack/e2e --upgrade sets it")?;
        self.release(old, &[]).await
    }

    async fn release(&self, release: &Release, settings: &[&str]) -> Result<()> {
        let chart = release.chart.to_string_lossy().into_owned();
        let values = release.values.to_string_lossy().into_owned();
        let release = [
            "upgrade",
            "--install",
            RELEASE,
            &chart,
            "--namespace",
            SYSTEM,
        ];
        let how = ["--values", &values, "--wait", "--timeout", "2m"];
        let settings: Vec<&str> = settings.iter().flat_map(|one| ["--set", *one]).collect();
        let install = [&release[..], &how, &settings].concat();
        let mut ran = self.helm(&install).await?;
        for _ in 0..2 {
            if ran.ran_out_of_time() {
                ran = self.helm(&install).await?;
            }
        }
        ran.success().context("failed to install the operator")?;
        // Discovery follows a new definition by some seconds.
        let limit = Duration::from_secs(30);
        until("kubectl knows the resources", limit, async || {
            let explained = self.kubectl(&["explain", "rsc"]).await?.success();
            Ok(explained.map_or_else(
                |missing| Look::NotYet(missing.to_string()),
                |_| Look::Done(()),
            ))
        })
        .await
    }

    /// Runs the chart's own tests of the release that is installed (`helm test`), and says what they printed.
    ///
    /// # Errors
    /// When one fails.
    pub async fn helm_test(&self) -> Result<String> {
        let release = ["test", RELEASE, "--namespace", SYSTEM];
        let limit = ["--timeout", "2m"];
        self.helm(&[&release[..], &limit].concat()).await?.success()
    }

    /// Uninstalls the operator.
    ///
    /// # Errors
    /// When helm does.
    pub async fn uninstall(&self) -> Result<()> {
        self.helm(&[
            "uninstall",
            RELEASE,
            "--namespace",
            SYSTEM,
            "--wait",
            "--timeout",
            "2m",
        ])
        .await?
        .success()?;
        Ok(())
    }

    /// The Lease by which one operator leads.
    #[must_use]
    pub fn lease(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), SYSTEM)
    }

    #[must_use]
    pub fn operator_pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), SYSTEM)
    }

    /// The operator's Deployment, if it is there.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn operator(&self) -> Result<Option<Deployment>> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), SYSTEM);
        Ok(deployments.get_opt("readstates-operator").await?)
    }

    /// A namespace of the tests.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn namespace(&self, name: &str) -> Result<Place> {
        let name = format!("{PREFIX}{name}");
        self.ensure_namespace(&name, None).await?;
        Ok(Place { name })
    }

    async fn ensure_namespace(&self, name: &str, standard: Option<&str>) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        // What an earlier run left may still be on its way out, and takes nothing new.
        let leaving = |namespace: &Namespace| namespace.metadata.deletion_timestamp.is_some();
        if namespaces
            .get_opt(name)
            .await?
            .as_ref()
            .is_some_and(leaving)
        {
            let gone = |namespace: Option<&Namespace>| namespace.is_none();
            watched(namespaces.clone(), name, "is gone", ENDS, gone).await?;
        }
        let labels =
            standard.map(|standard| json!({ "pod-security.kubernetes.io/enforce": standard }));
        let wanted = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": name, "labels": labels },
        });
        let parameters = PatchParams::apply("readstates-e2e").force();
        namespaces
            .patch(name, &parameters, &Patch::Apply(wanted))
            .await?;
        Ok(())
    }

    /// Every namespace of the tests.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn namespaces(&self) -> Result<Vec<Place>> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let all = namespaces.list(&ListParams::default()).await?;
        let names = all.iter().map(ResourceExt::name_any);
        Ok(names
            .filter(|name| name.starts_with(PREFIX))
            .map(|name| Place { name })
            .collect())
    }

    /// The one cluster on Cassandra that tests share: available, with three members.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn chat() -> Result<Cluster> {
        let world = Self::installed().await?;
        let place = world.namespace("chat").await?;
        let cluster = world.cluster(&place, "chat");
        cluster.apply(cassandra_spec()).await?;
        cluster.available().await?;
        // The test before may have left another spec, and the way back from it replaces pods.
        cluster.at_rest().await?;
        // The run before may have left pods that another operator made.
        cluster.updated().await?;
        cluster.has_members(3).await?;
        Ok(cluster)
    }

    /// The `ReadStateCluster` of that name.
    #[must_use]
    pub fn cluster(&self, place: &Place, name: &str) -> Cluster {
        Cluster::new(self.clone(), place.clone(), name.to_owned())
    }

    /// A client of the API server.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Runs kubectl.
    ///
    /// # Errors
    /// When it cannot be started; how it ended is in the result.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Ran> {
        self.kubectl_with(arguments, "").await
    }

    /// Runs kubectl with something to read, again where the API server ran out of time.
    ///
    /// # Errors
    /// When it cannot be started; how it ended is in the result.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<Ran> {
        let Environment {
            kubectl,
            kubeconfig,
            ..
        } = &self.environment;
        let mut ran = programs::run(kubectl, kubeconfig, arguments, input).await?;
        for _ in 0..2 {
            if ran.ran_out_of_time() {
                ran = programs::run(kubectl, kubeconfig, arguments, input).await?;
            }
        }
        Ok(ran)
    }

    /// What the tests were told of their surroundings.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Runs a shell script as root on a node, with arguments.
    ///
    /// # Errors
    /// When the nodes are no containers of a docker that is known, or the script fails.
    pub(crate) async fn on_node(&self, node: &str, script: &str, words: &[&str]) -> Result<String> {
        let Environment {
            docker, kubeconfig, ..
        } = &self.environment;
        let docker = docker
            .as_deref()
            .context("READSTATES_E2E_DOCKER is not set: nothing can be done on a node")?;
        let shell = ["exec", node, "sh", "-c", script, "sh"];
        let arguments = [&shell, words].concat();
        programs::run(docker, kubeconfig, &arguments, "")
            .await?
            .success()
    }

    async fn helm(&self, arguments: &[&str]) -> Result<Ran> {
        let Environment {
            helm, kubeconfig, ..
        } = &self.environment;
        programs::run(helm, kubeconfig, arguments, "").await
    }
}
