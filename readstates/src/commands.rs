//! The commands of the program.
//!
//! Here and not in the program itself, and each behind a function that is not async: so its code is
//! made once, with the library.

use std::time::Duration;

use crate::{
    background,
    backup::{self, BackupError},
    config::{
        BackupArgs, ExportArgs, ImportArgs, MigrateArgs, MirrorArgs, RebalanceArgs, SchemaArgs,
        ServeArgs, ServeConfig, UserArgs,
    },
    export::{self, ExportError},
    import::{self, ImportError},
    journal::Durability,
    migrate::{self, MigrateError},
    mirror::{self, MirrorError},
    rebalance,
    schema::{self, SchemaCommandError},
    server::{Listeners, Server, open_ring, open_store},
    signals::Signals,
    trace::Tracing,
    user,
};

/// How long threads may take to end at a stop: those that wait for a disk that hangs do not end.
const THREADS_END: Duration = Duration::from_secs(5);

/// Serves until it is told to stop (SIGTERM, SIGINT).
///
/// # Errors
/// When it cannot start, or has stopped with changes that are not written.
pub fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let mut config = ServeConfig::from_args(args)?;
    // Made before the runtime is, and stopped after it: its threads wait in ways that a runtime's may not.
    let tracing = Tracing::from_env(&config.member)?;
    config.observe.tracing = tracing.clone();
    let runtime = background::runtime()?;
    let served = runtime.block_on(until_stopped(config));
    runtime.shutdown_timeout(THREADS_END);
    if let Some(tracing) = tracing {
        tracing.stop();
    }
    served
}

async fn until_stopped(config: ServeConfig) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let listeners = Listeners::bind(&config)?;
    let (store, ring) = (open_store(&config)?, open_ring(&config).await?);
    let server = Server::start(&config, store, ring, listeners).await?;
    tracing::info!(
        member = server.member(),
        listen = %server.http_address,
        admin = %server.admin_address,
        members = server.members_address.map(tracing::field::display),
        watch = %server.watch_address,
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
        users if has_journal(&config) => anyhow::bail!(
            "{users} users were not written within {:?}; the next start writes their last changes, which are in the journal",
            config.drain_timeout
        ),
        users => anyhow::bail!(
            "{users} users were not written within {:?}; their last changes are lost",
            config.drain_timeout
        ),
    }
}

/// Whether what was acknowledged and not written is kept.
fn has_journal(config: &ServeConfig) -> bool {
    let journal = config.journal.as_ref();
    journal.is_some_and(|journal| journal.durability == Durability::Journal)
}

/// Makes the tables in a CQL database, and who may log in to it.
///
/// # Errors
/// When the database cannot be reached or refuses.
#[tokio::main]
pub async fn make_schema(args: SchemaArgs) -> anyhow::Result<()> {
    Ok(schema::run(args).await?)
}

/// Asks members for moves until each owns its share.
///
/// # Errors
/// When they do not come to that.
#[tokio::main]
pub async fn balance(args: RebalanceArgs) -> anyhow::Result<()> {
    Ok(rebalance::run(args).await?)
}

/// Shows or deletes what a running service has of a user.
///
/// # Errors
/// When that is not done.
#[tokio::main(flavor = "current_thread")]
pub async fn user(args: UserArgs) -> anyhow::Result<()> {
    Ok(user::run(args).await?)
}

/// Makes, lists, checks, restores or deletes backups.
///
/// # Errors
/// When that is not done, or something is damaged.
#[tokio::main]
pub async fn backup(args: BackupArgs) -> anyhow::Result<()> {
    Ok(backup::run(args).await?)
}

/// Copies all data of a store to another, or compares the two.
///
/// # Errors
/// When that is not done, or they differ.
#[tokio::main]
pub async fn migrate(args: MigrateArgs) -> anyhow::Result<()> {
    Ok(migrate::run(args).await?)
}

/// Sends read states of another system to a running service.
///
/// # Errors
/// When that is not done, or rows are bad.
#[tokio::main]
pub async fn import(args: ImportArgs) -> anyhow::Result<()> {
    Ok(import::run(args).await?)
}

/// Writes all read states of a store or a backup as text.
///
/// # Errors
/// When that is not done, or something is damaged.
#[tokio::main]
pub async fn export(args: ExportArgs) -> anyhow::Result<()> {
    Ok(export::run(args).await?)
}

/// Runs a mirror of another system until it is told to stop (SIGTERM, SIGINT).
///
/// # Errors
/// When it cannot start, or stops with writes that the service does not have.
#[tokio::main]
pub async fn mirror(args: MirrorArgs) -> anyhow::Result<()> {
    Ok(mirror::run(args).await?)
}

/// The exit status that an error stands for.
#[must_use]
pub fn exit_status(error: &anyhow::Error) -> u8 {
    let of_backup = error.downcast_ref().map(BackupError::exit_status);
    let of_export = || error.downcast_ref().map(ExportError::exit_status);
    let of_import = || error.downcast_ref().map(ImportError::exit_status);
    let of_move = || error.downcast_ref().map(MigrateError::exit_status);
    let of_text = of_backup.or_else(of_export).or_else(of_import);
    let of_mirror = || error.downcast_ref().map(MirrorError::exit_status);
    let of_schema = || error.downcast_ref().map(SchemaCommandError::exit_status);
    let of_store = of_text.or_else(of_move).or_else(of_schema);
    of_store.or_else(of_mirror).unwrap_or(1)
}
