//! Where a block lies, as a number of 32 bits, and the numbers in front of it.

/// Bytes of a region. About one is idle for each stripe, so larger ones waste more in a small cache;
/// each may be a mapping of its own, of which a process can have 65,530, so smaller ones would end in
/// a large one.
pub(in crate::cache) const REGION: usize = 1 << 17;
/// In front of a block: user, size of all in [`UNIT`]s, length of the block.
pub(super) const PREFIX: usize = 12;
/// Blocks begin at multiples of this.
pub(super) const UNIT: usize = 4;

/// Where a block lies: the region and the unit in it, or the number of a large block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct Place(pub(in crate::cache) u32);

const UNIT_BITS: u32 = (REGION / UNIT).trailing_zeros();
const LARGE: u32 = 1 << 31;
pub(super) const MOST_REGIONS: usize = (LARGE >> UNIT_BITS) as usize;

impl Place {
    pub(super) fn in_region(region: usize, at: usize) -> Self {
        // `MOST_REGIONS` keeps this below 2^31.
        Self((region as u32) << UNIT_BITS | (at / UNIT) as u32)
    }

    pub(super) fn large(index: usize) -> Self {
        // A stripe would need 2^31 blocks of eight kilobytes for this to overflow.
        Self(LARGE | index as u32)
    }

    pub(super) fn location(self) -> Location {
        if self.0 & LARGE != 0 {
            return Location::Large((self.0 & !LARGE) as usize);
        }
        Location::Region {
            region: (self.0 >> UNIT_BITS) as usize,
            at: (self.0 as usize % (REGION / UNIT)) * UNIT,
        }
    }
}

pub(super) enum Location {
    Region { region: usize, at: usize },
    Large(usize),
}

pub(super) fn size_of_block(len: usize) -> usize {
    (PREFIX + len).next_multiple_of(UNIT)
}

pub(super) fn user_at(bytes: &[u8], at: usize) -> u64 {
    let mut user = [0; 8];
    user.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(user)
}

/// A number below 2^16: sizes in units and lengths in a region are.
pub(super) fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

pub(super) fn put_half(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}
