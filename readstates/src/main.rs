//! The `readstates` program: parses its flags, runs the command, exits with its status.

use std::{io::IsTerminal, process::ExitCode};

use clap::Parser;
use readstates::{
    access::token,
    certificates, commands,
    config::{Cli, Command},
    http,
    store::chain,
};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = start_logging(&cli.log_level).and_then(|()| match cli.command {
        Command::Serve(args) => commands::serve(*args),
        Command::Schema(args) => commands::make_schema(*args),
        Command::Rebalance(args) => commands::balance(args),
        Command::User(args) => commands::user(args),
        Command::Backup(args) => commands::backup(args),
        Command::Migrate(args) => commands::migrate(args),
        Command::Token(args) => token::print(args.of)
            .map(|printed| print!("{printed}"))
            .map_err(Into::into),
        Command::Certificates(args) => Ok(certificates::run(&args)?),
        Command::Openapi(args) => {
            let document = if args.admin {
                http::admin_openapi_document()
            } else {
                http::openapi_document()
            };
            print!("{document}");
            Ok(())
        }
        Command::Import(args) => commands::import(*args),
        Command::Export(args) => commands::export(*args),
        Command::Mirror(args) => commands::mirror(*args),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("readstates: {}", chain(error.as_ref()));
            ExitCode::from(commands::exit_status(&error))
        }
    }
}

fn start_logging(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow::anyhow!("--log-level: {error}; give a level such as info, or info,readstates=debug")
    })?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        logs.init();
    } else {
        logs.json().flatten_event(true).init();
    }
    Ok(())
}
