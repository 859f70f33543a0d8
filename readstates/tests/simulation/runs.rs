//! Seeds, one or many, each on a runtime of its own.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use readstates_ring::model::Mutant;

use super::{
    events::{self, Ran},
    scenes::Scene,
    world::World,
};

/// Between two words on how far a long run is.
const WORD_EVERY: Duration = Duration::from_secs(5);

/// Runs one seed, without a rule or with all of them.
pub(crate) fn run(seed: u64, without: Option<Mutant>) -> Ran {
    match without {
        Some(mutant) => mutant.with(|| run_here(seed, None)),
        None => run_here(seed, None),
    }
}

/// Plays a scene, without a rule or with all of them. The seed rules how long everything takes.
pub(crate) fn play(scene: Scene, seed: u64, without: Option<Mutant>) -> Ran {
    match without {
        Some(mutant) => mutant.with(|| run_here(seed, Some(scene))),
        None => run_here(seed, Some(scene)),
    }
}

fn run_here(seed: u64, scene: Option<Scene>) -> Ran {
    // Which users share a lock or a table must not differ between two runs of the program.
    readstates::mixed::use_known_key();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let world = runtime.block_on(async { World::new(seed) });
    let work = || match scene {
        None => runtime.block_on(Box::pin(events::run(&world))),
        Some(scene) => runtime.block_on(Box::pin(scene.play(&world))),
    };
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    });
    let (trace, fingerprint) = world.trace();
    world.end();
    Ran {
        outcome,
        trace,
        fingerprint,
    }
}

/// The results of many seeds.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// By seed: what is wrong.
    pub(crate) failed: Vec<(u64, String)>,
    /// Changes that were acknowledged in the others.
    pub(crate) acknowledged: u64,
}

impl Runs {
    /// Runs seeds on all processors, and says every few seconds how far it is.
    pub(crate) fn all(seeds: &[u64], without: Option<Mutant>) -> Self {
        let (began, count) = (Instant::now(), seeds.len());
        let (seeds, ended) = (Mutex::new(seeds.iter().copied()), AtomicU64::new(0));
        let (runs, word) = (Mutex::new(Self::default()), Mutex::new(began));
        let next = || seeds.lock().unwrap().next();
        let work = || {
            while let Some(seed) = next() {
                let Ran { outcome, .. } = run(seed, without);
                let mut runs = runs.lock().unwrap();
                match outcome {
                    Ok(acknowledged) => runs.acknowledged += acknowledged,
                    Err(why) => runs.failed.push((seed, why)),
                }
                let ended = ended.fetch_add(1, Ordering::Relaxed) + 1;
                let mut word = word.lock().unwrap();
                if word.elapsed() >= WORD_EVERY {
                    *word = Instant::now();
                    let (failed, took) = (runs.failed.len(), began.elapsed().as_secs());
                    eprintln!("{ended} of {count} seeds in {took} s, {failed} failed");
                }
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        let mut runs = runs.into_inner().unwrap();
        runs.failed.sort();
        runs
    }
}
