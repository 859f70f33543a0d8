//! The store in a folder of the process's own: a redb database with one table.
//!
//! One thread writes. It takes whatever writes are waiting, up to [`MOST_PER_COMMIT`], into one
//! transaction, so that many users share one fsync; a write is answered once its transaction is on
//! disk. Reads do not wait for it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::future::{BoxFuture, FutureExt};
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use tokio::sync::{mpsc, oneshot};

use super::{Store, StoreError, Stored, wins};

/// user → (stamp, packed block).
const BLOCKS: TableDefinition<'static, u64, (i64, &'static [u8])> =
    TableDefinition::new("read_states");

/// The database in the folder.
const FILE: &str = "blocks.redb";

/// Writes of one transaction; bounds the memory of a commit and the wait of the first write in it.
const MOST_PER_COMMIT: usize = 256;

/// Writes that wait for the writer before callers wait for room.
const QUEUE: usize = 1024;

/// Keeps blocks in a folder; one process at a time can have it open.
#[derive(Debug)]
pub struct EmbeddedStore {
    database: Arc<Database>,
    writes: mpsc::Sender<Write>,
}

/// Why a folder could not be opened as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder is not there and cannot be made.
    #[error("failed to make the folder {folder:?}; give another one with --store embedded:DIR")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process uses it.
    #[error(
        "{folder:?} is in use by another process; stop it, or give another folder with --store embedded:DIR"
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The database in it cannot be opened.
    #[error("failed to open the database {file:?}")]
    Database {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: Box<redb::Error>,
    },
    /// No thread can be started.
    #[error("failed to start the writer")]
    Thread(#[source] io::Error),
}

#[derive(Debug)]
struct Write {
    user: u64,
    bytes: Vec<u8>,
    stamp: Stamp,
    done: oneshot::Sender<Result<(), Arc<redb::Error>>>,
}

impl EmbeddedStore {
    /// Opens the store in a folder, which is made when it is not there.
    ///
    /// # Errors
    /// When the folder cannot be made or written, or another process has it open.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(folder).map_err(|source| OpenError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        let file = folder.join(FILE);
        let database = Database::create(&file).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse {
                folder: folder.to_owned(),
            },
            other => OpenError::Database {
                file: file.clone(),
                source: Box::new(other.into()),
            },
        })?;
        let failed = |error: redb::Error| OpenError::Database {
            file: file.clone(),
            source: Box::new(error),
        };
        // So that reading never meets a database without the table.
        let transaction = database
            .begin_write()
            .map_err(|error| failed(error.into()))?;
        transaction
            .open_table(BLOCKS)
            .map_err(|error| failed(error.into()))?;
        transaction.commit().map_err(|error| failed(error.into()))?;

        let database = Arc::new(database);
        let (writes, queue) = mpsc::channel(QUEUE);
        let writer = Arc::clone(&database);
        // Ends when the store is dropped: nobody can send then.
        std::thread::Builder::new()
            .name("embedded-writer".into())
            .spawn(move || write_all(&writer, queue))
            .map_err(OpenError::Thread)?;
        Ok(Self { database, writes })
    }
}

fn write_all(database: &Database, mut queue: mpsc::Receiver<Write>) {
    let mut batch = Vec::new();
    while queue.blocking_recv_many(&mut batch, MOST_PER_COMMIT) > 0 {
        let outcome = commit(database, &batch).map_err(Arc::new);
        for write in batch.drain(..) {
            // Who asked may have given up: then there is nobody to tell.
            let _ = write.done.send(outcome.clone());
        }
    }
}

fn commit(database: &Database, batch: &[Write]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(BLOCKS)?;
        for write in batch {
            let wins = table.get(write.user)?.is_none_or(|stored| {
                let (stamp, bytes) = stored.value();
                wins(
                    write.stamp,
                    &write.bytes,
                    (Stamp::from_database(stamp), bytes),
                )
            });
            if wins {
                let stamp = write.stamp.as_database();
                table.insert(write.user, (stamp, write.bytes.as_slice()))?;
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

fn read(database: &Database, user: u64) -> Result<Option<Stored>, redb::Error> {
    let table = database.begin_read()?.open_table(BLOCKS)?;
    Ok(table.get(user)?.map(|stored| {
        let (stamp, bytes) = stored.value();
        Stored {
            bytes: bytes.to_vec(),
            stamp: Stamp::from_database(stamp),
        }
    }))
}

impl Store for EmbeddedStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Embedded
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        let database = Arc::clone(&self.database);
        async move {
            tokio::task::spawn_blocking(move || read(&database, user))
                .await
                .map_err(|error| StoreError::new("load a block", error))?
                .map_err(|error| StoreError::new("load a block", error))
        }
        .boxed()
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let (done, outcome) = oneshot::channel();
            self.writes
                .send(Write {
                    user,
                    bytes,
                    stamp,
                    done,
                })
                .await
                .map_err(|_| StoreError::new("write a block", "the writer has ended"))?;
            outcome
                .await
                .map_err(|_| StoreError::new("write a block", "the writer has ended"))?
                .map_err(|error| StoreError::new("write a block", error))
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        // User 0 does not exist; the read goes through the database all the same.
        async move { self.load(0).await.map(|_| ()) }.boxed()
    }
}
