//! One member, from start to stop.
//!
//! A stop loses nothing: while the member goes on serving, its slots are handed to others, and what is
//! dirty is written, both from the start: neither a ring nor a database that does not answer holds up
//! the other. Then changes are refused, and what came in meanwhile is written; then it stops listening.
//! Readiness fails only at the end: a member that can still answer and forward is useful.

mod parts;

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use parts::{follow, guards, of_member, scheme, this_process};
pub use parts::{open_ring, open_store};
use readstates_identity::IdentityError;
use readstates_ring::record::RecordError;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::task::AbortOnDropHandle;

pub use crate::workers::Listeners;
use crate::{
    access::AccessError,
    cache::{Flushing, Process},
    config::ServeConfig,
    engine::Engine,
    health::Health,
    http::{self, App, Entrance, Forwarder},
    journal::{Journal, JournalError},
    members_tls::{ClientError, MembersTls},
    metrics::Metrics,
    operation::Port,
    ownership::{
        HttpPeers, Ownership, Peers,
        store::{RingStore, RingStoreError},
    },
    store::{OpenError, Store, TlsFileError},
    workers::{CLOSE_TIMEOUT, ListenError, Workers},
};

/// Why a member did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The callers of the access file cannot be admitted.
    #[error("failed to admit the callers of --access")]
    Access(#[from] AccessError),
    /// A file of TLS on the API port cannot be used.
    #[error("failed to use {flag}")]
    ApiTls {
        /// The flag that names the file.
        flag: &'static str,
        /// The file, and what is wrong with it.
        source: TlsFileError,
    },
    /// There are no threads.
    #[error("failed to start the threads that answer clients")]
    Workers(#[from] io::Error),
    /// The embedded store cannot be opened.
    #[error("failed to open the store (--store)")]
    Store(#[from] OpenError),
    /// The journal cannot be used.
    #[error("failed to use the journal (--durability)")]
    Journal(#[from] JournalError),
    /// The member cannot be listed in a ring.
    #[error("failed to list the member in a ring (--member, --advertise or --zone)")]
    Member(#[from] RecordError),
    /// The ring cannot be opened.
    #[error("failed to open the ring (--ring)")]
    Ring(#[from] RingStoreError),
    /// There is no HTTP client for the other members.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The certificates cannot be used.
    #[error("failed to use the certificates of --members-tls-dir")]
    Tls(#[from] IdentityError),
    /// The clock is before 1970.
    #[error("the clock of this machine is before 1970; set it")]
    Clock,
}

/// How long a member that owns nothing any more still forwards.
const FORWARD_ON: Duration = Duration::from_secs(2);

/// How long a start waits for the ring, so that a member that is alone is ready at once.
const JOIN_PATIENCE: Duration = Duration::from_secs(2);

/// A member that serves.
#[derive(Debug)]
pub struct Server {
    /// Where clients are answered.
    pub http_address: SocketAddr,
    /// Where the operator is answered.
    pub admin_address: SocketAddr,
    /// Where the other members are answered, if there can be any.
    pub members_address: Option<SocketAddr>,
    /// Where probes and Prometheus are answered.
    pub watch_address: SocketAddr,
    app: Arc<App>,
    health: Arc<Health>,
    close: watch::Sender<bool>,
    workers: Workers,
    /// What accepts the operator's connections, and the watchers'.
    background: [JoinHandle<()>; 2],
    /// What looks for renewed certificates.
    renewal: Option<JoinHandle<()>>,
    flusher: JoinHandle<()>,
    watcher: JoinHandle<()>,
    /// What looks at the files about callers. They end with this.
    _followers: Vec<AbortOnDropHandle<()>>,
}

/// The result of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Users whose last changes were not written in time.
    pub unwritten_users: u64,
}

impl Server {
    /// Starts a member on these listeners.
    ///
    /// # Errors
    /// When the member cannot be listed in a ring, or the machine's clock is not set.
    pub async fn start(
        config: &ServeConfig,
        store: Arc<dyn Store>,
        ring: Arc<dyn RingStore>,
        listeners: Listeners,
    ) -> Result<Self, StartError> {
        let peers = HttpPeers::new(config.tls.as_ref().map(|tls| &*tls.identity))?;
        Self::start_among(config, store, ring, peers, listeners).await
    }

    /// As [`Server::start`], with other ways to reach the other members when slots move.
    ///
    /// # Errors
    /// When the member cannot be listed in a ring, or the machine's clock is not set.
    pub async fn start_among(
        config: &ServeConfig,
        store: Arc<dyn Store>,
        ring: Arc<dyn RingStore>,
        peers: Arc<dyn Peers>,
        listeners: Listeners,
    ) -> Result<Self, StartError> {
        let Listeners {
            http_address,
            admin_address,
            members_address,
            watch_address,
            http,
            admin,
            members,
            watch: watched,
        } = listeners;
        let process = this_process()?;
        let (access, tls) = guards(config)?;
        let followers = follow(access.as_ref(), tls.as_ref());
        let metrics = Arc::new(Metrics::new());
        let health = Arc::new(Health::new(store.kind()));
        // A store that answers at once makes a member that is ready at once.
        health.ask(store.as_ref()).await;
        let watcher = tokio::spawn(Arc::clone(&health).watch(Arc::clone(&store)));
        let (engine, flusher) = start_engine(config, process, store, &metrics, &health).await?;
        let ownership = Ownership::new(
            of_member(config, process.incarnation, http_address, members_address),
            Arc::clone(&engine),
            ring,
            peers,
        )?;
        let forwarder = Forwarder::new(&config.member, config.tls.clone(), Arc::clone(&metrics))?;
        let (close, closed) = watch::channel(false);
        let app = App::new(
            Arc::clone(&ownership),
            engine,
            forwarder,
            metrics,
            Arc::clone(&health),
            config.limits.clone(),
            closed.clone(),
        );
        let app = Arc::new(app.guarded(access, tls).observed(config.observe.clone()));
        let (workers, background) =
            open_ports(config, [http, admin, watched], members, &app, &closed)?;
        let renewal = config.tls.clone().map(renew);
        if !admin_address.ip().is_unspecified() {
            ownership.is_asked_at(format!("{}://{admin_address}", scheme(config)));
        }
        // Only now: a member that is given slots must be able to answer for them.
        ownership.begin();
        let deadline = tokio::time::Instant::now() + JOIN_PATIENCE;
        ownership.wait_until_joined(deadline).await;
        Ok(Self {
            http_address,
            admin_address,
            members_address,
            watch_address,
            app,
            health,
            close,
            workers,
            background,
            renewal,
            flusher,
            watcher,
            _followers: followers,
        })
    }

    #[must_use]
    pub fn member(&self) -> &str {
        self.app.ownership.me().name()
    }

    /// This member's part of the ring.
    #[must_use]
    pub fn ownership(&self) -> &Arc<Ownership> {
        &self.app.ownership
    }

    /// Ends at once, as when the machine goes: nothing is written and nothing is announced. For tests of
    /// how the other members react.
    pub async fn crash(self) {
        let Self {
            app,
            close,
            workers,
            background,
            renewal,
            flusher,
            watcher,
            ..
        } = self;
        app.ownership.end();
        if let Some(journal) = app.engine.journal() {
            journal.end(false);
        }
        flusher.abort();
        watcher.abort();
        renewal.iter().for_each(JoinHandle::abort);
        background.iter().for_each(JoinHandle::abort);
        close.send_replace(true);
        workers.join().await;
        if let Some(journal) = app.engine.journal() {
            // The next process can have its folder.
            journal.ended().await;
        }
    }

    /// Stops: hands its slots to the others, writes what is dirty, announces its end, and closes. After
    /// `patience` it closes in any case.
    pub async fn stop(self, patience: Duration) -> Stopped {
        let Self {
            app,
            health,
            close,
            workers,
            background,
            renewal,
            flusher,
            watcher,
            ..
        } = self;
        let engine = &app.engine;
        let started = Instant::now();
        tracing::info!(
            dirty_users = engine.cache().dirty_users(),
            "stopping: handing on what is owned, and writing what is dirty"
        );
        let ended = app.ownership.stop(patience).await;
        if ended.handed_on {
            // Senders with an old ring still find a member that forwards.
            tokio::time::sleep(FORWARD_ON.min(patience / 10)).await;
        }
        health.stopped();
        close.send_replace(true);
        // Connections that are still open then are cut.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, join_all(background)).await;
        workers.join().await;
        engine.stop();
        watcher.abort();
        renewal.iter().for_each(JoinHandle::abort);
        // Its writes are bounded by the store.
        let _ = flusher.await;
        engine.end_journal().await;
        // The last writes may have come through since.
        let unwritten_users = app.ownership.unwritten_users() + ended.entrusted_users;
        tracing::info!(unwritten_users, took = ?started.elapsed(), "stopped");
        Stopped { unwritten_users }
    }
}

/// The engine and what writes its changes to the store, with the journal if there is one.
async fn start_engine(
    config: &ServeConfig,
    process: Process,
    store: Arc<dyn Store>,
    metrics: &Arc<Metrics>,
    health: &Health,
) -> Result<(Arc<Engine>, JoinHandle<()>), StartError> {
    let flushing = Flushing {
        interval: config.flush_interval,
        mode: config.flush_mode,
    };
    let journal = match &config.journal {
        Some(journal) => Journal::open(journal, store.as_ref(), process.incarnation).await?,
        None => None,
    };
    journal
        .iter()
        .for_each(|journal| health.has_journal(journal));
    Ok(Engine::start_with_journal(
        process,
        config.capacity_states,
        flushing,
        store,
        Arc::clone(metrics),
        journal,
    ))
}

/// Answers on all ports, of clients, the operator, watchers and members: the first and the last by the workers.
fn open_ports(
    config: &ServeConfig,
    [http, admin, watched]: [TcpListener; 3],
    members: Option<TcpListener>,
    app: &Arc<App>,
    closed: &watch::Receiver<bool>,
) -> Result<(Workers, [JoinHandle<()>; 2]), StartError> {
    let acceptors = config.tls.as_ref().map(MembersTls::acceptors);
    let (of_members, of_operators) = acceptors.transpose()?.unzip();
    let entrance = |port, listener, proof| Entrance {
        port,
        listener,
        proof,
    };
    let members = members.map(|members| entrance(Port::Members, members, of_members));
    let of_workers = [entrance(Port::Api, http, None)].into_iter().chain(members);
    let workers = Workers::start(of_workers, config.workers, app, closed)?;
    workers.show_to(app);
    // Not on the threads that answer clients: probes and the operator are answered even when those are overrun.
    let here = |entrance| tokio::spawn(http::listen(entrance, Arc::clone(app), closed.clone()));
    let background = [
        here(entrance(Port::Admin, admin, of_operators)),
        here(entrance(Port::Watch, watched, None)),
    ];
    Ok((workers, background))
}

/// Looks for renewed certificates until it is aborted.
fn renew(tls: MembersTls) -> JoinHandle<()> {
    tokio::spawn(async move { tls.identity.follow(tls.folder).await })
}
