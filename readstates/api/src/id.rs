//! Ids and versions: 64-bit numbers that JSON writes as strings, because many readers of JSON keep
//! only 53 bits of a number.

use std::{fmt, num::NonZeroU64, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

/// The id of a user, a channel or a message: a snowflake, 1 to 2^64 − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, pattern = "^([1-9][0-9]{0,18}|1[0-7][0-9]{18}|18[0-3][0-9]{17}|184[0-3][0-9]{16}|1844[0-5][0-9]{15}|18446[0-6][0-9]{14}|184467[0-3][0-9]{13}|1844674[0-3][0-9]{12}|184467440[0-6][0-9]{10}|1844674407[0-2][0-9]{9}|18446744073[0-6][0-9]{8}|1844674407370[0-8][0-9]{6}|18446744073709[0-4][0-9]{5}|184467440737095[0-4][0-9]{4}|18446744073709550[0-9]{3}|18446744073709551[0-5][0-9]{2}|1844674407370955160[0-9]|1844674407370955161[0-5])$", example = "81384788765712384")]
pub struct Id(NonZeroU64);

/// Why something is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is a decimal number from 1 to 18446744073709551615, without leading zeros")]
pub struct IdError;

impl Id {
    /// The id with this number, unless it is 0.
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The id as a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // An id is written in one way: `u64::from_str` takes a leading `+` and leading zeros.
        if text.starts_with('0') || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(IdError);
        }
        text.parse().ok().and_then(Self::new).ok_or(IdError)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id: a decimal number from 1 to 18446744073709551615, as a string or an integer")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
                Id::new(number)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
                text.parse()
                    .map_err(|IdError| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// A user's version: 0 for a user that never changed, and greater after every applied change. Only compare versions,
/// never calculate with them: they may increase by more than one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, pattern = "^(0|[1-9][0-9]{0,18}|1[0-7][0-9]{18}|18[0-3][0-9]{17}|184[0-3][0-9]{16}|1844[0-5][0-9]{15}|18446[0-6][0-9]{14}|184467[0-3][0-9]{13}|1844674[0-3][0-9]{12}|184467440[0-6][0-9]{10}|1844674407[0-2][0-9]{9}|18446744073[0-6][0-9]{8}|1844674407370[0-8][0-9]{6}|18446744073709[0-4][0-9]{5}|184467440737095[0-4][0-9]{4}|18446744073709550[0-9]{3}|18446744073709551[0-5][0-9]{2}|1844674407370955160[0-9]|1844674407370955161[0-5])$", example = "57")]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| {
            de::Error::invalid_value(de::Unexpected::Str(&text), &"a version: a decimal number")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_from_a_string_or_an_integer_and_written_as_a_string() {
        for json in ["18446744073709551615", "\"18446744073709551615\""] {
            let id: Id = serde_json::from_str(json).unwrap();
            assert_eq!(id.get(), u64::MAX);
            assert_eq!(
                serde_json::to_string(&id).unwrap(),
                "\"18446744073709551615\""
            );
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let bad = [
            "0", "\"0\"", "\"\"", "\"07\"", "-1", "\"-1\"", "\"+1\"", "1.5", "\"1e3\"", "null",
            "true",
        ];
        for json in bad
            .into_iter()
            .chain(["18446744073709551616", "\"18446744073709551616\""])
        {
            let refusal = serde_json::from_str::<Id>(json).unwrap_err().to_string();
            assert!(refusal.contains("expected an id"), "{json}: {refusal}");
        }
    }

    #[test]
    fn a_version_is_a_string() {
        assert_eq!(serde_json::to_string(&Version(57)).unwrap(), "\"57\"");
        assert_eq!(
            serde_json::from_str::<Version>("\"57\"").unwrap(),
            Version(57)
        );
    }
}
