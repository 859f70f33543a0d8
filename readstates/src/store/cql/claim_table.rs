//! The rows of claims in a CQL database: `read_states_claim`, one partition, a row for each claimant.

use jiff::Timestamp;
use scylla::{
    client::session::Session,
    statement::{Consistency, Statement},
    value::CqlTimestamp,
};

use super::{
    SchemaError,
    claim::{Claim, ClaimName, Row, Rows, Sight, judge},
    schema,
};

/// The table, in the keyspace that is claimed.
pub(super) const TABLE: &str = "read_states_claim";
/// All rows are in one partition: they are read together, or not.
const PART: &str = "claim";

/// The claims on one keyspace.
pub(super) struct ClaimTable<'a> {
    session: &'a Session,
    table: String,
}

impl<'a> ClaimTable<'a> {
    pub(super) fn new(session: &'a Session, keyspace: &str) -> Self {
        let table = format!("{keyspace}.{TABLE}");
        Self { session, table }
    }

    /// Makes the table if it is missing.
    pub(super) async fn make(&self) -> Result<(), SchemaError> {
        let table = &self.table;
        let text = format!(
            "CREATE TABLE IF NOT EXISTS {table} (part text, owner text, holder text, since timestamp, proven boolean, \
             PRIMARY KEY (part, owner))"
        );
        schema::run(self.session, "create the table of claims", text).await
    }

    /// Runs a write in a quorum of every data centre: a look in any of them sees it.
    async fn write_everywhere(
        &self,
        attempt: &'static str,
        text: String,
        values: impl scylla::serialize::row::SerializeRow,
    ) -> Result<(), SchemaError> {
        let mut statement = Statement::new(text);
        statement.set_consistency(Consistency::EachQuorum);
        statement.set_is_idempotent(true);
        let done = self.session.query_unpaged(statement, values).await;
        done.map(drop)
            .map_err(|error| schema::statement(attempt)(error.into()))
    }
}

impl Rows for ClaimTable<'_> {
    async fn read(&self) -> Result<Vec<Row>, SchemaError> {
        let failed = schema::statement("read who has claimed the keyspace");
        let mut select = Statement::new(format!(
            "SELECT owner, holder, since, proven, WRITETIME(holder), WRITETIME(proven) FROM {} WHERE part = ?",
            self.table
        ));
        select.set_is_idempotent(true);
        let rows = self
            .session
            .query_unpaged(select, (PART,))
            .await
            .map_err(|error| failed(error.into()))?
            .into_rows_result()
            .map_err(|error| failed(error.into()))?;
        type Columns = (
            String,
            Option<String>,
            Option<CqlTimestamp>,
            Option<bool>,
            Option<i64>,
            Option<i64>,
        );
        let mut claims = Vec::new();
        for row in rows
            .rows::<Columns>()
            .map_err(|error| failed(error.into()))?
        {
            let (owner, holder, since, proven, of_holder, of_proven) =
                row.map_err(|error| failed(error.into()))?;
            let since = since.and_then(|at| Timestamp::from_millisecond(at.0).ok());
            claims.push(Row {
                owner,
                holder: holder.unwrap_or_default(),
                since: since.map_or_else(String::new, |at| format!("{at:.0}")),
                proven: proven == Some(true),
                written: of_holder.max(of_proven).unwrap_or_default(),
            });
        }
        Ok(claims)
    }

    async fn write(&self, claim: &Claim) -> Result<(), SchemaError> {
        let text = format!(
            "INSERT INTO {} (part, owner, holder, since, proven) VALUES (?, ?, ?, ?, false)",
            self.table
        );
        let now = CqlTimestamp(Timestamp::now().as_millisecond());
        let values = (PART, claim.name.as_str(), claim.holder.as_str(), now);
        self.write_everywhere("claim the keyspace", text, values)
            .await
    }

    async fn prove(&self, name: &ClaimName) -> Result<(), SchemaError> {
        let text = format!(
            "UPDATE {} SET proven = true WHERE part = ? AND owner = ?",
            self.table
        );
        self.write_everywhere("prove the claim", text, (PART, name.as_str()))
            .await
    }

    async fn remove(&self, owner: &str, written: i64) -> Result<(), SchemaError> {
        // Later than what it removes, whatever this machine's clock says.
        let text = format!(
            "DELETE FROM {} USING TIMESTAMP ? WHERE part = ? AND owner = ?",
            self.table
        );
        let values = (written.saturating_add(1), PART, owner);
        self.write_everywhere("remove a claim", text, values).await
    }
}

/// Whose the keyspace is, for a member of `me`.
pub(super) async fn look(
    session: &Session,
    keyspace: &str,
    me: Option<&ClaimName>,
) -> Result<Sight, SchemaError> {
    let tables = schema::tables(session, keyspace).await?;
    if !tables.iter().any(|table| table == TABLE) {
        return Ok(judge(&[], me));
    }
    let rows = ClaimTable::new(session, keyspace).read().await?;
    Ok(judge(&rows, me))
}
