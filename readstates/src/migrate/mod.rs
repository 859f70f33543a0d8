//! `readstates migrate`: our table from one store to another, while both are in use.
//!
//! ```text
//! copy:    passes over the source ──▶ what the target lacks, each row under the stamp that it has ──▶ target
//! verify:  source and target side by side ──▶ what differs
//! ```
//!
//! What makes this safe is the fence that all writes have: a stamp `(epoch, seq)`, which a copy keeps. So a copy that
//! arrives late loses to whatever is newer, a row that is copied twice is the same row, and the members that start on
//! the target find the epochs under which its rows were written, as if these had always been there.
//!
//! Nothing here talks to members. What is decided is in functions without I/O: what a row is to another (`compare`), how
//! fast to go (`pace`).

mod beside;
mod checkpoint;
mod compare;
mod end;
mod error;
mod moving;
mod pace;
mod pass;
mod progress;
mod report;
#[cfg(test)]
mod tests;
mod track;
mod watch;

use std::time::Duration;

use end::Absent;
pub use error::MigrateError;
use moving::{Move, Wish};
use report::Report;
use watch::{Shown, Watch};

use crate::config::{MigrateArgs, MigrateCommand, MigrateCopyArgs, MigrateVerifyArgs, MoveArgs};

/// After a kill at most so much is compared again.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// Members that write both stores write them at the same time, and one may take some seconds.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Runs the command.
///
/// # Errors
/// When it is not done, or the two stores differ.
pub async fn run(args: MigrateArgs) -> Result<(), MigrateError> {
    match args.command {
        MigrateCommand::Copy(args) => copy(*args).await,
        MigrateCommand::Verify(args) => verify(*args).await,
    }
}

async fn copy(args: MigrateCopyArgs) -> Result<(), MigrateError> {
    let MigrateCopyArgs {
        of_move,
        until,
        passes,
        dry_run,
        report,
    } = args;
    let absent = if dry_run {
        Absent::Pretend
    } else {
        Absent::Make
    };
    let mut moving = open(of_move, absent, !dry_run).await?;
    let done = match dry_run {
        true => moving.dry_run().await,
        false => moving.copy(until, passes.get()).await,
    };
    done?;
    if let Some(stamp) = moving.highest() {
        println!("the highest stamp in the source is {stamp}");
    }
    let (source, target) = moving.names();
    let passes = &moving.done;
    let done = Report {
        source,
        target,
        dry_run,
        passes,
    };
    report::write(&report, &done)
}

async fn verify(args: MigrateVerifyArgs) -> Result<(), MigrateError> {
    let MigrateVerifyArgs {
        of_move,
        resume,
        report,
    } = args;
    let mut moving = open(of_move, Absent::Refuse, true).await?;
    moving.verify(resume).await?;
    let (source, target) = moving.names();
    println!("{target} has everything that {source} has");
    let passes = &moving.done;
    let done = Report {
        source,
        target,
        dry_run: false,
        passes,
    };
    report::write(&report, &done)
}

async fn open(args: MoveArgs, absent: Absent, records: bool) -> Result<Move, MigrateError> {
    let MoveArgs {
        store,
        cql,
        to,
        to_cql,
        checkpoint,
        merge,
        rate,
        back_off_at,
        parallel,
        patience,
        progress_listen,
    } = args;
    let (login, to_login) = (cql.login()?, to_cql.login(cql.claim.as_ref())?);
    let shown = Shown::default();
    let watch = progress_listen.map(|address| Watch::start(address, Shown::clone(&shown)));
    let watch = watch.transpose()?;
    if let Some(watch) = &watch {
        println!("progress: http://{}/progress", watch.address);
    }
    // Before anything is opened: an embedded store is open once.
    if store == to {
        return Err(MigrateError::Same(to.to_string()));
    }
    let source = end::source(&store, login).await?;
    let target = end::open("--to", &to, to_login, absent).await?;
    let wish = Wish {
        checkpoint,
        merge,
        rate,
        back_off_at,
        parallel: parallel.get(),
        patience,
        save_every: SAVE_EVERY,
        look_after: LOOK_AFTER,
    };
    let moving = Move::begin(source, target, wish, records).await?;
    Ok(moving.shown_by(shown, watch))
}
