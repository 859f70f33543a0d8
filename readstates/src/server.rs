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

use rand::Rng;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    cache::Process,
    config::{ServeConfig, StoreConfig},
    engine::Engine,
    forward::{Forwarder, ForwarderError},
    health::Health,
    http::{self, App, Port},
    membership::{Member, Membership, MembershipError},
    metrics::Metrics,
    store::{CqlStore, EmbeddedStore, MemoryStore, OpenError, Store},
    workers::{CLOSE_TIMEOUT, ListenError, Workers},
};

pub use crate::workers::Listeners;

/// Why a member did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There are no threads.
    #[error("failed to start the threads that answer clients")]
    Workers(#[from] io::Error),
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
    workers: Workers,
    operator: JoinHandle<()>,
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
        let (http_address, admin_address) = (listeners.http_address, listeners.admin_address);
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
        let (limits, members) = (config.limits.clone(), membership.members());
        let forwarder = Forwarder::new(membership.name(), members, limits.max_per_member)?;
        let (close, closed) = watch::channel(false);
        let app = Arc::new(App::new(
            membership,
            engine,
            forwarder,
            metrics,
            Arc::clone(&health),
            limits,
            closed.clone(),
        ));
        let workers = Workers::start(listeners.http, &app, &closed)?;
        let operator = http::listen(listeners.admin, Port::Admin, Arc::clone(&app), closed);
        let operator = tokio::spawn(operator);
        Ok(Self {
            http_address,
            admin_address,
            app,
            health,
            close,
            workers,
            operator,
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
            workers,
            operator,
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
        // Connections that are still open then are cut.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, operator).await;
        workers.join().await;
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
