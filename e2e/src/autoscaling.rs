//! The external metrics of a Kubernetes cluster (`external.metrics.k8s.io`), served by a test: what an adapter for
//! Prometheus, or KEDA, serves elsewhere. The value is asked of the cache pods each time: the sum of a gauge that each of
//! them tells Prometheus.
//!
//! ```text
//! HorizontalPodAutoscaler ──▶ API server ──(APIService, ExternalName)──▶ this process ──(port-forwards)──▶ /metrics
//! ```
//! The nodes must reach this process, as they do where they are containers of this machine.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context as _, Result, ensure};
use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
    serve::Listener,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use reqwest::Client;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{authority::Authority, cluster::Cluster, forward::Forwards, objects::is_ready};

/// The port for probes and metrics of a cache pod.
const WATCH: u16 = 7404;
const GROUP: &str = "external.metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// The Service by which the API server finds this process.
const SERVICE: &str = "e2e-metrics";

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Autoscaling {
    cluster: Cluster,
    gauges: Arc<Gauges>,
    _task: JoinSet<()>,
}

/// The gauges of the cache pods of a cluster.
#[derive(Debug)]
struct Gauges {
    cluster: Cluster,
    forwards: Forwards,
    client: Client,
}

impl Cluster {
    /// Runs `work` while Kubernetes has the cache pods' gauges as external metrics and the HorizontalPodAutoscaler
    /// `chat` may be made, and takes both away again, even if `work` fails: an API of metrics that nothing serves
    /// keeps Kubernetes from deleting namespaces.
    ///
    /// # Errors
    /// When the metrics cannot be served, or `work` fails.
    pub async fn autoscaled(
        &self,
        work: impl AsyncFnOnce(&Autoscaling) -> Result<()>,
    ) -> Result<()> {
        let serving = self.serve_gauges().await?;
        let done = work(&serving).await;
        let name = format!("{VERSION}.{GROUP}");
        let gone = self
            .kubectl(&["delete", "hpa", "chat", "--ignore-not-found"])
            .await;
        self.kubectl(&["delete", "apiservice", &name, "--ignore-not-found"])
            .await?;
        self.kubectl(&["delete", "service", SERVICE, "--ignore-not-found"])
            .await?;
        gone?;
        done
    }

    async fn serve_gauges(&self) -> Result<Autoscaling> {
        let gauges = Arc::new(Gauges {
            cluster: self.clone(),
            forwards: Forwards::new(self.api::<Pod>(), WATCH),
            client: Client::builder().no_proxy().tls_certs_only([]).build()?,
        });
        let host = self.host_of_the_nodes().await?;
        let listener = Encrypted::listen(host).await?;
        let port = listener.local_addr()?.port();
        let mut task = JoinSet::new();
        let served = axum::serve(listener, router(Arc::clone(&gauges)));
        task.spawn(async move {
            // Ends with the set.
            let _ = served.await;
        });
        let objects = api_service(&self.place.name, host, port);
        self.world
            .kubectl_with(&["apply", "-n", &self.place.name, "-f", "-"], &objects)
            .await?
            .success()?;
        let name = format!("apiservice/{VERSION}.{GROUP}");
        let available = ["wait", "--for=condition=Available", "--timeout=60s", &name];
        self.kubectl(&available).await?;
        Ok(Autoscaling {
            cluster: self.clone(),
            gauges,
            _task: task,
        })
    }

    /// The address of this machine on the network of the nodes.
    async fn host_of_the_nodes(&self) -> Result<Ipv4Addr> {
        let pods = self.cache_pods().await?;
        let node = pods.into_iter().find_map(|pod| pod.spec?.node_name);
        let node = node.context("no cache pod is on a node")?;
        let route = self
            .world
            .on_node(&node, "ip -4 route show default", &[])
            .await?;
        let mut words = route.split_whitespace().skip_while(|word| *word != "via");
        let gateway = words.nth(1);
        let gateway = gateway.with_context(|| format!("{node} has no default route: {route:?}"))?;
        gateway
            .parse()
            .with_context(|| format!("the gateway of {node} is no address: {gateway:?}"))
    }
}

impl Autoscaling {
    /// Has a HorizontalPodAutoscaler keep the sum of a gauge at this much for each cache pod.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn keeps(
        &self,
        gauge: &str,
        each: u64,
        pods: std::ops::RangeInclusive<u32>,
    ) -> Result<()> {
        let hpa = autoscaler(&self.cluster.name, gauge, each, &pods);
        let apply = ["apply", "-n", &self.cluster.place.name, "-f", "-"];
        let done = self.cluster.world.kubectl_with(&apply, &hpa).await?;
        done.success()?;
        Ok(())
    }

    /// The sum of a gauge over all cache pods that are ready.
    ///
    /// # Errors
    /// When one does not tell it.
    pub async fn sum(&self, gauge: &str) -> Result<u64> {
        self.gauges.sum(gauge).await
    }
}

/// Without a wait before fewer pods, which is for a load that comes and goes.
fn autoscaler(
    cluster: &str,
    gauge: &str,
    each: u64,
    pods: &std::ops::RangeInclusive<u32>,
) -> String {
    let target = json!({ "type": "AverageValue", "averageValue": each.to_string() });
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "chat" },
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster", "name": cluster,
            },
            "minReplicas": pods.start(), "maxReplicas": pods.end(),
            "metrics": [{
                "type": "External",
                "external": { "metric": { "name": gauge }, "target": target },
            }],
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
        },
    })
    .to_string()
}

fn api_service(namespace: &str, host: Ipv4Addr, port: u16) -> String {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": SERVICE },
        "spec": { "type": "ExternalName", "externalName": host.to_string(), "ports": [{ "port": port }] },
    });
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": format!("{VERSION}.{GROUP}") },
        "spec": {
            "group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": { "name": SERVICE, "namespace": namespace, "port": port },
        },
    });
    format!("{service}\n---\n{api}")
}

fn router(gauges: Arc<Gauges>) -> Router {
    let base = format!("/apis/{GROUP}/{VERSION}");
    let value = format!("{base}/namespaces/{{namespace}}/{{gauge}}");
    Router::new()
        .route(&base, get(async || Json(resources())))
        .route(&value, get(value_of))
        .with_state(gauges)
}

fn resources() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [{
            "name": "externalmetrics", "singularName": "", "namespaced": true,
            "kind": "ExternalMetricValueList", "verbs": ["get"],
        }],
    })
}

async fn value_of(
    State(gauges): State<Arc<Gauges>>,
    Path((_, gauge)): Path<(String, String)>,
) -> Result<Json<Value>, (StatusCode, String)> {
    let sum = gauges.sum(&gauge).await;
    let sum = sum.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}")))?;
    println!("    {gauge}: {sum} for the autoscaler");
    Ok(Json(json!({
        "kind": "ExternalMetricValueList", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": {},
        "items": [{
            "metricName": gauge, "metricLabels": {}, "timestamp": Timestamp::now().to_string(),
            "value": sum.to_string(),
        }],
    })))
}

impl Gauges {
    async fn sum(&self, gauge: &str) -> Result<u64> {
        let mut sum = 0;
        let pods = self.cluster.cache_pods().await?;
        let ready: Vec<_> = pods.iter().filter(|pod| is_ready(pod)).collect();
        ensure!(!ready.is_empty(), "no cache pod is ready");
        for pod in ready {
            let pod = pod.name_any();
            let address = self.forwards.to(&pod).await?;
            let page = self.client.get(format!("http://{address}/metrics"));
            let page = page.send().await?.error_for_status()?.text().await?;
            let value = value_in(&page, gauge);
            sum += value.with_context(|| format!("{pod} tells no {gauge}"))?;
        }
        Ok(sum)
    }
}

/// The value of a gauge without labels in a page for Prometheus.
fn value_in(page: &str, gauge: &str) -> Option<u64> {
    let mut lines = page.lines().filter_map(|line| line.strip_prefix(gauge));
    let value = lines.find_map(|rest| rest.strip_prefix(' '))?;
    // Counts, which Prometheus' format writes like any number.
    let value: f64 = value.trim().parse().ok()?;
    format!("{value:.0}").parse().ok()
}

/// Connections over TLS, with a certificate of no known authority: the API server is told not to verify it.
struct Encrypted {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Encrypted {
    async fn listen(host: Ipv4Addr) -> Result<Self> {
        let issued = Authority::new()?.issue(&[SERVICE.to_owned()])?;
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes())?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let listener = TcpListener::bind((host, 0)).await;
        let listener = listener.with_context(|| {
            format!("{host}, the nodes' gateway, is no address of this machine: they cannot reach this process")
        })?;
        Ok(Self {
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }
}

impl Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    /// One handshake at a time: the API server alone comes here.
    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, from)) = self.listener.accept().await else {
                tokio::task::yield_now().await;
                continue;
            };
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_found_among_others_of_its_beginning() {
        let page = "# HELP readstates_cached_states Read states in memory.\n# TYPE readstates_cached_states gauge\n\
                    readstates_cached_states_of_a_test 7\nreadstates_cached_states 1204\n";
        assert_eq!(value_in(page, "readstates_cached_states"), Some(1204));
        assert_eq!(
            value_in("readstates_cached_states 2e3\n", "readstates_cached_states"),
            Some(2000)
        );
        assert_eq!(value_in(page, "readstates_cached_users"), None);
    }
}
