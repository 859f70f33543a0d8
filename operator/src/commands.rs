//! The program's commands.
//!
//! Here and not in the program itself, and behind a function that is not async: so its code is made
//! once, with the library.

use crate::{cli::Command, run, telemetry};

/// Does what a command says.
///
/// # Errors
/// When it cannot be done; for those that do not end by themselves, when they cannot go on.
#[tokio::main]
pub async fn carry_out(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Crd => print!("{}", run::crds_as_yaml()?),
        Command::Agent(command) => {
            telemetry::start_logs("info")?;
            readstates_agent::carry_out(command).await?;
        }
        Command::Run(args) => {
            telemetry::start_logs(&args.log_level)?;
            run::run(args).await?;
        }
    }
    Ok(())
}
