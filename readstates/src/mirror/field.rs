//! Values that a request of the old system has, and where in it each is.
//!
//! Of a value that is there twice some systems take the first and others the last. The old system may have let the caller
//! in for the one, so nothing is done here with the other: such a value cannot be read.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};
use serde_json::Value;

use super::pattern::Pattern;
use crate::rows::Field;

/// Values that requests have a use for.
pub(super) const USED: [Field; 4] = [Field::User, Field::Channel, Field::Message, Field::Mentions];

/// The value that a placeholder of this name stands for.
pub(super) fn placeholder(key: &str) -> Result<Field, String> {
    let field = USED.into_iter().find(|field| field.key() == key);
    field.ok_or_else(|| {
        let keys = USED.map(Field::key).join("}, {");
        format!("{{{key}}} is no placeholder; they are {{{keys}}}, and * for any other segment")
    })
}

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// In this segment of the path.
    Path(usize),
    Header(HeaderName),
    /// In a parameter of the query.
    Query(String),
    /// In the JSON body, at this pointer (RFC 6901).
    Body(String),
}

/// What is known of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    /// `None`: not read, or no JSON.
    pub(super) body: Option<&'a Value>,
}

/// A value is there more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Twice;

impl Source {
    /// `header NAME`, `query NAME` or `body /POINTER`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is none of `header NAME`, `query NAME`, `body /POINTER`");
        let (kind, of) = text.split_once(' ').ok_or_else(form)?;
        match kind {
            "header" => of.parse().map(Self::Header).map_err(|_| form()),
            "query" if !of.is_empty() && !of.contains(['&', '=', ' ']) => {
                Ok(Self::Query(of.to_owned()))
            }
            "body" if of.starts_with('/') => Ok(Self::Body(of.to_owned())),
            _ => Err(form()),
        }
    }

    /// The placeholder of the path, if there is one.
    pub(super) fn of_path(pattern: &Pattern, field: Field) -> Option<Self> {
        pattern.place(field).map(Self::Path)
    }

    /// Whether the body is needed.
    pub(super) fn is_body(&self) -> bool {
        matches!(self, Self::Body(_))
    }

    /// The value, if there is one; a number as it is written.
    pub(super) fn text(&self, seen: &Seen<'_>) -> Result<Option<String>, Twice> {
        Ok(match self {
            Self::Path(segment) => seen.path.split('/').nth(segment + 1).map(str::to_owned),
            Self::Header(name) => {
                let value = only(seen.headers.get_all(name).iter())?;
                let text = value.and_then(|value| value.to_str().ok());
                text.map(|text| text.trim().to_owned())
            }
            Self::Query(name) => in_query(seen.query.unwrap_or_default(), name)?.map(str::to_owned),
            Self::Body(_) => match self.value(seen) {
                Some(Value::String(text)) => Some(text.clone()),
                Some(Value::Number(number)) => Some(number.to_string()),
                Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {
                    None
                }
            },
        })
    }

    /// The value in the body.
    pub(super) fn value<'a>(&self, seen: &Seen<'a>) -> Option<&'a Value> {
        match self {
            Self::Body(pointer) => seen.body?.pointer(pointer),
            Self::Path(_) | Self::Header(_) | Self::Query(_) => None,
        }
    }
}

fn only<T>(mut values: impl Iterator<Item = T>) -> Result<Option<T>, Twice> {
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Twice),
    }
}

/// The value of a parameter, as it is written.
fn in_query<'a>(query: &'a str, name: &str) -> Result<Option<&'a str>, Twice> {
    let name = decoded(name);
    let split = |pair: &'a str| pair.split_once('=').unwrap_or((pair, ""));
    let named = |&(key, _): &(&str, &str)| decoded(key) == name;
    // Some systems also take what is behind a semicolon for a parameter.
    only(query.split(['&', ';']).map(split).filter(named))?;
    let value = only(query.split('&').map(split).filter(named))?;
    Ok(value.map(|(_, value)| value))
}

/// The key of a parameter, decoded as forms are. What is no escape stands for itself.
fn decoded(key: &str) -> Cow<'_, [u8]> {
    if !key.contains(['%', '+']) {
        return Cow::Borrowed(key.as_bytes());
    }
    let mut rest = key.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, behind) = match first {
            b'+' => (b' ', behind),
            b'%' => escaped(behind).unwrap_or((first, behind)),
            _ => (first, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    Cow::Owned(bytes)
}

/// The byte of two hexadecimal digits, and what is behind them.
fn escaped(digits: &[u8]) -> Option<(u8, &[u8])> {
    let (&[high, low], behind) = digits.split_first_chunk()?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = u8::try_from(16 * digit(high)? + digit(low)?).ok()?;
    Some((byte, behind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_found_where_it_is_said_to_be() {
        let mut headers = HeaderMap::new();
        headers.insert("x-user", "42".parse().unwrap());
        let body = json!({"message": {"id": "100", "at": 7}, "read": true});
        let seen = Seen {
            path: "/channels/10/ack",
            query: Some("a=1&user=43"),
            headers: &headers,
            body: Some(&body),
        };
        let text = |source: &str| Source::parse(source).unwrap().text(&seen).unwrap();
        assert_eq!(text("header X-User").as_deref(), Some("42"));
        assert_eq!(text("query user").as_deref(), Some("43"));
        assert_eq!(text("body /message/id").as_deref(), Some("100"));
        assert_eq!(text("body /message/at").as_deref(), Some("7"));
        for none in [
            "header x-other",
            "query b",
            "body /message",
            "body /read",
            "body /x",
        ] {
            assert_eq!(text(none), None, "{none}");
        }
        let of_path = Source::Path(1).text(&seen).unwrap();
        assert_eq!(of_path.as_deref(), Some("10"));
    }

    #[test]
    fn a_value_that_is_there_twice_is_none() {
        let mut headers = HeaderMap::new();
        headers.append("x-user", "42".parse().unwrap());
        headers.append("x-user", "43".parse().unwrap());
        let text = |source: &str, query: &str| {
            Source::parse(source).unwrap().text(&Seen {
                path: "/",
                query: Some(query),
                headers: &headers,
                body: None,
            })
        };
        assert_eq!(text("header x-user", ""), Err(Twice));
        for query in [
            "user=1&user=2",
            "user=1&a=b&user=1",
            "us%65r=1&user=2",
            "user=1&%75%73%65%72=2",
            "user=1&user",
            "user&user=1",
            "a=1;user=2&user=1",
        ] {
            assert_eq!(text("query user", query), Err(Twice), "{query}");
        }
        for (source, query, value) in [
            ("query user", "us%65r=1&users=2&User%=3", Some("1")),
            ("query user", "a=b;c&user=1", Some("1")),
            ("query user", "user=1;a", Some("1;a")),
            ("query user", "user", Some("")),
            ("query user", "user%=1&use%72%=2&user%6=3&%", None),
            ("query user%5Bid%5D", "user[id]=1", Some("1")),
            ("query a%20b", "a+b=1", Some("1")),
        ] {
            let found = text(source, query).unwrap();
            assert_eq!(found.as_deref(), value, "{source}: {query}");
        }
    }

    #[test]
    fn what_names_no_place_is_refused() {
        for text in [
            "x-user",
            "header ",
            "header a b",
            "query ",
            "query a=b",
            "body message",
            "cookie a",
        ] {
            let refusal = Source::parse(text).unwrap_err();
            assert!(refusal.contains("is none of `header NAME`"), "{refusal}");
        }
    }
}
