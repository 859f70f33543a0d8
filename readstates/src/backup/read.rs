//! The rows of a backup, for what else than a restore wants them.

use futures::{StreamExt, stream::BoxStream};

use super::{BackupError, Repository, WhichBackup, chunk::records, manifest::Manifest, open};
use crate::{
    config::PlaceArgs,
    store::{Row, Stored},
};

/// A backup that can be read.
#[derive(Debug)]
pub(crate) struct Reading {
    repository: Repository,
    manifest: Manifest,
}

impl Reading {
    /// Finds a backup.
    pub(crate) async fn open(place: PlaceArgs, which: &WhichBackup) -> Result<Self, BackupError> {
        let repository = open(place, false)?;
        let manifest = repository.manifest(which).await?;
        Ok(Self {
            repository,
            manifest,
        })
    }

    /// Its name, and how many users are in it.
    pub(crate) fn id_and_users(&self) -> (String, u64) {
        (self.manifest.id.to_string(), self.manifest.users)
    }

    /// All rows, a chunk at a time: up to 32 MiB. A chunk that is damaged is an error, and the next one follows.
    pub(crate) fn rows(&self) -> BoxStream<'_, Result<Vec<Row>, BackupError>> {
        let chunks = futures::stream::iter(&self.manifest.chunks);
        chunks
            .then(move |entry| async move {
                let bytes = self.repository.chunk(entry).await?;
                let rows = records(&bytes).map(|record| {
                    let record = record.map_err(|source| BackupError::Chunk {
                        chunk: entry.name.clone(),
                        source,
                    })?;
                    let bytes = record.block.to_vec();
                    let (user, stamp) = (record.user, record.stamp);
                    let stored = Stored { bytes, stamp };
                    Ok(Row { user, stored })
                });
                rows.collect::<Result<Vec<Row>, BackupError>>()
            })
            .boxed()
    }
}
