//! Single operations of many tasks: a request each, beside frames that they share (`Client::coalescing`).
//!
//! Against members that run already, so that their processor is not the client's:
//! `cargo bench --bench coalescing -- --url http://127.0.0.1:7400`. Tasks acknowledge ever newer messages, each of its
//! own users, and wait for each answer before the next.

use std::{
    error::Error,
    fmt::Write as _,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use hdrhistogram::Histogram;
use readstates_api::{AckRequest, Id};
use readstates_client::{Client, Coalescing, Config};
use rustix::time::{ClockId, clock_gettime};

/// Users of one task, in turn.
const USERS: u64 = 100;
const CHANNEL: u64 = 10;

/// Coalesced single operations beside single requests, as Markdown.
#[derive(Debug, Parser)]
struct Flags {
    /// Members, or a Service in front of them.
    #[arg(long, default_value = "http://127.0.0.1:7400", value_delimiter = ',')]
    url: Vec<String>,

    /// Tasks, for a row each.
    #[arg(long, default_value = "1,8,64,1000", value_delimiter = ',')]
    tasks: Vec<u64>,

    /// How long each row is measured, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,

    /// Threads of the client.
    #[arg(long, default_value_t = 1)]
    threads: usize,

    /// Only this way.
    #[arg(long, value_enum)]
    only: Option<Way>,

    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// A request for each operation.
    Single,
    /// Frames that operations share.
    Coalesced,
}

impl Way {
    const ALL: [Self; 2] = [Self::Single, Self::Coalesced];

    fn name(self) -> &'static str {
        match self {
            Self::Single => "single requests",
            Self::Coalesced => "coalesced",
        }
    }
}

/// What tasks acknowledge with; cheap to clone.
#[derive(Clone)]
enum Caller {
    Single(Client),
    Coalesced(Coalescing),
}

impl Caller {
    async fn ack(
        &self,
        user: Id,
        channel: Id,
        message: Id,
    ) -> Result<(), readstates_client::Error> {
        match self {
            Self::Coalesced(states) => states.ack(user, channel, message).await.map(drop),
            Self::Single(client) => {
                let request = AckRequest {
                    message_id: message,
                    manual: false,
                    mention_count: None,
                    flags: None,
                    last_viewed: None,
                };
                client.ack(user, channel, &request).await.map(drop)
            }
        }
    }
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
        .worker_threads(flags.threads)
        .enable_all()
        .build()?;
    let mut out = String::from(
        "Operations per second, latency as a task sees it, and processor of the client for an operation.\n\n\
         | tasks | way | operations/s | p50 µs | p99 µs | p99.9 µs | CPU µs |\n|--:|---|--:|--:|--:|--:|--:|\n",
    );
    // Messages of a later row are newer than those of all before it.
    let mut first = std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_nanos() as u64;
    let ways = Way::ALL.into_iter();
    let ways: Vec<Way> = ways
        .filter(|way| flags.only.is_none_or(|only| only == *way))
        .collect();
    for &tasks in &flags.tasks {
        for &way in &ways {
            let row = runtime.block_on(row(flags, way, tasks, first))?;
            first += 1 << 40;
            writeln!(out, "| {tasks} | {} | {row} |", way.name())?;
        }
    }
    Ok(out)
}

async fn row(flags: &Flags, way: Way, tasks: u64, first: u64) -> Result<String, Box<dyn Error>> {
    let client = Client::start(Config::new(&flags.url)?)?;
    client.ring_after(0).await;
    let caller = match way {
        Way::Single => Caller::Single(client),
        Way::Coalesced => Caller::Coalesced(client.coalescing()),
    };
    // Connections are made and users loaded before it counts.
    load(&caller, tasks, Duration::from_secs(1), first).await?;
    let (started, spent) = (Instant::now(), spent_micros());
    let measured = Duration::from_secs(flags.seconds);
    let latencies = load(&caller, tasks, measured, first + (1 << 39)).await?;
    let (took, spent) = (started.elapsed(), spent_micros() - spent);
    let done = latencies.len() as f64;
    let at = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
    Ok(format!(
        "{:.0} | {:.0} | {:.0} | {:.0} | {:.2}",
        done / took.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(0.999),
        spent / done
    ))
}

/// The latencies, in nanoseconds, of all operations that tasks do until the time is over.
async fn load(
    caller: &Caller,
    tasks: u64,
    time: Duration,
    first: u64,
) -> Result<Histogram<u64>, Box<dyn Error>> {
    let until = Instant::now() + time;
    let tasks = (0..tasks).map(|task| tokio::spawn(one_task(caller.clone(), task, until, first)));
    let mut all = Histogram::new(3)?;
    for task in tasks.collect::<Vec<_>>() {
        all.add(task.await?.map_err(|error| error.to_string())?)?;
    }
    Ok(all)
}

async fn one_task(
    caller: Caller,
    task: u64,
    until: Instant,
    first: u64,
) -> Result<Histogram<u64>, Box<dyn Error + Send + Sync>> {
    let mut latencies = Histogram::new(3)?;
    let id = |number| Id::new(number).ok_or("an id is 0");
    for number in 0.. {
        let user = id(1 + task * USERS + number % USERS)?;
        let began = Instant::now();
        if began >= until {
            break;
        }
        caller.ack(user, id(CHANNEL)?, id(first + number)?).await?;
        latencies.record(began.elapsed().as_nanos() as u64)?;
    }
    Ok(latencies)
}

/// What this process has spent of processors, in microseconds.
fn spent_micros() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3
}
