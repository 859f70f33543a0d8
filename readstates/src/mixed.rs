//! A hash of user ids for sets inside the process: fast, and the same in every run.

use std::hash::{BuildHasherDefault, Hasher};

use readstates_ring::slot::mix64;

/// Builds it.
pub(crate) type BuildMixed = BuildHasherDefault<Mixed>;

/// The hash. Other bits than those that choose a user's slot and stripe, so that the users of one
/// stripe spread over a table, too.
#[derive(Debug, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix64(!(self.0 ^ value));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
