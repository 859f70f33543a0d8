//! The ring in a folder, for several processes on one machine.
//!
//! ```text
//! FOLDER/ring.json            the ring; put in place whole, by a rename
//! FOLDER/lock                 held while a process swaps the ring
//! FOLDER/members/INC.json     what each process said last
//! ```
//! The folder must be on a file system of this machine: locks and renames of network file systems do
//! not promise what is asked of them here. Everything is written through to the disk before it counts.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::{
    future::{BoxFuture, FutureExt},
    stream::{self, BoxStream, StreamExt},
};
use parking_lot::Mutex;
use readstates_ring::{Incarnation, RingTable};
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{Presence, RingStore, RingStoreError, Swapped, Version, Versioned};
use crate::store::chain;

/// How long to wait for another process's swap: a swap takes milliseconds, but a process that was stopped
/// in the middle of one keeps the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long between two looks at the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(2);
/// How long between two looks at the ring: what a watch lags.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Keeps the ring in a folder.
#[derive(Debug)]
pub struct FileRing {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Held while a presence of this process is written, so that two never share a new file.
    writing: Mutex<()>,
}

impl FileRing {
    /// The ring in this folder, which is made when it is missing.
    ///
    /// # Errors
    /// When the folder cannot be made or written to.
    pub fn open(path: &Path) -> Result<Self, RingStoreError> {
        let made = fs::create_dir_all(path.join("members"))
            .and_then(|()| lock_file(path))
            .map(drop);
        made.map_err(|source| {
            let folder = path.display();
            RingStoreError::new(
                "open the ring's folder",
                InFolder {
                    folder: folder.to_string(),
                    source,
                },
            )
        })?;
        Ok(Self {
            folder: Arc::new(Folder {
                path: path.to_owned(),
                writing: Mutex::new(()),
            }),
        })
    }

    /// Runs `work` on a thread that may block; if it panics, its outcome is unknown.
    async fn blocking<T: Send + 'static>(
        &self,
        attempt: &'static str,
        work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
    ) -> Result<T, RingStoreError> {
        let folder = self.folder.clone();
        let done = spawn_blocking(move || work(&folder)).await;
        let folder = || self.folder.path.display().to_string();
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(source)) => Err(RingStoreError::new(
                attempt,
                InFolder {
                    folder: folder(),
                    source,
                },
            )),
            Err(panicked) => Err(RingStoreError::new(attempt, panicked)),
        }
    }

    /// The lock, which is held until the file is closed.
    async fn lock(&self) -> Result<File, RingStoreError> {
        const ATTEMPT: &str = "lock the ring";
        let locked = async {
            loop {
                let taken = self.blocking(ATTEMPT, Folder::try_lock).await?;
                match taken {
                    Some(lock) => return Ok(lock),
                    None => sleep(LOCK_PAUSE).await,
                }
            }
        };
        let late = "another process holds it; was it stopped in the middle of a change?";
        timeout(LOCK_TIMEOUT, locked)
            .await
            .unwrap_or_else(|_| Err(RingStoreError::new(ATTEMPT, late)))
    }
}

/// An error with the folder it happened in.
#[derive(Debug, thiserror::Error)]
#[error("in the folder {folder}")]
struct InFolder {
    folder: String,
    source: io::Error,
}

impl Folder {
    fn ring(&self) -> PathBuf {
        self.path.join("ring.json")
    }

    fn presence(&self, incarnation: Incarnation) -> PathBuf {
        self.path
            .join("members")
            .join(format!("{incarnation}.json"))
    }

    fn try_lock(&self) -> io::Result<Option<File>> {
        let file = lock_file(&self.path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The version is the text itself: what was read is what is compared.
    fn read(&self) -> io::Result<Option<Versioned>> {
        let Some(json) = absent_is_none(fs::read_to_string(self.ring()))? else {
            return Ok(None);
        };
        let table = RingTable::from_json(json.as_bytes()).map_err(|e| invalid("ring.json", e))?;
        Ok(Some(Versioned {
            table: Arc::new(table),
            version: Version(json),
        }))
    }

    /// Under the lock.
    fn swap(&self, expected: Option<&Version>, next: RingTable) -> io::Result<Swapped> {
        let current = absent_is_none(fs::read_to_string(self.ring()))?;
        if current.as_ref() != expected.map(|Version(text)| text) {
            return Ok(Swapped::Conflict);
        }
        let json = String::from_utf8(next.to_json()).map_err(|e| invalid("the ring", e))?;
        put(&self.ring(), json.as_bytes())?;
        Ok(Swapped::Taken(Versioned {
            table: Arc::new(next),
            version: Version(json),
        }))
    }

    fn renew(&self, presence: &Presence) -> io::Result<()> {
        let json = serde_json::to_vec(presence)?;
        let _writing = self.writing.lock();
        let path = self.presence(presence.incarnation);
        let said = absent_is_none(fs::read(&path))?;
        // What cannot be read is replaced.
        let said = said.and_then(|json| serde_json::from_slice::<Presence>(&json).ok());
        if said.is_some_and(|said| said.renewals > presence.renewals) {
            return Ok(());
        }
        put(&path, &json)
    }

    fn presences(&self) -> io::Result<Vec<Presence>> {
        let mut presences = Vec::new();
        for entry in fs::read_dir(self.path.join("members"))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            // This presence may have been forgotten meanwhile.
            let Some(json) = absent_is_none(fs::read(&path))? else {
                continue;
            };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let presence: Presence =
                serde_json::from_slice(&json).map_err(|e| invalid(&name, e))?;
            presences.push(presence);
        }
        super::in_order(&mut presences);
        Ok(presences)
    }

    /// What changes whenever the ring does: every ring is a file of its own.
    fn mark(&self) -> io::Result<Option<Mark>> {
        let metadata = absent_is_none(fs::metadata(self.ring()))?;
        let mark = |metadata: fs::Metadata| -> io::Result<Mark> {
            let (file, bytes) = (metadata.ino(), metadata.len());
            Ok(Mark {
                file,
                bytes,
                written: metadata.modified()?,
            })
        };
        metadata.map(mark).transpose()
    }

    /// The ring, when it is not the one with this mark.
    fn changed(&self, seen: Option<&Mark>) -> io::Result<Option<(Mark, Arc<RingTable>)>> {
        // In this order: a ring that comes in between is read now, and once more the next time.
        let mark = self.mark()?;
        match mark {
            Some(mark) if Some(&mark) != seen => {
                Ok(self.read()?.map(|current| (mark, current.table)))
            }
            Some(_) | None => Ok(None),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    file: u64,
    bytes: u64,
    written: SystemTime,
}

fn lock_file(folder: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    options.open(folder.join("lock"))
}

/// Puts a file in place: whole, and on the disk.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent()
        .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn absent_is_none<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn invalid(file: &str, error: impl std::error::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{file}: {error}"))
}

impl RingStore for FileRing {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        self.blocking("read the ring", Folder::read).boxed()
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        async move {
            let lock = self.lock().await?;
            let swap = move |folder: &Folder| {
                let swapped = folder.swap(expected.as_ref(), next);
                drop(lock);
                swapped
            };
            self.blocking("swap the ring", swap).await
        }
        .boxed()
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        let begin = (self.folder.clone(), None, true);
        // Cancel-safe: what was not yielded is looked for again.
        stream::unfold(begin, |(folder, mut seen, mut healthy)| async move {
            loop {
                let looks = (folder.clone(), seen.clone());
                let looked = spawn_blocking(move || looks.0.changed(looks.1.as_ref())).await;
                match looked.map_err(io::Error::other).flatten() {
                    Ok(Some((mark, table))) => {
                        seen = Some(mark);
                        return Some((table, (folder, seen, true)));
                    }
                    Ok(None) => healthy = true,
                    Err(error) => {
                        if healthy {
                            tracing::warn!(error = chain(&error), "failed to look at the ring");
                        }
                        healthy = false;
                    }
                }
                sleep(LOOK_PAUSE).await;
            }
        })
        .boxed()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        let renew = move |folder: &Folder| folder.renew(&presence);
        self.blocking("renew the presence", renew).boxed()
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        self.blocking("read who is there", Folder::presences)
            .boxed()
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        let forget = move |folder: &Folder| {
            absent_is_none(fs::remove_file(folder.presence(incarnation))).map(drop)
        };
        self.blocking("forget a process", forget).boxed()
    }
}
