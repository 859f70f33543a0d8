//! The start: what the store lacks of the journal is done again, and the files go.
//!
//! First everything is read and judged, and nothing changes; then each user is brought up to date in the store; then
//! the files are removed. A start that ends in between is followed by one that does the same again: a change that a
//! block has, by its version, is not made twice.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    fmt, io,
    path::PathBuf,
};

use futures::{StreamExt, TryStreamExt, stream};
use readstates_ring::Stamp;

use super::{
    folder::{Folder, Medium},
    metrics::Counts,
    record::{self, Before, Change},
    segment::{self, Head, NoHead},
};
use crate::{
    block::{self, BlockRef, EMPTY, Outcome},
    codec::{self, DecodeError},
    store::{Store, StoreError, Stored},
};

/// Users who are brought up to date at once: as many share a commit of the embedded store.
const AT_ONCE: usize = 256;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Its folder cannot be made or read.
    #[error("failed to open the journal in {folder:?}")]
    Folder { folder: PathBuf, source: io::Error },
    /// No file can be begun.
    #[error("failed to begin a journal in {folder:?}")]
    Begin { folder: PathBuf, source: io::Error },
    /// A file cannot be read.
    #[error("failed to read the journal's file {file:?}")]
    Read { file: PathBuf, source: io::Error },
    /// A newer release wrote it.
    #[error(
        "{file:?} was written by a newer release of readstates; start that release once and stop it, which empties the journal"
    )]
    Newer { file: PathBuf },
    /// Acknowledged changes cannot be read.
    #[error(
        "the journal is damaged: {damage}; restore the folder from a copy, or start once with \
         --accept-journal-damage to go on without what cannot be read (the files are kept)"
    )]
    Damaged {
        /// Where, and what is wrong there.
        damage: String,
    },
    /// A block of the store is none.
    #[error("the journal has changes of user {user}, whose block in the store cannot be read")]
    Block { user: u64, source: DecodeError },
    /// The store does not answer.
    #[error("failed to do again what the journal has of user {user}")]
    Store { user: u64, source: StoreError },
}

/// A journal as it was read.
#[derive(Debug, Default)]
struct Found {
    /// In the order in which they were made.
    changes: HashMap<u64, Vec<Change>>,
    numbers: Vec<u64>,
    damaged: HashSet<u64>,
    damage: Vec<String>,
    /// Of the process that wrote it.
    incarnation: u64,
}

/// Brings the store up to date with the journal in a folder, and empties that. Returns the number of the next file.
pub(super) async fn recover(
    folder: &Folder,
    store: &dyn Store,
    accept_damage: bool,
) -> Result<(u64, Counts), JournalError> {
    let mut found = read(folder)?;
    let changes = std::mem::take(&mut found.changes);
    let (users, damage) = (changes.len(), &mut found.damage);
    if !damage.is_empty() && !accept_damage {
        return Err(damaged(damage));
    }
    if users > 0 {
        tracing::info!(
            users,
            "the last process did not stop in order: doing again what the store lacks"
        );
    }
    let incarnation = found.incarnation;
    // Judged before anything is written: a refusal changes nothing.
    if !accept_damage {
        let gaps = stream::iter(&changes)
            .map(|(&user, changes)| async move {
                let stored = load(store, user).await?;
                Ok::<_, JournalError>(
                    continued(user, stored.as_ref(), changes)?
                        .gap
                        .then_some(user),
                )
            })
            .buffer_unordered(AT_ONCE)
            .try_filter_map(|gap| async move { Ok(gap) })
            .try_collect::<Vec<u64>>()
            .await?;
        if let Some(user) = gaps.first() {
            let lacks = format!(
                "it does not continue what the store has of {} users, user {user} among them",
                gaps.len()
            );
            return Err(damaged(&[lacks]));
        }
    }
    let counts = Counts::default();
    stream::iter(changes)
        .map(|(user, changes)| async move {
            let stored = load(store, user).await?;
            let after = continued(user, stored.as_ref(), &changes)?;
            if after.made > 0 {
                let bytes = codec::encode(BlockRef::trusted(&after.block), incarnation);
                let stamp = after.stamp;
                let saved = store.save(user, bytes, stamp).await;
                saved.map_err(|source| JournalError::Store { user, source })?;
            }
            Ok::<_, JournalError>(after.made)
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|made| {
            counts.recovered.increment(made);
            std::future::ready(Ok(()))
        })
        .await?;
    counts.damaged.increment(found.damage.len() as u64);
    empty(folder, &found)?;
    if users > 0 {
        tracing::info!(
            users,
            changes = counts.recovered.get(),
            "the store has everything that was acknowledged"
        );
    }
    Ok((found.numbers.last().map_or(1, |last| last + 1), counts))
}

fn damaged(damage: &[String]) -> JournalError {
    JournalError::Damaged {
        damage: damage.join("; "),
    }
}

async fn load(store: &dyn Store, user: u64) -> Result<Option<Stored>, JournalError> {
    let loaded = store.load(user).await;
    loaded.map_err(|source| JournalError::Store { user, source })
}

/// Removes the files, oldest first: those that are left then are a journal, too.
fn empty(folder: &Folder, found: &Found) -> Result<(), JournalError> {
    let mut folder = folder.clone();
    for &number in &found.numbers {
        let gone = if found.damaged.contains(&number) {
            folder.keep_damaged(number).map(|kept| {
                tracing::error!(file = ?kept, "a damaged file of the journal was left out and is kept");
            })
        } else {
            folder.remove(number)
        };
        gone.map_err(|source| JournalError::Read {
            file: folder.file(number),
            source,
        })?;
    }
    Ok(())
}

fn read(folder: &Folder) -> Result<Found, JournalError> {
    let numbers = folder.numbers().map_err(|source| JournalError::Read {
        file: folder.file(0),
        source,
    })?;
    let mut found = Found {
        numbers,
        ..Found::default()
    };
    // From the last to the first: each says how much of the one before it counts.
    let mut files = Vec::new();
    let mut last = None;
    for &number in found.numbers.iter().rev() {
        let file = folder.file(number);
        let acknowledged = match last {
            // No file came after it: up to its last whole frame.
            None => None,
            Some(Head { previous: None, .. }) => break,
            Some(Head {
                previous: Some((before, bytes)),
                ..
            }) => match number.cmp(&before) {
                // Not a byte of it was acknowledged.
                Ordering::Greater => continue,
                Ordering::Equal => Some(bytes),
                Ordering::Less => {
                    let missing = folder.file(before);
                    found.damage.push(format!("{missing:?} is missing"));
                    None
                }
            },
        };
        let bytes = folder.read(number).map_err(|source| JournalError::Read {
            file: file.clone(),
            source,
        })?;
        match Head::decode(&bytes) {
            Ok(head) => last = Some(head),
            Err(NoHead::Unknown) => return Err(JournalError::Newer { file }),
            // The process ended while it was made: no frame is begun before the head is on the disk.
            Err(NoHead::Torn) if last.is_none() && bytes.len() <= segment::HEAD => continue,
            Err(NoHead::Torn) => {
                found.damaged.insert(number);
                found
                    .damage
                    .push(format!("the head of {file:?} cannot be read"));
                // How much of the one before it counts is not known: up to its last whole frame.
                last = None;
            }
        }
        if let Some(head) = last.filter(|_| found.incarnation == 0) {
            found.incarnation = head.incarnation;
        }
        files.push((number, bytes, acknowledged));
    }
    for (number, bytes, acknowledged) in files.into_iter().rev() {
        let file = folder.file(number);
        let (changes, damage) = changes_of(&bytes, number, acknowledged)
            .map_err(|record::UnknownRecord| JournalError::Newer { file: file.clone() })?;
        for at in damage {
            found.damaged.insert(number);
            found.damage.push(format!("{file:?} cannot be read {at}"));
        }
        for change in changes {
            found.changes.entry(change.user).or_default().push(change);
        }
    }
    Ok(found)
}

/// Where a file is damaged.
#[derive(Debug, PartialEq, Eq)]
struct Hole {
    from: usize,
    to: usize,
}

impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from byte {} to {}", self.from, self.to)
    }
}

/// The changes of a file, of which so many bytes are acknowledged if a later file says so.
fn changes_of(
    bytes: &[u8],
    number: u64,
    acknowledged: Option<u64>,
) -> Result<(Vec<Change>, Vec<Hole>), record::UnknownRecord> {
    let frames = segment::frames(bytes, number);
    // A file is shorter than what memory holds.
    let counts = acknowledged.map_or(frames.end, |bytes| bytes as usize);
    let mut changes = Vec::new();
    for frame in frames.frames.iter().filter(|frame| frame.at < counts) {
        changes.extend(record::decode_all(frame.records)?);
    }
    let inside = frames.holes.iter().filter(|hole| hole.start < counts);
    let mut holes: Vec<Hole> = inside
        .map(|hole| Hole {
            from: hole.start,
            to: hole.end,
        })
        .collect();
    if frames.end < counts {
        holes.push(Hole {
            from: frames.end,
            to: counts,
        });
    }
    Ok((changes, holes))
}

/// A user's block with the changes of the journal.
#[derive(Debug)]
struct After {
    block: Vec<u8>,
    stamp: Stamp,
    /// Changes that the store lacked.
    made: u64,
    /// Something before one of them is missing.
    gap: bool,
}

/// Makes the changes that a user's block lacks. After a gap all that follow are made, on what there is, and the
/// version ends above what any client holds.
fn continued(
    user: u64,
    stored: Option<&Stored>,
    changes: &[Change],
) -> Result<After, JournalError> {
    let decoded = stored.map(|stored| codec::decode(&stored.bytes));
    let decoded = decoded
        .transpose()
        .map_err(|source| JournalError::Block { user, source })?;
    let first_version = changes.iter().map(|change| change.first_version).max();
    let first = i64::try_from(first_version.unwrap_or(0)).unwrap_or(i64::MAX);
    let before = stored.map_or(Stamp::from_database(first), |stored| stored.stamp);
    let mut after = After {
        block: decoded.map_or(EMPTY.to_vec(), |decoded| decoded.block.bytes().to_vec()),
        stamp: before.successor(),
        made: 0,
        gap: false,
    };
    for change in changes {
        let version = BlockRef::trusted(&after.block).version();
        if !after.gap && change.version <= version {
            continue;
        }
        let mut block = after.block.clone();
        let (taken_over, continues) = match change.before {
            Before::Ours => (false, true),
            Before::OthersAtAny => (true, true),
            Before::Others { version: before } => (true, version == before),
        };
        make(&mut block, change, taken_over);
        if !continues || BlockRef::trusted(&block).version() != change.version {
            after.gap = true;
            block.clone_from(&after.block);
            // A jump: the version passes whatever was given out before the gap, and with this change.
            make(&mut block, change, true);
            if BlockRef::trusted(&block).version() <= change.version {
                block::take_over(&mut block);
                block::renew(&mut block, change.version);
            }
        }
        after.block = block;
        after.made += 1;
    }
    Ok(after)
}

fn make(block: &mut Vec<u8>, change: &Change, taken_over: bool) {
    if taken_over {
        block::take_over(block);
    }
    let mut applied = false;
    let tell = |outcome| applied |= outcome == Outcome::Applied;
    // Where it would not fit, it did not fit then.
    let fits = block::apply_all(block, &change.operations, change.first_version, tell).is_ok();
    if fits && !applied {
        block::renew(block, change.first_version);
    }
}
