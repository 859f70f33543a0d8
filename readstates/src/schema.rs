//! `readstates schema`: waits for the database, then makes or verifies keyspace and table.

use std::time::{Duration, Instant};

use crate::{
    config::{ConfigError, SchemaArgs, StoreConfig},
    store::{SchemaError, apply_schema, chain},
};

/// Between two attempts to reach the database.
const RETRY: Duration = Duration::from_secs(2);

/// Why there is no schema.
#[derive(Debug, thiserror::Error)]
pub enum SchemaCommandError {
    /// The store is no CQL database.
    #[error("--store: {0} has no schema; give cql://HOST[,HOST...][:PORT]/KEYSPACE")]
    NotCql(StoreConfig),
    /// The login cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The database refused, or did not answer in time.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// Runs the command.
///
/// # Errors
/// When the schema is not as it should be in the end.
pub async fn run(args: SchemaArgs) -> Result<(), SchemaCommandError> {
    let SchemaArgs {
        store,
        replication,
        cql,
        timeout,
    } = args;
    let StoreConfig::Cql(target) = store else {
        return Err(SchemaCommandError::NotCql(store));
    };
    let login = cql.login()?;
    let deadline = Instant::now() + timeout;
    loop {
        match apply_schema(&target, &login, &replication).await {
            Err(SchemaError::Session(error)) if Instant::now() < deadline => {
                tracing::warn!(database = %target, "no database yet: {}", chain(&error));
                tokio::time::sleep(RETRY).await;
            }
            outcome => return Ok(outcome?),
        }
    }
}
