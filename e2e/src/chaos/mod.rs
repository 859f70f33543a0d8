//! A cluster under a load that keeps books, while members come, go, roll and die and the operator is killed again
//! and again; at the end the books are compared with the cache and with the database.

mod places;
mod plan;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use places::{cached_answer, stored_answer};
pub(crate) use places::{in_cache, in_database};
use plan::{BASE, crashes};
pub use plan::{Step, plan};
use rand::{Rng, SeedableRng, rngs::StdRng};
use readstates_client::Client;
use readstates_ledger::{Excuse, Historians, Kind, Load, Phase, Plan, Verdict};
use readstates_operator_api::{Durability, ReadStateCluster, Takeovers};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{cluster::Cluster, ways::Ways, world::World};

/// How long a change waits for the database at most while this goes on, in two values: changing one into the other
/// replaces every pod.
const FLUSH_INTERVALS: [&str; 2] = ["10s", "11s"];
/// What a member that dies may take with it: the longer of them twice, for jitter and for writes that wait in line and
/// take seconds on a small machine.
const LAST_FLUSH: Duration = Duration::from_secs(22);
/// Replacing five pods, each drained first.
const SETTLES: Duration = Duration::from_mins(20);
/// Before the first change, and after the last.
const STEADY: Duration = Duration::from_secs(20);
/// Between two crashes of members.
const BETWEEN_CRASHES: Duration = Duration::from_secs(30);
/// Between two deaths of the operator.
const OPERATOR_LIVES: std::ops::Range<u64> = 15..60;

/// What a run is like.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The most members that the steps scale to.
    pub most: usize,
    /// It gives the same steps, and the same clients, again.
    pub seed: u64,
    /// What survives a crash: nothing that was acknowledged may be lost unless it is [`Durability::Interval`].
    pub durability: Durability,
    /// Between two changes of one of 24 clients.
    pub pace: Duration,
}

/// A cluster under load.
#[derive(Debug)]
pub struct Chaos {
    cluster: Cluster,
    durability: Durability,
    members: usize,
    load: Load,
    clients: Vec<(Kind, Client)>,
    historians: Historians,
    excuses: Vec<Excuse>,
    flush_interval: usize,
    /// The task that kills the operator.
    killer: JoinSet<()>,
    seed: u64,
    /// Clients go through them to the end.
    _ways: Ways,
}

impl Chaos {
    /// Scales the cluster to 2 members and puts it under load.
    ///
    /// # Errors
    /// When the cluster does not follow.
    pub async fn begin(world: &World, cluster: &Cluster, settings: Settings) -> Result<Self> {
        let Settings {
            most,
            seed,
            durability,
            pace,
        } = settings;
        let cache = json!({ "flushInterval": FLUSH_INTERVALS[0], "durability": durability });
        cluster
            .change(&json!({ "cache": cache, "replicas": 2 }))
            .await?;
        cluster.settles(2).await?;
        if durability != Durability::Interval {
            cluster.wait_for("Replicated", SETTLES).await?;
        }
        let ways = cluster.ways(most).await?;
        let clients = ways.clients().await?;
        let plan = Plan {
            workers: 24,
            users_per_worker: 8,
            pace,
            seed,
            first_user: first_user()?,
        };
        let load = Load::start(&plan, &clients);
        // At the same moment: excuses count for both.
        let historians =
            Historians::start(&[ways.historian().await?], first_user()? | 1 << 61, seed);
        sleep(STEADY).await;
        load.enter(Phase::During);
        let mut killer = JoinSet::new();
        killer.spawn(kill_operators(world.operator_pods(), seed));
        Ok(Self {
            cluster: cluster.clone(),
            durability,
            members: 2,
            load,
            clients,
            historians,
            excuses: Vec::new(),
            flush_interval: 0,
            killer,
            seed,
            _ways: ways,
        })
    }

    /// The steps that every run takes, and more until `least` has passed.
    ///
    /// # Errors
    /// When the cluster does not follow.
    pub async fn run(&mut self, least: Duration) -> Result<()> {
        let began = Instant::now();
        for (number, step) in plan(self.seed).enumerate() {
            if number >= BASE && began.elapsed() >= least {
                break;
            }
            println!("==> {:>4} s: {step:?}", began.elapsed().as_secs());
            // Steps are large, and there is one at a time.
            let stepped = Box::pin(self.step(step)).await;
            stepped.with_context(|| format!("{step:?}"))?;
        }
        Ok(())
    }

    /// Members crash one after another, half a minute after the last one has been replaced, until `least` has passed.
    ///
    /// # Errors
    /// When the cluster does not follow.
    pub async fn crash(&mut self, least: Duration) -> Result<()> {
        let began = Instant::now();
        for step in crashes(self.seed) {
            if began.elapsed() >= least {
                break;
            }
            println!("==> {:>4} s: {step:?}", began.elapsed().as_secs());
            let stepped = Box::pin(self.step(step)).await;
            stepped.with_context(|| format!("{step:?}"))?;
            sleep(BETWEEN_CRASHES).await;
        }
        Ok(())
    }

    /// One step, until the cluster has settled.
    ///
    /// # Errors
    /// When it does not.
    pub async fn step(&mut self, step: Step) -> Result<()> {
        let began = Instant::now();
        match step {
            Step::Scale(members) => {
                self.members = members;
                self.cluster.scale(members).await?;
            }
            Step::Roll => {
                let before = self.cluster.pod_uids().await?;
                let change = json!({ "cache": { "flushInterval": self.other_flush_interval() } });
                self.cluster.change(&change).await?;
                self.cluster.settles(self.members).await?;
                let after = self.cluster.pod_uids().await?;
                ensure!(
                    after.iter().all(|uid| !before.contains(uid)),
                    "a pod was not replaced"
                );
            }
            Step::NewImage(members) => {
                self.members = members;
                let image = self.cluster.world.environment().other_image.clone();
                let change = match image {
                    Some(image) => json!({ "image": image, "replicas": members }),
                    // There is but one image: every pod is replaced all the same.
                    None => json!({
                        "cache": { "flushInterval": self.other_flush_interval() }, "replicas": members,
                    }),
                };
                self.cluster.change(&change).await?;
            }
            Step::ApiServer(seconds) => {
                let world = &self.cluster.world;
                if world.environment().docker.is_none() {
                    println!("    nothing can be done on a node: the API server goes on");
                    return Ok(());
                }
                world.stop_api_server(Duration::from_secs(seconds)).await?;
            }
            Step::Delete(victim) => self.cluster.replace_pod(victim).await?,
            Step::Evict(victim) => self.cluster.evict_pod(victim).await?,
            Step::Force(victim) => {
                self.cluster.force_pod(victim).await?;
                // When its process died is not reported: at the latest before the next one was ready.
                self.excuse(began, Instant::now());
            }
            Step::Kill(victim) => {
                let before = self.cluster.get().await?.status.unwrap_or_default();
                let dead = self.cluster.kill_process(victim).await?;
                self.excuse(began, dead);
                // A backup takes slots over without a loss, which is nothing to tell.
                if self.durability == Durability::Interval {
                    self.tells_of_slots_taken_over(&before.takeovers).await?;
                }
            }
            Step::Crash(victim) => {
                self.cluster.crash_pod(victim).await?;
                self.excuse(began, Instant::now());
            }
        }
        self.cluster.settles(self.members).await?;
        if self.durability != Durability::Interval {
            // With one member fewer, the next crash would be of owner and backup together.
            self.cluster.wait_for("Replicated", SETTLES).await?;
        }
        Ok(())
    }

    /// Ends the load, and compares its books with what the cluster answers and with what its database has.
    ///
    /// # Errors
    /// When either cannot be read.
    pub async fn end(mut self) -> Result<Verdict> {
        self.killer.shutdown().await;
        self.cluster.settles(self.members).await?;
        self.load.enter(Phase::After);
        sleep(STEADY).await;
        let told = self.load.stop().await?;
        let mut asked = self.historians.stop().await?;
        let (_, smart) = self.clients.first().context("no client")?;
        let cache = in_cache(&told, smart).await?;
        asked
            .read_once_more(async |user| cached_answer(user, smart).await)
            .await?;
        for ordinal in 0..self.members {
            self.cluster.flush(ordinal).await?;
        }
        let cassandra = self.cluster.cassandra().await?;
        let database = in_database(&told, &cassandra).await?;
        asked
            .read_once_more(async |user| stored_answer(user, &cassandra).await)
            .await?;
        let places = vec![("cache", cache), ("database", database)];
        let orders = asked.orders(&self.excuses);
        let verdict = Verdict::new(&told, places, &self.excuses).with_orders(orders);
        let as_before = json!({ "cache": { "flushInterval": null, "durability": null }, "image": null, "replicas": 3 });
        self.cluster.change(&as_before).await?;
        Ok(verdict)
    }

    /// Waits until the status says how many slots a crash has concerned, when it said `before` of earlier ones.
    async fn tells_of_slots_taken_over(&self, before: &[Takeovers]) -> Result<()> {
        let more = |cluster: &ReadStateCluster| {
            let status = cluster.status.as_ref();
            status.map_or(0, |status| newly_taken(before, &status.takeovers))
        };
        let name = &self.cluster.name;
        let what = "tells of slots taken over";
        let tells: ReadStateCluster = self.cluster.sees(name, what, |c| more(c) > 0).await?;
        let condition = self.cluster.condition("TakenOver").await?;
        ensure!(
            condition.status == "True",
            "TakenOver is not True: {}",
            condition.message
        );
        println!(
            "    {} slots were taken over from it, says the status",
            more(&tells)
        );
        Ok(())
    }

    fn other_flush_interval(&mut self) -> &'static str {
        self.flush_interval = 1 - self.flush_interval;
        FLUSH_INTERVALS[self.flush_interval]
    }

    /// What was acknowledged in the last flush interval before a crash may be lost, and nothing that was acknowledged
    /// after it: the crash was asked for when it `began`, and the process was `dead` by then. With backups nothing may.
    fn excuse(&mut self, began: Instant, dead: Instant) {
        if self.durability != Durability::Interval {
            return;
        }
        let now = self.load.elapsed();
        self.excuses.push(Excuse {
            from: now.saturating_sub(began.elapsed() + LAST_FLUSH),
            until: now.saturating_sub(dead.elapsed()),
        });
    }
}

impl Cluster {
    /// `kubectl patch` of the spec.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn change(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec }).to_string();
        let reference = format!("readstatecluster/{}", self.name);
        self.kubectl(&["patch", &reference, "--type=merge", "--patch", &patch])
            .await?;
        Ok(())
    }

    /// Waits until the operator has nothing more to do, and `members` members are ready.
    async fn settles(&self, members: usize) -> Result<()> {
        if let Err(error) = self.wait_for("Progressing=False", SETTLES).await {
            return Err(error.context(self.describe().await?));
        }
        self.has_members(members).await
    }
}

/// How many slots were taken over since `before`.
fn newly_taken(before: &[Takeovers], now: &[Takeovers]) -> i64 {
    let more = now.iter().map(|now| {
        let then = before.iter().find(|then| then.process == now.process);
        now.slots - then.map_or(0, |then| then.slots)
    });
    more.sum()
}

/// Kills whatever operator there is, for ever.
async fn kill_operators(pods: Api<Pod>, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed ^ 0x0bad);
    loop {
        sleep(Duration::from_secs(random.random_range(OPERATOR_LIVES))).await;
        let Ok(all) = pods.list(&ListParams::default()).await else {
            continue;
        };
        for pod in all {
            // One that is gone already is as dead as it should be.
            let _ = pods
                .delete(&pod.name_any(), &DeleteParams::default().grace_period(0))
                .await;
        }
    }
}

/// Users that no test has, and no other run: other tests count up from the time in milliseconds, shifted by 20 bits.
pub(crate) fn first_user() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(1 << 62 | now.as_secs() << 30)
}
