//! The program `operator`.

use clap::Parser;
use readstates_operator::{
    agent::{self, AgentCommand},
    cli::{Cli, Command},
    run, telemetry,
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Crd => print!("{}", run::crds_as_yaml()?),
        Command::Agent(command) => {
            telemetry::start_logs("info")?;
            match command {
                AgentCommand::Prepare(args) => agent::prepare(args).await?,
                AgentCommand::Serve(args) => agent::serve(args).await?,
            }
        }
        Command::Run(args) => {
            telemetry::start_logs(&args.log_level)?;
            run::run(args).await?;
        }
    }
    Ok(())
}
