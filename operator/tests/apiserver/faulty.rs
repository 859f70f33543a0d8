//! The controllers as they run, with watches that lag, end and have to list again, and writes that conflict, fail, are
//! done and not answered or done late; one operator, and two at once. Every request ends as it does in a calm world,
//! and nothing forbidden happens on the way.
//!
//! `READSTATES_TEST_FAULT_SEEDS=0..100` runs them with these seeds instead of a few.

use std::{ops::Range, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::ListParams};
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    database::{at_rest, up, with_members},
    faults::{Dice, Faults},
    gate::Gate,
    haste::hasten,
    invariants::{nothing_broken, nothing_lost},
    snapshot::Snapshot,
    world::{World, waiting, with_world},
};

const SEEDS: &str = "READSTATES_TEST_FAULT_SEEDS";
/// hack/test's sample number, for tests that it has no time to run in full.
const SAMPLE: &str = "READSTATES_TEST_SAMPLE";
/// How often all others may act before a request is fulfilled: on a busy machine the operators' clock is fast compared
/// with the API server.
const PATIENCE: u32 = 600;

/// A cluster that is up, and what is asked of it, one after another.
struct Course {
    first: Value,
    wishes: Vec<Wish>,
}

enum Wish {
    For(Value),
    /// For the first one, and for the second one after a while that the seed says.
    Instead(Value, Value),
    /// That the node of this pod has another disk.
    LostDisk(&'static str),
}

/// Runs a course calmly, then once for each seed with what that seed brings about.
fn ends_as_in_a_calm_world(test: &str, operators: usize, few: Range<u64>, course: &Course) {
    with_world(async |world| {
        hasten(Box::pin(async {
            let calm = Box::pin(course.end(&world, 0, &[Gate::open_wide()])).await;
            for seed in seeds_to_try(few) {
                let gates: Vec<_> = (0..operators)
                    .map(|nth| Gate::with(Faults::seeded((seed << 8) + nth as u64)))
                    .collect();
                let replay = Replay {
                    test,
                    seed,
                    gates: &gates,
                };
                let world = world.another().await;
                let end = Box::pin(course.end(&world, seed, &gates)).await;
                let differences = end.differences(&calm);
                assert!(differences.is_empty(), "{}", differences.join("\n"));
                drop(replay);
            }
        }))
        .await;
    });
}

/// The seeds that the environment names; or `few`; or, for a sample, a single one: the first of `few`, or one beyond
/// them.
fn seeds_to_try(few: Range<u64>) -> Vec<u64> {
    if let Ok(asked) = std::env::var(SEEDS) {
        let (from, to) = asked.split_once("..").expect("it is FROM..TO");
        return (from.parse().unwrap()..to.parse().unwrap()).collect();
    }
    let Ok(sample) = std::env::var(SAMPLE) else {
        return few.collect();
    };
    let sample: u64 = sample.parse().expect("a number");
    vec![if sample.is_multiple_of(2) {
        few.start
    } else {
        few.end + sample
    }]
}

/// Says, when the test fails, how to have the same again.
struct Replay<'a> {
    test: &'a str,
    seed: u64,
    gates: &'a [Gate],
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        let Self { test, seed, gates } = self;
        if !std::thread::panicking() {
            return;
        }
        for (nth, gate) in gates.iter().enumerate() {
            println!("what happened to operator {nth}:");
            for line in gate.faults().log() {
                println!("  {line}");
            }
        }
        println!(
            "seed {seed} failed; the same faults again:\n{SEEDS}={seed}..{} hack/apiserver run cargo nextest run \
             -p readstates-operator --test apiserver -E 'test({test})'",
            *seed + 1
        );
    }
}

impl Course {
    /// The state that it ends in, with an operator behind each of these gates.
    async fn end(&self, world: &World, seed: u64, gates: &[Gate]) -> Snapshot {
        up(world, &self.first).await;
        world.agents.ring().lasting = true;
        let operators = join_all(gates.iter().map(|gate| world.run_operator_behind(gate)));
        tokio::select! {
            // Dropped where they are, as processes that are killed.
            _ = operators => panic!("the operators ended"),
            () = self.run(world, seed) => {}
        }
        while gates.iter().any(Gate::is_awaited) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        look(world).await;
        at_rest(world).await;
        Snapshot::of(world).await
    }

    async fn run(&self, world: &World, seed: u64) {
        for (nth, wish) in (0..).zip(&self.wishes) {
            match wish {
                Wish::For(spec) => ask(world, spec).await,
                Wish::Instead(first, then) => {
                    ask(world, first).await;
                    let after = Dice(seed, "instead", nth).pick("after", [0, 2, 5, 10, 20]);
                    let began = Instant::now();
                    while began.elapsed() < after {
                        time_passes(world).await;
                    }
                    ask(world, then).await;
                }
                Wish::LostDisk(pod) => {
                    world.agents.ring().lose_disk(pod);
                    until(world, async || !world.agents.ring().is_lost(pod)).await;
                }
            }
            until(world, async || is_as_wanted(world).await).await;
        }
    }
}

/// Asks for this, again when an operator has written the status meanwhile.
async fn ask(world: &World, spec: &Value) {
    while let Err(error) = world.replace(spec.clone()).await {
        assert!(error.contains("the object has been modified"), "{error}");
    }
}

async fn until(world: &World, so: impl AsyncFn() -> bool) {
    for _ in 0..PATIENCE {
        if so().await {
            return;
        }
        Box::pin(time_passes(world)).await;
    }
    let chat = world.get::<ReadStateCluster>("chat").await;
    panic!("still waiting: {:#?}", chat.status);
}

/// Checks the invariants, then lets all but the operators act.
async fn time_passes(world: &World) {
    look(world).await;
    world.let_go().await;
    world.finish_jobs().await;
    // Members are quicker than controllers: a batch of slots is moved in no time once it is asked for.
    for _ in 0..4 {
        world.fleet.act().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    world.agents.ring().time_passes();
}

async fn look(world: &World) {
    nothing_broken(world).await;
    nothing_lost(world).await;
}

/// Whether all is as it was asked for and nothing is waited for.
async fn is_as_wanted(world: &World) -> bool {
    let chat = world.get::<ReadStateCluster>("chat").await;
    let status = chat.status.as_ref().unwrap();
    if status.observed_generation != chat.metadata.generation || waiting(&chat).is_some() {
        return false;
    }
    let pods = world.api::<Pod>();
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    let stays = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
    let (of_database, of_cache): (Vec<_>, Vec<_>) = pods
        .iter()
        .filter(stays)
        .partition(|p| p.name_any().contains("-db-"));
    let has_image = |pods: &[&Pod], image: Option<&str>| {
        let first = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
        image.is_none_or(|image| pods.iter().all(|pod| first(pod).as_deref() == Some(image)))
    };
    let database = &chat.spec.database;
    let members: i32 = database.racks.iter().flatten().map(|r| r.members).sum();
    of_cache.len() + of_database.len() == pods.len()
        && i32::try_from(of_cache.len()) == Ok(chat.spec.replicas)
        && i32::try_from(of_database.len()) == Ok(members)
        && has_image(&of_cache, chat.spec.image.as_deref())
        && has_image(&of_database, database.image.as_deref())
}

/// So many cache pods, and database nodes in racks a and b.
fn chat(replicas: i32, [a, b]: [i32; 2]) -> Value {
    let mut spec = with_members(a, b);
    spec["spec"]["replicas"] = json!(replicas);
    spec["spec"]["database"]["replicationFactor"] = json!(2);
    spec
}

fn with_cache_image(mut spec: Value) -> Value {
    spec["spec"]["image"] = json!("readstates:next");
    spec
}

fn with_database_image(mut spec: Value) -> Value {
    spec["spec"]["database"]["image"] = json!("cassandra:next");
    spec
}

#[test]
fn a_cache_grows_shrinks_and_rolls_under_lagging_watches_and_failing_writes() {
    let next = |replicas| with_cache_image(chat(replicas, [1, 1]));
    let course = Course {
        first: chat(2, [1, 1]),
        wishes: vec![
            Wish::For(chat(3, [1, 1])),
            Wish::For(next(2)),
            Wish::Instead(next(3), next(2)),
        ],
    };
    let name = "a_cache_grows_shrinks_and_rolls_under_lagging_watches_and_failing_writes";
    ends_as_in_a_calm_world(name, 1, 0..2, &course);
}

#[test]
fn a_database_shrinks_grows_rolls_and_replaces_under_lagging_watches_and_failing_writes() {
    let next = with_database_image(chat(2, [1, 2]));
    let course = Course {
        first: chat(2, [1, 2]),
        wishes: vec![
            Wish::For(chat(2, [1, 1])),
            Wish::For(chat(2, [1, 2])),
            Wish::For(next.clone()),
            Wish::Instead(with_database_image(chat(2, [1, 1])), next),
            Wish::LostDisk("chat-db-b-0"),
        ],
    };
    let name =
        "a_database_shrinks_grows_rolls_and_replaces_under_lagging_watches_and_failing_writes";
    ends_as_in_a_calm_world(name, 1, 0..3, &course);
}

#[test]
fn two_operators_with_lagging_watches_and_failing_writes_do_what_one_does() {
    let next = |replicas, members| with_cache_image(with_database_image(chat(replicas, members)));
    let course = Course {
        first: chat(3, [1, 2]),
        wishes: vec![
            Wish::For(next(2, [1, 1])),
            Wish::Instead(next(3, [1, 1]), next(2, [1, 2])),
            Wish::LostDisk("chat-db-a-0"),
        ],
    };
    let name = "two_operators_with_lagging_watches_and_failing_writes_do_what_one_does";
    ends_as_in_a_calm_world(name, 2, 0..2, &course);
}
