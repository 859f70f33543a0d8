//! The program `operator`.

use clap::Parser;
use readstates_operator::{
    cli::{Cli, Command},
    run, telemetry,
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Crd => print!("{}", run::crds_as_yaml()?),
        Command::Run(args) => {
            telemetry::start_logs(&args.log_level)?;
            run::run(args).await?;
        }
    }
    Ok(())
}
