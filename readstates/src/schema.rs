//! `readstates schema`: waits for the database, then makes or verifies keyspace and table.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    config::{ConfigError, SchemaArgs, StoreConfig},
    store::{
        Claim, CqlLogin, Credentials, SUPERUSER, SchemaError, SchemaWish, TakeOver, apply_schema,
        apply_schema_with_roles, chain,
    },
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

impl SchemaCommandError {
    /// 3: refused, nothing was changed; 1: it failed otherwise. (2 is wrong usage.)
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotCql(_)
            | Self::Schema(
                SchemaError::OtherTable { .. }
                | SchemaError::TooFewCopies { .. }
                | SchemaError::SeveralCopies { .. }
                | SchemaError::Claimed { .. },
            ) => 3,
            Self::Config(_)
            | Self::Schema(
                SchemaError::Session(_)
                | SchemaError::Superuser { .. }
                | SchemaError::Roles { .. }
                | SchemaError::ClaimContended { .. }
                | SchemaError::Statement { .. }
                | SchemaError::ClaimUnseen { .. },
            ) => 1,
        }
    }
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
        own_database,
        claim_holder,
        take_over_claim,
        superuser_password_file,
        timeout,
    } = args;
    let StoreConfig::Cql(target) = store else {
        return Err(SchemaCommandError::NotCql(store));
    };
    let login = cql.login()?;
    let superuser = match superuser_password_file {
        Some(file) => Some(superuser(&login, &file)?),
        None => None,
    };
    let wish = SchemaWish {
        replication,
        own_database,
        claim: login.claim.clone().map(|name| Claim {
            name,
            holder: claim_holder,
            take_over: match take_over_claim {
                _ if own_database => TakeOver::Anybody,
                Some(from) => TakeOver::From(from),
                None => TakeOver::Never,
            },
        }),
    };
    let deadline = Instant::now() + timeout;
    loop {
        let outcome = match &superuser {
            Some(superuser) => apply_schema_with_roles(&target, &login, superuser, &wish).await,
            None => apply_schema(&target, &login, &wish).await,
        };
        match outcome {
            Err(error) if may_pass(&error) && Instant::now() < deadline => {
                tracing::warn!(database = %target, "no schema yet: {}", chain(&error));
                // Two that claim at once do not go on in step.
                let apart = RETRY.mul_f64(rand::random_range(0.5..1.5));
                tokio::time::sleep(apart).await;
            }
            outcome => return Ok(outcome?),
        }
    }
}

fn superuser(login: &CqlLogin, file: &Path) -> Result<Credentials, ConfigError> {
    let credentials = login.credentials.as_ref();
    if credentials.is_some_and(|c| c.user() == SUPERUSER) {
        return Err(ConfigError::Value {
            flag: "--cql-user",
            problem: format!(
                "{SUPERUSER} is the superuser; give the service a role of its own, of any other name"
            ),
        });
    }
    Credentials::from_file(SUPERUSER, file).map_err(|source| ConfigError::Password {
        flag: "--superuser-password-file",
        file: file.to_owned(),
        source,
    })
}

/// A new database has no superuser for some seconds, and one whose nodes are not all there may not find it. Of two
/// clusters that claim at once, one may have it the next time.
fn may_pass(error: &SchemaError) -> bool {
    match error {
        SchemaError::Session(_)
        | SchemaError::Superuser { .. }
        | SchemaError::Roles { .. }
        | SchemaError::ClaimContended { .. } => true,
        SchemaError::Statement { .. }
        | SchemaError::OtherTable { .. }
        | SchemaError::TooFewCopies { .. }
        | SchemaError::SeveralCopies { .. }
        | SchemaError::Claimed { .. }
        | SchemaError::ClaimUnseen { .. } => false,
    }
}
