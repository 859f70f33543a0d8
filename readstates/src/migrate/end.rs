//! Opens the source or the target of a move.

use std::{fs, path::Path, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::MigrateError;
use crate::{
    config::StoreConfig,
    journal::{self, Durability, Journal, JournalConfig},
    store::{CqlLogin, CqlStore, CqlTarget, EmbeddedStore, MemoryStore, Scan, Store},
};

/// How long a database may take to answer at first.
const PATIENCE: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_millis(200);

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
        StoreConfig::Cql(target) => cql(flag, target, login).await,
    }
}

async fn embedded(
    flag: &'static str,
    config: &StoreConfig,
    folder: &Path,
) -> Result<End, MigrateError> {
    let opened = EmbeddedStore::open(folder, 0);
    let store = Arc::new(opened.map_err(|source| MigrateError::Open { flag, source })?);
    // What a process that was killed had acknowledged belongs to the store, too.
    let journal = JournalConfig {
        folder: journal::folder_of(folder),
        durability: Durability::Interval,
        accept_damage: false,
    };
    let applied = Journal::open(&journal, &*store, 0).await;
    applied.map_err(|source| MigrateError::Journal { flag, source })?;
    // It is there: it was opened.
    let path = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let id = path.display().to_string();
    Ok(End::new(config.to_string(), id, store))
}

async fn cql(flag: &'static str, target: &CqlTarget, login: CqlLogin) -> Result<End, MigrateError> {
    let store = Arc::new(CqlStore::start(target.clone(), login));
    let deadline = Instant::now() + PATIENCE;
    while let Err(source) = store.check().await {
        if let Some(reason) = store.refusal() {
            return Err(MigrateError::Refused { flag, reason });
        }
        if Instant::now() >= deadline {
            return Err(MigrateError::Away { flag, source });
        }
        sleep(ASK_AGAIN).await;
    }
    let id = store.table_id().await;
    let id = id.map_err(|source| MigrateError::Away { flag, source })?;
    Ok(End::new(target.to_string(), id, store))
}
