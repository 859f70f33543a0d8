//! The keyspace and the table: made when they are not there, verified when they are.

use std::{collections::BTreeMap, fmt, str::FromStr};

use scylla::client::session::Session;

use super::{CqlLogin, CqlTarget, SessionError, TABLE, chain, connect};

/// The comment on the table, for whoever looks at it with cqlsh. Without quotes.
const COMMENT: &str = "Written by Readstates only. Every write has its own USING TIMESTAMP, which is older than now: \
     a plain UPDATE, DELETE or COPY would hide later writes of that user. \
     To erase a user, send DELETE /v1/users/{user} to the service.";

/// The replication class this service is made for: it knows data centres.
const STRATEGY: &str = "NetworkTopologyStrategy";

/// How many replicas each data centre has: `dc1=3[,dc2=3]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication(BTreeMap<String, u8>);

impl FromStr for Replication {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write DC=REPLICAS[,DC=REPLICAS...], for example dc1=3";
        let mut replicas = BTreeMap::new();
        for part in text.split(',') {
            let (datacenter, count) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} has no number; {form}"))?;
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if datacenter.is_empty() || !datacenter.bytes().all(allowed) {
                return Err(format!("{datacenter:?} is no data centre name; {form}"));
            }
            let count = count.parse().ok().filter(|count| (1..=9).contains(count));
            let count =
                count.ok_or_else(|| format!("{part:?}: replicas go from 1 to 9; {form}"))?;
            if replicas.insert(datacenter.to_owned(), count).is_some() {
                return Err(format!("data centre {datacenter:?} is listed twice"));
            }
        }
        Ok(Self(replicas))
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self
            .0
            .iter()
            .map(|(datacenter, count)| format!("{datacenter}={count}"));
        f.write_str(&parts.collect::<Vec<_>>().join(","))
    }
}

impl Replication {
    pub(super) fn as_cql(&self) -> String {
        let parts = self
            .0
            .iter()
            .map(|(datacenter, count)| format!(", '{datacenter}': {count}"));
        format!("{{'class': '{STRATEGY}'{}}}", parts.collect::<String>())
    }

    /// Whether a keyspace that is described by `options` has this replication.
    pub(super) fn is(&self, options: &BTreeMap<String, String>) -> bool {
        let has_class = options
            .get("class")
            .is_some_and(|class| class.ends_with(STRATEGY));
        let counts = options.iter().filter(|(name, _)| *name != "class");
        let mut counts: BTreeMap<_, _> = counts
            .map(|(name, count)| (name.clone(), count.clone()))
            .collect();
        let wanted = self.0.iter().all(|(datacenter, count)| {
            counts
                .remove(datacenter)
                .is_some_and(|has| has == count.to_string())
        });
        // A data centre with no replicas is as good as one that is not listed.
        has_class && wanted && counts.values().all(|count| count == "0")
    }
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
        /// The cause.
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
        /// What was tried.
        attempt: &'static str,
        /// The cause, without passwords.
        words: String,
    },
    /// There is a table of this name with other columns.
    #[error(
        "table {table} has the columns [{found}], not [{expected}]: it is not ours, and is left alone; use another keyspace"
    )]
    OtherTable {
        /// The table.
        table: String,
        /// Its columns.
        found: String,
        /// The columns of ours.
        expected: String,
    },
}

/// Makes the keyspace and the table where they are missing, alters a replication that differs, and
/// verifies a table that is there. Running it again changes nothing.
///
/// # Errors
/// When the database cannot be reached, refuses a statement, or has another table of this name.
pub async fn apply_schema(
    target: &CqlTarget,
    login: &CqlLogin,
    replication: &Replication,
) -> Result<(), SchemaError> {
    let session = connect::session(target, login).await?;
    make(&session, target, replication).await
}

/// [`apply_schema`], with a session that may do so.
pub(super) async fn make(
    session: &Session,
    target: &CqlTarget,
    replication: &Replication,
) -> Result<(), SchemaError> {
    let CqlTarget { keyspace, .. } = target;
    match replication_of(session, keyspace).await? {
        None => {
            let options = replication.as_cql();
            run(
                session,
                "create the keyspace",
                format!("CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {options}"),
            )
            .await?;
            tracing::info!(keyspace, %replication, "created the keyspace");
        }
        Some(options) if replication.is(&options) => {
            tracing::info!(keyspace, %replication, "the keyspace is as it should be");
        }
        Some(options) => {
            tracing::info!(keyspace, %replication, before = ?options, "altering the replication");
            let options = replication.as_cql();
            run(
                session,
                "alter the replication",
                format!("ALTER KEYSPACE {keyspace} WITH replication = {options}"),
            )
            .await?;
            tracing::warn!(
                keyspace,
                "replication altered: repair the keyspace on every node now"
            );
        }
    }
    let table = format!("{keyspace}.{TABLE}");
    run(session, "create the table", create_table(&table)).await?;
    verify_columns(session, keyspace).await?;
    if comment_of(session, keyspace).await? != COMMENT {
        let alter = format!("ALTER TABLE {table} WITH comment = '{COMMENT}'");
        // Of a release before this one. A role that may not alter the table is no reason to stop.
        if let Err(error) = run(session, "set the table's comment", alter).await {
            tracing::warn!(table, "{}", chain(&error));
        }
    }
    tracing::info!(table, "the table is there");
    Ok(())
}

/// The statement that makes the table. Every read is of one small row, so that compressed chunks are small: a read of
/// a cached file decompresses 4 KiB, not Cassandra's 16. Compaction is the engine's own choice, since the best one
/// differs between them; `gc_grace_seconds` stays at ten days, the time to repair in after a row was deleted.
fn create_table(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (user_id bigint PRIMARY KEY, block blob) \
         WITH comment = '{COMMENT}' \
         AND compression = {{'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}} \
         AND gc_grace_seconds = 864000"
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

/// Whether the keyspace has our table.
pub(super) async fn table_exists(session: &Session, keyspace: &str) -> Result<bool, SchemaError> {
    Ok(!columns(session, keyspace).await?.is_empty())
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

async fn run(
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

fn statement(
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

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn a_replication_names_data_centres_and_counts() {
        let replication: Replication = "dc1=3,eu-west_2.b=1".parse().unwrap();
        assert_eq!(replication.to_string(), "dc1=3,eu-west_2.b=1");
        assert_eq!(
            replication.as_cql(),
            "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'eu-west_2.b': 1}"
        );
        for bad in [
            "", "dc1", "dc1=", "dc1=0", "dc1=x", "=3", "d'c=3", "a=1,a=2", "a=1,",
        ] {
            assert!(bad.parse::<Replication>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_keyspace_that_has_the_replication_is_left_alone() {
        let replication: Replication = "dc1=3".parse().unwrap();
        let class = (
            "class",
            "org.apache.cassandra.locator.NetworkTopologyStrategy",
        );
        assert!(replication.is(&options(&[class, ("dc1", "3")])));
        assert!(replication.is(&options(&[class, ("dc1", "3"), ("dc2", "0")])));
        assert!(!replication.is(&options(&[class, ("dc1", "2")])));
        assert!(!replication.is(&options(&[class, ("dc1", "3"), ("dc2", "1")])));
        assert!(!replication.is(&options(&[("class", "SimpleStrategy"), ("dc1", "3")])));
    }
}
