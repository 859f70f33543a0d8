//! The record of a restore in a CQL database: `read_states_restore`, one row, beside the blocks.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use scylla::{
    client::session::Session,
    statement::{Consistency, Statement},
    value::CqlTimestamp,
};

use super::{
    ClaimName, CqlStore, SchemaError, StoreError, chain, claim::Sight, claim_table, schema,
};
use crate::store::{BegunRestore, RestoreRecord, RestoreRecords};

/// The table, in the keyspace of the blocks.
pub(super) const TABLE: &str = "read_states_restore";
/// The key of its only row.
const PART: &str = "restore";

/// Makes the table if it is missing.
pub(super) async fn make(session: &Session, keyspace: &str) -> Result<(), SchemaError> {
    let text = format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.{TABLE} (part text PRIMARY KEY, claim text, backup text, begun timestamp, \
         chunks bigint, finished timestamp, served timestamp)"
    );
    schema::run(session, "create the table of restores", text).await
}

/// Says that a member serves from the keyspace, unless a restore into it is half done: that one is returned.
///
/// A keyspace without the table is of a release before it: no restore has begun there that would keep a record.
pub(super) async fn enter(
    session: &Session,
    keyspace: &str,
) -> Result<Option<BegunRestore>, SchemaError> {
    if !is_there(session, keyspace).await? {
        return Ok(None);
    }
    let table = Table { session, keyspace };
    let seen = table.read().await?;
    if seen.served.is_some() || seen.begun.as_ref().is_some_and(|b| b.finished.is_none()) {
        return Ok(half(seen));
    }
    let now = millis(Timestamp::now());
    if let Err(error) = table.set("served = ?", (now, PART)).await {
        // A data centre that is away must not keep members from serving. A restore looks for their rows as well.
        tracing::warn!(keyspace, "{}", chain(&error));
    }
    Ok(half(table.read().await?))
}

/// A restore into the keyspace that is half done.
pub(super) async fn half_done(
    session: &Session,
    keyspace: &str,
) -> Result<Option<BegunRestore>, SchemaError> {
    if !is_there(session, keyspace).await? {
        return Ok(None);
    }
    Ok(half(Table { session, keyspace }.read().await?))
}

fn half(record: RestoreRecord) -> Option<BegunRestore> {
    record.begun.filter(|begun| begun.finished.is_none())
}

async fn is_there(session: &Session, keyspace: &str) -> Result<bool, SchemaError> {
    let tables = schema::tables(session, keyspace).await?;
    Ok(tables.iter().any(|table| table == TABLE))
}

fn millis(at: Timestamp) -> CqlTimestamp {
    CqlTimestamp(at.as_millisecond())
}

fn time(at: CqlTimestamp) -> Option<Timestamp> {
    Timestamp::from_millisecond(at.0).ok()
}

struct Table<'a> {
    session: &'a Session,
    keyspace: &'a str,
}

impl Table<'_> {
    async fn read(&self) -> Result<RestoreRecord, SchemaError> {
        type Columns = (
            Option<String>,
            Option<String>,
            Option<CqlTimestamp>,
            Option<i64>,
            Option<CqlTimestamp>,
            Option<CqlTimestamp>,
        );
        let failed = schema::statement("read whether something was restored into the keyspace");
        let mut select = Statement::new(format!(
            "SELECT claim, backup, begun, chunks, finished, served FROM {}.{TABLE} WHERE part = ?",
            self.keyspace
        ));
        select.set_is_idempotent(true);
        let rows = self
            .session
            .query_unpaged(select, (PART,))
            .await
            .map_err(|error| failed(error.into()))?
            .into_rows_result()
            .map_err(|error| failed(error.into()))?;
        let row = rows
            .maybe_first_row::<Columns>()
            .map_err(|error| failed(error.into()))?;
        let Some((claim, backup, begun, chunks, finished, served)) = row else {
            return Ok(RestoreRecord::default());
        };
        let begun = begun.map(|since| BegunRestore {
            claim: claim.unwrap_or_default(),
            backup: backup.unwrap_or_default(),
            since: time(since).unwrap_or_default(),
            chunks: chunks.and_then(|n| n.try_into().ok()).unwrap_or_default(),
            finished: finished.and_then(time),
        });
        let served = served.map(|at| time(at).unwrap_or_default());
        Ok(RestoreRecord { begun, served })
    }

    /// Sets columns in a quorum of every data centre: a look in any of them sees it.
    async fn set(
        &self,
        columns: &str,
        values: impl scylla::serialize::row::SerializeRow,
    ) -> Result<(), SchemaError> {
        let text = format!(
            "UPDATE {}.{TABLE} SET {columns} WHERE part = ?",
            self.keyspace
        );
        self.write(text, values).await
    }

    async fn write(
        &self,
        text: String,
        values: impl scylla::serialize::row::SerializeRow,
    ) -> Result<(), SchemaError> {
        let mut statement = Statement::new(text);
        statement.set_consistency(Consistency::EachQuorum);
        statement.set_is_idempotent(true);
        let failed = schema::statement("write the record of restores");
        let done = self.session.query_unpaged(statement, values).await;
        done.map(drop).map_err(|error| failed(error.into()))
    }
}

/// The record in the keyspace of a store, which must be claimed by this cluster.
#[derive(Debug)]
pub struct CqlRestores {
    store: Arc<CqlStore>,
    claim: ClaimName,
}

impl CqlRestores {
    /// The record beside the blocks of this store.
    #[must_use]
    pub fn new(store: Arc<CqlStore>, claim: ClaimName) -> Self {
        Self { store, claim }
    }

    fn table(&self) -> Result<Table<'_>, StoreError> {
        let session = self.store.connection()?.session();
        let keyspace = &self.store.target.keyspace;
        Ok(Table { session, keyspace })
    }

    /// A keyspace that is not claimed, or by another cluster, is not written into.
    async fn prove_claim(&self, table: &Table<'_>) -> Result<(), StoreError> {
        let Table { session, keyspace } = table;
        let failed = |source| StoreError::new("see whose the keyspace is", source);
        let sight = claim_table::look(session, keyspace, Some(&self.claim)).await;
        let refusal = match sight.map_err(failed)? {
            Sight::Ours => return Ok(()),
            Sight::Nobodys => format!(
                "keyspace {keyspace} is not claimed: run `readstates schema` with --claim {}",
                self.claim
            ),
            Sight::Others(by) => format!("keyspace {keyspace} is claimed by {by}"),
        };
        Err(StoreError::new(
            "see that the keyspace is this cluster's",
            refusal,
        ))
    }
}

impl RestoreRecords for CqlRestores {
    fn read(&self) -> BoxFuture<'_, Result<RestoreRecord, StoreError>> {
        async move {
            let table = self.table()?;
            self.prove_claim(&table).await?;
            let failed = |source| StoreError::new("read the record of restores", source);
            let Table { session, keyspace } = table;
            if !is_there(session, keyspace).await.map_err(failed)? {
                let missing = format!(
                    "keyspace {keyspace} has no table {TABLE}: run `readstates schema` of this release with --claim {}",
                    self.claim
                );
                return Err(StoreError::new("read the record of restores", missing));
            }
            table.read().await.map_err(failed)
        }
        .boxed()
    }

    fn begin<'a>(&'a self, begun: &'a BegunRestore) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let BegunRestore {
                claim,
                backup,
                since,
                chunks: _,
                finished: _,
            } = begun;
            let values = (claim.as_str(), backup.as_str(), millis(*since), PART);
            let columns = "claim = ?, backup = ?, begun = ?, chunks = 0";
            let done = self.table()?.set(columns, values).await;
            done.map_err(|source| StoreError::new("record that a restore begins", source))
        }
        .boxed()
    }

    fn withdraw(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let table = self.table()?;
            let text = format!(
                "DELETE claim, backup, begun, chunks FROM {}.{TABLE} WHERE part = ?",
                table.keyspace
            );
            let done = table.write(text, (PART,)).await;
            done.map_err(|source| StoreError::new("withdraw the restore", source))
        }
        .boxed()
    }

    fn reached(&self, chunks: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let chunks = i64::try_from(chunks).unwrap_or(i64::MAX);
            let done = self.table()?.set("chunks = ?", (chunks, PART)).await;
            done.map_err(|source| StoreError::new("record how far the restore is", source))
        }
        .boxed()
    }

    fn finish(&self, at: Timestamp) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let values = (millis(at), PART);
            let done = self.table()?.set("finished = ?", values).await;
            done.map_err(|source| StoreError::new("record that the restore is done", source))
        }
        .boxed()
    }
}
