//! The lineage header of a running super-disk: read once, counted on every few seconds, written to both legs.
//!
//! ```text
//!   step worker   wait for the node ──▶ plan, which writes headers ──▶ read them again
//!   beat worker   ─── beat ─── beat ──── beat, to the durable leg ────────── beat ───▶
//! ```
//!
//! Another node tells by the beats that the network disk is in use, so they go on while a plan is carried out, however
//! long that takes. Then they go to the durable leg alone: which local devices the fast leg has is the plan's to change. The
//! plan's own headers are written between two beats and counted on from, so that none takes the place of a newer one.
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
    execute::{Beside, Place, WriteHeader, in_either_slot, retry, write_header, write_slot},
    heal::facts::Facts,
    inventory::{Content, Identity, Inventory},
    lineage::{self, BrokenSlots, Header, Point, SLOT_BYTES, State},
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
            member.is_some_and(|member| !member.flags.faulty)
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

    /// Whether this is where the durable leg keeps them, and what it keeps is known.
    fn are_at(&self, place: Place<'_>) -> bool {
        let (durable, region) = &self.durable;
        !self.is_anew && durable == place.durable && *region == place.region
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

    /// The same, by what would write to both legs; `None` while a plan is done.
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

    /// Held while headers are read or written.
    fn headers(&self) -> MutexGuard<'_, Option<Headers>> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what `read` finds for what is on the disks now. No header is written meanwhile.
    pub(super) fn learn(
        &self,
        read: &dyn Fn() -> Result<Headers, BeatError>,
    ) -> Result<(), BeatError> {
        let mut headers = self.headers();
        let (found, unknown) = match read() {
            Ok(found) => (Some(found), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.keep(&mut headers, found);
        unknown
    }

    fn keep(&self, headers: &mut Option<Headers>, found: Option<Headers>) {
        let on_disk = found.as_ref().filter(|found| !found.is_anew);
        let generation = on_disk.map(|found| found.header.point.generation);
        self.generation
            .store(generation.unwrap_or(0), Ordering::Relaxed);
        *headers = found;
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
        let mut headers = self.headers();
        let known = headers.as_mut().ok_or(BeatError::Unread)?;
        let header = next(&known.header);
        let slot = header.slot();
        self.write_first(root, known, header, read)?;
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

    /// Writes the next header beside a plan: to the durable leg alone. `None` while it is not known which header to count
    /// on from, or the volume is being created or ended.
    pub(super) fn write_beside_plan(&self, root: &Path) -> Result<Option<BrokenSlots>, BeatError> {
        let mut headers = self.headers();
        let counts = |known: &&mut Headers| !known.is_anew && known.header.state == State::InUse;
        let Some(known) = headers.as_mut().filter(counts) else {
            return Ok(None);
        };
        let header = known.header.next();
        self.write_first(root, known, header, &|| Err(BeatError::Unread))?;
        Ok(Some(BrokenSlots {
            durable: known.durable_slots.has_broken(),
            fast: known.fast_slots.has_broken(),
        }))
    }

    /// Writes a header to the durable leg.
    fn write_first(
        &self,
        root: &Path,
        known: &mut Headers,
        header: Header,
        read: &dyn Fn() -> Result<Headers, BeatError>,
    ) -> Result<(), BeatError> {
        let refused = write_durable(root, known, &header, read)?;
        if known.is_anew {
            say(
                "the durable leg's lineage header could not be read: it was written anew, by the fast leg's",
            );
        }
        known
            .durable_slots
            .note("durable", header.slot(), refused.map(|error| chain(&error)));
        self.generation
            .store(header.point.generation, Ordering::Relaxed);
        (known.header, known.is_anew) = (header, false);
        Ok(())
    }
}

impl Beside for Beats {
    fn in_turn(
        &self,
        place: Place<'_>,
        header: &Header,
        write: WriteHeader<'_>,
    ) -> io::Result<Option<io::Error>> {
        let mut headers = self.headers();
        let known = headers.take().filter(|known| known.are_at(place));
        let header = known.as_ref().map_or_else(
            || header.clone(),
            |known| following(&known.header, header.clone()),
        );
        let written = write(&header);
        // What became of a write that failed is read again at the end of the plan.
        let known = known.filter(|_| written.is_ok());
        self.keep(&mut headers, known.map(|known| Headers { header, ..known }));
        written
    }
}

/// A header that was decided before `newest` was written, to be written after it.
fn following(newest: &Header, header: Header) -> Header {
    let point = Point {
        beat: header.point.beat.max(newest.point.beat + 1),
        ..header.point
    };
    Header { point, ..header }
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
