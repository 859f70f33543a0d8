//! The parts that do not depend on the service driven: filling, the plan of a run, its report.

use std::{
    fs,
    io::{self, Write as _},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime},
};

use crate::{
    args::{LoadArgs, Output},
    config::Load,
    connection::Route,
    error::BenchError,
    keys::Random,
    metrics::{self, Watched},
    plot::{Chart, Series, svg},
    report::{self, Evenness, Generator, Latency, Operations, Report, Settings, Stolen},
    run::{Plan, Ran, run},
    schedule::Pace,
    source::{Messages, Mixed, Once, Source, Sweep},
    summary::Named,
    windows::histogram,
};

const FILL_CONNECTIONS: usize = 8;
/// Sent late by more than this though a connection was free, latencies are the generator's own.
const LATE_MILLIS: f64 = 1.0;
/// Where more processor time than this was kept from the machine in a second, that second's tail may be the machine's.
const MUCH_STOLEN_MILLIS: f64 = 30.0;
/// A thread that works more than this part of the time is too slow at times.
const BUSY: f64 = 0.9;

/// What is driven.
#[derive(Debug, Clone)]
pub struct Service {
    /// Where it is, in words.
    pub urls: String,
    /// Where connections go, in turn.
    pub routes: Vec<Route>,
    /// Requests on a connection at once.
    pub depth: usize,
    /// Operations per request.
    pub per_request: usize,
}

/// Measures.
///
/// # Errors
/// See [`BenchError`].
pub fn drive(load: &Load, args: &LoadArgs, service: &Service) -> Result<Report, BenchError> {
    let plan = plan(load, service, false);
    let source = |thread, threads| -> Box<dyn Source> {
        Box::new(mixed(load, service.per_request, thread, threads))
    };
    let started = SystemTime::now();
    let watched = Watched {
        members: Vec::new(),
        processes: args.process.clone(),
    };
    let ran = run_watched(&plan, source, watched)?;
    report(service, started, &plan, args, &ran)
}

/// Runs, and adds to every second the metrics of the machine, members and processes at its end.
pub(crate) fn run_watched(
    plan: &Plan,
    source: impl Fn(u64, u64) -> Box<dyn Source>,
    watched: Watched,
) -> Result<Ran, BenchError> {
    let (stop, stopped) = mpsc::channel();
    let mut sampler = None;
    let ran = run(plan, source, |first_second| {
        sampler = Some(thread::spawn(move || {
            metrics::sample(&watched, first_second, &stopped)
        }));
    });
    drop(stop);
    let samples = sampler.and_then(|sampler| sampler.join().ok());
    let mut ran = ran.map_err(BenchError::Run)?;
    for (second, sample) in ran.seconds.iter_mut().zip(samples.unwrap_or_default()) {
        second.metrics = sample;
    }
    Ok(ran)
}

pub(crate) fn mixed(load: &Load, per_request: usize, thread: u64, threads: u64) -> Mixed {
    Mixed {
        keys: load.keys.clone(),
        mix: load.mix,
        // A second run on the same users does not repeat the draws of the first.
        random: Random::new(load.seed.wrapping_add(load.now), thread),
        // Filling has taken ids of the milliseconds before.
        messages: Messages::new(load.now, thread, threads),
        per_request,
    }
}

/// Acknowledges once in every channel of every user, with ids below those of the run.
///
/// # Errors
/// See [`BenchError`].
pub fn fill(
    load: &Load,
    routes: Vec<Route>,
    per_request: usize,
    depth: usize,
) -> Result<(), BenchError> {
    let plan = Plan {
        connections: FILL_CONNECTIONS.max(load.threads),
        ..sweep_plan(load, routes, depth, "Filling")
    };
    // An hour before the run's own: room for 10^10 ids.
    let before = load.now.saturating_sub(3_600_000).max(1);
    let source = sweep(Sweep::Fill, load, before, per_request);
    let ran = run(&plan, source, |_| ()).map_err(BenchError::Run)?;
    complete(Sweep::Fill, load, &ran)
}

/// How a sweep is run: as fast as it is answered, until everything is.
pub(crate) fn sweep_plan(
    load: &Load,
    routes: Vec<Route>,
    depth: usize,
    title: &'static str,
) -> Plan {
    Plan {
        routes,
        connections: load.connections,
        threads: load.threads,
        depth,
        pace: Pace::Saturate,
        warmup: Duration::ZERO,
        duration: None,
        timeout: load.timeout,
        insist: true,
        title,
    }
}

/// The sources of a sweep, with message ids from this millisecond on.
pub(crate) fn sweep(
    sweep: Sweep,
    load: &Load,
    from: u64,
    per_request: usize,
) -> impl Fn(u64, u64) -> Box<dyn Source> {
    move |thread, threads| {
        let messages = Messages::new(from, thread, threads);
        let keys = load.keys.clone();
        Box::new(Once::new(
            sweep,
            keys,
            messages,
            per_request,
            thread,
            threads,
        ))
    }
}

/// Whether all of a sweep was done.
///
/// # Errors
/// When it was not.
pub(crate) fn complete(sweep: Sweep, load: &Load, ran: &Ran) -> Result<(), BenchError> {
    let (done, wanted) = (ran.total.counts.succeeded(), sweep.operations(&load.keys));
    match done >= wanted {
        true => Ok(()),
        false => Err(BenchError::Sweep {
            what: match sweep {
                Sweep::Fill => "acknowledgements",
                Sweep::Connect => "reads",
            },
            done,
            wanted,
            failures: failures(&Operations::of(&ran.total.counts)),
        }),
    }
}

fn failures(operations: &Operations) -> String {
    let failed = operations.failed.iter();
    let failed: Vec<_> = failed
        .map(|(why, count)| format!("{why}: {count}"))
        .collect();
    failed.join(", ")
}

pub(crate) fn plan(load: &Load, service: &Service, insist: bool) -> Plan {
    Plan {
        routes: service.routes.clone(),
        connections: load.connections,
        threads: load.threads,
        depth: service.depth,
        pace: match load.pace {
            Pace::Rate(operations) => Pace::Rate(operations / service.per_request as f64),
            Pace::Saturate => Pace::Saturate,
        },
        warmup: load.warmup,
        duration: Some(load.duration),
        timeout: load.timeout,
        insist,
        title: "Measuring",
    }
}

pub(crate) fn report(
    service: &Service,
    started: SystemTime,
    plan: &Plan,
    args: &LoadArgs,
    ran: &Ran,
) -> Result<Report, BenchError> {
    let Ran {
        total,
        seconds,
        threads: _,
    } = ran;
    let operations = Operations::of(&total.counts);
    let succeeded = total.counts.succeeded();
    if succeeded == 0 {
        return Err(BenchError::NothingSucceeded {
            failures: failures(&operations),
            urls: service.urls.clone(),
        });
    }
    let generator = generator(ran);
    let took = ran.threads.iter().map(|thread| thread.took).max();
    let measured = match plan.duration {
        Some(duration) => duration,
        // Until there was nothing more to send.
        None => took.unwrap_or_default(),
    };
    let measured = measured.as_secs_f64();
    let report = Report {
        title: title(service, plan, args),
        started: humantime::format_rfc3339_seconds(started).to_string(),
        settings: settings(service, plan, args),
        seconds: measured,
        requests: total.requests,
        operations,
        operations_per_second: succeeded as f64 / measured,
        latency: Latency::of(&total.latency),
        evenness: Evenness::of(seconds),
        generator,
        warnings: Vec::new(),
        check: None,
        windows: seconds.clone(),
    };
    let warnings = warnings(&report, args.threads);
    Ok(Report { warnings, ..report })
}

fn settings(service: &Service, plan: &Plan, args: &LoadArgs) -> Settings {
    Settings {
        rate: (!args.saturate && plan.duration.is_some()).then_some(args.rate),
        connections: plan.connections,
        threads: plan.threads,
        depth: plan.depth,
        per_request: service.per_request,
        users: args.users,
        channels: args.channels,
        keys: format!("{:?}", args.keys).to_lowercase(),
        mix: args.mix.to_string(),
        seed: args.seed,
    }
}

fn title(service: &Service, plan: &Plan, args: &LoadArgs) -> String {
    let Service {
        urls,
        routes: _,
        depth,
        per_request,
    } = service;
    let pace = match args.saturate || plan.duration.is_none() {
        true => "as fast as answered".to_owned(),
        false => format!("{} operations/s", args.rate),
    };
    let shape = match (*per_request, *depth) {
        (1, 1) => String::new(),
        (1, depth) => format!(", {depth} deep"),
        (batch, _) => format!(", batches of {batch}"),
    };
    format!("{urls}: {pace}, {} connections{shape}", args.connections)
}

fn generator(ran: &Ran) -> Generator {
    let mut late = histogram();
    let mut generator = Generator::default();
    for thread in &ran.threads {
        // Of equal bounds, always.
        let _ = late.add(&thread.late);
        generator.waited_for_connection += thread.waited;
        generator.lost_connections += thread.reconnects;
        generator.processor_seconds += thread.busy.as_secs_f64();
        let busy = thread.busy.as_secs_f64() / thread.took.as_secs_f64();
        generator.busiest_thread = generator.busiest_thread.max(busy);
    }
    let Latency { p99, max, .. } = Latency::of(&late);
    Generator {
        late_p99: p99,
        late_max: max,
        ..generator
    }
}

/// What a reader must know before using the figures.
fn warnings(report: &Report, threads: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    let Generator {
        late_p99,
        late_max: _,
        waited_for_connection,
        lost_connections,
        processor_seconds: _,
        busiest_thread,
    } = report.generator;
    if late_p99 > LATE_MILLIS {
        warnings.push(format!(
            "the generator fell behind its schedule by {late_p99:.1} ms (p99) though connections were free: \
             part of the latency is its own; give it processors of its own"
        ));
    }
    if busiest_thread > BUSY {
        let more = threads + 1;
        warnings.push(format!(
            "a thread of the generator worked {:.0} % of the time: the service may be able to do more; \
             try --threads {more}",
            busiest_thread * 100.0
        ));
    }
    let waited = waited_for_connection as f64 / report.requests.max(1) as f64;
    if waited > 0.01 {
        warnings.push(format!(
            "{:.0} % of the requests waited for a free connection, and their latency says so: the rate is more \
             than the service answers, or there are too few --connections",
            waited * 100.0
        ));
    }
    if report.settings.rate.is_none() {
        warnings.push(
            "closed loop: the latencies are those of clients that wait for each other; use --rate for the tail"
                .to_owned(),
        );
    }
    if let Some(Stolen { total, worst, .. }) = report::stolen(report)
        && worst > MUCH_STOLEN_MILLIS
    {
        warnings.push(format!(
            "the hypervisor kept {total:.0} ms of processor time from this machine, {worst:.0} in one second: the tail \
             of such seconds may be the machine's"
        ));
    }
    if lost_connections > 0 {
        warnings.push(format!(
            "{lost_connections} connections were lost or not made"
        ));
    }
    warnings
}

/// Prints a report as its flags say, and draws its plot.
///
/// # Errors
/// When the plot cannot be written.
pub fn print(report: &Report, args: &LoadArgs) -> Result<(), BenchError> {
    let text = match args.output {
        Output::Text => report::text(report),
        Output::Csv => report::csv(report),
        // Numbers, strings and lists: nothing that JSON cannot say.
        Output::Json => serde_json::to_string_pretty(report).unwrap_or_default() + "\n",
    };
    // A reader that closes standard output has read enough.
    let _ = io::stdout().write_all(text.as_bytes());
    match &args.plot {
        None => Ok(()),
        Some(file) => {
            fs::write(file, svg(&tail_chart(report))).map_err(|source| BenchError::Plot {
                file: file.clone(),
                source,
            })
        }
    }
}

/// The tail of every second.
#[must_use]
pub fn tail_chart(report: &Report) -> Chart {
    let line = |name: &str, value: fn(&Latency) -> f64| Series {
        name: name.to_owned(),
        points: report
            .windows
            .iter()
            .map(|second| (second.second as f64, value(&second.latency)))
            .collect(),
    };
    let mark = 2.0 * report.evenness.median_p999;
    Chart {
        title: "Latency by the second".into(),
        subtitle: format!("{}; {}", report.title, report.started),
        x: "seconds".into(),
        y: "latency, ms".into(),
        series: vec![
            line("p99.9", |latency| latency.p999),
            line("p50", |latency| latency.p50),
            line("max", |latency| latency.max),
        ],
        marks: vec![("twice the median p99.9".into(), mark)],
    }
}

/// The seconds of runs under one load, one run behind the other.
#[must_use]
pub fn runs_chart(runs: &[Named], machine: &str) -> Chart {
    let seconds = || runs.iter().flat_map(|run| &run.report.windows);
    let line = |name: &str, value: fn(&Latency) -> f64| Series {
        name: name.to_owned(),
        points: (0..)
            .zip(seconds())
            .map(|(second, window)| (f64::from(second), value(&window.latency)))
            .collect(),
    };
    let lengths = runs
        .iter()
        .map(|run| format!("{} ({} s)", run.name, run.report.windows.len()));
    Chart {
        title: "Latency by the second, run after run".into(),
        subtitle: machine.to_owned(),
        x: format!("seconds of {}", lengths.collect::<Vec<_>>().join(", ")),
        y: "latency, ms".into(),
        series: vec![
            line("p99.9", |latency| latency.p999),
            line("p99", |latency| latency.p99),
            line("p50", |latency| latency.p50),
            line("max", |latency| latency.max),
        ],
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
