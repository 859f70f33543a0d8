//! Background threads (writes, loads, the operator's port), which run at a lower priority than those
//! that answer clients.
//!
//! On a machine with no core to spare both kinds take turns, and a thread that answers is often the one
//! that has run for longer: the kernel then lets it wait until the other's slice of some milliseconds
//! is over, with every client behind it. At a lower priority the other gives way at once, and still gets
//! a fifth of a core that is never idle: more than writing behind an answering thread takes, so that
//! what is dirty does not pile up. In a container priorities count among its own threads alone.

use std::io;

use rustix::process::setpriority_process;
use tokio::runtime::{Builder, Runtime};

/// As nice(1) has it. A step of one is a tenth of the share; five leave a third of an answering thread's.
const NICENESS: i32 = 5;

/// A runtime of such threads.
///
/// # Errors
/// When there are no threads to be had.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name("background")
        .on_thread_start(stand_back)
        .enable_all()
        .build()
}

/// Lowers the priority of the thread that calls this.
fn stand_back() {
    // On Linux a thread has its own, and no process named means the thread that asks.
    if let Err(error) = setpriority_process(None, NICENESS) {
        tracing::warn!("failed to lower the priority of a background thread: {error}");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn its_threads_stand_back_and_the_others_do_not() {
        let before = getpriority_process(None).expect("a priority");
        let runtime = runtime().expect("threads");
        let asked = async { getpriority_process(None).expect("a priority") };
        let there = runtime.block_on(runtime.spawn(asked)).expect("an answer");
        assert_eq!(there, (before + NICENESS).min(19));
        assert_eq!(getpriority_process(None).expect("a priority"), before);
    }
}
