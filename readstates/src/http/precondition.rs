//! `If-Match` of a change, parsed: RFC 9110, section 13.1.1. Pure.

use http::{HeaderMap, HeaderValue, header};
use readstates_api::{Id, Problem, ProblemType};

use super::problem::Refusal;
use crate::block::Precondition;

/// What a change asks of the user before it; `None`: nothing. `channel`: the one that it is about.
///
/// Entity tags are compared strongly: a weak one, and one that is no version, are those of no user. `*` asks for a read
/// state of the channel, or of any where the change is about the user.
///
/// # Errors
/// When the header is neither `*` nor a list of entity tags.
pub(super) fn if_match(
    headers: &HeaderMap,
    channel: Option<Id>,
) -> Result<Option<Precondition>, Refusal> {
    let mut values = headers.get_all(header::IF_MATCH).iter().peekable();
    let Some(&first) = values.peek() else {
        return Ok(None);
    };
    if first.as_bytes().trim_ascii() == b"*" {
        values.next();
        return match values.next() {
            None => Ok(Some(Precondition::Exists(channel.map(Id::get)))),
            Some(_) => Err(malformed(first)),
        };
    }
    let (mut versions, mut tags) = (Vec::new(), 0);
    for value in values {
        for tag in Tags(value.as_bytes()) {
            let tag = tag.ok_or_else(|| malformed(value))?;
            tags += 1;
            versions.extend(tag.version());
        }
    }
    match tags {
        0 => Err(malformed(first)),
        _ => Ok(Some(Precondition::VersionIn(versions.into()))),
    }
}

/// Refuses `If-Match` where a request is not about one user.
pub(super) fn none(headers: &HeaderMap, why: &str) -> Result<(), Refusal> {
    match headers.get(header::IF_MATCH) {
        None => Ok(()),
        Some(_) => Err(Problem::new(ProblemType::BadValue, why).into()),
    }
}

fn malformed(value: &HeaderValue) -> Refusal {
    let detail = format!(
        "If-Match is {value:?}; give the user's version in quotes, as the ETag of an answer has it, or *"
    );
    Problem::new(ProblemType::BadValue, detail).into()
}

/// An entity tag.
struct Tag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

impl Tag<'_> {
    /// The version that it is the tag of.
    fn version(&self) -> Option<u64> {
        let text = std::str::from_utf8(self.opaque).ok()?;
        let version: u64 = text.parse().ok().filter(|_| !self.weak)?;
        // The tag of a version is written in one way.
        (version.to_string() == text).then_some(version)
    }
}

/// The entity tags of a list; `None` where it is none any more.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = Option<Tag<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        // Empty elements mean nothing.
        let skipped = self.0.iter().take_while(|byte| b" \t,".contains(byte));
        let rest = &self.0[skipped.count()..];
        if rest.is_empty() {
            return None;
        }
        let tag = tag(rest);
        self.0 = tag.as_ref().map_or(&[], |&(_, rest)| rest);
        Some(tag.map(|(tag, _)| tag))
    }
}

/// The entity tag at the beginning, and what follows it and its comma.
fn tag(bytes: &[u8]) -> Option<(Tag<'_>, &[u8])> {
    let weak = bytes.strip_prefix(b"W/");
    let quoted = weak.unwrap_or(bytes).strip_prefix(b"\"")?;
    let end = quoted.iter().position(|&byte| byte == b'"')?;
    let (opaque, rest) = (&quoted[..end], quoted[end + 1..].trim_ascii_start());
    let is_of_a_tag = |&byte: &u8| byte > b' ' && byte != 0x7f;
    if !opaque.iter().all(is_of_a_tag) {
        return None;
    }
    let rest = match rest {
        [] => rest,
        [b',', rest @ ..] => rest,
        _ => return None,
    };
    let weak = weak.is_some();
    Some((Tag { weak, opaque }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Option<Option<Precondition>> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::IF_MATCH, HeaderValue::from_str(value).unwrap());
        }
        if_match(&headers, Id::new(10)).ok()
    }

    #[test]
    fn a_version_is_a_strong_tag_in_a_list_over_all_lines() {
        let versions = |versions: &[u64]| Some(Some(Precondition::VersionIn(versions.into())));
        assert_eq!(of(&[]), Some(None));
        assert_eq!(of(&["\"57\""]), versions(&[57]));
        assert_eq!(of(&["\"57\" , ,\"0\",", "\"8\""]), versions(&[57, 0, 8]));
        assert_eq!(of(&["\"18446744073709551615\""]), versions(&[u64::MAX]));
        assert_eq!(of(&["*"]), Some(Some(Precondition::Exists(Some(10)))));
        let no_channel = HeaderMap::from_iter([(header::IF_MATCH, HeaderValue::from_static("*"))]);
        let any = if_match(&no_channel, None).ok();
        assert_eq!(any, Some(Some(Precondition::Exists(None))));
    }

    #[test]
    fn a_tag_that_is_weak_or_no_version_is_that_of_no_user() {
        let none = Some(Some(Precondition::VersionIn([].into())));
        for value in [
            "W/\"57\"",
            "\"x,y\"",
            "\"057\"",
            "\"+57\"",
            "\"\"",
            "\"18446744073709551616\"",
        ] {
            assert_eq!(of(&[value]), none, "{value}");
        }
    }

    #[test]
    fn what_is_no_list_of_tags_is_refused() {
        for values in [
            &["57"][..],
            &["\"57"],
            &["\"57\" \"58\""],
            &["\"5 7\""],
            &["w/\"57\""],
            &[""],
            &[","],
            &["*, \"57\""],
            &["\"57\"", "*"],
            &["*", "\"57\""],
        ] {
            assert_eq!(of(values), None, "{values:?}");
        }
    }
}
