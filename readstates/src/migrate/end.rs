//! Opens the source or the target of a move.

use std::{fs, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use super::MigrateError;
use crate::{
    config::StoreConfig,
    offline::{self, NotOpened},
    store::{CqlLogin, CqlStore, CqlTarget, EmbeddedStore, MemoryStore, Scan, Store},
};

/// A store that is read as a whole, and what tells it from others.
#[derive(Debug)]
pub(super) struct End {
    pub(super) name: EndName,
    pub(super) store: Arc<dyn Store>,
    pub(super) scan: Arc<dyn Scan>,
}

/// What tells a store from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndName {
    /// As a person gave it.
    pub(super) name: String,
    /// The id of the table in a CQL database, the real path of the folder of an embedded store.
    pub(super) id: String,
}

/// What to do where there is no embedded store in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    Refuse,
    Make,
    /// As if an empty one were there.
    Pretend,
}

impl End {
    pub(super) fn new<S: Store + Scan>(name: String, id: String, store: Arc<S>) -> Self {
        Self {
            name: EndName { name, id },
            store: Arc::clone(&store) as Arc<dyn Store>,
            scan: store,
        }
    }

    /// Whether rows of both are read in the same order and in the same ranges.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.store.kind() == other.store.kind() && self.scan.ranges() == other.scan.ranges()
    }
}

/// Opens the store that a flag names.
pub(super) async fn open(
    flag: &'static str,
    config: &StoreConfig,
    login: CqlLogin,
    absent: Absent,
) -> Result<End, MigrateError> {
    match config {
        StoreConfig::Memory => Err(MigrateError::Memory { flag }),
        StoreConfig::Embedded(folder) => match absent {
            _ if EmbeddedStore::is_in(folder) => embedded(flag, config, folder).await,
            Absent::Make => embedded(flag, config, folder).await,
            Absent::Pretend => {
                let (name, id) = (config.to_string(), "absent".to_owned());
                Ok(End::new(name, id, Arc::new(MemoryStore::default())))
            }
            Absent::Refuse => {
                let folder = folder.clone();
                Err(MigrateError::NoStore { flag, folder })
            }
        },
        StoreConfig::Cql(target) => {
            let store = offline::cql(target, login).await;
            cql(flag, target, store).await
        }
    }
}

/// Opens the store of --store, to read all that is in it.
pub(super) async fn source(config: &StoreConfig, login: CqlLogin) -> Result<End, MigrateError> {
    let flag = "--store";
    match config {
        StoreConfig::Cql(target) => {
            let store = offline::whole_cql(target, login).await;
            cql(flag, target, store).await
        }
        StoreConfig::Memory | StoreConfig::Embedded(_) => {
            open(flag, config, login, Absent::Refuse).await
        }
    }
}

async fn embedded(
    flag: &'static str,
    config: &StoreConfig,
    folder: &Path,
) -> Result<End, MigrateError> {
    let store = offline::embedded(folder).await;
    let store = store.map_err(|source| MigrateError::NotOpened { flag, source })?;
    // It is there: it was opened.
    let path = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let id = path.display().to_string();
    Ok(End::new(config.to_string(), id, store))
}

async fn cql(
    flag: &'static str,
    target: &CqlTarget,
    store: Result<Arc<CqlStore>, NotOpened>,
) -> Result<End, MigrateError> {
    let not_opened = |source| MigrateError::NotOpened { flag, source };
    let store = store.map_err(not_opened)?;
    let id = store.table_id().await;
    let id = id.map_err(|error| not_opened(NotOpened::Away(error)))?;
    Ok(End::new(target.to_string(), id, store))
}
