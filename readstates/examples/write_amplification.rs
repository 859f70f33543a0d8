//! Rows written per change, and how old changes get before they are written, for each flush mode.
//!
//! Ten thousand users change at random for five minutes, as often as the first column says, against a store of six
//! shards that takes 2 ms for a write and slows down in proportion above 64 writes a shard. The clock is paused, so
//! that it runs in seconds and tells of the algorithm and not of this machine.
//!
//! `cargo run --release --example write_amplification`

#![allow(clippy::unwrap_used, reason = "an example that cannot go on ends")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates::{
    block::{Operation, Visit},
    cache::{FlushMode, Flushing, Process, Touch},
    engine::Engine,
    metrics::Metrics,
    store::{MemoryStore, Store, StoreError, Stored},
};
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;
use tokio::time::{Instant, sleep};

const USERS: u64 = 10_000;
const SHARDS: usize = 6;
const INTERVAL: Duration = Duration::from_secs(30);
const RUN: Duration = Duration::from_secs(300);
const STEP: Duration = Duration::from_millis(100);
const BEST: Duration = Duration::from_millis(2);
const AT_ONCE: u64 = 64 * SHARDS as u64;

#[derive(Debug, Default)]
struct Database {
    blocks: MemoryStore,
    under_way: AtomicU64,
    rows: AtomicU64,
}

impl Store for Database {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        self.blocks.load(user)
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.rows.fetch_add(1, Ordering::Relaxed);
            let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            sleep(BEST.mul_f64((under_way as f64 / AT_ONCE as f64).max(1.0))).await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            self.blocks.save(user, bytes, stamp).await
        }
        .boxed()
    }

    fn shards(&self) -> usize {
        SHARDS
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { Ok(()) }.boxed()
    }
}

/// (changes, rows written, mean age of the oldest change in seconds) of a run.
async fn run(every: Duration, mode: FlushMode) -> (u64, u64, f64) {
    let database = Arc::new(Database::default());
    let process = Process {
        incarnation: 1,
        started_micros: 1 << 50,
    };
    let flushing = Flushing {
        interval: INTERVAL,
        mode,
    };
    let metrics = Arc::new(Metrics::new());
    let store: Arc<dyn Store> = database.clone();
    let (engine, flusher) = Engine::start(process, 100 * USERS, flushing, store, metrics);
    let mut dice = StdRng::seed_from_u64(1);
    let per_step = USERS as f64 * STEP.as_secs_f64() / every.as_secs_f64();
    let (start, mut changes, mut owed) = (Instant::now(), 0, 0.0);
    let (mut ages, mut looks) = (0.0, 0_u32);
    while start.elapsed() < RUN {
        owed += per_step;
        let mut operations = Vec::new();
        while owed >= 1.0 {
            owed -= 1.0;
            changes += 1;
            let message = changes;
            let (user, channel) = (dice.random_range(1..=USERS), dice.random_range(1..=5));
            let visit = Visit::default();
            operations.push((
                user,
                Operation::Ack {
                    channel,
                    message,
                    visit,
                },
            ));
        }
        for outcome in engine.change_many(&operations, Touch::Online).await {
            outcome.unwrap();
        }
        if start.elapsed() > INTERVAL * 2 {
            let oldest = engine.totals().oldest_dirty;
            let now = Instant::now().into_std();
            ages += oldest.map_or(0.0, |since| (now - since).as_secs_f64());
            looks += 1;
        }
        sleep(STEP).await;
    }
    engine.seal();
    engine.drain().await;
    engine.stop();
    flusher.await.unwrap();
    let rows = database.rows.load(Ordering::Relaxed);
    (changes, rows, ages / f64::from(looks))
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    println!("| a user changes every | mode | rows written per change | oldest change, mean |");
    println!("|---|---|---|---|");
    for seconds in [120.0, 30.0, 10.0, 3.0, 1.0, 0.2] {
        for mode in [FlushMode::Interval, FlushMode::Adaptive] {
            let every = Duration::from_secs_f64(seconds);
            let (changes, rows, age) = run(every, mode).await;
            let share = rows as f64 / changes as f64;
            println!("| {seconds} s | {mode:?} | {share:.2} | {age:.1} s |");
        }
    }
}
