//! Opens a store for a backup or a restore.

use std::{fmt, sync::Arc};

use super::BackupError;
use crate::{
    config::StoreConfig,
    offline,
    store::{CqlLogin, CqlRestores, EmbeddedStore, MemoryStore, RestoreRecords, Scan, Store},
};

/// A store that can be read as a whole, too.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) scan: Arc<dyn Scan>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl Opened {
    pub(super) fn of<S: Store + Scan>(store: Arc<S>) -> Self {
        Self {
            store: Arc::clone(&store) as Arc<dyn Store>,
            scan: store,
        }
    }

    /// An empty one.
    pub(super) fn memory() -> Self {
        Self::of(Arc::new(MemoryStore::default()))
    }
}

/// Whether there is no store, and opening it would make one.
pub(super) fn is_absent(config: &StoreConfig) -> bool {
    matches!(config, StoreConfig::Embedded(folder) if !EmbeddedStore::is_in(folder))
}

/// Opens a store that is there, to read all that is in it.
pub(crate) async fn open(config: &StoreConfig, login: CqlLogin) -> Result<Opened, BackupError> {
    match config {
        StoreConfig::Embedded(folder) if is_absent(config) => {
            Err(BackupError::NoStore(folder.clone()))
        }
        StoreConfig::Cql(target) => Ok(Opened::of(offline::whole_cql(target, login).await?)),
        StoreConfig::Embedded(_) | StoreConfig::Memory => open_or_make(config, login).await,
    }
}

/// Opens a store; a folder that has none gets one.
pub(super) async fn open_or_make(
    config: &StoreConfig,
    login: CqlLogin,
) -> Result<Opened, BackupError> {
    match config {
        StoreConfig::Memory => Err(BackupError::Memory),
        StoreConfig::Embedded(folder) => Ok(Opened::of(offline::embedded(folder).await?)),
        StoreConfig::Cql(target) => Ok(Opened::of(offline::cql(target, login).await?)),
    }
}

/// Opens a store with the record of restores in it.
pub(super) async fn open_recorded(
    config: &StoreConfig,
    login: CqlLogin,
) -> Result<(Opened, Box<dyn RestoreRecords>), BackupError> {
    match (config, login.claim.clone()) {
        (StoreConfig::Cql(target), Some(claim)) => {
            let store = offline::cql(target, login).await?;
            let records = CqlRestores::new(Arc::clone(&store), claim);
            Ok((Opened::of(store), Box::new(records)))
        }
        // The flag requires a claim.
        (StoreConfig::Cql(_) | StoreConfig::Embedded(_) | StoreConfig::Memory, _) => {
            Err(BackupError::NoRecord(config.clone()))
        }
    }
}
