//! Values that a request of the old system has, and where in it each is.

use http::{HeaderMap, HeaderName};
use serde_json::Value;

use super::pattern::Pattern;

/// A value of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    User,
    Channel,
    Message,
    Mentions,
}

impl Field {
    pub(super) const ALL: [Self; 4] = [Self::User, Self::Channel, Self::Message, Self::Mentions];

    pub(super) fn key(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Channel => "channel",
            Self::Message => "message",
            Self::Mentions => "mentions",
        }
    }

    pub(super) fn of_key(key: &str) -> Result<Self, String> {
        let field = Self::ALL.into_iter().find(|field| field.key() == key);
        field.ok_or_else(|| {
            let keys = Self::ALL.map(Self::key).join("}, {");
            format!("{{{key}}} is no placeholder; they are {{{keys}}}, and * for any other segment")
        })
    }
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

    /// The value; a number as it is written.
    pub(super) fn text(&self, seen: &Seen<'_>) -> Option<String> {
        match self {
            Self::Path(segment) => seen.path.split('/').nth(segment + 1).map(str::to_owned),
            Self::Header(name) => Some(seen.headers.get(name)?.to_str().ok()?.trim().to_owned()),
            Self::Query(name) => {
                let mut pairs = seen
                    .query?
                    .split('&')
                    .filter_map(|pair| pair.split_once('='));
                let (_, value) = pairs.find(|(key, _)| key == name)?;
                Some(value.to_owned())
            }
            Self::Body(_) => match self.value(seen)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
            },
        }
    }

    /// The value in the body.
    pub(super) fn value<'a>(&self, seen: &Seen<'a>) -> Option<&'a Value> {
        match self {
            Self::Body(pointer) => seen.body?.pointer(pointer),
            Self::Path(_) | Self::Header(_) | Self::Query(_) => None,
        }
    }
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
        let text = |source: &str| Source::parse(source).unwrap().text(&seen);
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
        assert_eq!(Source::Path(1).text(&seen).as_deref(), Some("10"));
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
