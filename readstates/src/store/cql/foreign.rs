//! Reads a table that is not ours, by ranges of tokens. Nothing here writes.

use std::{ops::ControlFlow, time::Duration};

use jiff::{Span, civil::date};
use scylla::{
    client::session::Session,
    response::PagingState,
    statement::prepared::PreparedStatement,
    value::{CqlDate, CqlTimestamp, CqlValue, Row},
};

use super::{CqlLogin, CqlTarget, StoreError, connect::no_datacenter, session};

/// Rows of a page: of some dozen bytes each.
const ROWS_PER_PAGE: i32 = 2000;
/// A page that fails is asked for so many times more, each time after a longer pause.
const MOST_REPEATS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The day that a date counts from in CQL: so many days before 1970-01-01.
const DATE_OFFSET: i64 = 1 << 31;

/// A table of another application.
pub(crate) struct ForeignTable {
    session: Session,
    /// With its keyspace, as CQL has it.
    name: String,
    columns: Vec<String>,
    partition_key: Vec<String>,
    login: CqlLogin,
}

/// Its columns that are read.
pub(crate) struct ForeignScan {
    session: Session,
    statement: PreparedStatement,
}

/// A row: the token of its partition, and its values as text; `None`: null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignRow {
    pub(crate) token: i64,
    pub(crate) values: Vec<Option<String>>,
}

impl ForeignTable {
    pub(crate) async fn open(
        target: &CqlTarget,
        table: &str,
        login: CqlLogin,
    ) -> Result<Self, StoreError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            StoreError::new("read the columns of the table", source)
        };
        let session = session::patient_session(target, &login).await;
        let session = session.map_err(|error| StoreError::new("reach the database", error))?;
        if let Some(refusal) = no_datacenter(&session, &login) {
            return Err(StoreError::new("read the database", refusal));
        }
        let found = session
            .query_unpaged(
                "SELECT column_name, kind, position FROM system_schema.columns \
                 WHERE keyspace_name = ? AND table_name = ?",
                (&target.keyspace, table),
            )
            .await
            .map_err(|error| failed(error.into()))?
            .into_rows_result()
            .map_err(|error| failed(error.into()))?;
        let mut columns = Vec::new();
        let mut keys = Vec::new();
        let rows = found.rows::<(String, String, i32)>();
        for row in rows.map_err(|error| failed(error.into()))? {
            let (name, kind, position) = row.map_err(|error| failed(error.into()))?;
            if kind == "partition_key" {
                keys.push((position, name.clone()));
            }
            columns.push(name);
        }
        let name = format!("{}.{}", quoted(&target.keyspace), quoted(table));
        if columns.is_empty() {
            return Err(failed(format!("there is no table {name}").into()));
        }
        keys.sort_unstable();
        Ok(Self {
            session,
            name,
            columns,
            partition_key: keys.into_iter().map(|(_, name)| name).collect(),
            login,
        })
    }

    /// The names of its columns.
    pub(crate) fn columns(&self) -> Vec<&str> {
        self.columns.iter().map(String::as_str).collect()
    }

    /// Reads these columns, each of which there is.
    pub(crate) async fn scan(self, columns: &[&str]) -> Result<ForeignScan, StoreError> {
        let select = select(&self.name, &self.partition_key, columns);
        let prepared = self.session.prepare(select).await;
        let mut statement = prepared
            .map_err(|error| StoreError::new("prepare a statement for the table", error))?;
        statement.set_is_idempotent(true);
        statement.set_page_size(ROWS_PER_PAGE);
        statement.set_execution_profile_handle(Some(session::scan_profile(&self.login)));
        let session = self.session;
        Ok(ForeignScan { session, statement })
    }
}

fn select(table: &str, partition_key: &[String], columns: &[&str]) -> String {
    let list = |names: &mut dyn Iterator<Item = &str>| names.map(quoted).collect::<Vec<_>>();
    let key = list(&mut partition_key.iter().map(String::as_str)).join(", ");
    let columns = list(&mut columns.iter().copied()).join(", ");
    format!(
        "SELECT token({key}), {columns} FROM {table} WHERE token({key}) >= ? AND token({key}) <= ?"
    )
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl ForeignScan {
    /// A page of the rows between two tokens, both included, and where the next one begins.
    pub(crate) async fn page(
        &self,
        tokens: (i64, i64),
        from: PagingState,
    ) -> Result<(Vec<ForeignRow>, Option<PagingState>), StoreError> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..MOST_REPEATS {
            match self.page_once(tokens, from.clone()).await {
                Ok(page) => return Ok(page),
                Err(error) => tracing::warn!(retry_in = ?pause, "{}", super::chain(&error)),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.page_once(tokens, from).await
    }

    async fn page_once(
        &self,
        tokens: (i64, i64),
        from: PagingState,
    ) -> Result<(Vec<ForeignRow>, Option<PagingState>), StoreError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            StoreError::new("read a page of the table", source)
        };
        let page = self
            .session
            .execute_single_page(&self.statement, tokens, from);
        let (result, state) = page.await.map_err(|error| failed(error.into()))?;
        let result = result
            .into_rows_result()
            .map_err(|error| failed(error.into()))?;
        let found = result.rows::<Row>().map_err(|error| failed(error.into()))?;
        let mut rows = Vec::with_capacity(result.rows_num());
        for row in found {
            let Row { columns } = row.map_err(|error| failed(error.into()))?;
            let mut values = columns.into_iter();
            let Some(Some(CqlValue::BigInt(token))) = values.next() else {
                return Err(failed("the database gives no tokens of 64 bits".into()));
            };
            let values = values.map(|value| value.and_then(text_of)).collect();
            rows.push(ForeignRow { token, values });
        }
        let next = match state.into_paging_control_flow() {
            ControlFlow::Continue(next) => Some(next),
            ControlFlow::Break(()) => None,
        };
        Ok((rows, next))
    }
}

/// A value as text; what no part of a read state can be is named by its type, and refused as text.
fn text_of(value: CqlValue) -> Option<String> {
    Some(match value {
        CqlValue::Ascii(text) | CqlValue::Text(text) => text,
        CqlValue::BigInt(number) => number.to_string(),
        CqlValue::Counter(number) => number.0.to_string(),
        CqlValue::Int(number) => number.to_string(),
        CqlValue::SmallInt(number) => number.to_string(),
        CqlValue::TinyInt(number) => number.to_string(),
        CqlValue::Varint(number) => varint(number.as_signed_bytes_be_slice()),
        // Before 1970 there is none that makes sense, and the sign says so.
        CqlValue::Timestamp(CqlTimestamp(millis)) => millis.to_string(),
        CqlValue::Date(CqlDate(days)) => {
            let days = i64::from(days) - DATE_OFFSET;
            let span = Span::new().try_days(days);
            let day = span.and_then(|span| date(1970, 1, 1).checked_add(span));
            day.map_or_else(
                |_| format!("a date {days} days from 1970"),
                |day| day.to_string(),
            )
        }
        CqlValue::Empty => return None,
        CqlValue::Uuid(id) => id.to_string(),
        CqlValue::Timeuuid(id) => id.to_string(),
        CqlValue::Double(number) => number.to_string(),
        CqlValue::Float(number) => number.to_string(),
        CqlValue::Boolean(is) => is.to_string(),
        _ => "a value that is neither a number nor text".to_owned(),
    })
}

/// A whole number of any length, as far as it fits 64 bits.
fn varint(bytes: &[u8]) -> String {
    let negative = bytes.first().is_some_and(|&first| first >= 0x80);
    let significant: &[u8] = match bytes.iter().position(|&byte| byte != 0) {
        Some(first) => &bytes[first..],
        None => &[],
    };
    if negative || significant.len() > 8 {
        return "a number below 0 or above 64 bits".to_owned();
    }
    let number = significant
        .iter()
        .fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    number.to_string()
}

#[cfg(test)]
mod tests {
    use scylla::value::{Counter, CqlVarint};

    use super::*;

    #[test]
    fn a_statement_names_the_partition_and_quotes_what_it_names() {
        let key = ["userId".to_owned(), "bucket".to_owned()];
        let text = select("\"ks\".\"t\"", &key, &["userId", "a\"b"]);
        assert_eq!(
            text,
            "SELECT token(\"userId\", \"bucket\"), \"userId\", \"a\"\"b\" FROM \"ks\".\"t\" \
             WHERE token(\"userId\", \"bucket\") >= ? AND token(\"userId\", \"bucket\") <= ?"
        );
    }

    #[test]
    fn values_are_text_whatever_their_type() {
        let of = |value| text_of(value).unwrap();
        assert_eq!(of(CqlValue::BigInt(i64::MAX)), "9223372036854775807");
        assert_eq!(of(CqlValue::BigInt(-5)), "-5");
        assert_eq!(of(CqlValue::Counter(Counter(3))), "3");
        assert_eq!(of(CqlValue::Text("42".into())), "42");
        assert_eq!(of(CqlValue::Timestamp(CqlTimestamp(7))), "7");
        assert_eq!(of(CqlValue::Date(CqlDate(1 << 31))), "1970-01-01");
        assert_eq!(
            of(CqlValue::Date(CqlDate((1 << 31) + 16_436))),
            "2015-01-01"
        );
        let varint = |bytes: &[u8]| {
            let bytes = bytes.to_vec();
            of(CqlValue::Varint(CqlVarint::from_signed_bytes_be(bytes)))
        };
        assert_eq!(
            varint(&[0, 255, 255, 255, 255, 255, 255, 255, 255]),
            u64::MAX.to_string()
        );
        assert_eq!(varint(&[0]), "0");
        assert!(varint(&[255]).contains("below 0"));
        assert!(of(CqlValue::Blob(vec![1])).contains("neither"));
        assert_eq!(text_of(CqlValue::Empty), None);
    }
}
