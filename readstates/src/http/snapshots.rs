//! Copies of large users' blocks, and the answers that are made of them: one of each, however many read it.
//!
//! Comes in: a block while its user is locked. Goes out: a [`Snapshot`], shared by all who ask for the
//! same version while one of them still has it, also when its answer is on its way. The memory of the
//! copy and of each answer is taken from the limit of bodies and answers before it is made, once for
//! all who share it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::{
    body, json,
    packing::{Counted, Packer},
    problem::Refusal,
    representation::{Coding, Form, Representation},
};
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
    packer: Arc<Packer>,
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
    /// All of it in each form, as far as it was asked for.
    whole: [OnceCell<Counted>; 4],
    buffered: Arc<Limit>,
    packer: Arc<Packer>,
    _permit: Permit<Arc<Limit>>,
}

/// All of a snapshot in one form; it keeps the snapshot alive for requests that come meanwhile.
struct Whole(Arc<Snapshot>, Form);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        self.0.whole(self.1).get().map_or(&[], AsRef::as_ref)
    }
}

impl Snapshots {
    pub(super) fn new(buffered: Arc<Limit>, packer: Arc<Packer>) -> Arc<Self> {
        let held = Mutex::new(Held {
            snapshots: HashMap::new(),
            tidy_at: FEW,
        });
        Arc::new(Self {
            buffered,
            packer,
            held,
        })
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
            whole: Default::default(),
            buffered: Arc::clone(&self.buffered),
            packer: Arc::clone(&self.packer),
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

    fn whole(&self, form: Form) -> &OnceCell<Counted> {
        let Form {
            representation,
            coding,
        } = form;
        &self.whole[match (representation, coding) {
            (Representation::Json, Coding::Identity) => 0,
            (Representation::Json, Coding::Zstd) => 1,
            (Representation::Rows, Coding::Identity) => 2,
            (Representation::Rows, Coding::Zstd) => 3,
        }]
    }

    /// Its read states, or those that changed since a version, and how they are coded. All of them are written once for
    /// each form; what changed since a version, for each request.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub(super) async fn read_states(
        self: Arc<Self>,
        since: Option<u64>,
        form: Form,
    ) -> Result<(Bytes, Coding), Refusal> {
        let block = self.block();
        let shown = json::shown(block, since);
        if let Some(version) = since
            && let Since::Changes { .. } = block.since(version)
        {
            let plain = self.write(since, shown, form.representation)?;
            let coding = form.coding_of(plain.bytes.len());
            let made = match coding {
                Coding::Identity => plain,
                Coding::Zstd => self.packer.pack(plain).await?,
            };
            return Ok((Bytes::from_owner(made), coding));
        }
        let plain = Form {
            coding: Coding::Identity,
            ..form
        };
        // Cancel-safe: the next request begins it again.
        let write = || async { self.write(None, shown, form.representation) };
        let made = self.whole(plain).get_or_try_init(write).await?;
        let coding = form.coding_of(made.bytes.len());
        if coding == Coding::Zstd {
            let pack = || self.packer.pack(Whole(Arc::clone(&self), plain));
            self.whole(form).get_or_try_init(pack).await?;
        }
        let whole = Whole(self, Form { coding, ..form });
        Ok((Bytes::from_owner(whole), coding))
    }

    fn write(
        &self,
        since: Option<u64>,
        shown: usize,
        form: Representation,
    ) -> Result<Counted, Refusal> {
        let most = form.most_bytes(shown);
        let permit = Permit::take(Arc::clone(&self.buffered), most).ok_or_else(body::no_memory)?;
        let bytes = form.read_states(self.user, self.block(), since, shown);
        Ok(Counted::new(bytes, permit))
    }
}
