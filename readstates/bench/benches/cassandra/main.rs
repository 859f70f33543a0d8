//! Acknowledgements and mentions straight into Cassandra, as a service without a cache does them: by reading a row
//! and writing it, or by a counter. The load is that of `readstates-bench`, by the `scylla` driver; the schema is made
//! in a keyspace of its own.
//!
//! A read and the write after it are one operation and no transaction: two at once may lose one. The driver's timers
//! tick in milliseconds, and so does an open loop here.

mod statements;

use std::{
    error::Error,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use clap::Parser;
use readstates_bench::{
    answer::{Answer, Failure},
    args::LoadArgs,
    config::Load,
    drive::print,
    keys::Random,
    metrics::Sample,
    process,
    report::{Evenness, Generator, Latency, Operations, Report, Second, Settings},
    schedule::{Nanos, Next, Pace, SECOND, Schedule},
    source::Messages,
    windows::Window,
};
use statements::{Statements, Way};
use tokio::task::JoinSet;

/// Writes under way while rows are filled in.
const FILLERS: u64 = 64;

/// Load straight on a Cassandra.
#[derive(Debug, Parser)]
struct Flags {
    /// Load; --connections is the number of operations in flight, and --mix has no effect.
    #[command(flatten)]
    load: LoadArgs,

    /// Address of a database node.
    #[arg(long, value_name = "HOST:PORT")]
    contact: String,

    /// Kind of operation.
    #[arg(long, value_enum)]
    way: Way,

    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(run(&flags)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cassandra: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let load = Load::from_args(&flags.load)?;
    let statements = Arc::new(
        Statements::prepare(&flags.contact)
            .await
            .map_err(|error| error.to_string())?,
    );
    if load.fill {
        fill(&statements, &load).await?;
    }
    let started = SystemTime::now();
    let seconds = measure(&statements, flags, &load).await?;
    print(&report(flags, &load, started, seconds), &flags.load)?;
    Ok(())
}

/// Writes every row once.
async fn fill(statements: &Arc<Statements>, load: &Load) -> Result<(), Box<dyn Error>> {
    let mut all = JoinSet::new();
    for worker in 0..FILLERS {
        let (statements, keys) = (Arc::clone(statements), load.keys.clone());
        all.spawn(async move {
            for pair in (worker..keys.pairs()).step_by(FILLERS as usize) {
                statements.write(keys.pair(pair), 1).await?;
            }
            Ok::<(), statements::CqlError>(())
        });
    }
    while let Some(worker) = all.join_next().await {
        worker?.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Every second after the warm-up, and all of them together.
async fn measure(
    statements: &Arc<Statements>,
    flags: &Flags,
    load: &Load,
) -> Result<(Vec<Second>, Window), Box<dyn Error>> {
    let seconds = load.duration.as_secs().max(1);
    let windows: Vec<Window> = (0..seconds).map(Window::new).collect();
    let booked = Arc::new(Mutex::new(windows));
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for number in 0..load.connections as u64 {
        let worker = Worker {
            statements: Arc::clone(statements),
            way: flags.way,
            load: load.clone(),
            number,
            start,
            booked: Arc::clone(&booked),
        };
        workers.spawn(worker.work());
    }
    let samples = sample(&flags.load.process, start + load.warmup, seconds).await;
    while let Some(worker) = workers.join_next().await {
        worker?;
    }
    let windows = std::mem::take(&mut *booked.lock().unwrap_or_else(PoisonError::into_inner));
    let mut total = Window::new(0);
    let mut all = Vec::new();
    for (window, metrics) in windows.iter().zip(samples) {
        total.merge(window);
        all.push(Second {
            metrics,
            ..Second::of(window)
        });
    }
    Ok((all, total))
}

/// What the processes took, at the end of every second.
async fn sample(processes: &[u32], first: Instant, seconds: u64) -> Vec<Option<Sample>> {
    let mut samples = Vec::new();
    for second in 1..=seconds {
        tokio::time::sleep_until((first + Duration::from_secs(second)).into()).await;
        samples.push(process::sum(processes).ok());
    }
    samples
}

/// Operations one after another.
struct Worker {
    statements: Arc<Statements>,
    way: Way,
    load: Load,
    number: u64,
    start: Instant,
    booked: Arc<Mutex<Vec<Window>>>,
}

impl Worker {
    fn now(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }

    async fn work(self) {
        let load = &self.load;
        let workers = load.connections as u64;
        let warmup = load.warmup.as_nanos() as Nanos;
        let end = warmup + load.duration.as_nanos() as Nanos;
        let mut schedule = Schedule::new(load.pace, end, self.number, workers);
        let mut random = Random::new(load.seed.wrapping_add(load.now), self.number);
        let mut messages = Messages::new(load.now, self.number, workers);
        loop {
            let due = match schedule.next(self.now()) {
                Next::Due(due) => due,
                Next::At(at) => {
                    let at = self.start + Duration::from_nanos(at);
                    tokio::time::sleep_until(at.into()).await;
                    continue;
                }
                Next::Over => return,
            };
            schedule.take();
            let place = load.keys.draw(&mut random);
            let done = self.statements.operate(self.way, place, messages.id());
            let answer = match tokio::time::timeout(load.timeout, done).await {
                Ok(Ok(true)) => Answer::Applied,
                Ok(Ok(false)) => Answer::Ignored,
                Ok(Err(_)) => Answer::Failed(Failure::NotTaken),
                Err(_) => Answer::Failed(Failure::Timeout),
            };
            let latency = self.now() - due;
            if let Some(second) = due.checked_sub(warmup) {
                let mut booked = self.booked.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(window) = booked.get_mut((second / SECOND) as usize) {
                    window.add(latency, &[answer]);
                }
            }
        }
    }
}

fn report(
    flags: &Flags,
    load: &Load,
    started: SystemTime,
    (windows, total): (Vec<Second>, Window),
) -> Report {
    let seconds = windows.len() as f64;
    let args = &flags.load;
    let rate = match load.pace {
        Pace::Rate(rate) => Some(rate),
        Pace::Saturate => None,
    };
    Report {
        title: format!("Cassandra, {:?}, {} at once", flags.way, load.connections),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        settings: Settings {
            rate,
            connections: load.connections,
            threads: 1,
            depth: 1,
            per_request: 1,
            users: args.users,
            channels: args.channels,
            keys: format!("{:?}", args.keys).to_lowercase(),
            mix: format!("{:?}", flags.way),
            seed: args.seed,
        },
        seconds,
        requests: total.requests,
        operations: Operations::of(&total.counts),
        operations_per_second: total.counts.succeeded() as f64 / seconds,
        latency: Latency::of(&total.latency),
        evenness: Evenness::of(&windows),
        generator: Generator::default(),
        warnings: Vec::new(),
        check: None,
        windows,
    }
}
