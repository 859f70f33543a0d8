//! The keyed hash of user ids for tables inside the process.
//!
//! Clients choose user ids, and the hash that slots and the ring go by is public: with it, a client that
//! chooses users offline could put all of them into one place of every table. So tables inside the
//! process go by SipHash-1-3 under a key that is drawn at the start and never told, as the standard
//! library's own tables do. It was chosen over
//! - hashes that are only hard to attack by accident (foldhash, ahash without AES, `mix64` of the id
//!   xor a key): their authors promise nothing against chosen keys, and for some of them collisions
//!   are known that do not depend on the key;
//! - multiply-shift, which takes 1 to 2 ns where this takes 11 (measured on a virtual machine of two
//!   processors, where a read at a random place of memory takes hundreds): two users collide by chance
//!   alone, but the linear probing of the cache needs five users to be independent, and who measures
//!   the time of answers could learn the multiplier.
//!
//! It is written out here for one word, because the standard library's can be given no key, and a
//! simulation that runs again must run the same ([`use_known_key`]).

use std::{
    hash::{BuildHasherDefault, Hasher},
    sync::OnceLock,
};

/// The key of this process, spread over the state that every hash begins with.
static START: OnceLock<Sip> = OnceLock::new();

/// The hash of a user id, different in every process.
#[inline]
pub(crate) fn keyed(user: u64) -> u64 {
    START.get_or_init(first_key).of(user)
}

#[cold]
fn first_key() -> Sip {
    // The unit tests of this crate run the same every time.
    Sip::new(if cfg!(test) { [0; 2] } else { rand::random() })
}

/// Uses a fixed key, which is no secret: for tests that must run the same again. Does nothing once
/// something was hashed.
pub fn use_known_key() {
    let _ = START.set(Sip::new([0; 2]));
}

/// SipHash's state.
#[derive(Debug, Clone, Copy)]
struct Sip([u64; 4]);

impl Sip {
    fn new([low, high]: [u64; 2]) -> Self {
        // "somepseudorandomlygeneratedbytes", as in the paper.
        Self([
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573,
        ])
    }

    /// The hash of eight bytes: a round for them, one for their length, three to end with.
    #[inline]
    fn of(mut self, word: u64) -> u64 {
        const LENGTH: u64 = 8 << 56;
        for word in [word, LENGTH] {
            self.0[3] ^= word;
            self.round();
            self.0[0] ^= word;
        }
        self.0[2] ^= 0xff;
        for _ in 0..3 {
            self.round();
        }
        self.0.into_iter().fold(0, |hash, word| hash ^ word)
    }

    #[inline]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32).wrapping_add(*d);
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }
}

/// Builds the hash for sets of users.
pub(crate) type BuildMixed = BuildHasherDefault<Mixed>;

/// Hashes something else than the user's own hash, so that the users of one stripe spread over a
/// table, too.
#[derive(Debug, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = keyed(!(self.0 ^ value));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;

    #[test]
    fn without_a_key_it_is_the_hash_of_the_standard_library() {
        for word in [0, 1, 81, 1 << 40, u64::MAX] {
            let mut standard = DefaultHasher::new();
            standard.write_u64(word);
            assert_eq!(Sip::new([0; 2]).of(word), standard.finish(), "{word}");
        }
    }

    #[test]
    fn each_half_of_the_key_changes_the_hash() {
        let of = |key| Sip::new(key).of(81);
        assert_ne!(of([0, 0]), of([1, 0]));
        assert_ne!(of([0, 0]), of([0, 1]));
        assert_ne!(of([1, 0]), of([0, 1]));
    }
}
