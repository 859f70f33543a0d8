//! The agent's port for the operator: mutual TLS, on which only the operator of this cluster is admitted.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::serve::Listener;
use readstates_api::admin::IdentityStatus;
use readstates_identity::{Acceptor, Identity, Pems, Role};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{sleep, timeout},
};
use tokio_rustls::server::TlsStream;

/// Longest handshake: the operator gives up sooner.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Concurrent handshakes. More connections wait in the kernel's queue: there is only one operator.
const HANDSHAKES: usize = 32;
/// How often unusable files are read again.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Pause after a failed accept, which means that the process is short of some resource.
const PAUSE: Duration = Duration::from_millis(200);

/// What this agent proves itself by, from `ca.crt`, `tls.crt` and `tls.key` in a folder, once they can be used; followed
/// from then on. A database comes back without an operator, and so with certificates that are over.
pub(super) async fn identity(folder: &Path) -> Arc<Identity> {
    let mut said = String::new();
    let identity = loop {
        let words = match read(folder) {
            Ok(identity) => break identity,
            Err(error) => format!("{error:#}"),
        };
        if words != said {
            tracing::error!("the operator cannot be answered: {words}");
            said = words;
        }
        sleep(LOOK_AGAIN).await;
    };
    let followed = Arc::clone(&identity);
    let folder = folder.to_owned();
    // Ends with the process; nothing waits for it.
    tokio::spawn(async move { followed.follow(folder).await });
    identity
}

fn read(folder: &Path) -> anyhow::Result<Arc<Identity>> {
    let pems = Pems::read(folder)?;
    Identity::new(pems).context("the certificates of this agent cannot be used")
}

/// The certificates that are in use, for the operator.
pub(super) fn status(identity: &Identity) -> IdentityStatus {
    IdentityStatus {
        certificate: identity.mark().to_string(),
        trusted: identity.trusted().iter().map(ToString::to_string).collect(),
        expires: jiff::Timestamp::try_from(identity.expires())
            .map_or_else(|_| String::new(), |expires| expires.to_string()),
    }
}

/// Connections of the operator.
pub(super) struct Operators {
    proven: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

/// Listens until what it returns is dropped.
///
/// # Errors
/// When the address cannot be listened on.
pub(super) async fn listen(address: SocketAddr, identity: &Identity) -> anyhow::Result<Operators> {
    let listener =
        crate::listen::listen(address).with_context(|| format!("failed to listen on {address}"))?;
    let address = listener.local_addr()?;
    let acceptor = identity.acceptor(&[Role::Operator])?;
    let (sender, proven) = mpsc::channel(1);
    // Ends when the receiver is dropped; nothing waits for it.
    tokio::spawn(accept(listener, acceptor, sender));
    Ok(Operators { proven, address })
}

type Proven = mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>;

async fn accept(listener: TcpListener, acceptor: Acceptor, sender: Proven) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        // It is never closed.
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else {
            return;
        };
        // Cancel-safe on both sides: a connection that is not accepted stays in the queue.
        let accepted = tokio::select! {
            () = sender.closed() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, from)) => {
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                // Bounded by its permit and by time; nothing waits for it.
                tokio::spawn(prove(socket, from, acceptor, sender, permit));
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn prove(
    socket: TcpStream,
    from: SocketAddr,
    acceptor: Acceptor,
    sender: Proven,
    permit: OwnedSemaphorePermit,
) {
    let proven = timeout(HANDSHAKE, acceptor.accept(socket)).await;
    drop(permit);
    match proven {
        // An error means that the server ends.
        Ok(Ok((stream, _))) => drop(sender.send((stream, from)).await),
        Ok(Err(error)) => {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%from, ?why, "refused a connection: {error}");
        }
        Err(_) => {
            tracing::warn!(%from, "refused a connection: it did not prove what it is in time")
        }
    }
}

impl Listener for Operators {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.proven.recv().await {
            Some(proven) => proven,
            // The task that accepts ends only after this.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::SystemTime;

    use readstates_identity::{Authority, ClusterName};

    use super::*;

    /// A cluster of its own, with a folder of the agent's certificates.
    pub(crate) struct Cluster {
        authority: Authority,
        name: ClusterName,
    }

    impl Cluster {
        pub(crate) fn new() -> Self {
            let name: ClusterName = "chat.talk".parse().unwrap();
            let day = Duration::from_hours(24);
            let authority = Authority::new(&name, SystemTime::now(), day).unwrap();
            Self { authority, name }
        }

        pub(crate) fn pems(&self, role: Role) -> Pems {
            let day = Duration::from_hours(24);
            let issued = self
                .authority
                .issue(role, &self.name, SystemTime::now(), day);
            issued.unwrap()
        }

        /// Writes the agent's files.
        pub(crate) fn write(&self, folder: &Path) {
            let Pems {
                ca,
                certificate,
                key,
            } = self.pems(Role::Agent);
            std::fs::create_dir_all(folder).unwrap();
            for (file, text) in [("ca.crt", ca), ("tls.crt", certificate), ("tls.key", key)] {
                std::fs::write(folder.join(file), text).unwrap();
            }
        }

        /// A client that shows a certificate of this role to agents.
        pub(crate) fn client(&self, role: Role) -> reqwest::Client {
            let identity = Identity::new(self.pems(role)).unwrap();
            let tls = identity.client_config(Role::Agent).unwrap();
            let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
            client.tls_backend_preconfigured(tls).build().unwrap()
        }
    }

    #[tokio::test]
    async fn the_operator_of_this_cluster_is_heard_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster::new();
        cluster.write(folder.path());
        let agent = identity(folder.path()).await;
        let operators = listen("[::]:0".parse().unwrap(), &agent).await.unwrap();
        let port = operators.local_addr().unwrap().port();
        let app = axum::Router::new().route("/", axum::routing::get(async || "ok"));
        tokio::spawn(async move { axum::serve(operators, app).await });
        let heard_at = async |address: &str, client: reqwest::Client| {
            let url = format!("https://{address}:{port}/");
            client.get(url).send().await.is_ok()
        };
        let address = "127.0.0.1";
        let heard = async |client: reqwest::Client| heard_at(address, client).await;
        assert!(heard(cluster.client(Role::Operator)).await);
        // A pod that has an address of IPv6 alone.
        assert!(heard_at("[::1]", cluster.client(Role::Operator)).await);
        assert!(!heard_at("[::1]", Cluster::new().client(Role::Operator)).await);
        assert!(!heard(cluster.client(Role::Member)).await);
        assert!(!heard(Cluster::new().client(Role::Operator)).await);
        let nobody = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .build()
            .unwrap();
        let plain = nobody.get(format!("http://{address}:{port}/")).send();
        let plain = plain.await;
        assert!(plain.is_err());
        // None of these keeps the operator away.
        assert!(heard(cluster.client(Role::Operator)).await);
    }
}
