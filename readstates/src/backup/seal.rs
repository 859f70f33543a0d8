//! What an object is in storage: compressed, and either checksummed or encrypted.
//!
//! | bytes | without a key | with a key |
//! |---|---|---|
//! | 4 | `RSBK` | `RSBK` |
//! | 1 | 1 | 2 |
//! | 32 or 12 | SHA-256 of all else, with the object's name | random nonce |
//! | the rest | zstd | zstd in ChaCha20-Poly1305, which covers the object's name; its tag |
//!
//! With a key, chunks are named by HMAC-SHA-256 instead of SHA-256: a name says nothing of what is inside.

use std::{fmt, fs, path::Path};

use aws_lc_rs::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest::{self, SHA256},
    hmac, rand,
};

use super::BackupError;

const MAGIC: &[u8; 4] = b"RSBK";
const PLAIN: u8 = 1;
const ENCRYPTED: u8 = 2;
const HEAD: usize = 5;
const HASH: usize = 32;
/// zstd's own default: what is stored is mostly ids, and more effort saves little.
const LEVEL: i32 = 3;

/// Why an object cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It is not there, although a backup names it.
    #[error("is missing")]
    Missing,
    /// No object of ours, or of a newer program.
    #[error("is damaged, or was written by a newer version of readstates")]
    Unknown,
    /// The checksum is another one.
    #[error("is damaged: its checksum does not fit")]
    Checksum,
    /// It cannot be decrypted.
    #[error(
        "cannot be decrypted: it is damaged, or encrypted with another key than that of --encryption-key-file"
    )]
    Decryption,
    /// There is no key.
    #[error("is encrypted; give --encryption-key-file FILE")]
    NoKey,
    /// It should be encrypted, or anyone could have put it there.
    #[error("is not encrypted; leave out --encryption-key-file if that is as it should be")]
    NotEncrypted,
    /// It is another chunk than its name says.
    #[error("is damaged: it holds something else than its name says")]
    OtherContent,
    /// It does not decompress to what it should.
    #[error("is damaged: it cannot be decompressed")]
    Compression,
}

/// The keys that follow from a file's 32 bytes.
pub(super) struct Key {
    objects: LessSafeKey,
    names: hmac::Key,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Reads a file of 32 bytes.
    pub(super) fn from_file(file: &Path) -> Result<Self, BackupError> {
        let refused = |source| BackupError::Key {
            file: file.to_owned(),
            source,
        };
        let bytes = fs::read(file).map_err(|error| refused(Some(error)))?;
        let bytes: [u8; 32] = bytes.try_into().map_err(|_| refused(None))?;
        Self::new(&bytes).ok_or_else(|| refused(None))
    }

    pub(super) fn new(bytes: &[u8; 32]) -> Option<Self> {
        let master = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let of = |purpose: &[u8]| hmac::sign(&master, purpose);
        let objects = UnboundKey::new(
            &CHACHA20_POLY1305,
            of(b"readstates backup objects").as_ref(),
        );
        Some(Self {
            objects: LessSafeKey::new(objects.ok()?),
            names: hmac::Key::new(hmac::HMAC_SHA256, of(b"readstates backup names").as_ref()),
        })
    }
}

/// The name of a chunk with these rows.
pub(super) fn name_of(key: Option<&Key>, rows: &[u8]) -> String {
    match key {
        Some(key) => hex(hmac::sign(&key.names, rows).as_ref()),
        None => hex(digest::digest(&SHA256, rows).as_ref()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn checksum(name: &str, packed: &[u8]) -> [u8; HASH] {
    let mut hash = digest::Context::new(&SHA256);
    hash.update(name.as_bytes());
    hash.update(&[0]);
    hash.update(packed);
    let mut sum = [0; HASH];
    sum.copy_from_slice(hash.finish().as_ref());
    sum
}

/// Packs `content` to be stored under `name`.
pub(super) fn seal(key: Option<&Key>, name: &str, content: &[u8]) -> Result<Vec<u8>, BackupError> {
    let packed = zstd::bulk::compress(content, LEVEL);
    let mut packed = packed.map_err(|error| BackupError::Packing(error.into()))?;
    let mut object = MAGIC.to_vec();
    match key {
        None => {
            object.push(PLAIN);
            object.extend(checksum(name, &packed));
        }
        Some(key) => {
            let mut nonce = [0; NONCE_LEN];
            rand::fill(&mut nonce).map_err(|_| BackupError::Random)?;
            object.push(ENCRYPTED);
            object.extend(nonce);
            let nonce = Nonce::assume_unique_for_key(nonce);
            let sealed = key.objects.seal_in_place_append_tag(
                nonce,
                Aad::from(name.as_bytes()),
                &mut packed,
            );
            sealed.map_err(|error| BackupError::Packing(error.into()))?;
        }
    }
    object.extend(packed);
    Ok(object)
}

/// Unpacks an object that was stored under `name` and has at most `most` bytes in it.
pub(super) fn unseal(
    key: Option<&Key>,
    name: &str,
    object: &[u8],
    most: usize,
) -> Result<Vec<u8>, SealError> {
    let (head, rest) = object.split_at_checked(HEAD).ok_or(SealError::Unknown)?;
    let mode = head.strip_prefix(MAGIC).ok_or(SealError::Unknown)?;
    match (mode, key) {
        ([PLAIN], None) => {
            let (sum, packed) = rest.split_at_checked(HASH).ok_or(SealError::Checksum)?;
            if sum != checksum(name, packed) {
                return Err(SealError::Checksum);
            }
            unpack(packed, most)
        }
        ([ENCRYPTED], Some(key)) => {
            let (nonce, sealed) = rest
                .split_first_chunk::<NONCE_LEN>()
                .ok_or(SealError::Decryption)?;
            let (nonce, mut sealed) = (Nonce::assume_unique_for_key(*nonce), sealed.to_vec());
            let aad = Aad::from(name.as_bytes());
            let packed = key.objects.open_in_place(nonce, aad, &mut sealed);
            unpack(packed.map_err(|_| SealError::Decryption)?, most)
        }
        ([PLAIN], Some(_)) => Err(SealError::NotEncrypted),
        ([ENCRYPTED], None) => Err(SealError::NoKey),
        _ => Err(SealError::Unknown),
    }
}

fn unpack(packed: &[u8], most: usize) -> Result<Vec<u8>, SealError> {
    zstd::bulk::decompress(packed, most).map_err(|_| SealError::Compression)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_sealed_is_unsealed_and_any_other_byte_is_noticed(
            content in proptest::collection::vec(any::<u8>(), 0..300),
            encrypted: bool,
            at: prop::sample::Index,
            flip in 1_u8..,
        ) {
            let key = Key::new(&[7; 32]).filter(|_| encrypted);
            let mut object = seal(key.as_ref(), "name", &content).unwrap();
            prop_assert_eq!(unseal(key.as_ref(), "name", &object, 300), Ok(content));
            prop_assert!(unseal(key.as_ref(), "other", &object, 300).is_err());
            let at = at.index(object.len());
            object[at] ^= flip;
            prop_assert!(unseal(key.as_ref(), "name", &object, 300).is_err());
            prop_assert!(unseal(key.as_ref(), "name", &object[..at], 300).is_err());
        }
    }

    #[test]
    fn the_key_is_part_of_names_and_another_one_opens_nothing() {
        let [a, b] = [7, 8].map(|byte| Key::new(&[byte; 32]).unwrap());
        let object = seal(Some(&a), "name", b"rows").unwrap();
        assert_eq!(
            unseal(Some(&b), "name", &object, 9),
            Err(SealError::Decryption)
        );
        assert_eq!(unseal(None, "name", &object, 9), Err(SealError::NoKey));
        let plain = seal(None, "name", b"rows").unwrap();
        assert_eq!(
            unseal(Some(&a), "name", &plain, 9),
            Err(SealError::NotEncrypted)
        );
        let names = [Some(&a), Some(&b), None].map(|key| name_of(key, b"rows"));
        assert!(names[0] != names[1] && names[0] != names[2]);
        assert_eq!(names[2].len(), 64);
    }
}
