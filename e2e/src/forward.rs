//! A local port that leads to a port of a pod, by the API server's port-forward.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::JoinSet,
};

/// Forwards to one port of many pods, each started when it is first asked for.
#[derive(Debug)]
pub(crate) struct Forwards {
    pods: Api<Pod>,
    port: u16,
    started: Mutex<BTreeMap<String, Forward>>,
}

impl Forwards {
    pub(crate) fn new(pods: Api<Pod>, port: u16) -> Self {
        Self {
            pods,
            port,
            started: Mutex::default(),
        }
    }

    /// The local address that leads to a pod, whichever process has its name at the moment.
    pub(crate) async fn to(&self, pod: &str) -> Result<SocketAddr> {
        let mut started = self.started.lock().await;
        if let Some(forward) = started.get(pod) {
            return Ok(forward.address);
        }
        let forward = Forward::quiet(self.pods.clone(), pod, self.port).await?;
        let address = forward.address;
        started.insert(pod.to_owned(), forward);
        Ok(address)
    }
}

/// Forwards until it is dropped.
#[derive(Debug)]
pub(crate) struct Forward {
    pub(crate) address: SocketAddr,
    /// Holds the one task that accepts; its own set of connections ends with it.
    _task: JoinSet<()>,
}

impl Forward {
    /// Listens on a free port of the loopback interface. Says when a connection cannot be carried.
    pub(crate) async fn to(pods: Api<Pod>, pod: &str, port: u16) -> Result<Self> {
        Self::listen(pods, pod, port, true).await
    }

    /// The same to a pod that may come and go: a connection to it ends when there is none.
    pub(crate) async fn quiet(pods: Api<Pod>, pod: &str, port: u16) -> Result<Self> {
        Self::listen(pods, pod, port, false).await
    }

    async fn listen(pods: Api<Pod>, pod: &str, port: u16, says: bool) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let pod = pod.to_owned();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                // Those that have ended are forgotten.
                while connections.try_join_next().is_some() {}
                let (pods, pod) = (pods.clone(), pod.clone());
                connections.spawn(async move {
                    if let Err(error) = carry(pods, &pod, port, stream).await
                        && says
                    {
                        println!("    port-forward to {pod}:{port}: {error:#}");
                    }
                });
            }
        });
        Ok(Self {
            address,
            _task: task,
        })
    }
}

/// One connection, one port-forward of its own: they end together.
async fn carry(pods: Api<Pod>, pod: &str, port: u16, mut local: TcpStream) -> Result<()> {
    let mut forwarder = pods
        .portforward(pod, &[port])
        .await
        .context("failed to begin")?;
    let mut remote = forwarder
        .take_stream(port)
        .context("no stream for the port")?;
    // Either side may end a connection whenever it likes.
    let _ = copy_bidirectional(&mut local, &mut remote).await;
    drop(remote);
    forwarder.abort();
    Ok(())
}
