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

use readstates_ring::model::{Mutant, backed};

use super::{
    compare::Held,
    events::{self, Ran},
    scenes::Scene,
    world::World,
};

/// Between two words on how far a long run is.
const WORD_EVERY: Duration = Duration::from_secs(5);

/// What the members of a world do and do not do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct How {
    /// Slots have backups.
    pub(crate) backed: bool,
    /// Changes of a slot without one are refused.
    pub(crate) required: bool,
    /// Without a rule, or with all of them.
    pub(crate) without: Option<Without>,
}

/// What is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Without {
    Rule(Mutant),
    /// A rule of slots with backups.
    Backed(backed::Mutant),
}

impl How {
    /// Slots have backups, and everything is done that has to be.
    pub(crate) const BACKED: Self = Self {
        backed: true,
        required: false,
        without: None,
    };

    /// The same, and nothing is changed without a backup.
    pub(crate) const REQUIRED: Self = Self {
        required: true,
        ..Self::BACKED
    };

    fn with<T>(self, run: impl FnOnce() -> T) -> T {
        match self.without {
            None => run(),
            Some(Without::Rule(mutant)) => mutant.with(run),
            Some(Without::Backed(mutant)) => mutant.with(run),
        }
    }
}

impl From<Mutant> for How {
    fn from(mutant: Mutant) -> Self {
        Self {
            without: Some(Without::Rule(mutant)),
            ..Self::default()
        }
    }
}

impl From<backed::Mutant> for How {
    fn from(mutant: backed::Mutant) -> Self {
        Self {
            without: Some(Without::Backed(mutant)),
            ..Self::BACKED
        }
    }
}

pub(crate) fn run(seed: u64, how: How) -> Ran {
    how.with(|| run_here(seed, how, None))
}

/// Plays a scene. The seed rules how long everything takes.
pub(crate) fn play(scene: Scene, seed: u64, how: How) -> Ran {
    how.with(|| run_here(seed, how, Some(scene)))
}

fn run_here(seed: u64, how: How, scene: Option<Scene>) -> Ran {
    // Which users share a lock or a table must not differ between two runs of the program.
    readstates::mixed::use_known_key();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let world = runtime.block_on(async { World::new(seed, how) });
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
    /// What the others have done together.
    pub(crate) held: Held,
}

impl Runs {
    /// Runs seeds on all processors, and says every few seconds how far it is.
    pub(crate) fn all(seeds: &[u64], how: How) -> Self {
        let (began, count) = (Instant::now(), seeds.len());
        let (seeds, ended) = (Mutex::new(seeds.iter().copied()), AtomicU64::new(0));
        let (runs, word) = (Mutex::new(Self::default()), Mutex::new(began));
        let next = || seeds.lock().unwrap().next();
        let work = || {
            while let Some(seed) = next() {
                let Ran { outcome, .. } = run(seed, how);
                let mut runs = runs.lock().unwrap();
                match outcome {
                    Ok(Held {
                        acknowledged,
                        undecided,
                    }) => {
                        runs.held.acknowledged += acknowledged;
                        runs.held.undecided += undecided;
                    }
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
