//! A clock that goes faster, for tests that wait for the operator to look again by itself.

use std::{future::Future, time::Duration};

use tokio::sync::mpsc;

/// How often the clock goes on.
const TICK: Duration = Duration::from_millis(5);
/// How much faster the clock runs. It never advances while a task works, so a busy machine makes it slower, and no
/// answer comes too late for that.
const FACTOR: u32 = 20;

/// Does `work` while the clock of this runtime goes faster.
#[expect(
    clippy::disallowed_methods,
    reason = "a clock waits for nothing but time"
)]
pub(crate) async fn hasten<T>(work: impl Future<Output = T>) -> T {
    tokio::time::pause();
    let (tick, mut ticks) = mpsc::channel(1);
    // While this runs, tokio does not set the clock to the next thing that is waited for. It ends with `ticks`.
    let clock = tokio::task::spawn_blocking(move || {
        while tick.blocking_send(()).is_ok() {
            std::thread::sleep(TICK);
        }
    });
    let go = async {
        while ticks.recv().await.is_some() {
            tokio::time::advance(TICK * FACTOR).await;
        }
    };
    let done = tokio::select! {
        // Both are polled until the work is done, and then nothing of them is needed.
        done = work => done,
        () = go => unreachable!("the clock stopped"),
    };
    drop(ticks);
    clock.await.unwrap();
    tokio::time::resume();
    done
}
