//! Copies of large users' blocks, and their JSON: one of each, however many read it.
//!
//! Comes in: a block while its user is locked. Goes out: a [`Snapshot`], shared by all who ask for the
//! same version while one of them still has it, also when its answer is on its way. The memory of the
//! copy and of the JSON is taken from the limit of bodies and answers before either is made, once for
//! all who share them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::{body, json, problem::Refusal};
use crate::{
    block::{BlockRef, Since},
    limit::{Limit, Permit},
};

/// Entries whose snapshot is gone are dropped when there are twice as many entries as were left the
/// last time, and at least this many.
const FEW: usize = 64;

/// The snapshots in use.
#[derive(Debug)]
pub(super) struct Snapshots {
    /// Bytes that bodies and answers may take.
    buffered: Arc<Limit>,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    /// By user. The standard library's table, keyed against chosen users.
    snapshots: HashMap<u64, Weak<Snapshot>>,
    tidy_at: usize,
}

/// A user's block as it was at one version.
#[derive(Debug)]
pub(super) struct Snapshot {
    user: u64,
    block: Vec<u8>,
    /// All of it, as clients read it.
    json: OnceCell<Counted>,
    buffered: Arc<Limit>,
    _permit: Permit<Arc<Limit>>,
}

/// Bytes that give their permit back when they are gone.
#[derive(Debug)]
struct Counted {
    bytes: Vec<u8>,
    _permit: Permit<Arc<Limit>>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The JSON of a snapshot; it keeps the snapshot alive for requests that come meanwhile.
struct Whole(Arc<Snapshot>);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        self.0.json.get().map_or(&[], AsRef::as_ref)
    }
}

impl Snapshots {
    pub(super) fn new(buffered: Arc<Limit>) -> Arc<Self> {
        let held = Mutex::new(Held {
            snapshots: HashMap::new(),
            tidy_at: FEW,
        });
        Arc::new(Self { buffered, held })
    }

    /// The snapshot of a user's block, which is locked: the one that is in use already, or a copy.
    /// `None` when there is no memory for one.
    pub(super) fn of(&self, user: u64, block: BlockRef<'_>) -> Option<Arc<Snapshot>> {
        let known = self.held.lock().snapshots.get(&user).cloned();
        let known = known.and_then(|known| known.upgrade());
        // No version is given twice, so it names what is in the block.
        if let Some(known) = known
            && known.block().version() == block.version()
        {
            return Some(known);
        }
        let permit = Permit::take(Arc::clone(&self.buffered), block.bytes().len())?;
        let snapshot = Arc::new(Snapshot {
            user,
            block: block.bytes().to_vec(),
            json: OnceCell::new(),
            buffered: Arc::clone(&self.buffered),
            _permit: permit,
        });
        // The caller holds the user's lock, so no other task has made one meanwhile.
        let mut held = self.held.lock();
        held.snapshots.insert(user, Arc::downgrade(&snapshot));
        held.tidy();
        drop(held);
        Some(snapshot)
    }
}

impl Held {
    fn tidy(&mut self) {
        if self.snapshots.len() >= self.tidy_at {
            let has = |_: &u64, snapshot: &mut Weak<Snapshot>| snapshot.strong_count() > 0;
            self.snapshots.retain(has);
            self.tidy_at = FEW.max(2 * self.snapshots.len());
        }
    }
}

impl Snapshot {
    fn block(&self) -> BlockRef<'_> {
        BlockRef::trusted(&self.block)
    }

    /// As [`json::read_states`]. The whole block is written once; what changed since a version,
    /// for each request.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) async fn json(self: Arc<Self>, since: Option<u64>) -> Result<Bytes, Refusal> {
        let block = self.block();
        let shown = json::shown(block, since);
        if let Some(version) = since
            && let Since::Changes { .. } = block.since(version)
        {
            return Ok(Bytes::from_owner(self.write(since, shown)?));
        }
        // Cancel-safe: the next request begins it again.
        let made = self
            .json
            .get_or_try_init(|| async { self.write(None, shown) });
        made.await?;
        Ok(Bytes::from_owner(Whole(self)))
    }

    fn write(&self, since: Option<u64>, shown: usize) -> Result<Counted, Refusal> {
        let most = json::most_bytes(shown);
        let permit = Permit::take(Arc::clone(&self.buffered), most).ok_or_else(body::no_memory)?;
        Ok(Counted {
            bytes: json::read_states(self.user, self.block(), since, shown),
            _permit: permit,
        })
    }
}
