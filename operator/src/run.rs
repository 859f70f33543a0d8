//! `operator run`: wires everything together and keeps it running until told to stop.
//!
//! SIGTERM or SIGINT ends the controllers after the reconciles they are in, then the Lease is given
//! back. A lost Lease ends the process at once with an error: the next start waits its turn again.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures::{
    Stream, StreamExt, TryStreamExt,
    future::{join_all, join3},
};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{ConfigMap, Pod, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Client, Config, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        controller::{self, Controller},
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
    agents::HttpAgents,
    backoff::Failures,
    backups,
    cli::RunArgs,
    connections::Connections,
    context::Context,
    gauges::Clusters,
    known::Known,
    lease::Election,
    migrations,
    namespaced::Namespaced,
    reconcile::{on_error, reconcile},
    remembered::Remembered,
    requests::counted,
    reviews,
    rollouts::Rollouts,
    server::{self, Gauges, Ready},
    spec::Images,
    telemetry, watched,
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
    let config = Config::infer()
        .await
        .context("failed to find a Kubernetes cluster")?;
    let client = counted(config).context("failed to make a client")?;
    let metrics = telemetry::start_metrics()?;
    let identity = args.identity.clone().unwrap_or_else(made_up_identity);
    let namespace = args
        .lease_namespace
        .clone()
        .unwrap_or_else(|| client.default_namespace().to_owned());
    let election = Election::new(
        client.clone(),
        &namespace,
        &args.lease_name,
        identity.clone(),
    );
    let ready = Ready::default();
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;

    let gauges = Gauges::default();
    let server = server::serve(
        args.listen,
        ready.clone(),
        metrics,
        gauges.clone(),
        stop.clone(),
    );
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
        let watches = args.watch_namespaces.len().max(1);
        let rollouts = Rollouts::new(args.max_clusters_in_rollout, watches);
        let ctx = Context {
            rollouts,
            ..context(&client, &args, &identity, &namespace)?
        };
        let ctx = Arc::new(ctx);
        let ended = lead(&ctx, &gauges, &args.watch_namespaces, &election, &stop).await;
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
    ctx: &Arc<Context>,
    gauges: &Gauges,
    namespaces: &[String],
    election: &Election,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let namespaces: Vec<Option<&str>> = match namespaces {
        [] => vec![None],
        some => some.iter().map(|n| Some(n.as_str())).collect(),
    };
    let controllers = join_all(namespaces.into_iter().map(|n| {
        let Gauges {
            clusters,
            schedules,
            moves,
        } = gauges;
        let backups = backups::controllers(ctx, schedules, n, stop.clone());
        let moves = migrations::controller(ctx, moves, n, stop.clone());
        join3(controller(ctx, clusters, n, stop.clone()), backups, moves)
    }));
    // When the Lease is lost the controllers are dropped where they are: another operator leads now, and every write is
    // either done or not. The same holds for the task that takes rights back.
    tokio::select! {
        _ = controllers => {
            election.release().await;
            Ok(())
        }
        never = reviews::keep_taking_back(ctx) => match never {},
        () = election.hold() => bail!("lost the lease"),
    }
}

fn context(
    client: &Client,
    args: &RunArgs,
    identity: &str,
    namespace: &str,
) -> anyhow::Result<Context> {
    let reporter = Reporter {
        controller: labels::MANAGER.to_owned(),
        instance: Some(identity.to_owned()),
    };
    Ok(Context {
        client: client.clone(),
        reporter,
        connections: Connections::new().context("failed to make the HTTP client")?,
        agents: Arc::new(HttpAgents),
        namespace: namespace.to_owned(),
        token_review_role: args.token_review_role.clone(),
        known: Known::default(),
        remembered: Remembered::default(),
        failures: Failures::default(),
        rollouts: Rollouts::default(),
        concurrency: args.max_concurrent_reconciles,
        images: Images {
            readstates: args.readstates_image.clone(),
            cassandra: args.cassandra_image.clone(),
            scylla: args.scylla_image.clone(),
            agent: args.agent_image.clone(),
            super_disk: args.superdisk_image.clone(),
            pull_secrets: args.image_pull_secrets.clone(),
        },
    })
}

/// Reconciles the clusters of one namespace, or of all, until it is told to stop and the reconciles that it is in
/// have ended.
pub async fn controller(
    ctx: &Context,
    known_clusters: &Clusters,
    namespace: Option<&str>,
    stop: CancellationToken,
) {
    // Each tells of its own objects alone.
    let ctx = Arc::new(Context {
        known: Known::default(),
        remembered: Remembered::watched(),
        ..Context::clone(ctx)
    });
    let (reader, writer) = reflector::store();
    known_clusters.add(reader.clone());
    ctx.rollouts.add(reader.clone());
    // Our own writes to the status change no generation, and so do not wake us.
    let remembered = ctx.remembered.clone();
    let clusters = watched::clusters(ctx.client.clone(), namespace)
        .inspect_ok(move |event| remembered.note_cluster(event))
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());
    Controller::for_stream(clusters, reader)
        .with_config(controller::Config::default().concurrency(ctx.concurrency))
        .owns_stream(children::<StatefulSet>(&ctx, namespace))
        .owns_stream(children::<Service>(&ctx, namespace))
        .owns_stream(children::<ServiceAccount>(&ctx, namespace))
        .owns_stream(children::<ConfigMap>(&ctx, namespace))
        .owns_stream(children::<NetworkPolicy>(&ctx, namespace))
        .owns_stream(children::<PodDisruptionBudget>(&ctx, namespace))
        .owns_stream(children::<Job>(&ctx, namespace))
        .owns_stream(children::<Role>(&ctx, namespace))
        .owns_stream(children::<RoleBinding>(&ctx, namespace))
        .owns_stream(children::<ReadStateRing>(&ctx, namespace))
        .watches_stream(children::<Pod>(&ctx, namespace), cluster_of_pod)
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(reconcile, on_error, ctx.clone())
        .for_each(async |_| {})
        .await;
}

/// What happens to our objects of one kind. Only their metadata is watched: what is in them is read when it
/// is needed.
fn children<K: Namespaced + Send + Sync + 'static>(
    ctx: &Context,
    namespace: Option<&str>,
) -> impl Stream<Item = watcher::Result<PartialObjectMeta<K>>> + Send + 'static {
    let (known, remembered) = (ctx.known.clone(), ctx.remembered.clone());
    let ours = watcher::Config::default().labels(labels::CLUSTER);
    watcher(backups::api::<PartialObjectMeta<K>>(ctx, namespace), ours)
        .default_backoff()
        .inspect_ok(move |event| {
            known.note(event);
            remembered.note(event);
        })
        .touched_objects()
}

/// The cluster a pod's label names. Pods belong to StatefulSets and Jobs, not to clusters.
fn cluster_of_pod(pod: PartialObjectMeta<Pod>) -> Option<ObjectRef<ReadStateCluster>> {
    let name = pod.labels().get(labels::CLUSTER)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

fn stop_on_signals(stop: &CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to wait for SIGINT")?;
    let stop = stop.clone();
    // Not joined: it lives as long as the process, and only passes signals on.
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
