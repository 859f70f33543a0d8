//! Where the blocks of a stripe lie: one after the other in regions, closed up as they go.
//!
//! A block is appended to the region that is open, behind its user's id and its size. It stays there
//! while it keeps its size; when it grows or goes, what it leaves is dead. Once more than a sixteenth
//! is dead, [`Slab::next_to_move`] names block after block of the sparsest of the regions it looks at,
//! the stripe moves those that live to the open region, and the region is given back. So there
//! are no size classes to waste room in, memory goes back when blocks go, and the work is done in
//! small steps by the calls that make blocks grow.
//!
//! ```text
//! region   │ user 8 │ size 2 │ length 2 │ block …│ user │ …          │ not used yet │
//! ```
//!
//! Blocks of more than [`MOST_IN_REGION`] bytes have an allocation of their own.

mod place;

use std::hint::black_box;

use memmap2::MmapMut;
use place::{Location, MOST_REGIONS, PREFIX, UNIT, half, put_half, size_of_block, user_at};
pub(super) use place::{Place, REGION};

use crate::block::Room;

/// The longest block that lies in a region.
const MOST_IN_REGION: usize = REGION / 16;
/// Regions that are compared to find a sparse one: enough to find one that is much sparser than the
/// mean, few enough to take no time.
const COMPARED: usize = 64;
/// Bytes of a line of the processor's caches, and of the part of a block that is read ahead.
const LINE: usize = 64;
const MOST_WARMED: usize = 1024;
/// What a large block takes beside its bytes.
const LARGE_EXTRA: usize = size_of::<Option<Large>>();

#[derive(Debug, Default)]
struct Region {
    /// A mapping of its own, so that it goes back to the system whatever the allocator does with
    /// memory that is free; `None` when it went.
    memory: Option<MmapMut>,
    /// Where the next block would begin.
    end: usize,
    /// Bytes of the blocks that live.
    live: usize,
}

impl Region {
    fn bytes(&self) -> &[u8] {
        self.memory.as_deref().unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.as_deref_mut().unwrap_or_default()
    }
}

#[derive(Debug)]
struct Large {
    user: u64,
    block: Vec<u8>,
}

/// The blocks of a stripe.
#[derive(Debug, Default)]
pub(super) struct Slab {
    regions: Vec<Region>,
    /// Numbers of regions that were given back.
    no_regions: Vec<usize>,
    /// The region that is appended to, if there is any.
    open: Option<usize>,
    /// The region that is being emptied, and how far.
    leaving: Option<(usize, usize)>,
    /// Where the search for a sparse region goes on.
    compare_at: usize,
    large: Vec<Option<Large>>,
    no_large: Vec<usize>,
    /// Bytes ever appended to regions.
    appended: u64,
    in_regions: usize,
    live_in_regions: usize,
    large_bytes: usize,
}

impl Slab {
    /// Takes in a block.
    pub(super) fn put(&mut self, user: u64, block: &[u8]) -> Place {
        let place = self.reserve(user, block.len(), 0);
        self.block_mut(place).copy_from_slice(block);
        place
    }

    /// Room for a block of `len` bytes, which may be anything, and for `more` to grow into.
    fn reserve(&mut self, user: u64, len: usize, more: usize) -> Place {
        let size = size_of_block(len + more);
        match self.open_for(len, size) {
            Some(region) => self.append(region, user, len, size),
            None => self.reserve_large(user, len, more),
        }
    }

    /// The open region if a block of this size belongs there, after opening one when it must be;
    /// `None` for a large block, and when there is no region to be had.
    fn open_for(&mut self, len: usize, size: usize) -> Option<usize> {
        if len > MOST_IN_REGION {
            return None;
        }
        if let Some(open) = self.open {
            if self.regions[open].end + size <= REGION {
                return Some(open);
            }
            self.open = None;
            self.give_back_if_dead(open);
        }
        let region = match self.no_regions.pop() {
            Some(region) => region,
            None if self.regions.len() < MOST_REGIONS => {
                self.regions.push(Region::default());
                self.regions.len() - 1
            }
            None => return None,
        };
        // Without a mapping the block gets an allocation of its own.
        let Ok(memory) = MmapMut::map_anon(REGION) else {
            self.no_regions.push(region);
            return None;
        };
        self.regions[region].memory = Some(memory);
        self.in_regions += REGION;
        self.open = Some(region);
        Some(region)
    }

    fn append(&mut self, index: usize, user: u64, len: usize, size: usize) -> Place {
        let region = &mut self.regions[index];
        let at = region.end;
        region.end += size;
        region.live += size;
        self.live_in_regions += size;
        self.appended += size as u64;
        let bytes = region.bytes_mut();
        bytes[at..at + 8].copy_from_slice(&user.to_le_bytes());
        put_half(bytes, at + 8, size / UNIT);
        put_half(bytes, at + 10, len);
        Place::in_region(index, at)
    }

    fn reserve_large(&mut self, user: u64, len: usize, more: usize) -> Place {
        let mut block = Vec::with_capacity(len + more);
        block.resize(len, 0);
        self.large_bytes += block.capacity() + LARGE_EXTRA;
        let large = Some(Large { user, block });
        let index = match self.no_large.pop() {
            Some(index) => {
                self.large[index] = large;
                index
            }
            None => {
                self.large.push(large);
                self.large.len() - 1
            }
        };
        Place::large(index)
    }

    /// Lets a block go.
    pub(super) fn remove(&mut self, place: Place) {
        match place.location() {
            Location::Region { region, at } => {
                let size = half(self.regions[region].bytes(), at + 8) * UNIT;
                self.regions[region].live -= size;
                self.live_in_regions -= size;
                if self.open != Some(region) {
                    self.give_back_if_dead(region);
                }
            }
            Location::Large(index) => {
                if let Some(large) = self.large[index].take() {
                    self.large_bytes -= large.block.capacity() + LARGE_EXTRA;
                    self.no_large.push(index);
                }
            }
        }
    }

    fn give_back_if_dead(&mut self, index: usize) {
        let region = &mut self.regions[index];
        if region.live > 0 || region.memory.is_none() {
            return;
        }
        *region = Region::default();
        self.in_regions -= REGION;
        self.no_regions.push(index);
        if self.leaving.is_some_and(|(leaving, _)| leaving == index) {
            self.leaving = None;
        }
    }

    /// Whose block it is.
    pub(super) fn user(&self, place: Place) -> u64 {
        match place.location() {
            Location::Region { region, at } => user_at(self.regions[region].bytes(), at),
            Location::Large(index) => self.large[index].as_ref().map_or(0, |large| large.user),
        }
    }

    pub(super) fn block(&self, place: Place) -> &[u8] {
        match place.location() {
            Location::Region { region, at } => {
                let bytes = self.regions[region].bytes();
                let len = half(bytes, at + 10);
                &bytes[at + PREFIX..at + PREFIX + len]
            }
            Location::Large(index) => self.large[index].as_ref().map_or(&[], |it| &it.block),
        }
    }

    /// Reads a byte of each line of a block: what is done with it then waits for memory once, not once
    /// for each step of a search.
    pub(super) fn warm(&self, place: Place) {
        let block = self.block(place);
        let lines = block[..block.len().min(MOST_WARMED)].iter().step_by(LINE);
        black_box(lines.fold(0, |sum: u8, &byte| sum ^ byte));
    }

    fn block_mut(&mut self, place: Place) -> &mut [u8] {
        match place.location() {
            Location::Region { region, at } => {
                let bytes = self.regions[region].bytes_mut();
                let len = half(bytes, at + 10);
                &mut bytes[at + PREFIX..at + PREFIX + len]
            }
            Location::Large(index) => self.large[index]
                .as_mut()
                .map_or(&mut [], |large| &mut large.block),
        }
    }

    /// Gives a block another length; what is new in it is zero. It may move.
    fn resize(&mut self, place: Place, len: usize) -> Place {
        let stays = match place.location() {
            Location::Region { region, at } => self.resize_in_region(region, at, len),
            Location::Large(index) => self.resize_large(index, len),
        };
        if stays {
            return place;
        }
        let (user, old) = (self.user(place), self.block(place).len());
        // One that grew will grow again; one that shrank will not.
        let more = if len > old { len / 16 } else { 0 };
        let new = self.reserve(user, len, more);
        let kept = old.min(len);
        self.copy(place, new, kept);
        self.block_mut(new)[kept..].fill(0);
        self.remove(place);
        new
    }

    /// Copies the first bytes of one block over those of another.
    fn copy(&mut self, from: Place, to: Place, len: usize) {
        match (from.location(), to.location()) {
            (
                Location::Region { region, at },
                Location::Region {
                    region: to,
                    at: to_at,
                },
            ) if region == to => {
                let from = at + PREFIX..at + PREFIX + len;
                let bytes = self.regions[region].bytes_mut();
                bytes.copy_within(from, to_at + PREFIX);
            }
            (
                Location::Region { region, at },
                Location::Region {
                    region: to,
                    at: to_at,
                },
            ) => {
                if let Ok([from, to]) = self.regions.get_disjoint_mut([region, to]) {
                    to.bytes_mut()[to_at + PREFIX..to_at + PREFIX + len]
                        .copy_from_slice(&from.bytes()[at + PREFIX..at + PREFIX + len]);
                }
            }
            // A few times in the life of a block that long.
            (Location::Large(_), _) | (_, Location::Large(_)) => {
                let block = self.block(from)[..len].to_vec();
                self.block_mut(to)[..len].copy_from_slice(&block);
            }
        }
    }

    /// Whether a block in a region could take its new length where it is.
    fn resize_in_region(&mut self, index: usize, at: usize, len: usize) -> bool {
        let region = &mut self.regions[index];
        let old = half(region.bytes(), at + 10);
        let mut size = half(region.bytes(), at + 8) * UNIT;
        let needed = size_of_block(len);
        if len > MOST_IN_REGION || needed + needed / 4 + 64 < size {
            return false;
        }
        let last = self.open == Some(index) && at + size == region.end;
        if needed > size && last && at + needed <= REGION {
            region.end += needed - size;
            region.live += needed - size;
            self.live_in_regions += needed - size;
            size = needed;
            put_half(region.bytes_mut(), at + 8, size / UNIT);
        }
        if needed > size {
            return false;
        }
        put_half(region.bytes_mut(), at + 10, len);
        if len > old {
            region.bytes_mut()[at + PREFIX + old..at + PREFIX + len].fill(0);
        }
        true
    }

    /// Whether a large block stays one.
    fn resize_large(&mut self, index: usize, len: usize) -> bool {
        let Some(Large { block, .. }) = &mut self.large[index] else {
            return false;
        };
        // The distance keeps a block from moving to and fro.
        if len < MOST_IN_REGION / 2 {
            return false;
        }
        self.large_bytes -= block.capacity();
        if len > block.capacity() {
            block.reserve_exact(len + len / 16 - block.len());
        }
        block.resize(len, 0);
        if block.capacity() > len + len / 4 {
            block.shrink_to(len);
        }
        self.large_bytes += block.capacity();
        true
    }

    /// Whether so much is dead that blocks should move.
    pub(super) fn is_sparse(&self) -> bool {
        let open = self.open.map_or(0, |open| REGION - self.regions[open].end);
        let dead = self.in_regions - open - self.live_in_regions;
        dead > self.live_in_regions / 16 + REGION
    }

    /// The next block that should move out of a sparse region, or may be dead there, and the bytes it
    /// takes; `None` when all is well. The caller moves it with [`Slab::move_out`] when it lives.
    pub(super) fn next_to_move(&mut self) -> Option<(Place, u64, usize)> {
        loop {
            let (index, at) = match self.leaving {
                Some(leaving) => leaving,
                None if self.is_sparse() => (self.sparsest()?, 0),
                None => return None,
            };
            let region = &self.regions[index];
            if at < region.end {
                let size = half(region.bytes(), at + 8) * UNIT;
                self.leaving = Some((index, at + size));
                return Some((
                    Place::in_region(index, at),
                    user_at(region.bytes(), at),
                    size,
                ));
            }
            // Everything in it was named, and so has moved or was dead.
            self.leaving = None;
        }
    }

    /// The sparsest of the next few regions, the open one aside.
    fn sparsest(&mut self) -> Option<usize> {
        let count = self.regions.len();
        let start = self.compare_at % count.max(1);
        self.compare_at = start + COMPARED;
        let compared = (start..start + count.min(COMPARED)).map(|index| index % count);
        let candidates = compared
            .filter(|&index| self.open != Some(index) && self.regions[index].memory.is_some());
        candidates.min_by_key(|&index| self.regions[index].live)
    }

    /// Moves a block to the open region, with no room to grow.
    pub(super) fn move_out(&mut self, place: Place) -> Place {
        let (user, len) = (self.user(place), self.block(place).len());
        let new = self.reserve(user, len, 0);
        self.copy(place, new, len);
        self.remove(place);
        new
    }

    /// Bytes ever appended: what was appended since a reading may have left as much dead.
    pub(super) fn appended(&self) -> u64 {
        self.appended
    }

    /// Bytes of blocks that live, with what stands before each and what it may grow into.
    pub(super) fn live(&self) -> usize {
        self.live_in_regions + self.large_bytes
    }

    /// Bytes taken from the system.
    pub(super) fn resident(&self) -> usize {
        self.in_regions + self.large_bytes
    }

    /// What one block takes of [`Slab::live`].
    #[cfg(test)]
    pub(super) fn size(&self, place: Place) -> usize {
        match place.location() {
            Location::Region { region, at } => half(self.regions[region].bytes(), at + 8) * UNIT,
            Location::Large(index) => self.large[index]
                .as_ref()
                .map_or(0, |large| large.block.capacity() + LARGE_EXTRA),
        }
    }
}

/// A block in the slab, to be changed in place.
#[derive(Debug)]
pub(super) struct SlabRoom<'a> {
    pub(super) slab: &'a mut Slab,
    /// Where it is now.
    pub(super) place: Place,
}

impl Room for SlabRoom<'_> {
    fn bytes(&self) -> &[u8] {
        self.slab.block(self.place)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.slab.block_mut(self.place)
    }

    fn resize(&mut self, len: usize) {
        self.place = self.slab.resize(self.place, len);
    }
}
