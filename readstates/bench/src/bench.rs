//! `readstates-bench`, from its flags to its report.

use std::{net::SocketAddr, sync::Arc};

use crate::{
    args::BenchArgs,
    check::{CheckReport, Ledger},
    config::{Bench, Target},
    connection::Route,
    drive::{self, Service},
    error::BenchError,
    http::Http,
    metrics::Watched,
    report::Report,
    secure::Head,
    settle,
    source::{Source, Sweep},
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
        rows,
        connect,
        check,
        metrics,
    } = Bench::from_args(args)?;
    let service = Service {
        urls: args.url.join(", "),
        routes: routes(&targets, batch.is_some(), rows),
        depth: 1,
        per_request: batch.unwrap_or(1),
    };
    if load.fill {
        drive::fill(&load, routes(&targets, true, false), FILL_BATCH, 1)?;
    }
    let plan = match connect {
        true => drive::sweep_plan(&load, service.routes.clone(), 1, "Connecting"),
        false => drive::plan(&load, &service, check),
    };
    let connects = drive::sweep(Sweep::Connect, &load, load.now, 1);
    let source = |thread, threads| -> Box<dyn Source> {
        let (users, first_user) = load.keys.users();
        let thread_of = (thread, threads);
        match (connect, check) {
            (true, _) => connects(thread, threads),
            (false, true) => Box::new(Ledger::new(
                users,
                first_user,
                load.now,
                service.per_request,
                thread_of,
            )),
            (false, false) => Box::new(drive::mixed(&load, service.per_request, thread, threads)),
        }
    };
    let started = std::time::SystemTime::now();
    let watched = Watched {
        members: members(&metrics),
        processes: args.load.process.clone(),
    };
    let ran = drive::run_watched(&plan, source, watched)?;
    if connect {
        drive::complete(Sweep::Connect, &load, &ran)?;
    }
    let found = match check {
        true => Some(settle::check(&ran, &targets)?),
        false => None,
    };
    let mut report = drive::report(&service, started, &plan, &args.load, &ran)?;
    if check {
        "checked".clone_into(&mut report.settings.mix);
    }
    if connect {
        "every user connects once".clone_into(&mut report.settings.mix);
    }
    report.check = found;
    Ok(report)
}

fn members(targets: &[Target]) -> Vec<(SocketAddr, Target)> {
    let of = |target: &Target| {
        let addresses = target.addresses.iter();
        let each = addresses.map(|address| (*address, target.clone()));
        each.collect::<Vec<_>>()
    };
    targets.iter().flat_map(of).collect()
}

fn routes(targets: &[Target], batch: bool, rows: bool) -> Vec<Route> {
    let mut routes = Vec::new();
    for target in targets {
        let head = Head::new(&target.host, target.token.as_ref());
        let protocol = Arc::new(Http::new(head, batch).with_rows(rows));
        routes.extend(target.addresses.iter().map(|address| Route {
            address: *address,
            protocol: protocol.clone(),
            tls: target.tls.clone(),
        }));
    }
    routes
}
