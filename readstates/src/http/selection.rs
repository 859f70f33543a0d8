//! Which of a user's read states a request asks for.

use std::fmt;

use readstates_api::{Id, MAX_PAGE, Problem, ProblemType};

use super::{body, problem::Refusal};

/// Which read states, as the query says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    All,
    /// What changed after this version.
    Since(u64),
    Page(Page),
}

/// So many read states, of the channels after this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) limit: u16,
    pub(super) after: Option<Id>,
}

impl Selection {
    /// What a query asks for.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub(super) fn of(query: Option<&str>) -> Result<Self, Refusal> {
        let names = ["since", "limit", "after"];
        let [since, limit, after] = body::numbers_in_query(query, names)?;
        let wrong = |detail: String| Err(Problem::new(ProblemType::BadValue, detail).into());
        if let (None, None) = (limit, after) {
            return Ok(since.map_or(Self::All, Self::Since));
        }
        if since.is_some() {
            let detail = "since goes without limit and after: page through all read states, and then ask for what \
                          changed since the version of the first page";
            return wrong(detail.into());
        }
        let limit = limit.unwrap_or(u64::from(MAX_PAGE));
        let Some(limit) = u16::try_from(limit)
            .ok()
            .filter(|limit| (1..=MAX_PAGE).contains(limit))
        else {
            return wrong(format!("limit is {limit}; give 1 to {MAX_PAGE}"));
        };
        let Some(after) = after.map(Id::new) else {
            return Ok(Self::Page(Page { limit, after: None }));
        };
        match after {
            Some(after) => Ok(Self::Page(Page {
                limit,
                after: Some(after),
            })),
            None => {
                wrong("after is 0, which is no channel; leave it out for the first page".into())
            }
        }
    }
}

/// As a query has it.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::Since(version) => write!(f, "?since={version}"),
            Self::Page(Page { limit, after: None }) => write!(f, "?limit={limit}"),
            Self::Page(Page {
                limit,
                after: Some(after),
            }) => write!(f, "?limit={limit}&after={after}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_all_what_changed_or_a_page_and_is_passed_on_as_it_was_understood() {
        for (query, passed) in [
            (None, ""),
            (Some(""), ""),
            (Some("since=57"), "?since=57"),
            (Some("limit=1"), "?limit=1"),
            (Some("after=7&limit=1000"), "?limit=1000&after=7"),
            (Some("after=7"), "?limit=1000&after=7"),
        ] {
            let selection = Selection::of(query).unwrap();
            assert_eq!(selection.to_string(), passed);
            assert_eq!(Selection::of(passed.strip_prefix('?')).unwrap(), selection);
        }
        for bad in [
            "limit=0",
            "limit=1001",
            "limit=65537",
            "after=0",
            "since=1&limit=1",
            "since=1&after=1",
        ] {
            assert!(Selection::of(Some(bad)).is_err(), "{bad}");
        }
    }
}
