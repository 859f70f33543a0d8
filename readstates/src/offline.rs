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
    let begun = Instant::now();
    while let Err(error) = store.check().await {
        match store.refusal() {
            Some(reason) if begun.elapsed() >= REFUSED_FOR => {
                return Err(NotOpened::Refused(reason));
            }
            None if begun.elapsed() >= PATIENCE => return Err(NotOpened::Away(error)),
            Some(_) | None => sleep(ASK_AGAIN).await,
        }
    }
    Ok(store)
}
