//! The mutual TLS of processes in pods, by the Secrets that their pods mount.

use std::{net::SocketAddr, sync::Arc};

use axum::serve::Listener;
use k8s_openapi::api::core::v1::{Pod, PodSpec, Secret};
use readstates_identity::{Acceptor, Identity, Pems, Role};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

use crate::world::World;

/// Connections of the operator of one cluster.
pub(crate) struct Operators {
    listener: TcpListener,
    acceptor: Acceptor,
}

impl Operators {
    pub(crate) async fn listen(address: SocketAddr, identity: &Identity) -> Self {
        Self {
            listener: TcpListener::bind(address).await.unwrap(),
            acceptor: identity.acceptor(&[Role::Operator]).unwrap(),
        }
    }
}

impl Listener for Operators {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (socket, from) = self.listener.accept().await.unwrap();
            // Connections that are not the operator's are dropped.
            if let Ok((stream, _)) = self.acceptor.accept(socket).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl World {
    /// What a pod proves itself by: what is in the Secret that it mounts for that.
    pub(crate) async fn identity_of(&self, spec: &PodSpec) -> Option<Arc<Identity>> {
        Some(Identity::new(self.pems_of(spec).await?).unwrap())
    }

    /// Kubelets bring what Secrets hold now, and processes in cache pods read it.
    pub(crate) async fn sync_secrets(&self, pods: &[&str]) {
        for name in pods {
            let pod: Pod = self.get(name).await;
            let pems = self.pems_of(pod.spec.as_ref().unwrap()).await.unwrap();
            self.fleet.identity(name).replace(pems).unwrap();
        }
    }

    async fn pems_of(&self, spec: &PodSpec) -> Option<Pems> {
        let volume = spec
            .volumes
            .iter()
            .flatten()
            .find(|v| v.name == "identity")?;
        let name = volume.secret.as_ref()?.secret_name.clone()?;
        let secret: Secret = self.get(&name).await;
        let text = |key: &str| {
            let bytes = secret.data.as_ref().unwrap()[key].0.clone();
            String::from_utf8(bytes).unwrap()
        };
        Some(Pems {
            ca: text("ca.crt"),
            certificate: text("tls.crt"),
            key: text("tls.key"),
        })
    }
}
