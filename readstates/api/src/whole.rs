//! Counts in requests, as JSON Schema reads them: `207.0` is the whole number 207.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Deserializer, de};

/// A whole number of this type, or nothing for `null`.
///
/// # Errors
/// Where it is no number, has a fraction, or is out of the type's range.
pub(crate) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64> + Bounded,
{
    Ok(Option::<Whole<T>>::deserialize(deserializer)?.map(|Whole(number)| number))
}

/// A whole number of this type.
///
/// # Errors
/// As those of [`optional`].
pub(crate) fn required<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64> + Bounded,
{
    Whole::deserialize(deserializer).map(|Whole(number)| number)
}

/// The largest number that is read, which a refusal names. A double has it exactly.
pub(crate) trait Bounded {
    const MAX: u64;
}

impl Bounded for u16 {
    const MAX: u64 = u16::MAX as u64;
}

impl Bounded for u32 {
    const MAX: u64 = u32::MAX as u64;
}

/// Up to where a double has every whole number, and many readers of JSON have no others.
impl Bounded for u64 {
    const MAX: u64 = (1 << 53) - 1;
}

/// Epochs: they have 39 bits.
impl Bounded for i64 {
    const MAX: u64 = (1 << 39) - 1;
}

struct Whole<T>(T);

impl<'de, T: TryFrom<u64> + Bounded> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor(PhantomData))
    }
}

struct Visitor<T>(PhantomData<T>);

impl<T: TryFrom<u64> + Bounded> de::Visitor<'_> for Visitor<T> {
    type Value = Whole<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {}", T::MAX)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole<T>, E> {
        whole(number).ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Whole<T>, E> {
        let unsigned = u64::try_from(number).ok();
        unsigned
            .and_then(whole)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Whole<T>, E> {
        let is_whole = number.fract() == 0.0 && (0.0..=T::MAX as f64).contains(&number);
        is_whole
            .then_some(number as u64)
            .and_then(whole)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
    }
}

fn whole<T: TryFrom<u64> + Bounded>(number: u64) -> Option<Whole<T>> {
    let number = Some(number).filter(|&number| number <= T::MAX)?;
    T::try_from(number).ok().map(Whole)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Body {
        #[serde(default, deserialize_with = "super::optional")]
        count: Option<u32>,
        #[serde(default, deserialize_with = "super::optional")]
        day: Option<u16>,
    }

    fn read(json: &str) -> Result<Body, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        let body = |count, day| Ok(Body { count, day });
        assert_eq!(read("{}"), body(None, None));
        assert_eq!(read(r#"{"count": null, "day": null}"#), body(None, None));
        assert_eq!(
            read(r#"{"count": 207.0, "day": 1e2}"#),
            body(Some(207), Some(100))
        );
        let largest = r#"{"count": 4294967295.0, "day": 65535}"#;
        assert_eq!(read(largest), body(Some(u32::MAX), Some(u16::MAX)));
    }

    #[test]
    fn what_is_no_whole_number_in_range_is_refused_with_the_range() {
        for number in [
            "0.5",
            "-1",
            "-1.0",
            "4294967296",
            "4294967296.0",
            "1e300",
            "true",
            "\"1\"",
        ] {
            let refusal = read(&format!(r#"{{"count": {number}}}"#)).unwrap_err();
            let expected = "expected a whole number from 0 to 4294967295";
            assert!(refusal.contains(expected), "{number}: {refusal}");
        }
        let refusal = read(r#"{"day": 65536}"#).unwrap_err();
        assert!(refusal.contains("from 0 to 65535"), "{refusal}");
    }
}
