//! A table moves from one database that the operator runs into another one, each a real Cassandra, under load and with a
//! ledger: `hack/e2e --full migrate`. Its mover is killed again and again, and the operator once.
//!
//! `READSTATES_E2E_MIGRATE_STATES` is the number of read states that are there before (200,000, which takes about ten
//! minutes in all), `READSTATES_E2E_MIGRATE_CHANNELS` how many of them each user has (10). Two cores copy about sixty
//! users a second: ten million states want 500 for each user.

use std::{env, time::Duration};

use anyhow::{Context as _, Result, ensure};
use e2e::{Cluster, Look, Moving, Told, Users, World, cassandra_spec, until};
use k8s_openapi::api::core::v1::{ContainerStatus, PersistentVolumeClaim, Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, EvictParams, ListParams},
};
use readstates_operator_api::{
    CacheSpec, HandOver, MigrationPhase, ReadStateCluster, ReadStateClusterSpec,
    ReadStateMigration, ReadStateMigrationStatus, RestoreFrom, RestorePhase,
};
use serde_json::{Value, json};

use crate::backups::apply;

/// Users mentioned in one request.
const CROWD: usize = 500;
const FILLS: Duration = Duration::from_mins(2);
const MEMBERS: usize = 2;
/// How long one pass is meant to take, so that there is something to kill.
const PASS: u64 = 60;
/// A cold start of Cassandra beside another one, or a pass over everything for each kill and two more.
const A_STEP: Duration = Duration::from_mins(15);
/// Cache pods of the source stop, and those of the target start.
const SWITCHES: Duration = Duration::from_mins(6);
const SEED: u64 = 30;
const CLAIM: &str = "moves";

/// How the mover is killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// As `kubectl drain` does.
    Evicted,
    /// As `kubectl delete --force`.
    Deleted,
    /// With the operator, that is.
    WithOperator,
}

const KILLS: [Kill; 5] = [
    Kill::Evicted,
    Kill::Deleted,
    Kill::Evicted,
    Kill::WithOperator,
    Kill::Evicted,
];

/// What is there before.
#[derive(Clone, Copy, Debug)]
struct Table {
    states: u64,
    /// How many of them each user has.
    channels: u64,
}

impl Table {
    fn of_environment() -> Result<Self> {
        Ok(Self {
            states: number("READSTATES_E2E_MIGRATE_STATES", 200_000)?,
            channels: number("READSTATES_E2E_MIGRATE_CHANNELS", 10)?,
        })
    }

    fn users(self) -> u64 {
        self.states.div_ceil(self.channels)
    }

    /// Read states that a cache pod keeps: twice those of a crowd, so that none of it is evicted before all are there.
    fn capacity(self) -> i64 {
        let crowd = CROWD as i64 * self.channels as i64;
        (2 * crowd).max(100_000)
    }
}

fn number(variable: &str, otherwise: u64) -> Result<u64> {
    let Ok(text) = env::var(variable) else {
        return Ok(otherwise);
    };
    let number = text.parse().ok().filter(|&number| number > 0);
    number.with_context(|| format!("{variable}={text} is no number above 0"))
}

fn source(table: Table) -> ReadStateClusterSpec {
    let spec = cassandra_spec();
    ReadStateClusterSpec {
        replicas: MEMBERS as i32,
        cache: CacheSpec {
            capacity_states: table.capacity(),
            ..spec.cache
        },
        ..spec
    }
}

/// A cluster that begins with the table of the other one.
fn target(table: Table) -> ReadStateClusterSpec {
    let from = RestoreFrom {
        migration: Some(k8s_openapi::api::core::v1::LocalObjectReference {
            name: "away".to_owned(),
        }),
        ..RestoreFrom::default()
    };
    ReadStateClusterSpec {
        restore_from: Some(Box::new(from)),
        ..source(table)
    }
}

fn volume_claim() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": CLAIM },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "16Mi" } } },
    })
}

fn migration(rate: u64) -> Value {
    json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateMigration", "metadata": { "name": "away" },
        "spec": {
            "cluster": "old", "target": { "cluster": "new" }, "members": "Serve",
            "checkpoints": { "claimName": CLAIM }, "rate": rate,
        },
    })
}

/// What cache pods need to write the other database too, as the book has it.
fn both(uid: &str) -> Value {
    let key = |key: &str| json!({ "secretKeyRef": { "name": "new-db-login", "key": key } });
    json!({
        "env": [
            { "name": "READSTATES_MOVING_TO", "value": "cql://new-db.readstates-e2e-moved.svc:9042/readstates" },
            { "name": "READSTATES_TO_CLAIM", "value": uid },
            { "name": "READSTATES_TO_CQL_LOCAL_DC", "value": "dc1" },
            { "name": "READSTATES_TO_CQL_USER", "valueFrom": key("username") },
            { "name": "READSTATES_TO_CQL_PASSWORD_FILE", "value": "/etc/moving/password" },
        ],
        "volumes": [{ "name": "moving", "secret": {
            "secretName": "new-db-login", "items": [{ "key": "password", "path": "password" }],
        } }],
        "volumeMounts": [{ "name": "moving", "mountPath": "/etc/moving", "readOnly": true }],
    })
}

/// Nothing of an earlier run is left.
async fn clean(old: &Cluster) -> Result<()> {
    let delete = ["delete", "--wait", "--ignore-not-found", "--timeout=17m"];
    for what in [
        &["readstatecluster", "old"][..],
        &["readstatecluster", "new"],
        &["readstatemigration", "away"],
    ] {
        old.kubectl(&[&delete[..], what].concat()).await?;
    }
    old.kubectl(&["delete", "--wait", "pvc", "--all"]).await?;
    Ok(())
}

/// Read states of users of their own.
async fn fill(old: &Cluster, table: Table) -> Result<Vec<u64>> {
    let users = Users::fresh().take(table.users());
    let service = old.service()?;
    for (place, crowd) in users.chunks(CROWD).enumerate() {
        println!("    {} users have their states", place * CROWD);
        for channel in 1..=table.channels {
            // What a busy service did not take is sent again; what it has counted is not counted twice.
            until("everybody is mentioned", FILLS, async || {
                Ok(match service.mention(channel, channel, crowd).await {
                    Ok(_) => Look::Done(()),
                    Err(some) => Look::NotYet(format!("{some:#}")),
                })
            })
            .await?;
        }
    }
    println!("    {} states of {} users", table.states, users.len());
    Ok(users)
}

/// Every fiftieth of them, at least, has all its states.
async fn has(new: &Cluster, users: &[u64], table: Table) -> Result<()> {
    let service = new.service()?;
    for user in users.iter().step_by((users.len() / 400).max(1)) {
        let states = service.read(*user).await?;
        let counted = states.iter().filter(|state| state.mention_count == 1);
        ensure!(
            states.len() as u64 == table.channels && counted.count() as u64 == table.channels,
            "user {user}: {states:?}"
        );
    }
    Ok(())
}

async fn comes_to(
    old: &Cluster,
    what: &str,
    limit: Duration,
    is_so: impl Fn(&ReadStateMigrationStatus) -> bool + Send + Sync,
) -> Result<ReadStateMigrationStatus> {
    let is_so = |migration: &ReadStateMigration| migration.status.as_ref().is_some_and(&is_so);
    let seen = old.sees_within("away", what, limit, is_so).await?;
    let status = seen.status.context("no status")?;
    println!("    {:?}: {}", status.phase, status.next_step);
    Ok(status)
}

fn failed(status: &ReadStateMigrationStatus) -> bool {
    matches!(
        status.phase,
        MigrationPhase::Failed | MigrationPhase::Refused
    )
}

/// Kills the mover as soon as it has got further since the last time.
async fn kill(old: &Cluster, world: &World, kill: Kill) -> Result<()> {
    let pods = old.api::<Pod>();
    let ours = ListParams::default().labels("readstates.dev/migration=away");
    // It copies in a container that has to end before its pod counts as running.
    let runs = |pod: &Pod| {
        let status = pod.status.as_ref();
        let copies = status.and_then(|status| status.init_container_statuses.as_ref());
        let compares = status.and_then(|status| status.container_statuses.as_ref());
        let mut containers = [copies, compares].into_iter().flatten().flatten();
        let is_running = |one: &ContainerStatus| {
            let state = one.state.as_ref();
            state.is_some_and(|state| state.running.is_some())
        };
        pod.metadata.deletion_timestamp.is_none() && containers.any(is_running)
    };
    let before: ReadStateMigration = old.api().get("away").await?;
    let before = before.status.and_then(|status| status.progress);
    let victim = until("the mover gets further", A_STEP, async || {
        let away: ReadStateMigration = old.api().get("away").await?;
        let status = away.status.unwrap_or_default();
        ensure!(
            status.verified.is_none() && !failed(&status),
            "before it was killed: {status:?}"
        );
        let all = pods.list(&ours).await?;
        Ok(match all.into_iter().find(runs) {
            Some(pod) if status.progress != before => Look::Done(pod.name_any()),
            Some(_) => Look::NotYet(format!("as far as before: {before:?}")),
            None => Look::NotYet("no pod runs".to_owned()),
        })
    })
    .await?;
    println!("    {victim}: {kill:?}");
    let now = DeleteParams::default().grace_period(0);
    if let Kill::WithOperator = kill {
        let operators = world.operator_pods();
        for pod in operators.list(&ListParams::default()).await? {
            operators.delete(&pod.name_any(), &now).await?;
        }
    }
    let gone = match kill {
        Kill::Evicted | Kill::WithOperator => {
            let evicted = pods.evict(&victim, &EvictParams::default()).await;
            evicted.map(drop)
        }
        Kill::Deleted => pods.delete(&victim, &now).await.map(drop),
    };
    match gone {
        // It had just ended by itself.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        gone => Ok(gone?),
    }
}

#[tokio::test]
#[ignore = "two Cassandras and a table that is copied for minutes"]
async fn a_table_moves_under_load_into_another_cluster_and_nothing_acknowledged_is_lost()
-> Result<()> {
    let world = World::installed().await?;
    let place = world.namespace("moved").await?;
    let (old, new) = (world.cluster(&place, "old"), world.cluster(&place, "new"));
    clean(&old).await?;
    let table = Table::of_environment()?;
    old.apply(source(table)).await?;
    old.available().await?;
    new.apply(target(table)).await?;
    apply::<PersistentVolumeClaim>(&old, volume_claim()).await?;
    let users = fill(&old, table).await?;
    let told = Told::by(&old.service()?, 200).await?;

    let load = Moving::begin(&old, MEMBERS, SEED).await?;
    let rate = (table.users() / PASS).max(1);
    apply::<ReadStateMigration>(&old, migration(rate)).await?;
    Box::pin(moves(&world, &old, &new)).await?;

    // The load goes on while its cache stops: what was acknowledged to the last moment has to be there.
    old.change(&json!({ "stopped": true })).await?;
    let released = |status: &ReadStateMigrationStatus| {
        status.hand_over == Some(HandOver::Released) || failed(status)
    };
    let status = comes_to(&old, "is handed over", SWITCHES, released).await?;
    ensure!(!failed(&status), "{status:?}");
    new.available().await?;
    new.has_members(MEMBERS).await?;
    let verdict = load.end(&new, MEMBERS).await?;
    println!("{verdict}");
    ensure!(verdict.is_sound(), "not sound");
    ensure!(verdict.acknowledged() > 1_000, "there was no load");
    told.holds(&new.service()?).await?;
    has(&new, &users, table).await?;
    Box::pin(is_over(&old, &new)).await?;
    clean(&old).await
}

/// Until everything was compared, whatever becomes of its mover.
async fn moves(world: &World, old: &Cluster, new: &Cluster) -> Result<()> {
    let asks = |status: &ReadStateMigrationStatus| {
        status.next_step.contains("READSTATES_TO_CLAIM") || failed(status)
    };
    let status = comes_to(old, "asks for both databases", A_STEP, asks).await?;
    ensure!(!failed(&status), "{status:?}");
    let uid = new.get().await?.uid().context("no UID")?;
    for part in [format!("READSTATES_TO_CLAIM={uid}"), "new-db-login".into()] {
        ensure!(status.next_step.contains(&part), "{}", status.next_step);
    }
    let pods = json!({ "cache": { "podTemplate": both(&uid) } });
    old.change(&pods).await?;
    let copies = |status: &ReadStateMigrationStatus| {
        status.phase == MigrationPhase::Copying || failed(status)
    };
    comes_to(old, "copies", A_STEP, copies).await?;
    for how in KILLS {
        kill(old, world, how).await?;
    }
    let over = |status: &ReadStateMigrationStatus| {
        status.phase == MigrationPhase::Verified || failed(status)
    };
    let status = comes_to(old, "is verified", A_STEP, over).await?;
    ensure!(status.phase == MigrationPhase::Verified, "{status:?}");
    // Its cache waits, and the API server refuses to let it start empty.
    let phase = new.get().await?.status.and_then(|status| status.restore);
    ensure!(
        phase
            .as_ref()
            .is_some_and(|r| r.phase == RestorePhase::Running),
        "{phase:?}"
    );
    let begins_empty = r#"--patch={"spec":{"restoreFrom":null}}"#;
    let patch = [
        "patch",
        "readstatecluster/new",
        "--type=merge",
        begins_empty,
    ];
    let refused = new.refused(&patch).await?;
    ensure!(refused.contains("cannot be removed while"), "{refused}");
    Ok(())
}

/// The source does not start any more while the move is there.
async fn is_over(old: &Cluster, new: &Cluster) -> Result<()> {
    let complete = |status: &ReadStateMigrationStatus| status.phase == MigrationPhase::Complete;
    comes_to(old, "is complete", SWITCHES, complete).await?;
    old.change(&json!({ "stopped": false })).await?;
    old.waits_on("HandedOver", A_STEP).await?;
    let cache = ListParams::default()
        .labels("readstates.dev/cluster=old,app.kubernetes.io/component=cache");
    let pods = old.api::<Pod>().list(&cache).await?;
    ensure!(pods.items.is_empty(), "cache pods of both serve");
    let record: ReadStateCluster = new.get().await?;
    let restore = record.status.and_then(|status| status.restore);
    let restore = restore.context("no record of the move")?;
    ensure!(restore.migration.as_deref() == Some("away"), "{restore:?}");
    Ok(())
}
