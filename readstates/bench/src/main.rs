//! The `readstates-bench` program: parses its flags, measures, prints, and exits with its status.

use std::{error::Error, fmt::Write as _, process::ExitCode};

use clap::Parser;
use readstates_bench::BenchArgs;

/// Put load on members or a Service, measure, and check that nothing is lost.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    bench: BenchArgs,
}

fn main() -> ExitCode {
    match readstates_bench::main(&Cli::parse().bench) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("readstates-bench: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and what caused it, in one line.
fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Into a string, which takes everything.
        let _ = write!(line, ": {error}");
        cause = error.source();
    }
    line
}
