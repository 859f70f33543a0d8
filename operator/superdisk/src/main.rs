//! `superdisk`: arguments in; answers on standard output, refusals on standard error, an exit status out.
//!
//! 0 done · 1 failed · 2 wrong usage · 3 refused (the code is the first word on standard error, and nothing
//! was changed).

use std::{error::Error, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand, ValueEnum};
use superdisk::{
    model::Request,
    preflight, report,
    sysfs::{self, FileSystem},
};

const EXIT_FAILED: u8 = 1;
const EXIT_REFUSED: u8 = 3;

/// The disk agent of Readstates.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tell whether this node could carry a super-disk. Reads only.
    ///
    /// Exit status: 0 it could, 3 it could not (each reason is a line on standard error that begins with a
    /// stable code), 2 wrong usage, 1 the node could not be looked at.
    Preflight(PreflightArgs),
}

#[derive(clap::Args)]
struct PreflightArgs {
    /// Device of the durable leg: the network disk, for example /dev/disk/by-id/google-data.
    #[arg(long, value_name = "DEVICE")]
    durable: Option<PathBuf>,

    /// Device of the fast leg, or a pattern in quotes: '/dev/disk/by-id/google-local-nvme-ssd-*'. Repeatable.
    #[arg(long, value_name = "GLOB_OR_DEVICE")]
    local: Vec<String>,

    /// How many local devices there must be.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "local",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    local_count: u16,

    /// How to answer on standard output.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,

    /// Where the node's file system is mounted, for instance /host in a container.
    #[arg(long, value_name = "PATH", default_value = "/")]
    root: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// Lines for a person.
    Human,
    /// One JSON object.
    Json,
}

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let result = match command {
        Command::Preflight(args) => run_preflight(args),
    };
    result.unwrap_or_else(|error| {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        eprintln!("error: {text}");
        ExitCode::from(EXIT_FAILED)
    })
}

fn run_preflight(args: PreflightArgs) -> Result<ExitCode, Box<dyn Error>> {
    let PreflightArgs {
        durable,
        local,
        local_count,
        output,
        root,
    } = args;
    let request = Request {
        durable,
        local,
        local_count: local_count.into(),
    };
    let survey = sysfs::observe(&request, &root, &FileSystem)?;
    let refusals = preflight::decide(&request, &survey);
    match output {
        Output::Human => print!("{}", report::human(&survey, &refusals)),
        Output::Json => println!("{}", report::json(&survey, &refusals)?),
    }
    for refusal in &refusals {
        eprintln!("{refusal}");
    }
    Ok(if refusals.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_REFUSED)
    })
}
