//! Hashes of tokens in an access file, read so that no error repeats what stands there.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};

use super::{HASH_PREFIX, TokenHash};

/// Hashes of tokens. By hand, because the errors of the derived form would repeat what is there.
#[derive(Default)]
pub(super) struct Tokens(pub(super) Vec<TokenHash>);

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Tokens;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of sha256:HASH")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tokens, A::Error> {
                let mut tokens = Vec::new();
                while let Some(Secret(text)) = list.next_element()? {
                    let hash = text.as_deref().and_then(token_hash);
                    tokens.push(hash.ok_or_else(|| de::Error::custom(NO_HASH))?);
                }
                Ok(Tokens(tokens))
            }

            fn visit_str<E: de::Error>(self, _: &str) -> Result<Tokens, E> {
                Err(E::custom("write a list: [\"sha256:HASH\"]"))
            }

            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Tokens, E> {
                self.visit_str("")
            }
        }
        deserializer.deserialize_any(List)
    }
}

const NO_HASH: &str = "an entry is not sha256: and 64 hex digits; `readstates token` prints a token and its hash, and \
                       `readstates token --of FILE` the hash of one that there is";

/// A string that no error shows; `None` for anything else.
struct Secret(Option<String>);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Secret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("sha256: and 64 hex digits")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Secret, E> {
                Ok(Secret(Some(text.to_owned())))
            }

            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Secret, E> {
                Ok(Secret(None))
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Secret, E> {
                Ok(Secret(None))
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Secret, E> {
                Ok(Secret(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

fn token_hash(text: &str) -> Option<TokenHash> {
    let digits = text.strip_prefix(HASH_PREFIX)?.as_bytes();
    let mut hash = [0; 32];
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != hash.len() || !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?;
    }
    Some(TokenHash(hash))
}
