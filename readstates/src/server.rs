//! One member, from start to stop.
//!
//! A stop loses nothing: while the member goes on serving, what is dirty is written; then changes are
//! refused, and what came in meanwhile is written; then it stops listening. Readiness fails only at
//! the end: a member that can still answer and forward is useful.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::serve::ListenerExt;
use rand::Rng;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::{
    cache::Process,
    config::{ServeConfig, StoreConfig},
    engine::Engine,
    forward::{Forwarder, ForwarderError},
    health::Health,
    http::{self, App},
    membership::{Member, Membership, MembershipError},
    metrics::Metrics,
    store::{CqlStore, EmbeddedStore, MemoryStore, OpenError, Store},
};

/// How long open connections may take to end after everything is written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a member did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("{flag}: failed to listen on {address}; give an address that is free")]
    Listen {
        /// The flag.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The embedded store cannot be opened.
    #[error("--store")]
    Store(#[from] OpenError),
    /// The members make no ring.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// There is no HTTP client.
    #[error(transparent)]
    Forwarder(#[from] ForwarderError),
    /// The clock is before 1970.
    #[error("the clock of this machine is before 1970; set it")]
    Clock,
}

/// Where a member listens.
#[derive(Debug)]
pub struct Listeners {
    /// For clients.
    pub http: TcpListener,
    /// For the operator.
    pub admin: TcpListener,
}

impl Listeners {
    /// Listens.
    ///
    /// # Errors
    /// When an address is taken or not ours.
    pub async fn bind(config: &ServeConfig) -> Result<Self, StartError> {
        let bind = async |flag, address| {
            TcpListener::bind(address)
                .await
                .map_err(|source| StartError::Listen {
                    flag,
                    address,
                    source,
                })
        };
        Ok(Self {
            http: bind("--listen", config.listen).await?,
            admin: bind("--admin-listen", config.admin_listen).await?,
        })
    }
}

/// Opens the store that a configuration names.
///
/// # Errors
/// When an embedded store cannot be opened. A CQL database that does not answer is no error: the
/// member waits for it.
pub fn open_store(config: &ServeConfig) -> Result<Arc<dyn Store>, OpenError> {
    Ok(match &config.store {
        StoreConfig::Memory => Arc::new(MemoryStore::default()),
        StoreConfig::Embedded(folder) => Arc::new(EmbeddedStore::open(folder)?),
        StoreConfig::Cql(target) => Arc::new(CqlStore::start(target.clone(), config.login.clone())),
    })
}

/// A member that serves.
#[derive(Debug)]
pub struct Server {
    /// Where clients are answered.
    pub http_address: SocketAddr,
    /// Where the operator is answered.
    pub admin_address: SocketAddr,
    app: Arc<App>,
    health: Arc<Health>,
    close: watch::Sender<bool>,
    listening: Vec<JoinHandle<io::Result<()>>>,
    flusher: JoinHandle<()>,
    watcher: JoinHandle<()>,
}

/// What a stop came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Users whose last changes were not written in time.
    pub unwritten_users: u64,
}

impl Server {
    /// Starts a member on these listeners.
    ///
    /// # Errors
    /// When the members make no ring, or the machine's clock is not set.
    pub async fn start(
        config: &ServeConfig,
        store: Arc<dyn Store>,
        listeners: Listeners,
    ) -> Result<Self, StartError> {
        let local = |listener: &TcpListener, flag, address| {
            listener.local_addr().map_err(|source| StartError::Listen {
                flag,
                address,
                source,
            })
        };
        let http_address = local(&listeners.http, "--listen", config.listen)?;
        let admin_address = local(&listeners.admin, "--admin-listen", config.admin_listen)?;
        let process = this_process()?;
        let membership = membership(config, process.incarnation, http_address)?;
        let metrics = Arc::new(Metrics::new());
        let health = Arc::new(Health::new(store.kind()));
        // A store that answers at once makes a member that is ready at once.
        health.ask(store.as_ref()).await;
        let watcher = tokio::spawn(Arc::clone(&health).watch(Arc::clone(&store)));
        let (capacity, interval) = (config.capacity_states, config.flush_interval);
        let (engine, flusher) =
            Engine::start(process, capacity, interval, store, Arc::clone(&metrics));
        let forwarder = Forwarder::new(membership.name(), membership.members().len())?;
        let app = Arc::new(App::new(
            membership,
            engine,
            forwarder,
            metrics,
            Arc::clone(&health),
        ));

        let (close, closed) = watch::channel(false);
        let listening = vec![
            listen(
                listeners.http,
                http::public(Arc::clone(&app)),
                closed.clone(),
            ),
            listen(listeners.admin, http::admin(Arc::clone(&app)), closed),
        ];
        Ok(Self {
            http_address,
            admin_address,
            app,
            health,
            close,
            listening,
            flusher,
            watcher,
        })
    }

    /// This member's name.
    #[must_use]
    pub fn member(&self) -> &str {
        self.app.membership.name()
    }

    /// Stops: writes everything, then closes. After `patience` it closes all the same.
    pub async fn stop(self, patience: Duration) -> Stopped {
        let Self {
            app,
            health,
            close,
            listening,
            flusher,
            watcher,
            ..
        } = self;
        let engine = &app.engine;
        let started = Instant::now();
        tracing::info!(
            dirty_users = engine.cache().dirty_users(),
            "stopping: writing what is dirty"
        );
        let drain = async {
            // Most is written while changes are still taken: the pause at the end stays short.
            engine.flush_all().await;
            engine.seal();
            engine.drain().await;
        };
        if tokio::time::timeout(patience, drain).await.is_err() {
            engine.seal();
        }
        health.stopped();
        close.send_replace(true);
        for task in listening {
            // Connections that are still open then are cut.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, task).await;
        }
        engine.stop();
        watcher.abort();
        // Its writes are bounded by the store.
        let _ = flusher.await;
        let unwritten_users = engine.cache().dirty_users();
        tracing::info!(unwritten_users, took = ?started.elapsed(), "stopped");
        Stopped { unwritten_users }
    }
}

fn this_process() -> Result<Process, StartError> {
    let micros = jiff::Timestamp::now().as_microsecond();
    let started_micros = u64::try_from(micros).map_err(|_| StartError::Clock)?;
    Ok(Process {
        incarnation: rand::rng().random(),
        started_micros,
    })
}

fn membership(
    config: &ServeConfig,
    incarnation: u64,
    http_address: SocketAddr,
) -> Result<Membership, MembershipError> {
    let alone = || {
        vec![Member {
            name: config.member.clone(),
            url: format!("http://{http_address}"),
        }]
    };
    let members = config.members.clone().unwrap_or_else(alone);
    Membership::new(
        config.ring_number,
        members,
        &config.member,
        incarnation,
        config.zone.clone(),
    )
}

fn listen(
    listener: TcpListener,
    routes: axum::Router,
    mut closed: watch::Receiver<bool>,
) -> JoinHandle<io::Result<()>> {
    // Answers are small and complete: waiting for more to send only delays them.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY was refused: {error}");
        }
    });
    tokio::spawn(async move {
        axum::serve(listener, routes)
            .with_graceful_shutdown(async move {
                // An error means that the server is gone, which is as good as closed.
                let _ = closed.wait_for(|closed| *closed).await;
            })
            .await
    })
}
