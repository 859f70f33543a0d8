//! A namespace of its own on the API server under test, and the verbs of these tests.

use std::sync::Arc;

use k8s_openapi::{
    NamespaceResourceScope, api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{conditions::is_crd_established, events::Reporter, wait::await_condition},
};
use readstates_operator::{
    backoff::Failures, connections::Connections, context::Context, error::Error, gauges::Clusters,
    known::Known, reconcile::reconcile, remembered::Remembered, rollouts::Rollouts,
    run::controller, spec::Images,
};
use readstates_operator_api::{ReadStateCluster, crd_files};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{agents::FakeAgents, fleet::Fleet, gate::Gate};

pub(crate) const KUBECONFIG: &str = "READSTATES_TEST_APISERVER";

/// Runs a test in a namespace of its own, or says that it is skipped.
pub(crate) fn with_world(test: impl AsyncFnOnce(World)) {
    let Some(path) = std::env::var_os(KUBECONFIG) else {
        println!("SKIPPED: {KUBECONFIG} is not set; hack/apiserver run COMMAND sets it");
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(path).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        let client = Client::try_from(config.clone()).unwrap();
        install_crds(&client).await;
        test(World::new(client, config).await).await;
    });
}

async fn install_crds(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("tests").force();
    for file in crd_files() {
        let name = file.crd.name_any();
        api.patch(&name, &params, &Patch::Apply(&file.crd))
            .await
            .unwrap();
        await_condition(api.clone(), &name, is_crd_established())
            .await
            .unwrap();
    }
}

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// The agents of all database pods, and the ring that they see.
    pub(crate) agents: Arc<FakeAgents>,
    /// Whether they listen, for an operator in a process of its own.
    pub(crate) agents_listen: bool,
    /// The processes in cache pods.
    pub(crate) fleet: Fleet,
    /// Whether no node has more memory for the pods that are on it.
    pub(crate) nodes_are_full: bool,
    config: Config,
    ctx: Arc<Context>,
}

impl World {
    async fn new(client: Client, config: Config) -> Self {
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some("test-".to_owned());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let made = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        let agents = Arc::new(FakeAgents::default());
        let name = made.name_any();
        let account = format!("system:serviceaccount:{name}:chat");
        Self {
            fleet: Fleet::new(acting_as(&config, &account), &name),
            ctx: Arc::new(context(client.clone(), agents.clone())),
            client,
            namespace: name,
            agents,
            agents_listen: false,
            nodes_are_full: false,
            config,
        }
    }

    /// Another namespace on the same API server.
    pub(crate) async fn another(&self) -> Self {
        Self::new(self.client.clone(), self.config.clone()).await
    }

    /// The operator works with this user's rights from now on.
    pub(crate) fn reconciled_by(mut self, user: &str) -> Self {
        self.ctx = Arc::new(context(acting_as(&self.config, user), self.agents.clone()));
        self
    }

    /// The operator was told that it may bind cache pods to this ClusterRole.
    pub(crate) fn binding_to(mut self, role: &str) -> Self {
        let mut ctx = Context::clone(&self.ctx);
        ctx.token_review_role = Some(role.to_owned());
        self.ctx = Arc::new(ctx);
        self
    }

    /// The operator was told how many clusters may restart pods at once.
    pub(crate) fn counting(&mut self, rollouts: &Rollouts) {
        let mut ctx = Context::clone(&self.ctx);
        ctx.rollouts = rollouts.clone();
        self.ctx = Arc::new(ctx);
    }

    /// The operator at work.
    pub(crate) fn context(&self) -> &Context {
        &self.ctx
    }

    /// A client with the rights of this user.
    pub(crate) fn user(&self, name: &str) -> Client {
        acting_as(&self.config, name)
    }

    /// A client that goes by the operator's name, with all rights.
    pub(crate) fn operator(&self) -> Client {
        self.almighty(crate::policy::OPERATOR)
    }

    /// A client that goes by this name, with all rights.
    pub(crate) fn almighty(&self, user: &str) -> Client {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        Client::try_from(config).unwrap()
    }

    /// A client that asks once, whatever it is answered.
    pub(crate) fn asking_once(&self) -> Client {
        let mut config = self.config.clone();
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    /// A client with the rights of this account of the namespace.
    pub(crate) fn account(&self, name: &str) -> Client {
        let user = format!("system:serviceaccount:{}:{name}", self.namespace);
        acting_as(&self.config, &user)
    }

    /// A client that shows this token.
    pub(crate) fn bearer(&self, token: String) -> Client {
        let mut config = self.config.clone();
        config.auth_info.token = Some(token.into());
        Client::try_from(config).unwrap()
    }

    /// The operator works with this before its writes from now on.
    pub(crate) fn behind(mut self, gate: &Gate) -> Self {
        self.ctx = self.operator_behind(gate);
        self
    }

    /// Another process of the operator, with this before its writes.
    pub(crate) fn operator_behind(&self, gate: &Gate) -> Arc<Context> {
        let builder = ClientBuilder::try_from(self.config.clone()).unwrap();
        Arc::new(context(
            builder.with_layer(gate).build(),
            self.agents.clone(),
        ))
    }

    /// The controllers of that process, which look after this namespace until they are dropped.
    pub(crate) async fn run_operator_behind(&self, gate: &Gate) {
        let ctx = self.operator_behind(gate);
        let never = CancellationToken::new();
        controller(&ctx, &Clusters::default(), Some(&self.namespace), never).await;
    }

    /// One reconcile by that process.
    pub(crate) async fn reconcile_by(&self, operator: &Arc<Context>) -> Result<(), Error> {
        let cluster = Arc::new(self.get::<ReadStateCluster>("chat").await);
        let reconciled = Box::pin(reconcile(cluster, operator.clone()));
        reconciled.await.map(|_| ())
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn get<K>(&self, name: &str) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        self.api::<K>().get(name).await.unwrap()
    }

    /// Creates a cluster from its JSON, as `kubectl create --validate=strict` would.
    pub(crate) async fn create(&self, cluster: &Value) -> Result<ReadStateCluster, String> {
        let body = serde_json::to_vec(cluster).unwrap();
        let url = format!(
            "/apis/readstates.dev/v1alpha1/namespaces/{}/readstateclusters?fieldValidation=Strict",
            self.namespace
        );
        self.send("POST", &url, body).await
    }

    /// Replaces a cluster's spec.
    pub(crate) async fn replace(&self, mut cluster: Value) -> Result<ReadStateCluster, String> {
        let name = cluster["metadata"]["name"].as_str().unwrap().to_owned();
        let live: ReadStateCluster = self.get(&name).await;
        cluster["metadata"]["resourceVersion"] = live.resource_version().into();
        let body = serde_json::to_vec(&cluster).unwrap();
        let url = format!(
            "/apis/readstates.dev/v1alpha1/namespaces/{}/readstateclusters/{name}",
            self.namespace
        );
        self.send("PUT", &url, body).await
    }

    async fn send(
        &self,
        method: &str,
        url: &str,
        body: Vec<u8>,
    ) -> Result<ReadStateCluster, String> {
        let request = http::Request::builder()
            .method(method)
            .uri(url)
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        self.client
            .request(request)
            .await
            .map_err(|error| match error {
                kube::Error::Api(status) => status.message,
                other => panic!("{other}"),
            })
    }

    /// From here on another operator is at work, which brings another agent.
    pub(crate) fn upgrade(&mut self) {
        let mut ctx = Context::clone(&self.ctx);
        ctx.images.agent = "operator:2".to_owned();
        self.ctx = Arc::new(ctx);
    }

    /// From here on another operator is at work, which brings other cache pods.
    pub(crate) fn upgrade_of_images(&mut self) {
        let mut ctx = Context::clone(&self.ctx);
        ctx.images.readstates = "readstates:2".to_owned();
        self.ctx = Arc::new(ctx);
    }

    /// One reconcile, which may fail.
    pub(crate) async fn try_reconcile(&self, name: &str) -> Result<(), Error> {
        let cluster = Arc::new(self.get::<ReadStateCluster>(name).await);
        let reconciled = Box::pin(reconcile(cluster, self.ctx.clone()));
        reconciled.await.map(|_| ())
    }

    /// One reconcile, after which the cluster may be gone.
    pub(crate) async fn reconcile_the_last(&self, name: &str) {
        self.try_reconcile(name).await.unwrap();
    }

    /// One reconcile; the cluster after it.
    pub(crate) async fn reconcile(&self, name: &str) -> ReadStateCluster {
        self.try_reconcile(name).await.unwrap();
        self.get(name).await
    }
}

fn acting_as(config: &Config, user: &str) -> Client {
    let mut config = config.clone();
    config.auth_info.impersonate = Some(user.to_owned());
    Client::try_from(config).unwrap()
}

fn context(client: Client, agents: Arc<FakeAgents>) -> Context {
    Context {
        client,
        reporter: Reporter::from("tests"),
        connections: Connections::new().unwrap(),
        agents,
        known: Known::default(),
        remembered: Remembered::default(),
        failures: Failures::default(),
        rollouts: Rollouts::default(),
        concurrency: 32,
        namespace: "readstates-system".to_owned(),
        token_review_role: None,
        images: Images {
            readstates: "readstates:1".to_owned(),
            cassandra: "cassandra:5".to_owned(),
            scylla: "scylla:6".to_owned(),
            agent: "operator:1".to_owned(),
            super_disk: Some("superdisk:1".to_owned()),
            pull_secrets: Vec::new(),
        },
    }
}

/// What a cluster waits for, in one word.
pub(crate) fn waiting(cluster: &ReadStateCluster) -> Option<String> {
    Some(cluster.status.as_ref()?.waiting_on.as_ref()?.reason.clone())
}

/// A condition as `Status Reason: message`.
pub(crate) fn condition(cluster: &ReadStateCluster, type_: &str) -> String {
    let conditions = &cluster.status.as_ref().unwrap().conditions;
    let found = conditions.iter().find(|c| c.type_ == type_).unwrap();
    format!("{} {}: {}", found.status, found.reason, found.message)
}
