//! Tokens and their hashes. A token is 256 random bits; only its hash is ever kept.

use std::{fs, io, path::PathBuf};

use aws_lc_rs::{
    constant_time, digest,
    rand::{SecureRandom, SystemRandom},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    file::TokenHash,
    header::{self, NoToken},
};

/// What tokens made here begin with, so that a scanner of repositories and logs can tell one.
const PREFIX: &str = "rst_";

/// The hash of a token.
#[must_use]
pub fn hash(token: &str) -> TokenHash {
    let digest = digest::digest(&digest::SHA256, token.as_bytes());
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    TokenHash(hash)
}

/// A hash to look up by: compared in constant time, and spread in a table by a secret of the process (the
/// `RandomState` of the table), so that the time of a look-up says nothing about the hashes that are there.
#[derive(Debug, Clone, Copy, Eq)]
pub(super) struct Key(pub(super) TokenHash);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        constant_time::verify_slices_are_equal(&self.0.0, &other.0.0).is_ok()
    }
}

// Equal keys are the same bytes, however they are compared.
impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write(&self.0.0);
    }
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The system gives no random bytes.
    #[error("failed to get random bytes from the system")]
    Random,
    /// The file cannot be read.
    #[error("--of: failed to read {file:?}")]
    Read { file: PathBuf, source: io::Error },
    /// What is in the file cannot be sent as a token.
    #[error(
        "--of: {file:?} holds no token; use 1 to {} of a-z A-Z 0-9 - . _ ~ + /, and = at the end",
        header::MAX_TOKEN
    )]
    NoToken {
        file: PathBuf,
        /// What is wrong with it.
        source: NoToken,
    },
}

/// A new token.
///
/// # Errors
/// When the system gives no random bytes.
pub fn generate() -> Result<String, TokenError> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| TokenError::Random)?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// What `readstates token` prints: a new token and its hash, or the hash of the token in a file.
///
/// # Errors
/// When there is no such token.
pub fn print(of: Option<PathBuf>) -> Result<String, TokenError> {
    let Some(file) = of else {
        let token = generate()?;
        return Ok(format!("token: {token}\nhash: {}\n", hash(&token)));
    };
    let text = fs::read_to_string(&file).map_err(|source| TokenError::Read {
        file: file.clone(),
        source,
    })?;
    let header = format!("Bearer {}", text.trim());
    let token =
        header::bearer(header.as_bytes()).map_err(|source| TokenError::NoToken { file, source })?;
    Ok(format!("{}\n", hash(token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_what_sha256sum_says() {
        let expected = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash("abc").to_string(), expected);
    }

    #[test]
    fn new_tokens_differ_and_can_be_sent() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, other);
        let header = format!("Bearer {one}");
        assert_eq!(header::bearer(header.as_bytes()), Ok(&*one));
        assert_eq!(one.len(), PREFIX.len() + 43);
    }

    #[test]
    fn the_hash_of_a_file_is_that_of_the_token_without_the_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "abc\n").unwrap();
        assert_eq!(print(Some(file)).unwrap(), format!("{}\n", hash("abc")));
        let empty = folder.path().join("empty");
        fs::write(&empty, "\n").unwrap();
        let refusal = print(Some(empty)).unwrap_err().to_string();
        assert!(refusal.contains("holds no token"), "{refusal}");
    }
}
