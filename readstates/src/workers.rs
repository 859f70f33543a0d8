//! The threads that answer clients: one per core, each with a runtime of its own.
//!
//! Every worker listens on the same address; the kernel shares new connections out between them
//! (`SO_REUSEPORT`). A connection stays with its worker, so nothing about it ever moves between cores.
//! What works behind the clients' backs (loads, writes, the operator's port) has the runtime that the
//! process started with.

use std::{io, net::SocketAddr, sync::Arc, thread, time::Duration};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::{net::TcpListener, sync::watch};

use crate::{
    config::ServeConfig,
    http::{self, App, Port},
};

/// How long open connections may take to end after everything is written.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that the kernel has made and that nobody has accepted yet, at most, for each worker.
const BACKLOG: i32 = 1024;

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{flag}: failed to listen on {address}; give an address that is free")]
pub struct ListenError {
    flag: &'static str,
    address: SocketAddr,
    source: io::Error,
}

/// Where a member listens.
#[derive(Debug)]
pub struct Listeners {
    /// Where clients are answered.
    pub http_address: SocketAddr,
    /// Where the operator is answered.
    pub admin_address: SocketAddr,
    /// For clients: one for each worker.
    pub(crate) http: Vec<std::net::TcpListener>,
    /// For the operator.
    pub(crate) admin: TcpListener,
}

impl Listeners {
    /// Listens.
    ///
    /// # Errors
    /// When an address is taken or not ours.
    pub async fn bind(config: &ServeConfig) -> Result<Self, ListenError> {
        let (flag, address) = ("--listen", config.listen);
        let failed = |source| ListenError {
            flag,
            address,
            source,
        };
        let http = share(address, config.workers.get()).map_err(failed)?;
        let http_address = http[0].local_addr().map_err(failed)?;
        let (flag, address) = ("--admin-listen", config.admin_listen);
        let failed = |source| ListenError {
            flag,
            address,
            source,
        };
        let admin = TcpListener::bind(address).await.map_err(failed)?;
        Ok(Self {
            http_address,
            admin_address: admin.local_addr().map_err(failed)?,
            http,
            admin,
        })
    }
}

/// So many listeners on one address that nobody else listens on.
fn share(address: SocketAddr, count: usize) -> io::Result<Vec<std::net::TcpListener>> {
    // Two processes of one user could share an address without either knowing: without the option, the
    // kernel says when somebody is there already.
    drop(bound(address, false)?);
    let first = bound(address, true)?;
    // Port 0 became one that was free; the others listen there too.
    let address = first
        .local_addr()?
        .as_socket()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut sockets = vec![first];
    while sockets.len() < count {
        sockets.push(bound(address, true)?);
    }
    for socket in &sockets {
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
    }
    Ok(sockets.into_iter().map(Into::into).collect())
}

fn bound(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A process that starts again finds its address free while old connections still linger.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Threads that answer clients.
#[derive(Debug)]
pub(crate) struct Workers {
    threads: Vec<thread::JoinHandle<()>>,
}

impl Workers {
    /// Starts one for each listener. They end after `closed`.
    pub(crate) fn start(
        listeners: Vec<std::net::TcpListener>,
        app: &Arc<App>,
        closed: &watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let mut threads = Vec::with_capacity(listeners.len());
        for (number, listener) in listeners.into_iter().enumerate() {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let listener = {
                let _entered = runtime.enter();
                TcpListener::from_std(listener)?
            };
            let (app, mut closed) = (Arc::clone(app), closed.clone());
            let work = move || {
                let clients = http::listen(listener, Port::Public, app, closed.clone());
                runtime.block_on(async {
                    let patience = async {
                        // An error means that the server is gone, which is as good as closed.
                        let _ = closed.wait_for(|&closed| closed).await;
                        tokio::time::sleep(CLOSE_TIMEOUT).await;
                    };
                    // What is still open after the patience is cut with the runtime.
                    tokio::select! {
                        () = clients => {}
                        () = patience => {}
                    }
                });
            };
            let name = format!("worker-{number}");
            threads.push(thread::Builder::new().name(name).spawn(work)?);
        }
        Ok(Self { threads })
    }

    /// Waits until the last one has ended: at most [`CLOSE_TIMEOUT`] after it was told to.
    pub(crate) async fn join(self) {
        let joined = tokio::task::spawn_blocking(move || {
            for thread in self.threads {
                if thread.join().is_err() {
                    tracing::error!("a worker has panicked");
                }
            }
        });
        // The runtime goes down before this one only when the whole process does.
        let _ = joined.await;
    }
}
