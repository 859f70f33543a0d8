//! The threads that answer clients: a runtime of their own, whose threads take work from each other.
//!
//! Background work has a runtime of its own, too (`background`), so that a large
//! flush delays no answer. A runtime for each thread, with the connections shared out between them by the
//! kernel (`SO_REUSEPORT`), was measured beside this: as many requests a second, and a longer tail, for a
//! thread whose core does something else holds up its own connections until it is back (the generator's
//! page has the figures).

use std::{io, net::SocketAddr, num::NonZeroUsize, sync::Arc, time::Duration};

use futures::future::join_all;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

use crate::{
    config::{ListenConfig, ServeConfig},
    http::{self, App, Entrance},
};

/// How long open connections may take to end after everything is written.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that wait to be accepted, at most.
const BACKLOG: i32 = 1024;
/// After this many tasks a thread takes one from the queue that all threads share. It has room for 256 of its own, and
/// further connections wait in the shared one: tokio looks there once in some twenty tasks of this length, so that
/// with a thousand busy connections one in a hundred waited seventy times as long as half of them (see the page of the
/// generator).
const SHARED_QUEUE_EVERY: u32 = 2;

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
    /// Where the other members are answered, if there can be any.
    pub members_address: Option<SocketAddr>,
    /// Where probes and Prometheus are answered.
    pub watch_address: SocketAddr,
    pub(crate) http: TcpListener,
    pub(crate) admin: TcpListener,
    pub(crate) members: Option<TcpListener>,
    pub(crate) watch: TcpListener,
}

impl Listeners {
    /// Listens. To be called in a runtime.
    ///
    /// # Errors
    /// When an address is taken or not ours.
    pub fn bind(config: &ServeConfig) -> Result<Self, ListenError> {
        let ListenConfig {
            api,
            admin,
            members,
            watch,
        } = config.listen;
        let (http, http_address) = bound("--listen", api)?;
        let (admin, admin_address) = bound("--admin-listen", admin)?;
        let members = members.map(|address| bound("--members-listen", address));
        let (members, members_address) = members.transpose()?.unzip();
        let (watch, watch_address) = bound("--watch-listen", watch)?;
        Ok(Self {
            http_address,
            admin_address,
            members_address,
            watch_address,
            http,
            admin,
            members,
            watch,
        })
    }
}

/// A listener, and the address that port 0 has become.
fn bound(
    flag: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), ListenError> {
    listening(address).map_err(|source| ListenError {
        flag,
        address,
        source,
    })
}

fn listening(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = readstates_listen::listen(address, BACKLOG)?;
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    Ok((TcpListener::from_std(listener)?, address))
}

/// Threads that answer clients, and what other members forward of theirs.
#[derive(Debug)]
pub(crate) struct Workers {
    /// There until the end.
    runtime: Option<Runtime>,
    /// What accepts connections, by port.
    ports: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Shows how busy these threads are, with the member's metrics, and has them do what answers wait for.
    pub(crate) fn show_to(&self, app: &App) {
        if let Some(runtime) = &self.runtime {
            // A member has one of them.
            let _ = app.workers.set(runtime.handle().clone());
            app.ownership.answers_on(runtime.handle().clone());
        }
    }

    /// Starts this many threads. They take no more connections after `closed`.
    pub(crate) fn start(
        entrances: impl IntoIterator<Item = Entrance>,
        count: NonZeroUsize,
        app: &Arc<App>,
        closed: &watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(count.get())
            .thread_name("worker")
            .global_queue_interval(SHARED_QUEUE_EVERY)
            .enable_all()
            .build()?;
        let mut ports = Vec::new();
        for entrance in entrances {
            // Moved from the runtime that it was made in to the one that accepts.
            let listener = entrance.listener.into_std()?;
            let listener = {
                let _entered = runtime.enter();
                TcpListener::from_std(listener)?
            };
            let entrance = Entrance {
                listener,
                ..entrance
            };
            let accepts = http::listen(entrance, Arc::clone(app), closed.clone());
            ports.push(runtime.spawn(accepts));
        }
        Ok(Self {
            runtime: Some(runtime),
            ports,
        })
    }

    /// Waits until every connection has ended, for at most [`CLOSE_TIMEOUT`]: to be asked once they were told to.
    pub(crate) async fn join(mut self) {
        // What is still open after that is cut with the runtime.
        let ended = timeout(CLOSE_TIMEOUT, join_all(&mut self.ports)).await;
        for error in ended.into_iter().flatten().filter_map(Result::err) {
            tracing::error!("the task that accepts connections failed: {error}");
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not wait for its threads: the task that drops this may run on one of them.
            runtime.shutdown_background();
        }
    }
}
