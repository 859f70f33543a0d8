//! The lineage header of a running super-disk: read once, counted on every few seconds, written to both legs.
//!
//! ```text
//!   step worker   wait for the node ──▶ plan, which writes headers ──▶ read them again
//!   beat worker   ─── beat ─── beat ───────────── (none) ───────────────── beat ───▶
//! ```
//!
//! A beat between two headers of a plan could put the older one in the newer one's place. So there is no beat while a
//! plan is carried out; beats go on while the plan waits for its turn on the node.
//!
//! A header of the durable leg that cannot be read is counted on from by the fast leg's copy ([`header_by_fast_leg`]),
//! and only once the durable leg gives back what was written: a sector that has lost its content is healed by that, and
//! the next start finds a header.
//!
//! A header of another boot is never counted on from: this node would take somebody else's history, or an older one, for
//! its own, and the next start could not tell any more.

use std::{
    io,
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    assemble::chain,
    execute::{in_either_slot, retry, write_header, write_slot},
    heal::facts::Facts,
    inventory::{Content, Identity, Inventory},
    lineage::{self, BrokenSlots, Header, SLOT_BYTES},
    log::say,
    model::Seen,
    plan::header_by_fast_leg,
    spec::Spec,
    sysfs::{FileSystem, NodeKind, Nodes},
};

/// Longer than a beat takes on a disk that answers.
const BEAT: Duration = Duration::from_secs(2);

/// What is known of the headers.
#[derive(Debug, Default)]
pub(super) struct Beats {
    headers: Mutex<Option<Headers>>,
    /// Of the newest header; 0 while there is none. Apart from it, because that is held while a disk is written to.
    generation: AtomicU64,
    planning: Mutex<()>,
}

/// The newest header, and where the legs keep theirs.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    header: Header,
    /// It is in place of one that could not be read, and was not written yet.
    is_anew: bool,
    durable: (Identity, u64),
    fast: Option<u64>,
    durable_slots: BadSlots,
    fast_slots: BadSlots,
}

/// Of the slots of a leg, which did not take the last header that was written to them.
#[derive(Clone, Copy, Debug, Default)]
struct BadSlots([bool; 2]);

impl BadSlots {
    /// Takes note of what came of a header for `slot`, and says what is new.
    fn note(&mut self, leg: &str, slot: usize, refused: Option<String>) {
        let before = self.has_broken();
        self.0[slot] = refused.is_some();
        if refused.is_some() {
            self.0[1 - slot] = false;
        }
        match refused {
            Some(error) if !before => say(&format!(
                "one of both places of the {leg} leg's lineage header cannot be written, the other one is used: {error}"
            )),
            None if before && !self.has_broken() => say(&format!(
                "both places of the {leg} leg's lineage header can be written again"
            )),
            Some(_) | None => {}
        }
    }

    fn has_broken(self) -> bool {
        self.0.contains(&true)
    }
}

/// Why a header was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum BeatError {
    /// There is none to count on from.
    #[error(
        "the header could not be read: a network disk that is put back in time would not be noticed"
    )]
    Unread,
    /// Its header is not ours to write.
    #[error("the durable device has changed")]
    AnotherDevice,
    /// It is not of this start of the super-disk.
    #[error(
        "the header is of another boot: the network disk was put back in time, or the super-disk was not assembled in this one"
    )]
    AnotherBoot,
    /// A header was written in place of one that could not be read, and cannot be read either.
    #[error("the durable device does not give back the header that was written to it")]
    NotKept,
    /// The disk did not take it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The durable leg has it, and the fast leg did not take it.
    #[error("the fast leg does not take it")]
    Fast(#[source] io::Error),
}

impl BeatError {
    /// Whether the other slot may be written all the same.
    fn is_of_slot(&self) -> bool {
        match self {
            Self::Io(_) | Self::NotKept => true,
            Self::Unread | Self::AnotherDevice | Self::AnotherBoot | Self::Fast(_) => false,
        }
    }
}

impl Headers {
    /// As they were seen, or as the fast leg proves them to have been; of a durable leg that md has in a mirror.
    pub(super) fn of(spec: &Spec, inventory: &Inventory) -> Result<Self, BeatError> {
        let identity = inventory.durable.identity.clone();
        let identity = identity.filter(|identity| {
            let mirror = inventory.array_of(identity.number);
            let member = mirror.and_then(|mirror| mirror.member(identity.number));
            member.is_some_and(|member| !member.faulty)
        });
        let identity = identity.ok_or(BeatError::AnotherDevice)?;
        let content = present(&inventory.durable.content).ok_or(BeatError::Unread)?;
        let read = present(&content.lineage).cloned();
        let is_anew = read.is_none();
        let header = read.or_else(|| header_by_fast_leg(spec, inventory));
        let header = header.ok_or(BeatError::Unread)?;
        if header.boot != inventory.boot {
            return Err(BeatError::AnotherBoot);
        }
        let durable = (identity, region(content).ok_or(BeatError::Unread)?);
        let fast = present(&inventory.fast).filter(|fast| fast.stripe == header.fast);
        Ok(Self {
            header,
            is_anew,
            durable,
            fast: fast.and_then(|fast| region(&fast.inside)),
            durable_slots: BadSlots::default(),
            fast_slots: BadSlots::default(),
        })
    }

    /// Whether these are the bytes of the disk: `header` was written to it.
    fn give_back(&self, header: &Header) -> bool {
        !self.is_anew && self.header == *header
    }
}

impl Beats {
    /// Held while a plan is done.
    pub(super) fn planning(&self) -> MutexGuard<'_, ()> {
        self.planning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, by a beat; `None` while a plan is done.
    pub(super) fn unless_planning(&self) -> Option<MutexGuard<'_, ()>> {
        match self.planning.try_lock() {
            Ok(free) => Some(free),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The same, by what is asked for now and can wait for a beat, though not for a plan.
    pub(super) fn once_free(&self) -> Option<MutexGuard<'_, ()>> {
        retry(BEAT, || self.unless_planning().ok_or(())).ok()
    }

    /// Generation of the newest header, once it was read.
    pub(super) fn generation(&self) -> Option<u64> {
        let generation = self.generation.load(Ordering::Relaxed);
        (generation > 0).then_some(generation)
    }

    /// Takes what `read` finds for what is on the disks now.
    pub(super) fn learn(
        &self,
        read: &dyn Fn() -> Result<Headers, BeatError>,
    ) -> Result<(), BeatError> {
        let (found, unknown) = match read() {
            Ok(found) => (Some(found), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let on_disk = found.as_ref().filter(|found| !found.is_anew);
        let generation = on_disk.map(|found| found.header.point.generation);
        self.generation
            .store(generation.unwrap_or(0), Ordering::Relaxed);
        *self.headers.lock().unwrap_or_else(PoisonError::into_inner) = found;
        unknown
    }

    /// Writes the header that follows: first to the durable leg, so that the fast leg is never newer. Answers which slots
    /// did not take the last header that was for them.
    pub(super) fn write(
        &self,
        root: &Path,
        facts: &Facts,
        next: impl Fn(&Header) -> Header,
        read: &dyn Fn() -> Result<Headers, BeatError>,
    ) -> Result<BrokenSlots, BeatError> {
        if self.generation().is_none() {
            self.learn(read)?;
        }
        let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = headers.as_mut().ok_or(BeatError::Unread)?;
        let header = next(&known.header);
        let refused = write_durable(root, known, &header, read)?;
        if known.is_anew {
            say(
                "the durable leg's lineage header could not be read: it was written anew, by the fast leg's",
            );
        }
        let slot = header.slot();
        known
            .durable_slots
            .note("durable", slot, refused.map(|error| chain(&error)));
        self.generation
            .store(header.point.generation, Ordering::Relaxed);
        (known.header, known.is_anew) = (header, false);
        let mut broken = BrokenSlots {
            durable: known.durable_slots.has_broken(),
            fast: false,
        };
        // A leg that is not in sync stays behind: it is judged by how far it came.
        let fast = facts
            .mirror
            .as_ref()
            .and_then(|mirror| mirror.fast.as_ref());
        if let (Some(leg), Some(region)) = (fast.filter(|leg| leg.in_sync()), known.fast) {
            let node = root.join("dev").join(&leg.device);
            let refused = write_header(&node, region, &known.header).map_err(BeatError::Fast)?;
            known
                .fast_slots
                .note("fast", slot, refused.map(|error| chain(&error)));
            broken.fast = known.fast_slots.has_broken();
        }
        Ok(broken)
    }
}

/// Writes a header to the durable leg; one in place of a lost one is read back. Answers why its slot did not take it, when
/// the other one did.
fn write_durable(
    root: &Path,
    known: &Headers,
    header: &Header,
    read: &dyn Fn() -> Result<Headers, BeatError>,
) -> Result<Option<BeatError>, BeatError> {
    let (identity, region) = &known.durable;
    if !is_still(root, identity) {
        return Err(BeatError::AnotherDevice);
    }
    let node = crate::sysfs::under(root, &identity.path);
    let bytes = header.encode();
    let write = |slot: usize| {
        write_slot(&node, region + (slot * SLOT_BYTES) as u64, &bytes)?;
        let is_kept = !known.is_anew || read()?.give_back(header);
        is_kept.then_some(()).ok_or(BeatError::NotKept)
    };
    in_either_slot(header.slot(), &write, &BeatError::is_of_slot)
}

fn present<T>(seen: &Seen<T>) -> Option<&T> {
    match seen {
        Seen::Present(value) => Some(value),
        Seen::Absent | Seen::Unknown(_) => None,
    }
}

fn region(content: &Content) -> Option<u64> {
    lineage::region_at(present(&content.superblock)?)
}

/// Whether a path still leads to the device that was looked at, and not to another disk that got its number.
fn is_still(root: &Path, identity: &Identity) -> bool {
    let number = identity.number;
    let kind = FileSystem.kind(&crate::sysfs::under(root, &identity.path));
    let file = root.join(format!("sys/dev/block/{number}/diskseq"));
    matches!(kind, Ok(NodeKind::Block(now)) if now == number)
        && crate::sysfs::number_in(&file).ok() == identity.sequence
}

#[cfg(test)]
mod tests;
