//! Disks of a few blocks, and our own writer of md superblocks: the tests do not read with what they wrote with.

use std::collections::BTreeMap;

/// What the disks are addressed in.
pub(crate) const BLOCK: u64 = 4096;
const MAGIC: u32 = 0xa92b_4efc;

/// A disk that remembers only blocks that are not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sparse(pub(crate) BTreeMap<u64, Vec<u8>>);

impl Sparse {
    pub(crate) fn read(&self, at: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let end = at + len;
        for (block, content) in self.0.range(at / BLOCK..end.div_ceil(BLOCK)) {
            let start = block * BLOCK;
            let (from, to) = (start.max(at), (start + BLOCK).min(end));
            bytes[(from - at) as usize..(to - at) as usize]
                .copy_from_slice(&content[(from - start) as usize..(to - start) as usize]);
        }
        bytes
    }

    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(BLOCK) && bytes.len() as u64 <= BLOCK);
        let mut block = bytes.to_vec();
        block.resize(BLOCK as usize, 0);
        if block.iter().all(|byte| *byte == 0) {
            self.0.remove(&(at / BLOCK));
        } else {
            self.0.insert(at / BLOCK, block);
        }
    }
}

/// What a member's superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sb {
    pub(crate) array: u8,
    pub(crate) name: String,
    pub(crate) level: u32,
    pub(crate) size: u64,
    pub(crate) raid_disks: u32,
    pub(crate) data_offset: u64,
    pub(crate) data_size: u64,
    pub(crate) recovering: bool,
    pub(crate) device: u16,
    pub(crate) write_mostly: bool,
    pub(crate) bad_block_log: u16,
    pub(crate) bitmap: bool,
    pub(crate) events: u64,
    pub(crate) dirty: bool,
    pub(crate) roles: Vec<u16>,
}

/// Slot of a device that is not there.
pub(crate) const FAULTY: u16 = 0xfffe;

impl Sb {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 256 + 2 * self.roles.len()];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let features = u32::from(self.bitmap) | (u32::from(self.recovering) << 1);
        put(0, &MAGIC.to_le_bytes());
        put(4, &1_u32.to_le_bytes());
        put(8, &features.to_le_bytes());
        put(16, &[self.array; 16]);
        put(32, self.name.as_bytes());
        put(72, &self.level.to_le_bytes());
        put(80, &self.size.to_le_bytes());
        put(88, &1024_u32.to_le_bytes());
        put(92, &self.raid_disks.to_le_bytes());
        put(96, &8_i32.to_le_bytes());
        put(128, &self.data_offset.to_le_bytes());
        put(136, &self.data_size.to_le_bytes());
        put(144, &8_u64.to_le_bytes());
        put(160, &u32::from(self.device).to_le_bytes());
        put(168, &[self.array ^ (self.device as u8 + 1); 16]);
        put(184, &[u8::from(self.write_mostly)]);
        put(186, &self.bad_block_log.to_le_bytes());
        put(200, &self.events.to_le_bytes());
        put(208, &(if self.dirty { 0 } else { u64::MAX }).to_le_bytes());
        put(220, &(self.roles.len() as u32).to_le_bytes());
        for (index, role) in self.roles.iter().enumerate() {
            put(256 + 2 * index, &role.to_le_bytes());
        }
        let words = bytes.chunks(4).map(|word| {
            let mut le = [0; 4];
            le[..word.len()].copy_from_slice(word);
            u64::from(u32::from_le_bytes(le))
        });
        let sum: u64 = words.sum();
        let folded = (sum & 0xffff_ffff).wrapping_add(sum >> 32) as u32;
        bytes[216..220].copy_from_slice(&folded.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        // A damaged one is none to md.
        let found = superdisk::superblock::parse(bytes).ok()??;
        Some(Self {
            array: found.array.0[0],
            name: found.name,
            level: found.level as u32,
            size: found.size,
            raid_disks: found.raid_disks,
            data_offset: found.data_offset,
            data_size: found.data_size,
            recovering: found.recovery_offset.is_some(),
            device: found.device as u16,
            write_mostly: found.write_mostly,
            bad_block_log: found.bad_block_log,
            bitmap: found.bitmap_offset.is_some(),
            events: found.events,
            dirty: found.resync_offset.is_some(),
            roles: found
                .roles
                .iter()
                .map(|role| match role {
                    superdisk::superblock::Role::Slot(slot) => *slot,
                    superdisk::superblock::Role::Spare => 0xffff,
                    superdisk::superblock::Role::Faulty => FAULTY,
                    superdisk::superblock::Role::Other(other) => *other,
                })
                .collect(),
        })
    }
}

/// A bitmap: its header, and after it a bit for each block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) array: u8,
    pub(crate) events: u64,
    pub(crate) cleared: u64,
    pub(crate) dirty: Vec<u8>,
}

impl Bits {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        bytes[..4].copy_from_slice(b"bitm");
        bytes[8..24].copy_from_slice(&[self.array; 16]);
        bytes[24..32].copy_from_slice(&self.events.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.cleared.to_le_bytes());
        // A chunk for each numbered block.
        bytes[40..48].copy_from_slice(&(256 * BLOCK / 512).to_le_bytes());
        bytes[52..56].copy_from_slice(&(BLOCK as u32).to_le_bytes());
        for block in &self.dirty {
            bytes[256 + usize::from(*block / 8)] |= 1 << (block % 8);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        Self {
            array: bytes[8],
            events: long(24),
            cleared: long(32),
            dirty: (0..=255)
                .filter(|block: &u8| bytes[256 + usize::from(*block / 8)] & (1 << (block % 8)) != 0)
                .collect(),
        }
    }
}
