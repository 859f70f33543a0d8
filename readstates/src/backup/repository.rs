//! The objects of backups: read and written whole, sealed, by kind.

use std::{collections::HashMap, path::Path as FilePath, sync::Arc};

use futures::TryStreamExt;
use jiff::Timestamp;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, path::Path};

use super::{
    BackupError, BackupId, BackupPlace, WhichBackup,
    chunk::{Chunk, LONGEST},
    manifest::{ChunkEntry, FORMAT, Manifest},
    seal::{self, Key, SealError},
};

/// A manifest of five million chunks, which are forty terabytes.
const LONGEST_MANIFEST: usize = 1 << 30;
/// What does not become shorter by compression becomes longer by less than a hundredth, and has a head.
const MOST_GROWN: u64 = 100;

const CHUNKS: &str = "chunks";
const MANIFESTS: &str = "manifests";

/// Backups in one place, under one key.
#[derive(Debug)]
pub(super) struct Repository {
    objects: Arc<dyn ObjectStore>,
    root: Path,
    key: Option<Arc<Key>>,
}

/// An object as the place lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// Below the root, with its kind: `chunks/AB/ABCD…`.
    pub(super) name: String,
    pub(super) size: u64,
    /// When it was written, by the clock of the place.
    pub(super) written: Timestamp,
}

impl Repository {
    pub(super) fn open(
        place: &BackupPlace,
        key: Option<Key>,
        ca: Option<&FilePath>,
        make: bool,
    ) -> Result<Self, BackupError> {
        let (objects, root) = place.open(ca, make)?;
        Ok(Self::on(objects, root, key))
    }

    pub(super) fn on(objects: Arc<dyn ObjectStore>, root: Path, key: Option<Key>) -> Self {
        let key = key.map(Arc::new);
        Self { objects, root, key }
    }

    fn path(&self, name: &str) -> Path {
        name.split('/')
            .fold(self.root.clone(), |path, part| path.join(part))
    }

    /// Writes an object as it is.
    pub(super) async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), BackupError> {
        let put = self.objects.put(&self.path(name), bytes.into()).await;
        put.map_err(BackupError::objects(format!("write object {name}")))?;
        Ok(())
    }

    /// Reads an object with at most `most` bytes in it: one that is longer is not ours, and could be of any length.
    async fn get(&self, name: &str, most: u64) -> Result<Vec<u8>, BackupError> {
        let sealed = |source| BackupError::Sealed {
            object: name.to_owned(),
            source,
        };
        let read = async {
            let found = self.objects.get(&self.path(name)).await?;
            if found.meta.size > most + most / MOST_GROWN + 1024 {
                return Ok(None);
            }
            found.bytes().await.map(Some)
        };
        match read.await {
            Ok(Some(bytes)) => Ok(bytes.into()),
            Ok(None) => Err(sealed(SealError::Unknown)),
            // No outage: it has been deleted, and will not come back.
            Err(object_store::Error::NotFound { .. }) => Err(sealed(SealError::Missing)),
            Err(error) => Err(BackupError::objects(format!("read object {name}"))(error)),
        }
    }

    /// Deletes an object. One that is not there is deleted.
    pub(super) async fn delete(&self, name: &str) -> Result<(), BackupError> {
        match self.objects.delete(&self.path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(BackupError::objects(format!("delete object {name}"))(error)),
        }
    }

    /// When an object was written, by the clock of the place; `None`: it is not there.
    pub(super) async fn written(&self, name: &str) -> Result<Option<Timestamp>, BackupError> {
        match self.objects.head(&self.path(name)).await {
            Ok(meta) => Ok(Some(timestamp(&meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(BackupError::objects(format!("look at object {name}"))(
                error,
            )),
        }
    }

    /// All objects of a kind, in no order.
    pub(super) async fn list(&self, kind: &str) -> Result<Vec<Listed>, BackupError> {
        let found = self.objects.list(Some(&self.path(kind)));
        let root = self.root.as_ref().len();
        let listed = found.map_ok(|meta| Listed {
            // Without the slash after the root, which an empty root has not.
            name: meta.location.as_ref()[root..]
                .trim_start_matches('/')
                .to_owned(),
            size: meta.size,
            written: timestamp(&meta),
        });
        let listed = listed.try_collect().await;
        listed.map_err(BackupError::objects(format!("list the objects of {kind}")))
    }

    /// The lengths of all chunk objects, by the names of the chunks.
    pub(super) async fn chunks(&self) -> Result<HashMap<String, u64>, BackupError> {
        let listed = self.list_chunks().await?;
        let of = |(name, listed): (String, Listed)| (name, listed.size);
        Ok(listed.into_iter().map(of).collect())
    }

    /// All chunks: their names and their objects.
    pub(super) async fn list_chunks(&self) -> Result<Vec<(String, Listed)>, BackupError> {
        let listed = self.list(CHUNKS).await?.into_iter();
        let named = listed.filter_map(|listed| {
            let name = listed.name.rsplit('/').next()?.to_owned();
            // Whatever else lies there is not ours.
            (listed.name == chunk_object(&name)).then_some((name, listed))
        });
        Ok(named.collect())
    }

    /// Packs a chunk, unless it is there: its name, and its object if it must be written.
    pub(super) async fn pack(
        &self,
        chunk: Chunk,
        is_there: impl FnOnce(&str) -> bool + Send + 'static,
    ) -> Result<(String, Option<Vec<u8>>), BackupError> {
        let key = self.key.clone();
        let packing = tokio::task::spawn_blocking(move || {
            let name = seal::name_of(key.as_deref(), &chunk.rows);
            if is_there(&name) {
                return Ok((name, None));
            }
            let object = seal::seal(key.as_deref(), &chunk_object(&name), &chunk.rows)?;
            Ok((name, Some(object)))
        });
        packing
            .await
            .map_err(|error| BackupError::Packing(error.into()))?
    }

    pub(super) async fn put_chunk(&self, name: &str, object: Vec<u8>) -> Result<(), BackupError> {
        self.put(&chunk_object(name), object).await
    }

    /// The rows of a chunk.
    pub(super) async fn chunk(&self, entry: &ChunkEntry) -> Result<Vec<u8>, BackupError> {
        let object = chunk_object(&entry.name);
        let (key, name, most) = (
            self.key.clone(),
            entry.name.clone(),
            entry.bytes.min(LONGEST),
        );
        let bytes = self.get(&object, most).await?;
        let opening = tokio::task::spawn_blocking(move || {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let rows = seal::unseal(key.as_deref(), &chunk_object(&name), &bytes, most)?;
            let is_named = seal::name_of(key.as_deref(), &rows) == name;
            is_named.then_some(rows).ok_or(SealError::OtherContent)
        });
        let opened = opening
            .await
            .map_err(|error| BackupError::Packing(error.into()))?;
        opened.map_err(|source| BackupError::Sealed { object, source })
    }

    /// The ids of all backups, oldest first.
    pub(super) async fn backups(&self) -> Result<Vec<BackupId>, BackupError> {
        let listed = self.list(MANIFESTS).await?;
        let ids = listed
            .iter()
            .filter_map(|it| it.name.rsplit('/').next()?.parse().ok());
        let mut ids: Vec<BackupId> = ids.collect();
        ids.sort_unstable();
        Ok(ids)
    }

    pub(super) async fn put_manifest(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let object = manifest_object(&manifest.id);
        let json = serde_json::to_vec(manifest).map_err(|source| BackupError::Manifest {
            object: object.clone(),
            source,
        })?;
        let sealed = seal::seal(self.key.as_deref(), &object, &json)?;
        self.put(&object, sealed).await
    }

    pub(super) async fn delete_manifest(&self, id: &BackupId) -> Result<(), BackupError> {
        self.delete(&manifest_object(id)).await
    }

    pub(super) async fn manifest(&self, which: &WhichBackup) -> Result<Manifest, BackupError> {
        let ids = self.backups().await?;
        let id = match which {
            WhichBackup::Latest => ids.last(),
            WhichBackup::Id(id) => ids.iter().find(|found| *found == id),
        };
        let Some(id) = id else {
            return Err(BackupError::NoBackup(match which {
                WhichBackup::Latest => "at all".to_owned(),
                WhichBackup::Id(id) => id.to_string(),
            }));
        };
        self.manifest_of(id).await
    }

    pub(super) async fn manifest_of(&self, id: &BackupId) -> Result<Manifest, BackupError> {
        let object = manifest_object(id);
        let bytes = self.get(&object, LONGEST_MANIFEST as u64).await?;
        let json = seal::unseal(self.key.as_deref(), &object, &bytes, LONGEST_MANIFEST);
        let json = json.map_err(|source| BackupError::Sealed {
            object: object.clone(),
            source,
        })?;
        let manifest: Result<Manifest, _> = serde_json::from_slice(&json);
        let manifest = manifest.and_then(|manifest| match manifest.format {
            FORMAT => Ok(manifest),
            other => Err(serde::de::Error::custom(format!("its format is {other}"))),
        });
        manifest.map_err(|source| BackupError::Manifest { object, source })
    }
}

/// Folders of some hundred files each, instead of one of a hundred thousand.
fn chunk_object(name: &str) -> String {
    format!("{CHUNKS}/{}/{name}", name.get(..2).unwrap_or_default())
}

fn manifest_object(id: &BackupId) -> String {
    format!("{MANIFESTS}/{id}")
}

fn timestamp(meta: &ObjectMeta) -> Timestamp {
    // Milliseconds of any year that a clock shows are in its range.
    Timestamp::from_millisecond(meta.last_modified.timestamp_millis()).unwrap_or_default()
}
