//! The `readstates` program: reads its flags, does what they say, exits with what came of it.

use std::{io::IsTerminal, process::ExitCode};

use clap::Parser;
use readstates::{
    config::{Cli, Command, SchemaArgs, ServeArgs, ServeConfig},
    http, rebalance, schema,
    server::{Listeners, Server, open_ring, open_store},
    signals::Signals,
    store::chain,
};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = start_logging(&cli.log_level).and_then(|()| match cli.command {
        Command::Serve(args) => run(serve(*args)),
        Command::Schema(args) => run(schema(args)),
        Command::Rebalance(args) => run(async { Ok(rebalance::run(args).await?) }),
        Command::Bench(args) => Ok(readstates_bench::main(&args)?),
        Command::Openapi => {
            print!("{}", http::openapi_document());
            Ok(())
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("readstates: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(command)
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let config = ServeConfig::from_args(args)?;
    let mut signals = Signals::new()?;
    let listeners = Listeners::bind(&config)?;
    let (store, ring) = (open_store(&config)?, open_ring(&config).await?);
    let server = Server::start(&config, store, ring, listeners).await?;
    tracing::info!(
        member = server.member(),
        listen = %server.http_address,
        admin = %server.admin_address,
        store = %config.store,
        ring = %config.ring,
        "serving"
    );
    signals.stop().await;
    let stopped = tokio::select! {
        stopped = server.stop(config.drain_timeout) => stopped,
        // Nothing to undo: the process ends.
        () = signals.stop() => anyhow::bail!("stopped by a second signal before everything was written"),
    };
    match stopped.unwritten_users {
        0 => Ok(()),
        users => anyhow::bail!(
            "{users} users were not written within {:?}; their last changes are lost",
            config.drain_timeout
        ),
    }
}

async fn schema(args: SchemaArgs) -> anyhow::Result<()> {
    Ok(schema::run(args).await?)
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
