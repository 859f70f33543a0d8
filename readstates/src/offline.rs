//! Stores as commands open them, beside no member or before one: the journal of an embedded store is applied to it first,
//! and a database may take a while to answer.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    journal::{self, Durability, Journal, JournalConfig, JournalError},
    store::{CqlLogin, CqlStore, CqlTarget, EmbeddedStore, OpenError, Store, StoreError},
};

/// How long a database may take to answer at first.
const PATIENCE: Duration = Duration::from_secs(30);
/// A node that has just come may not know a table yet.
const REFUSED_FOR: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Why a store is not open.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// The file of an embedded store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The journal of an embedded store cannot be applied to it.
    #[error("the journal of the store")]
    Journal(#[from] JournalError),
    /// There is no such table, or it is another's.
    #[error("{0}")]
    Refused(String),
    /// A database does not answer.
    #[error(transparent)]
    Away(StoreError),
}

/// Opens the embedded store of a folder; makes one where there is none.
///
/// # Errors
/// When another process has it, or it or its journal cannot be read.
pub(crate) async fn embedded(folder: &Path) -> Result<Arc<EmbeddedStore>, NotOpened> {
    let store = Arc::new(EmbeddedStore::open(folder, 0)?);
    // What a process that was killed had acknowledged belongs to the store, too.
    let journal = JournalConfig {
        folder: journal::folder_of(folder),
        durability: Durability::Interval,
        accept_damage: false,
    };
    Journal::open(&journal, &*store, 0).await?;
    Ok(store)
}

/// Connects to a table of a CQL database.
///
/// # Errors
/// When there is no such table, it is another application's, or the database does not answer within half a minute.
pub(crate) async fn cql(target: &CqlTarget, login: CqlLogin) -> Result<Arc<CqlStore>, NotOpened> {
    let store = Arc::new(CqlStore::start(target.clone(), login));
    let ask = async || {
        let asked = store.check().await;
        asked.map_err(|error| {
            store
                .refusal()
                .map_or(NotOpened::Away(error), NotOpened::Refused)
        })
    };
    until_it_answers(ask).await?;
    Ok(store)
}

/// The same, to read all that is in it: not while a restore into it is half done.
///
/// # Errors
/// As [`cql`]; and when such a restore has begun and not ended.
pub(crate) async fn whole_cql(
    target: &CqlTarget,
    login: CqlLogin,
) -> Result<Arc<CqlStore>, NotOpened> {
    let store = cql(target, login).await?;
    store.is_whole().await.map_err(NotOpened::Away)?;
    Ok(store)
}

/// A refusal is believed when it has stood for a while.
async fn until_it_answers(ask: impl AsyncFn() -> Result<(), NotOpened>) -> Result<(), NotOpened> {
    let begun = Instant::now();
    let mut refused_since = None;
    while let Err(error) = ask().await {
        let (since, patience) = match error {
            NotOpened::Refused(_) => {
                let since = *refused_since.get_or_insert_with(Instant::now);
                (since, REFUSED_FOR)
            }
            NotOpened::Open(_) | NotOpened::Journal(_) | NotOpened::Away(_) => {
                refused_since = None;
                (begun, PATIENCE)
            }
        };
        if since.elapsed() >= patience {
            return Err(error);
        }
        sleep(ASK_AGAIN).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database that is away for the first seconds, then without the table until a later one.
    async fn opened(away: u64, refused: u64) -> (Result<(), NotOpened>, Duration) {
        let begun = Instant::now();
        let ask = async || match begun.elapsed().as_secs() {
            second if second < away => Err(NotOpened::Away(StoreError::new("ask", "no answer"))),
            second if second < refused => Err(NotOpened::Refused("no table".to_owned())),
            _ => Ok(()),
        };
        (until_it_answers(ask).await, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_that_comes_within_five_seconds_is_waited_for() {
        let (opened, after) = opened(0, 4).await;
        opened.unwrap();
        assert_eq!(after, Duration::from_secs(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_that_does_not_come_is_refused_after_five_seconds() {
        let (opened, after) = opened(0, u64::MAX).await;
        assert!(matches!(opened, Err(NotOpened::Refused(reason)) if reason == "no table"));
        assert_eq!(after, REFUSED_FOR);
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_is_away_is_waited_for_half_a_minute() {
        let (comes_back, after) = opened(29, 0).await;
        comes_back.unwrap();
        assert_eq!(after, Duration::from_secs(29));
        let (stays_away, after) = opened(u64::MAX, 0).await;
        assert!(matches!(stays_away, Err(NotOpened::Away(_))));
        assert_eq!(after, PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_may_take_its_five_seconds_after_the_database_came_back() {
        let (opened, after) = opened(10, 14).await;
        opened.unwrap();
        assert_eq!(after, Duration::from_secs(14));
    }
}
