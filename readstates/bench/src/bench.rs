//! `readstates bench`, from its flags to its report.

use std::{
    sync::{Arc, mpsc},
    thread,
};

use crate::{
    args::BenchArgs,
    check::{CheckReport, Ledger},
    config::{Bench, Target},
    connection::Route,
    drive::{self, Service},
    error::BenchError,
    http::Http,
    metrics::{self, Sample},
    report::Report,
    run::{Plan, Ran, run},
    settle,
    source::Source,
};

/// Operations of a request that fills: few requests, each far below what a member takes.
const FILL_BATCH: usize = 1024;

/// Does what the flags say, prints the report, and fails when the check found something.
///
/// # Errors
/// See [`BenchError`].
pub fn main(args: &BenchArgs) -> Result<(), BenchError> {
    let report = measure(args)?;
    drive::print(&report, &args.load)?;
    if let Some(check) = report.check.filter(|check| !check.holds()) {
        let CheckReport {
            lost,
            doubled,
            foreign,
            ..
        } = check;
        return Err(BenchError::DoesNotHold {
            lost,
            doubled,
            foreign,
        });
    }
    Ok(())
}

/// Does what the flags say.
///
/// # Errors
/// See [`BenchError`].
pub fn measure(args: &BenchArgs) -> Result<Report, BenchError> {
    let Bench {
        load,
        targets,
        batch,
        check,
        metrics,
    } = Bench::from_args(args)?;
    let service = Service {
        urls: args.url.join(", "),
        routes: routes(&targets, batch.is_some()),
        depth: 1,
        per_request: batch.unwrap_or(1),
    };
    if load.fill {
        drive::fill(&load, routes(&targets, true), FILL_BATCH, 1)?;
    }
    let plan = drive::plan(&load, &service, check);
    let source = |lane, lanes| -> Box<dyn Source> {
        let (users, first_user) = load.keys.users();
        let lane_of = (lane, lanes);
        match check {
            true => Box::new(Ledger::new(
                users,
                first_user,
                load.now,
                service.per_request,
                lane_of,
            )),
            false => Box::new(drive::mixed(&load, service.per_request, lane, lanes)),
        }
    };
    let started = std::time::SystemTime::now();
    let (ran, samples) = match metrics {
        true => run_and_sample(&plan, source, &targets)?,
        false => (
            run(&plan, source, |_| ()).map_err(BenchError::Run)?,
            Vec::new(),
        ),
    };
    let found = match check {
        true => Some(settle::check(&ran, &targets)?),
        false => None,
    };
    let mut report = drive::report(&service, started, &plan, &args.load, &ran)?;
    if check {
        "checked".clone_into(&mut report.settings.mix);
    }
    for (second, sample) in report.windows.iter_mut().zip(samples) {
        second.metrics = sample;
    }
    report.check = found;
    Ok(report)
}

fn routes(targets: &[Target], batch: bool) -> Vec<Route> {
    let mut routes = Vec::new();
    for Target { host, addresses } in targets {
        let protocol = Arc::new(Http::new(host.clone(), batch));
        routes.extend(addresses.iter().map(|address| Route {
            address: *address,
            protocol: protocol.clone(),
        }));
    }
    routes
}

fn run_and_sample(
    plan: &Plan,
    source: impl Fn(u64, u64) -> Box<dyn Source>,
    targets: &[Target],
) -> Result<(Ran, Vec<Option<Sample>>), BenchError> {
    let members: Vec<_> = targets
        .iter()
        .flat_map(|Target { host, addresses }| addresses.iter().map(|at| (*at, host.clone())))
        .collect();
    let (stop, stopped) = mpsc::channel();
    let mut sampler = None;
    let ran = run(plan, source, |first_second| {
        sampler = Some(thread::spawn(move || {
            metrics::sample(&members, first_second, &stopped)
        }));
    });
    drop(stop);
    let samples = sampler.and_then(|sampler| sampler.join().ok());
    Ok((ran.map_err(BenchError::Run)?, samples.unwrap_or_default()))
}
