//! Single operations of many tasks: a request each, beside frames that they share (`Client::coalescing`), and the same
//! on a Redis server with a Lua script, through a connection for each task and through one that all share.
//!
//! Against members that run already, so that their processor is not the client's:
//! `cargo bench --bench coalescing -- --url http://127.0.0.1:7400`. Tasks acknowledge ever newer messages, each of its
//! own users, and wait for each answer before the next. The Redis server is started for the run.

mod callers;

use std::{
    error::Error,
    fmt::Write as _,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use callers::{Caller, Callers, Way};
use clap::Parser;
use hdrhistogram::Histogram;
use readstates_api::Id;
use readstates_bench::redis_server::{RedisServer, SERVER, Settings};
use rustix::time::{ClockId, clock_gettime};

/// Users of one task, in turn.
const USERS: u64 = 100;
const CHANNEL: u64 = 10;
/// Tasks of a row for each way.
const TASKS: [u64; 4] = [1, 8, 64, 1000];

/// Coalesced single operations beside single requests, as Markdown.
#[derive(Debug, Parser)]
struct Flags {
    /// Members, or a Service in front of them.
    #[arg(long, default_value = "http://127.0.0.1:7400", value_delimiter = ',')]
    url: Vec<String>,

    /// How long each row is measured, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,

    /// Path of the Redis server program.
    #[arg(long, default_value = SERVER, value_name = "FILE")]
    redis_server: PathBuf,

    /// Processors that the Redis server may use, as Redis writes them: 2-3. Absent: all
    #[arg(long, value_name = "LIST")]
    server_processors: Option<String>,

    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(table) => {
            println!("{table}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("coalescing: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<String, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let mut out = String::from(
        "Operations per second, latency as a task sees it, and processor of the client for an operation.\n\n\
         | tasks | way | operations/s | p50 µs | p99 µs | p99.9 µs | CPU µs |\n|--:|---|--:|--:|--:|--:|--:|\n",
    );
    let settings = Settings {
        processors: flags.server_processors.as_deref(),
        ..Settings::default()
    };
    // Ends with this function.
    let redis = RedisServer::start(&flags.redis_server, settings)?;
    // Messages of a later row are newer than those of all before it.
    let mut first = std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_nanos() as u64;
    for tasks in TASKS {
        for way in Way::ALL {
            let row = async {
                let callers = Callers::of(way, &flags.url, redis.address()).await?;
                row(&callers, tasks, Duration::from_secs(flags.seconds), first).await
            };
            let row = runtime.block_on(row)?;
            first += 1 << 40;
            writeln!(out, "| {tasks} | {} | {row} |", way.name())?;
        }
    }
    Ok(out)
}

async fn row(
    callers: &Callers,
    tasks: u64,
    measured: Duration,
    first: u64,
) -> Result<String, Box<dyn Error>> {
    let mut each = Vec::new();
    for _ in 0..tasks {
        each.push(callers.one().await?);
    }
    // Connections are made and users loaded before it counts.
    load(&each, Duration::from_secs(1), first).await?;
    let (started, spent) = (Instant::now(), spent_micros());
    let latencies = load(&each, measured, first + (1 << 39)).await?;
    let (took, spent) = (started.elapsed(), spent_micros() - spent);
    let mut all = Histogram::<u64>::new(3)?;
    for latency in latencies.iter().flatten() {
        all.record(u64::try_from(latency.as_nanos())?)?;
    }
    let done = all.len() as f64;
    let at = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
    Ok(format!(
        "{:.0} | {:.0} | {:.0} | {:.0} | {:.2}",
        done / took.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(0.999),
        spent / done
    ))
}

/// The latencies of all operations that tasks do until the time is over, by task: a histogram for each of a thousand
/// would miss the processor's cache with every operation.
async fn load(
    callers: &[Caller],
    time: Duration,
    first: u64,
) -> Result<Vec<Vec<Duration>>, Box<dyn Error>> {
    let until = Instant::now() + time;
    let tasks = callers.iter().zip(0..);
    let tasks =
        tasks.map(|(caller, task)| tokio::spawn(one_task(caller.clone(), task, until, first)));
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        all.push(task.await?.map_err(|error| error.to_string())?);
    }
    Ok(all)
}

async fn one_task(
    mut caller: Caller,
    task: u64,
    until: Instant,
    first: u64,
) -> Result<Vec<Duration>, Box<dyn Error + Send + Sync>> {
    let mut latencies = Vec::new();
    let id = |number| Id::new(number).ok_or("an id is 0");
    for number in 0.. {
        let user = id(1 + task * USERS + number % USERS)?;
        let began = Instant::now();
        if began >= until {
            break;
        }
        caller.ack(user, id(CHANNEL)?, id(first + number)?).await?;
        latencies.push(began.elapsed());
    }
    Ok(latencies)
}

/// What this process has spent of processors, in microseconds.
fn spent_micros() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3
}
