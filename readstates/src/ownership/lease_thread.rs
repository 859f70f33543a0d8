//! The thread on which the lease is renewed, and nothing else.
//!
//! All other background work (writes, loads, transfers) shares threads that yield to those that answer requests. A
//! renewal that waits behind it is late, and a lease that runs out costs every slot an epoch.

use std::{io, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// The thread ends with this.
#[derive(Debug)]
pub(super) struct LeaseThread(Option<Running>);

#[derive(Debug)]
struct Running {
    runtime: Handle,
    /// Dropped to end it.
    _ends: oneshot::Sender<()>,
}

impl LeaseThread {
    /// No thread: the lease is renewed on the runtime of all other work, as in a test that controls the time.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// A thread with the priority of the calling one.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .thread_name("lease")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel();
        let work = move || {
            // Nothing is ever sent.
            let _ = runtime.block_on(ended);
            // A lookup of a name may hang.
            runtime.shutdown_background();
        };
        thread::Builder::new()
            .name("lease".to_owned())
            .spawn(work)?;
        Ok(Self(Some(Running {
            runtime: handle,
            _ends: ends,
        })))
    }

    /// The runtime to renew on, if there is a separate one.
    pub(super) fn runtime(&self) -> Option<&Handle> {
        self.0.as_ref().map(|running| &running.runtime)
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpriority_process, setpriority_process};

    use super::*;

    #[test]
    fn it_does_not_stand_back_when_the_threads_around_it_do() {
        let before = getpriority_process(None).unwrap();
        let lease = LeaseThread::start().unwrap();
        let others = Builder::new_multi_thread()
            .worker_threads(1)
            .on_thread_start(move || setpriority_process(None, before + 1).unwrap())
            .build()
            .unwrap();
        let (there, here) = others.block_on(async {
            let asked = || async { getpriority_process(None).unwrap() };
            let there = lease.runtime().unwrap().spawn(asked());
            let here = tokio::spawn(asked());
            (there.await.unwrap(), here.await.unwrap())
        });
        assert_eq!((there, here), (before, before + 1));
    }

    #[test]
    fn it_ends_with_what_holds_it() {
        let lease = LeaseThread::start().unwrap();
        let runtime = lease.runtime().unwrap().clone();
        let (held, gone) = oneshot::channel::<()>();
        runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        drop(lease);
        assert!(gone.blocking_recv().is_err(), "its tasks are dropped");
    }
}
