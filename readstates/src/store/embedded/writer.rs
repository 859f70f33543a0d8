//! The thread that writes: what waits for it goes into one transaction, as far as bounds allow.

use redb::{ReadableTable, WriteTransaction};
use tokio::sync::{mpsc, oneshot};

use super::{
    super::{chain, wins},
    Stamp,
    file::{BLOCKS, CHECKS, File, FileError},
};

/// Writes of one transaction; bounds the wait of the first write in it.
pub(super) const MOST_PER_COMMIT: usize = 256;
/// Bytes of one transaction, but for its last write; bounds the memory and the time of a commit.
const MOST_BYTES_PER_COMMIT: usize = 16 << 20;

/// What a commit may need of the disk: its bytes twice, since pages are copied on write and a large value has
/// pages of its own, some pages of four KiB for the path to each row, and some for the file's own tables.
const NEEDED_PER_WRITE: u64 = 32 << 10;
const NEEDED_PER_COMMIT: u64 = 2 << 20;

/// One block to write.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) user: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) stamp: Stamp,
}

/// Where the outcome goes.
type Done = oneshot::Sender<Result<(), FileError>>;

/// What the writer does.
#[derive(Debug)]
pub(super) enum Work {
    Write(Write, Done),
    /// Commits, to see that this is possible.
    Check(Done),
}

impl Work {
    fn done(&self) -> &Done {
        match self {
            Self::Write(_, done) | Self::Check(done) => done,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Write(write, _) => write.bytes.len(),
            Self::Check(_) => 0,
        }
    }

    fn answer(self, outcome: Result<(), FileError>) {
        let (Self::Write(_, done) | Self::Check(done)) = self;
        // The receiver may be gone: the request timed out.
        let _ = done.send(outcome);
    }
}

/// Writes until the store is dropped.
pub(super) fn run(file: &File, mut queue: mpsc::Receiver<Work>, least_compacted: u64) {
    // Before the first write. Until it ends the health check fails.
    if let Err(error) = file.compact(least_compacted) {
        tracing::warn!("failed to compact the file of the store: {}", chain(&error));
    }
    let mut waiting = Vec::new();
    while queue.blocking_recv_many(&mut waiting, MOST_PER_COMMIT) > 0 {
        // After a disk hung, requests that timed out are still queued.
        waiting.retain(|work: &Work| !work.done().is_closed());
        let mut rest = std::mem::take(&mut waiting).into_iter().peekable();
        while rest.peek().is_some() {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while let Some(work) = rest.next_if(|_| bytes < MOST_BYTES_PER_COMMIT) {
                bytes += work.bytes();
                batch.push(work);
            }
            let needed =
                NEEDED_PER_COMMIT + 2 * bytes as u64 + NEEDED_PER_WRITE * batch.len() as u64;
            let outcome = file.commit(needed, |transaction| write(transaction, &batch));
            if outcome.is_ok() {
                file.works();
            }
            batch
                .into_iter()
                .for_each(|work| work.answer(outcome.clone()));
        }
    }
}

fn write(transaction: &WriteTransaction, batch: &[Work]) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(BLOCKS)?;
    for work in batch {
        let Work::Write(Write { user, bytes, stamp }, _) = work else {
            let mut checks = transaction.open_table(CHECKS)?;
            let before = checks.get(0)?.map_or(0, |count| count.value());
            checks.insert(0, before.wrapping_add(1))?;
            continue;
        };
        let wins = table.get(user)?.is_none_or(|stored| {
            let (stored, stored_bytes) = stored.value();
            wins(*stamp, bytes, (Stamp::from_database(stored), stored_bytes))
        });
        if wins {
            table.insert(user, (stamp.as_database(), bytes.as_slice()))?;
        }
    }
    Ok(())
}
