//! Whatever is on a disk is read without panic, and a superblock that is read can be asked everything.

#![no_main]

use libfuzzer_sys::fuzz_target;
use superdisk::{lineage, superblock};

fuzz_target!(|bytes: &[u8]| {
    let mut sealed = bytes.to_vec();
    for candidate in [bytes, seal(&mut sealed)] {
        if let Ok(Some(found)) = superblock::parse(candidate) {
            let _ = (
                found.role(),
                found.role_of(u32::MAX),
                found.bitmap_at(),
                found.short_name(),
            );
            let _ = lineage::region_at(&found);
        }
    }
    let _ = superblock::parse_bitmap(bytes);
    let _ = superblock::filesystem(bytes);
    let _ = superblock::foreign(bytes, bytes);
    let _ = lineage::read(bytes);
});

/// Gives the bytes the magic number, the version and the checksum of a superblock, so that the fuzzer gets past
/// them.
fn seal(bytes: &mut [u8]) -> &[u8] {
    if bytes.len() < 256 {
        return bytes;
    }
    bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    bytes[144..152].copy_from_slice(&8_u64.to_le_bytes());
    let devices = (bytes.len() - 256) / 2;
    let devices = devices.min(usize::from(bytes[220]));
    bytes[220..224].copy_from_slice(&u32::try_from(devices).unwrap_or(0).to_le_bytes());
    bytes[216..220].fill(0);
    let words = bytes[..256 + 2 * devices].chunks(4).map(|word| {
        let mut le = [0; 4];
        le[..word.len()].copy_from_slice(word);
        u64::from(u32::from_le_bytes(le))
    });
    let sum: u64 = words.sum();
    let folded = (sum & 0xffff_ffff) + (sum >> 32);
    bytes[216..220].copy_from_slice(&folded.to_le_bytes()[..4]);
    bytes
}
