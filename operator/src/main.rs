//! The program `operator`.

use clap::Parser;
use readstates_operator::{cli::Cli, commands};

fn main() -> anyhow::Result<()> {
    commands::carry_out(Cli::parse().command)
}
