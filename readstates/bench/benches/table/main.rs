//! One phase of measuring a table of blocks with some options, on a Cassandra: fill it, overwrite random rows, or read
//! them. `hack/bench --only table` compares options with it.
//!
//! A row is what a member writes: a user of twenty states, with a timestamp of its own. Out goes one line of JSON.

use std::{
    error::Error,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use hdrhistogram::Histogram;
use readstates::{
    block::{self, Operation, Visit},
    store::TABLE_OPTIONS,
};
use readstates_bench::{process, windows::histogram};
use readstates_ring::slot::mix64;
use scylla::{
    client::{
        execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder,
    },
    statement::{Consistency, prepared::PreparedStatement},
};
use tokio::task::JoinSet;

const CHANNELS: u64 = 20;
/// A snowflake of these days: what the ids of messages have in common.
const MESSAGES: u64 = 1_420_000_000_000_000_000;
/// Microseconds of 2026: a timestamp is below those that a database takes by itself.
const STAMPS: i64 = 1_790_000_000_000_000;

type CqlError = Box<dyn Error + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Phase {
    /// Recreate the table, and write every user once.
    Fill,
    /// Write random users, each with one more message.
    Overwrite,
    /// Read random users.
    Read,
}

#[derive(Debug, Parser)]
struct Flags {
    /// Address of a database node.
    #[arg(long, value_name = "HOST:PORT")]
    contact: String,
    /// The table, in the keyspace bench_table.
    #[arg(long, value_name = "NAME")]
    table: String,
    /// CQL options for creating the table; "ours" for those of the service.
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    with: String,
    #[arg(long, value_enum)]
    phase: Phase,
    /// Number of users.
    #[arg(long, default_value_t = 100_000)]
    users: u64,
    /// Duration of overwriting or reading random users.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Operations under way at once.
    #[arg(long, default_value_t = 64)]
    at_once: u64,
    /// Process id of the database; its processor time is reported per operation.
    #[arg(long)]
    process: u32,
    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CqlError::from)
        .and_then(|runtime| runtime.block_on(run(flags)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("table: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug)]
struct Statements {
    session: Session,
    read: PreparedStatement,
    write: PreparedStatement,
}

async fn prepare(flags: &Flags) -> Result<Statements, CqlError> {
    let profile = ExecutionProfile::builder().consistency(Consistency::LocalQuorum);
    let session = SessionBuilder::new()
        .known_node(&flags.contact)
        .default_execution_profile_handle(profile.build().into_handle())
        .build()
        .await?;
    let table = format!("bench_table.{}", flags.table);
    if flags.phase == Phase::Fill {
        let with = match &*flags.with {
            "" => String::new(),
            "ours" => format!(" WITH {TABLE_OPTIONS}"),
            options => format!(" WITH {options}"),
        };
        for statement in [
            "CREATE KEYSPACE IF NOT EXISTS bench_table WITH replication = \
             {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
                .to_owned(),
            format!("DROP TABLE IF EXISTS {table}"),
            format!("CREATE TABLE {table} (user_id bigint PRIMARY KEY, block blob){with}"),
        ] {
            session.query_unpaged(statement, ()).await?;
        }
    }
    let read = format!("SELECT block, WRITETIME(block) FROM {table} WHERE user_id = ?");
    let write = format!("UPDATE {table} USING TIMESTAMP ? SET block = ? WHERE user_id = ?");
    Ok(Statements {
        read: session.prepare(read).await?,
        write: session.prepare(write).await?,
        session,
    })
}

impl Statements {
    async fn write(&self, user: u64, round: u64) -> Result<(), CqlError> {
        let stamp = STAMPS + round.cast_signed();
        let values = (stamp, block(user, round), user.cast_signed());
        self.session.execute_unpaged(&self.write, values).await?;
        Ok(())
    }

    async fn read(&self, user: u64) -> Result<(), CqlError> {
        let rows = self
            .session
            .execute_unpaged(&self.read, (user.cast_signed(),))
            .await?
            .into_rows_result()?;
        match rows.maybe_first_row::<(Option<Vec<u8>>, Option<i64>)>()? {
            Some((Some(block), Some(_))) if !block.is_empty() => Ok(()),
            _ => Err(format!("user {user} has no row").into()),
        }
    }
}

/// A user of [`CHANNELS`] states, after so many changes.
fn block(user: u64, round: u64) -> Vec<u8> {
    let mut bytes = block::EMPTY.to_vec();
    for place in 0..CHANNELS {
        let channel = mix64(user.wrapping_mul(CHANNELS) + place) >> 1;
        let message = MESSAGES + (mix64(channel.wrapping_add(round)) >> 12);
        let visit = Visit::default();
        let ack = Operation::Ack {
            channel,
            message,
            visit,
        };
        // Twenty are far from the most that a user can have.
        let _ = block::apply(&mut bytes, &ack, 1 << 50);
    }
    bytes
}

async fn run(flags: Flags) -> Result<(), CqlError> {
    let statements = Arc::new(prepare(&flags).await?);
    let cpu = || -> Result<f64, CqlError> {
        Ok(process::sample(flags.process)?
            .get(process::CPU_SECONDS)
            .copied()
            .unwrap_or_default())
    };
    let (began, before) = (Instant::now(), cpu()?);
    let until = began + Duration::from_secs(flags.seconds);
    let numbers = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..flags.at_once {
        let (statements, numbers) = (Arc::clone(&statements), Arc::clone(&numbers));
        let (phase, users) = (flags.phase, flags.users);
        workers.spawn(async move {
            let mut latency = histogram();
            loop {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let is_over = match phase {
                    Phase::Fill => number >= users,
                    Phase::Overwrite | Phase::Read => Instant::now() >= until,
                };
                if is_over {
                    return Ok::<_, CqlError>(latency);
                }
                let random = mix64(number) % users;
                let sent = Instant::now();
                match phase {
                    Phase::Fill => statements.write(number, 0).await?,
                    Phase::Overwrite => statements.write(random, number + 1).await?,
                    Phase::Read => statements.read(random).await?,
                }
                latency.saturating_record(sent.elapsed().as_nanos() as u64);
            }
        });
    }
    let mut latency: Histogram<u64> = histogram();
    while let Some(worker) = workers.join_next().await {
        latency.add(worker??)?;
    }
    let (took, busy) = (began.elapsed().as_secs_f64(), cpu()? - before);
    let operations = latency.len();
    let line = serde_json::json!({
        "operations": operations,
        "per_second": operations as f64 / took,
        "p50_us": latency.value_at_quantile(0.5) as f64 / 1e3,
        "p99_us": latency.value_at_quantile(0.99) as f64 / 1e3,
        "cpu_us": busy * 1e6 / operations as f64,
        "block_bytes": block(1, 1).len(),
    });
    println!("{line}");
    Ok(())
}
