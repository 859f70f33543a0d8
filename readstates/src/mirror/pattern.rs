//! Patterns of requests such as `POST /channels/{channel}/messages/{message}/ack`.
//!
//! A placeholder matches an id and nothing else, `*` one segment of any text. So at most one route matches a request:
//! patterns that could both match one are found by [`Pattern::overlaps`], and refused.

use http::Method;
use readstates_api::Id;

use super::field::Field;

/// A method and the segments of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) method: Method,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// This text, as it is in the request: nothing is decoded.
    Text(String),
    /// An id.
    Place(Field),
    /// Anything.
    Any,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not METHOD /PATH, such as GET /users/{{user}}/states");
        let (method, path) = text.split_once(' ').ok_or_else(form)?;
        let upper = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| form())?;
        let path = path.strip_prefix('/').filter(|_| upper).ok_or_else(form)?;
        if path.contains(['?', '#']) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem =
                "a path has neither spaces nor ? nor #; take values of a query with `query NAME`";
            return Err(format!("{text:?}: {problem}"));
        }
        let mut pattern = Self {
            method,
            segments: Vec::new(),
        };
        for segment in path.split('/') {
            let segment =
                Segment::parse(segment).map_err(|problem| format!("{text:?}: {problem}"))?;
            if let Segment::Place(field) = &segment
                && pattern.place(*field).is_some()
            {
                return Err(format!("{text:?}: {{{}}} is there twice", field.key()));
            }
            pattern.segments.push(segment);
        }
        Ok(pattern)
    }

    /// Whether this is a request for it.
    pub(super) fn matches(&self, method: &Method, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/').filter(|_| *method == self.method) else {
            return false;
        };
        let mut given = path.split('/');
        let fits = self.segments.iter().all(|segment| {
            given.next().is_some_and(|given| match segment {
                Segment::Text(text) => text == given,
                Segment::Place(_) => given.parse::<Id>().is_ok(),
                Segment::Any => true,
            })
        });
        fits && given.next().is_none()
    }

    /// Where the placeholder of a field is.
    pub(super) fn place(&self, field: Field) -> Option<usize> {
        let is = |segment: &Segment| *segment == Segment::Place(field);
        self.segments.iter().position(is)
    }

    /// The fields that have a placeholder.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field> {
        Field::ALL
            .into_iter()
            .filter(|&field| self.place(field).is_some())
    }

    /// Whether some request would match both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let both = || self.segments.iter().zip(&other.segments);
        self.method == other.method
            && self.segments.len() == other.segments.len()
            && both().all(|(one, other)| one.overlaps(other))
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(key) = text
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
        {
            return Ok(Self::Place(Field::of_key(key)?));
        }
        if text.contains(['{', '}', '*']) {
            let problem = "a placeholder and * are a whole segment";
            return Err(format!("{text:?}: {problem}"));
        }
        Ok(Self::Text(text.to_owned()))
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Text(text), Self::Place(_)) | (Self::Place(_), Self::Text(text)) => {
                text.parse::<Id>().is_ok()
            }
            (Self::Any, _) | (_, Self::Any) | (Self::Place(_), Self::Place(_)) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn a_request_matches_by_its_segments() {
        let ack = pattern("POST /channels/{channel}/messages/{message}/ack");
        let matches = |method: Method, path| ack.matches(&method, path);
        assert!(matches(Method::POST, "/channels/10/messages/100/ack"));
        assert!(!matches(Method::GET, "/channels/10/messages/100/ack"));
        for path in [
            "/channels/10/messages/100/ack/",
            "/channels/10/messages/100",
            "/channels/x/messages/100/ack",
            "/channels/0/messages/100/ack",
            "channels/10/messages/100/ack",
        ] {
            assert!(!matches(Method::POST, path), "{path}");
        }
        assert!(pattern("GET /guilds/*/states").matches(&Method::GET, "/guilds/@x/states"));
        assert_eq!(ack.place(Field::Message), Some(3));
        assert_eq!(
            ack.fields().collect::<Vec<_>>(),
            [Field::Channel, Field::Message]
        );
    }

    #[test]
    fn patterns_that_could_both_match_are_found() {
        for (one, other, overlap) in [
            ("GET /a/{user}", "GET /a/{user}", true),
            ("GET /a/{user}", "POST /a/{user}", false),
            ("GET /a/{user}", "GET /a/{user}/b", false),
            ("GET /users/@me/b", "GET /users/{user}/b", false),
            ("GET /users/7/b", "GET /users/{user}/b", true),
            ("GET /users/*/b", "GET /users/{user}/b", true),
            ("GET /users/*/b", "GET /users/{user}/c", false),
        ] {
            let (one, other) = (pattern(one), pattern(other));
            assert_eq!(one.overlaps(&other), overlap, "{one:?} {other:?}");
            assert_eq!(other.overlaps(&one), overlap, "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_reason() {
        for (text, words) in [
            ("/users", "is not METHOD /PATH"),
            ("get /users", "is not METHOD /PATH"),
            ("GET users", "is not METHOD /PATH"),
            ("GET /users?x=1", "query NAME"),
            (
                "GET /{guild}",
                "{guild} is no placeholder; they are {user}, {channel}",
            ),
            ("GET /{user}/{user}", "{user} is there twice"),
            ("GET /u-{user}", "a whole segment"),
        ] {
            let refusal = Pattern::parse(text).unwrap_err();
            assert!(refusal.contains(words), "{text}: {refusal}");
        }
    }
}
