//! `readstates bench`, from its flags to its report.

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
    let watched = Watched {
        members: members(&metrics),
        processes: args.load.process.clone(),
    };
    let ran = drive::run_watched(&plan, source, watched)?;
    let found = match check {
        true => Some(settle::check(&ran, &targets)?),
        false => None,
    };
    let mut report = drive::report(&service, started, &plan, &args.load, &ran)?;
    if check {
        "checked".clone_into(&mut report.settings.mix);
    }
    report.check = found;
    Ok(report)
}

fn members(targets: &[Target]) -> Vec<(SocketAddr, String)> {
    let of = |Target { host, addresses }: &Target| {
        let host = host.clone();
        let named = move |at: &SocketAddr| (*at, host.clone());
        addresses.iter().map(named).collect::<Vec<_>>()
    };
    targets.iter().flat_map(of).collect()
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
