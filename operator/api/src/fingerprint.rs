//! A short hash of what an object says, by which changes are told.

use serde::Serialize;

/// A short hash of what an object says, the same for the same content in every build of the
/// operator. (FNV-1a, 64 bits: it tells changes apart and keeps no secrets.)
#[must_use]
pub fn fingerprint(object: &impl Serialize) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let text = serde_json::to_vec(object).unwrap_or_default();
    let hash = text.iter().fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    });
    format!("{hash:016x}")
}
