//! `readstates import`: read states of another system, sent to the owners of their users.
//!
//! ```text
//! file, database ──▶ rows ──parse──▶ window ──▶ client ──one frame an owner──▶ members
//!                       └ bad: line and reason     └─ answered ──▶ checkpoint
//! ```
//! Rows go through the running service, since a block that its owner has in memory would be written over one that was
//! put into the database beside it. A window of rows is sent, and sent again as far as it was not taken, until each row
//! is answered; then the checkpoint says so, and the next window follows. In memory are a few windows.
//!
//! A row sets what is absent and moves nothing back, so rows may be sent twice: after a kill, or with a later copy of the
//! source.

mod bad;
mod buffered;
mod cassandra;
mod checkpoint;
mod csv;
mod error;
mod file;
mod lines;
mod pace;
mod redis;
mod report;
mod send;
mod source;
mod values;
mod window;
mod work;

use std::time::Duration;

use readstates_client::{Client, Routing};
use tokio::time::Instant;

pub use self::error::ImportError;
use self::{report::Report, window::Window, work::Work};
use crate::{
    backup,
    config::{ImportArgs, ServiceError},
};

/// A call of the client with all its attempts, and one attempt: a member may have to load each user of a frame.
const CALL: Duration = Duration::from_secs(60);
const SHORTEST_CALL: Duration = Duration::from_secs(1);
const ATTEMPT: Duration = Duration::from_secs(30);
/// Retries of the client: there is one call at a time, and the pauses are what protects the service.
const RETRIES: (u32, f64) = (1000, 10.0);

/// A window, or why there is none.
type Progression = Result<Option<Window>, ImportError>;

/// Runs the command.
///
/// # Errors
/// When it is not done, or there are more bad rows than may be.
pub async fn run(args: ImportArgs) -> Result<(), ImportError> {
    let begun = Instant::now();
    let mut work = Work::prepare(&args).await?;
    let mut report = Report::new(args.from.to_string(), args.dry_run);
    report.resumed = work.state.position.is_some();
    if !work.state.done {
        work.all().await?;
    }
    report.tally = work.finish().tally;
    report.seconds = begun.elapsed().as_secs_f64();
    for bad in &report.tally.first_bad {
        eprintln!("bad row: {bad}");
    }
    println!("{report}");
    work::allowed(&report.tally, args.max_bad_rows)?;
    backup::write_report(&args.report, &report).map_err(ImportError::Report)
}

fn client(args: &ImportArgs) -> Result<Client, ImportError> {
    let routing = match args.direct {
        true => Routing::Owners,
        // From outside of a cluster single members cannot be reached.
        false => Routing::Seeds,
    };
    let config = args.service.clone().client()?;
    let config = config
        .routing(routing)
        .deadline(CALL.min(args.patience.max(SHORTEST_CALL)))
        .attempt_timeout(ATTEMPT)
        .retry_budget(RETRIES.0, RETRIES.1);
    Ok(Client::start(config).map_err(ServiceError::from)?)
}
