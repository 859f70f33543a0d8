//! JSON bodies of requests, in which no object has a key twice.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::field::Twice;

/// A body; `None`: it is no JSON.
pub(super) fn read(body: &[u8]) -> Result<Option<Value>, Twice> {
    match serde_json::from_slice(body) {
        Ok(Unique(value)) => Ok(Some(value)),
        // All else that can be wrong with a value is its syntax.
        Err(error) if error.is_data() => Err(Twice),
        Err(_) => Ok(None),
    }
}

/// A value whose objects have each key once.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON in which no object has a key twice")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((key, Unique(value))) = object.next_entry()? {
            if values.insert(key, value).is_some() {
                return Err(Error::custom("a key is there twice"));
            }
        }
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_what_any_reader_takes_it_for() {
        for text in [
            r#"{"user": "1", "more": [{"user": 2}, {"user": -3}], "user ": 18446744073709551615}"#,
            r#"[null, true, 0.5, 1e300, "\u0075", [], {}]"#,
            "7",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(read(text.as_bytes()), Ok(Some(expected)), "{text}");
        }
        for text in ["", "{", "{} {}", "user=1", "{\"a\": \"\u{0}\"}"] {
            assert_eq!(read(text.as_bytes()), Ok(None), "{text}");
        }
        assert_eq!(read(b"\"\xff\""), Ok(None));
    }

    #[test]
    fn a_key_that_is_there_twice_is_found_at_any_depth_and_however_it_is_written() {
        for text in [
            r#"{"user": 1, "user": 1}"#,
            r#"{"user": 1, "\u0075ser": 2}"#,
            r#"[{"of": {"user": 1, "a": 2, "user": 3}}]"#,
        ] {
            assert_eq!(read(text.as_bytes()), Err(Twice), "{text}");
        }
    }
}
