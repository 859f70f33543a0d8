//! The keyspace and the table: made when they are not there, verified when they are.

use std::collections::BTreeMap;

use scylla::{client::session::Session, value::CqlValue};

use super::{
    Claim, CqlLogin, CqlTarget, Other, Replication, SessionError, TABLE, chain,
    claim::{self, Taken},
    claim_table::ClaimTable,
    replication::described,
    restore_table, session,
};

/// The comment on the table, for people who look at it with cqlsh. Without quotes.
const COMMENT: &str = "Written by Readstates only. Every write has its own USING TIMESTAMP, which is older than now: \
     a plain UPDATE, DELETE or COPY would hide later writes of that user. \
     To erase a user, send DELETE /v1/users/{user} to the service.";

/// What a keyspace is to be.
#[derive(Debug, Clone)]
pub struct SchemaWish {
    /// Copies of each row.
    pub replication: Replication,
    /// Whether the database is this cluster's alone. A keyspace that is there may be altered then, by one copy. In
    /// another's it is verified: it keeps at least the copies that are asked for, and is never altered.
    pub own_database: bool,
    /// The claim on the keyspace; `None`: none, which needs a keyspace that no cluster has claimed.
    pub claim: Option<Claim>,
}

/// Why the schema is not as it should be.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The database cannot be reached.
    #[error("failed to open a session")]
    Session(#[from] SessionError),
    /// A statement failed.
    #[error("failed to {attempt}")]
    Statement {
        /// What the statement was for.
        attempt: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The superuser cannot log in.
    #[error(
        "the superuser {} is let in neither with the password it should have nor with the one of a new database: \
         {words}; give the password that it has, or reset it in the database",
        super::SUPERUSER
    )]
    Superuser {
        /// What the database said to the first.
        words: String,
    },
    /// Something about roles failed.
    #[error("failed to {attempt}: {words}")]
    Roles {
        attempt: &'static str,
        /// The cause, without passwords.
        words: String,
    },
    /// There is a table of this name with other columns.
    #[error(
        "table {table} has the columns [{found}], not [{expected}]: it is not ours, and is left alone; use another keyspace"
    )]
    OtherTable {
        table: String,
        found: String,
        /// The columns of ours.
        expected: String,
    },
    /// The keyspace keeps too few copies, in a database that is not this cluster's alone.
    #[error(
        "keyspace {keyspace} has the replication {has}, and {asked} is asked for: it is not altered; alter it and \
         repair it, or ask for what it has"
    )]
    TooFewCopies {
        keyspace: String,
        /// Its replication.
        has: String,
        /// The one asked for.
        asked: Replication,
    },
    /// The keyspace of a database that is this cluster's alone would get or lose several copies at once.
    #[error(
        "keyspace {keyspace} has the replication {has}, and {asked} is asked for: it is not altered, since only one copy \
         may come or go at a time, each followed by a repair of every node; otherwise writes that were acknowledged would \
         be missed. Ask for one copy more or less than it has, and repair it"
    )]
    SeveralCopies {
        keyspace: String,
        /// Its replication.
        has: String,
        /// The one asked for.
        asked: Replication,
    },
    /// The keyspace is another cluster's.
    #[error(
        "keyspace {keyspace} is claimed by {by}: two clusters must not write one keyspace. Use another one; if that \
         cluster is gone for good: --take-over-claim {owner}, in Kubernetes annotation \
         readstates.dev/take-over-claim={owner}",
        owner = by.owner
    )]
    Claimed {
        keyspace: String,
        /// By whom.
        by: Other,
    },
    /// Two clusters claim the keyspace at once, and this one has withdrawn.
    #[error("keyspace {keyspace} is being claimed by {by} as well; this claim is withdrawn")]
    ClaimContended {
        keyspace: String,
        /// By whom.
        by: Other,
    },
    /// A claim that was written is not found.
    #[error(
        "the claim on keyspace {keyspace} was written and is not found; set the clocks of this machine and the database"
    )]
    ClaimUnseen { keyspace: String },
}

/// Makes the keyspace and the table where they are missing, verifies those that are there, and claims the keyspace.
/// Running it again changes nothing.
///
/// # Errors
/// When the database cannot be reached, refuses a statement, has another table of this name, keeps too few copies, would
/// get or lose several of its own at once, or another cluster has claimed the keyspace.
pub async fn apply_schema(
    target: &CqlTarget,
    login: &CqlLogin,
    wish: &SchemaWish,
) -> Result<(), SchemaError> {
    let session = session::patient_session(target, login).await?;
    make(&session, target, wish).await
}

/// [`apply_schema`], with a session that may do so.
pub(super) async fn make(
    session: &Session,
    target: &CqlTarget,
    wish: &SchemaWish,
) -> Result<(), SchemaError> {
    let CqlTarget { keyspace, .. } = target;
    keyspace_as_wished(session, keyspace, wish).await?;
    // Before the table: a keyspace of another cluster is not changed at all.
    if let Some(claim) = &wish.claim {
        take_claim(session, keyspace, claim).await?;
        restore_table::make(session, keyspace).await?;
    }
    let table = format!("{keyspace}.{TABLE}");
    run(session, "create the table", create_table(&table)).await?;
    verify_columns(session, keyspace).await?;
    // A table in a database that is not this cluster's alone is left as it is.
    if wish.own_database && comment_of(session, keyspace).await? != COMMENT {
        let alter = format!("ALTER TABLE {table} WITH comment = '{COMMENT}'");
        // Of a release before this one. A role that may not alter the table is no reason to stop.
        if let Err(error) = run(session, "set the table's comment", alter).await {
            tracing::warn!(table, "{}", chain(&error));
        }
    }
    tracing::info!(table, "the table is there");
    Ok(())
}

/// What the table is made with, in CQL, but for its comment. Every read is of one small row, so that compressed chunks
/// are small: a read of a cached file decompresses 4 KiB, not Cassandra's 16. Compaction is the engine's own choice,
/// since the best one differs between them; `gc_grace_seconds` stays at ten days, the time to repair in after a row was
/// deleted. `hack/bench --only table` compares options.
pub const TABLE_OPTIONS: &str = "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4} \
     AND gc_grace_seconds = 864000";

fn create_table(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (user_id bigint PRIMARY KEY, block blob) \
         WITH comment = '{COMMENT}' AND {TABLE_OPTIONS}"
    )
}

/// The comment on the table.
async fn comment_of(session: &Session, keyspace: &str) -> Result<String, SchemaError> {
    let failed = statement("read the table's comment");
    let rows = session
        .query_unpaged(
            "SELECT comment FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?",
            (keyspace, TABLE),
        )
        .await
        .map_err(|error| failed(error.into()))?
        .into_rows_result()
        .map_err(|error| failed(error.into()))?;
    let row = rows
        .maybe_first_row::<(Option<String>,)>()
        .map_err(|error| failed(error.into()))?;
    Ok(row.and_then(|(comment,)| comment).unwrap_or_default())
}

async fn keyspace_as_wished(
    session: &Session,
    keyspace: &str,
    wish: &SchemaWish,
) -> Result<(), SchemaError> {
    let replication = &wish.replication;
    let Some(has) = replication_of(session, keyspace).await? else {
        let options = replication.as_cql();
        let text = format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {options}");
        run(session, "create the keyspace", text).await?;
        tracing::info!(keyspace, %replication, "created the keyspace");
        return Ok(());
    };
    if replication.is(&has) || (!wish.own_database && replication.is_covered_by(&has)) {
        let has = described(&has);
        tracing::info!(keyspace, %replication, has, "the keyspace is as it should be");
        return Ok(());
    }
    if !wish.own_database {
        return Err(SchemaError::TooFewCopies {
            keyspace: keyspace.to_owned(),
            has: described(&has),
            asked: replication.clone(),
        });
    }
    if replication.changes(&has).is_none_or(|copies| copies > 1) {
        return Err(SchemaError::SeveralCopies {
            keyspace: keyspace.to_owned(),
            has: described(&has),
            asked: replication.clone(),
        });
    }
    tracing::info!(keyspace, %replication, before = ?has, "altering the replication");
    let options = replication.as_cql();
    let text = format!("ALTER KEYSPACE {keyspace} WITH replication = {options}");
    run(session, "alter the replication", text).await?;
    tracing::warn!(
        keyspace,
        "replication altered: repair the keyspace on every node now"
    );
    Ok(())
}

async fn take_claim(session: &Session, keyspace: &str, claim: &Claim) -> Result<(), SchemaError> {
    let table = ClaimTable::new(session, keyspace);
    table.make().await?;
    match claim::take(&table, keyspace, claim).await? {
        Taken::Held => tracing::info!(keyspace, claim = %claim.name, "the keyspace is claimed"),
        Taken::New => tracing::info!(keyspace, claim = %claim.name, "claimed the keyspace"),
        Taken::Over(from) => {
            for other in from {
                tracing::warn!(keyspace, claim = %claim.name, "took the claim over from {other}");
            }
        }
    }
    Ok(())
}

/// Whether the keyspace has our table.
pub(super) async fn table_exists(session: &Session, keyspace: &str) -> Result<bool, SchemaError> {
    Ok(!columns(session, keyspace).await?.is_empty())
}

/// The id that the database gave the table when it was made; empty when there is none.
pub(super) async fn table_id(session: &Session, keyspace: &str) -> Result<String, SchemaError> {
    let failed = statement("read the id of the table");
    let rows = session
        .query_unpaged(
            "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?",
            (keyspace, TABLE),
        )
        .await
        .map_err(|error| failed(error.into()))?
        .into_rows_result()
        .map_err(|error| failed(error.into()))?;
    let row = rows
        .maybe_first_row::<(CqlValue,)>()
        .map_err(|error| failed(error.into()))?;
    Ok(row.map_or_else(String::new, |(id,)| id.to_string()))
}

/// Refuses a table of our name that is not ours.
pub(super) async fn verify_columns(session: &Session, keyspace: &str) -> Result<(), SchemaError> {
    let expected = ["block blob regular", "user_id bigint partition_key"];
    let found = columns(session, keyspace).await?;
    if found == expected {
        return Ok(());
    }
    Err(SchemaError::OtherTable {
        table: format!("{keyspace}.{TABLE}"),
        found: found.join(", "),
        expected: expected.join(", "),
    })
}

/// "name type kind" of each column, by name; empty when there is no such table.
async fn columns(session: &Session, keyspace: &str) -> Result<Vec<String>, SchemaError> {
    let failed = statement("read the columns of the table");
    let rows = session
        .query_unpaged(
            "SELECT column_name, type, kind FROM system_schema.columns \
             WHERE keyspace_name = ? AND table_name = ?",
            (keyspace, TABLE),
        )
        .await
        .map_err(|error| failed(error.into()))?
        .into_rows_result()
        .map_err(|error| failed(error.into()))?;
    let mut columns = Vec::new();
    for row in rows
        .rows::<(String, String, String)>()
        .map_err(|error| failed(error.into()))?
    {
        let (name, of_type, kind) = row.map_err(|error| failed(error.into()))?;
        columns.push(format!("{name} {of_type} {kind}"));
    }
    columns.sort_unstable();
    Ok(columns)
}

/// The replication of a keyspace; `None` when there is none of this name.
pub(super) async fn replication_of(
    session: &Session,
    keyspace: &str,
) -> Result<Option<BTreeMap<String, String>>, SchemaError> {
    let failed = statement("read the replication of the keyspace");
    let rows = session
        .query_unpaged(
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?",
            (keyspace,),
        )
        .await
        .map_err(|error| failed(error.into()))?
        .into_rows_result()
        .map_err(|error| failed(error.into()))?;
    let row = rows
        .maybe_first_row::<(BTreeMap<String, String>,)>()
        .map_err(|error| failed(error.into()))?;
    Ok(row.map(|(options,)| options))
}

/// The tables of a keyspace.
pub(super) async fn tables(session: &Session, keyspace: &str) -> Result<Vec<String>, SchemaError> {
    let failed = statement("read the tables of a keyspace");
    let rows = session
        .query_unpaged(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?",
            (keyspace,),
        )
        .await
        .map_err(|error| failed(error.into()))?
        .into_rows_result()
        .map_err(|error| failed(error.into()))?;
    let mut names = Vec::new();
    for row in rows
        .rows::<(String,)>()
        .map_err(|error| failed(error.into()))?
    {
        let (name,) = row.map_err(|error| failed(error.into()))?;
        names.push(name);
    }
    Ok(names)
}

pub(super) async fn run(
    session: &Session,
    attempt: &'static str,
    statement_text: String,
) -> Result<(), SchemaError> {
    let failed = statement(attempt);
    session
        .query_unpaged(statement_text, ())
        .await
        .map(|_| ())
        .map_err(|error| failed(error.into()))
}

pub(super) fn statement(
    attempt: &'static str,
) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> SchemaError {
    move |source| SchemaError::Statement { attempt, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_that_others_must_not_write_it_and_how_to_do_it_right() {
        let statement = create_table("chat.read_states");
        for part in ["USING TIMESTAMP", "hide later writes", "/v1/users/"] {
            assert!(statement.contains(part), "{part} in {statement}");
        }
        // It is text in single quotes.
        assert!(!COMMENT.contains('\''));
        assert_eq!(statement.matches('\'').count() % 2, 0);
    }
}
