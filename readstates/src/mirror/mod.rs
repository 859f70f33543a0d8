//! `readstates mirror`: a proxy in front of another system, whose traffic the service is sent, too.
//!
//! ```text
//!            ┌─ unchanged ─▶ old system ─ answer ─▶ caller
//! caller ─▶ mirror
//!            ├─ write done there ─▶ queue by user ─▶ service
//!            └─ read ─▶ service ─▶ compare ┬ equal: the user is proven
//!                                          └ different, twice: counted, written down
//! ```
//! The old system stays the one that is right: it has every write first, so going back is to serve nobody. A caller never
//! waits for the service, except for those of the share (`--serve`): their writes are at the service before they are
//! answered, and their reads come from there, as long as they are proven. What the process has not seen proves nothing,
//! so it may be killed at any time.
//!
//! Everything is bounded: connections, writes that wait, comparisons under way, bodies that are read, users who are
//! proven, the file of differences. Beyond a bound the old system alone is asked, and it is counted.

mod compare;
mod counts;
mod differences;
mod error;
mod field;
mod json;
mod listen;
mod old;
mod operation;
mod ours;
mod pattern;
mod proxy;
mod queue;
mod read;
mod routes;
mod shape;
mod share;
mod tee;
mod write;
mod writes;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::task::TaskTracker;

use self::{
    counts::Counts,
    differences::Differences,
    listen::Port,
    old::Old,
    ours::Ours,
    proxy::Mirror,
    queue::{Queue, Working},
    routes::Routes,
    share::{Proven, Share},
    writes::Writes,
};
pub use self::{error::MirrorError, routes::RoutesError};
use crate::{config::MirrorArgs, ration::Ration, signals::Signals};

/// Comparisons under way at a time. Each may hold an answer of some megabytes.
const COMPARISONS: usize = 128;
/// Kibibytes of bodies of writes that are in memory at a time.
const BODIES: usize = 256 << 10;
/// How long requests under way may take to end at a stop; never more than a third of its time.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs until it is told to stop (SIGTERM, SIGINT), and prints what came of it.
///
/// # Errors
/// When it cannot start, or stops with writes that the service does not have.
pub async fn run(args: MirrorArgs) -> Result<(), MirrorError> {
    let mut signals = Signals::new().map_err(MirrorError::Signals)?;
    let drain_timeout = args.drain_timeout;
    // Everything that can be wrong is found before anything is listened on.
    let (mirror, working) = prepare(&args)?;
    let (callers, address) = listen::bound(Port::Callers, args.listen)?;
    let watch = args
        .watch
        .map(|watch| listen::bound(Port::Watch, watch))
        .transpose()?;
    let (close, closed) = watch::channel(false);
    let watch_address = watch.as_ref().map(|(_, address)| *address);
    let mut ports = JoinSet::new();
    ports.spawn(listen::serve(
        Port::Callers,
        callers,
        Arc::clone(&mirror),
        closed,
    ));
    let (close_watch, closed) = watch::channel(false);
    // Until the end, so that the last counts can be read.
    let watching = watch.map(|(watch, _)| {
        tokio::spawn(listen::serve(
            Port::Watch,
            watch,
            Arc::clone(&mirror),
            closed,
        ))
    });
    tracing::info!(
        listen = %address,
        watch = watch_address.map(tracing::field::display),
        old = %args.old,
        "serving"
    );
    signals.stop().await;
    // A receiver that is gone has nothing to close.
    let _ = close.send(true);
    let left = tokio::select! {
        left = stopped(&mirror, ports, drain_timeout) => Ok(left),
        // Nothing to undo: the process ends.
        () = signals.stop() => Err(MirrorError::Hurried(mirror.left())),
    };
    let _ = close_watch.send(true);
    drop((watching, working));
    println!("{}", mirror.counts);
    match left? {
        0 => Ok(()),
        writes => Err(MirrorError::Left {
            writes,
            within: drain_timeout,
        }),
    }
}

/// Takes no more requests, waits for the old system's answers to writes, and sends those that it has done; returns how
/// many are left.
async fn stopped(mirror: &Mirror, mut ports: JoinSet<()>, drain_timeout: Duration) -> usize {
    let until = Instant::now() + drain_timeout;
    let ended = async { while ports.join_next().await.is_some() {} };
    let close_timeout = CLOSE_TIMEOUT.min(drain_timeout / 3);
    if timeout(close_timeout, ended).await.is_err() {
        tracing::warn!("requests are still under way: only writes are waited for from now on");
    }
    mirror.at_old.close();
    let sent = async {
        mirror.at_old.wait().await;
        mirror.queue.drained().await;
    };
    // Whether it is in time or not, what counts is how many are left.
    let _ = timeout_at(until, sent).await;
    mirror.left()
}

fn prepare(args: &MirrorArgs) -> Result<(Arc<Mirror>, Working), MirrorError> {
    let routes = Routes::open(&args.routes).map_err(|source| MirrorError::Routes {
        file: args.routes.clone(),
        source,
    })?;
    let share = Share::new(args.serve);
    if !share.is_nobody() && routes.shape.is_none() {
        return Err(MirrorError::NothingToServe {
            file: args.routes.clone(),
        });
    }
    let old = Old::new(&args.old, args.old_ca_file.as_deref())?;
    let ours = Arc::new(Ours::new(args.service.clone(), args.deadline)?);
    let differences = Differences::open(args.differences.as_deref());
    let differences = differences.map_err(|source| MirrorError::Differences {
        file: args.differences.clone().unwrap_or_default(),
        source,
    })?;
    let names = routes.routes.iter().map(|route| route.request.clone());
    let counts = Arc::new(Counts::new(names));
    let proven = Arc::new(Proven::default());
    let size = args.queue as usize;
    let (queue, working) = Queue::start(size, &ours, &proven, &counts);
    let mirror = Mirror {
        routes,
        old,
        ours,
        queue,
        writes: Writes::new(),
        share,
        proven,
        counts,
        differences,
        comparisons: Arc::new(Semaphore::new(COMPARISONS)),
        bodies: Arc::new(Semaphore::new(BODIES)),
        pause: args.pause,
        at_old: TaskTracker::new(),
        log: Ration::default(),
    };
    Ok((Arc::new(mirror), working))
}
