//! `operator run`: wires everything together and keeps it running until told to stop.
//!
//! SIGTERM or SIGINT ends the controllers after the reconciles they are in, then the Lease is given
//! back. A lost Lease ends the process at once with an error: the next start waits its turn again.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures::{StreamExt, future::join_all};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{ConfigMap, Pod, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        Controller, WatchStreamExt,
        events::Reporter,
        predicates,
        reflector::{self, ObjectRef},
        watcher,
    },
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing, crd_files, labels};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::AdminClient,
    agents::HttpAgents,
    cli::RunArgs,
    context::{Context, Images},
    lease::Election,
    reconcile::{on_error, reconcile},
    server::{self, Ready},
    telemetry,
};

/// The custom resource definitions as one YAML stream.
///
/// # Errors
/// When they cannot be encoded.
pub fn crds_as_yaml() -> anyhow::Result<String> {
    let mut out = String::new();
    for file in crd_files() {
        out.push_str("---\n");
        out.push_str(&serde_yaml_ng::to_string(&file.crd).context("failed to encode a CRD")?);
    }
    Ok(out)
}

/// Runs the operator.
///
/// # Errors
/// When it cannot start, or lost the Lease.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let client = Client::try_default()
        .await
        .context("failed to find a Kubernetes cluster")?;
    let metrics = telemetry::start_metrics()?;
    let identity = args.identity.clone().unwrap_or_else(made_up_identity);
    let namespace = args
        .lease_namespace
        .clone()
        .unwrap_or_else(|| client.default_namespace().to_owned());
    let election = Election::new(client.clone(), &namespace, identity.clone());
    let ready = Ready::default();
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;

    let server = server::serve(args.listen, ready.clone(), metrics, stop.clone());
    let lead = async {
        let version = client
            .apiserver_version()
            .await
            .context("failed to ask the API server")?;
        tracing::info!(kubernetes = version.git_version, identity, "connected");
        ready.set();
        // Cancel-safe on both sides: see `acquire`; a token waits for nothing.
        tokio::select! {
            () = election.acquire() => {}
            () = stop.cancelled() => return Ok(()),
        }
        tracing::info!(identity, "leading");
        telemetry::leading(true);
        let ended = lead(&client, &args, &election, &identity, &stop).await;
        telemetry::leading(false);
        ended
    };
    // The server ends with `stop`, and `lead` too: whichever fails first ends both.
    let led = async {
        let result = lead.await;
        stop.cancel();
        result
    };
    let (served, led) = tokio::join!(
        async {
            let result = server.await;
            stop.cancel();
            result
        },
        led
    );
    led.and(served)
}

/// Reconciles while the Lease is held.
async fn lead(
    client: &Client,
    args: &RunArgs,
    election: &Election,
    identity: &str,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let ctx = Arc::new(context(client, args, identity)?);
    let namespaces: Vec<Option<&str>> = match args.watch_namespaces.as_slice() {
        [] => vec![None],
        some => some.iter().map(|n| Some(n.as_str())).collect(),
    };
    let controllers = join_all(
        namespaces
            .into_iter()
            .map(|n| controller(ctx.clone(), n, stop.clone())),
    );
    // When the Lease is lost the controllers are dropped where they are: somebody else leads now,
    // and every write is either done or not.
    tokio::select! {
        _ = controllers => {
            election.release().await;
            Ok(())
        }
        () = election.hold() => bail!("lost the lease"),
    }
}

fn context(client: &Client, args: &RunArgs, identity: &str) -> anyhow::Result<Context> {
    let reporter = Reporter {
        controller: labels::MANAGER.to_owned(),
        instance: Some(identity.to_owned()),
    };
    Ok(Context {
        client: client.clone(),
        reporter,
        admin: AdminClient::new().context("failed to make the HTTP client")?,
        agents: Arc::new(HttpAgents::new().context("failed to make the HTTP client")?),
        images: Images {
            readstates: args.readstates_image.clone(),
            cassandra: args.cassandra_image.clone(),
            scylla: args.scylla_image.clone(),
            agent: args.agent_image.clone(),
            super_disk: args.superdisk_image.clone(),
        },
    })
}

/// Reconciles the clusters of one namespace, or of all.
async fn controller(ctx: Arc<Context>, namespace: Option<&str>, stop: CancellationToken) {
    fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }
    let client = &ctx.client;
    let ours = || watcher::Config::default().labels(labels::CLUSTER);
    let (reader, writer) = reflector::store();
    // Our own writes to the status change no generation, and so do not wake us.
    let clusters = watcher(
        api::<ReadStateCluster>(client, namespace),
        watcher::Config::default(),
    )
    .default_backoff()
    .reflect(writer)
    .applied_objects()
    .predicate_filter(predicates::generation, Default::default());
    Controller::for_stream(clusters, reader)
        .owns(api::<StatefulSet>(client, namespace), ours())
        .owns(api::<Service>(client, namespace), ours())
        .owns(api::<ServiceAccount>(client, namespace), ours())
        .owns(api::<ConfigMap>(client, namespace), ours())
        .owns(api::<NetworkPolicy>(client, namespace), ours())
        .owns(api::<PodDisruptionBudget>(client, namespace), ours())
        .owns(api::<Job>(client, namespace), ours())
        .owns(api::<Role>(client, namespace), ours())
        .owns(api::<RoleBinding>(client, namespace), ours())
        .owns(api::<ReadStateRing>(client, namespace), ours())
        .watches(api::<Pod>(client, namespace), ours(), cluster_of_pod)
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(reconcile, on_error, ctx.clone())
        .for_each(async |_| {})
        .await;
}

/// The cluster a pod's label names. Pods belong to StatefulSets and Jobs, not to clusters.
fn cluster_of_pod(pod: Pod) -> Option<ObjectRef<ReadStateCluster>> {
    let name = pod.labels().get(labels::CLUSTER)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

fn stop_on_signals(stop: &CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to wait for SIGINT")?;
    let stop = stop.clone();
    // Joined by nobody: it lives as long as the process, and only passes signals on.
    tokio::spawn(async move {
        // Both are cancel-safe: a signal that is not waited for stays pending.
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        }
        stop.cancel();
    });
    Ok(())
}

/// A name that no other process has.
fn made_up_identity() -> String {
    let nanoseconds = jiff::Timestamp::now().as_nanosecond();
    format!("operator-{}-{nanoseconds:x}", std::process::id())
}
