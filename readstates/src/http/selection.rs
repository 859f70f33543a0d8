//! Which of a user's read states a request asks for, and the pages of those who have many.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use readstates_api::{Id, MAX_PAGE, Problem, ProblemType};

use super::{
    App,
    body::{self, KnownTags},
    packing::Counted,
    problem::Refusal,
    read_states::{Asked, FEW_STATES},
    reply::{self, Answer},
    representation::{Coding, Form, Representation},
};
use crate::{
    block::{BlockRef, State},
    limit::{Limit, Permit},
};

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
    limit: u16,
    after: Option<Id>,
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

/// What is taken from a block for a page, while its user is locked.
struct Taken {
    version: u64,
    /// `None`: they are known, or there is no memory for them.
    states: Option<Copied>,
    known: bool,
    more: bool,
}

/// The states of a page, and where there are many their share of the memory for answers.
struct Copied {
    states: Vec<State>,
    permit: Option<Permit<Arc<Limit>>>,
}

/// One page of the user's read states.
pub(super) async fn page(app: &App, asked: &Asked<'_>, page: Page) -> Answer {
    let user = asked.target.user.get();
    let known = KnownTags::of(&asked.head.headers);
    let form = Form::of(&asked.head.headers);
    let buffered = Arc::clone(&app.gates.buffered);
    let view = move |block: BlockRef<'_>| page.of(block, &known, &buffered, form.representation);
    let taken = app.engine.read(user, view).await?;
    let etag = reply::etag(taken.version);
    let mut response = match taken.states {
        Some(copied) => {
            let next = copied.states.last().filter(|_| taken.more);
            let next = next.map(|state| state.channel);
            let mut response = copied.answer(app, user, taken.version, next, form).await?;
            if let Some(link) = next.and_then(|next| page.link(user, next)) {
                response.headers_mut().insert(header::LINK, link);
            }
            response
        }
        None if taken.known => reply::empty(StatusCode::NOT_MODIFIED),
        None => return Err(body::no_memory()),
    };
    response.headers_mut().insert(header::ETAG, etag);
    Ok(response)
}

impl Page {
    fn of(
        self,
        block: BlockRef<'_>,
        known: &KnownTags,
        buffered: &Arc<Limit>,
        representation: Representation,
    ) -> Taken {
        let version = block.version();
        let mut taken = Taken {
            version,
            states: None,
            known: known.have(&format!("\"{version}\"")),
            more: false,
        };
        if taken.known {
            return taken;
        }
        let states = block.states_after(self.after.map_or(0, Id::get));
        let left = states.size_hint().1.unwrap_or(0);
        let count = left.min(usize::from(self.limit));
        taken.more = left > count;
        // Before any of it is allocated: the states now, and their answer when the user is not locked any more.
        let bytes = representation.most_bytes(count) + count * size_of::<State>();
        let permit = (count > FEW_STATES).then(|| Permit::take(Arc::clone(buffered), bytes));
        if let Some(None) = permit {
            return taken;
        }
        taken.states = Some(Copied {
            states: states.take(count).collect(),
            permit: permit.flatten(),
        });
        taken
    }

    /// Where the next page is. Digits in a path: always a header's value.
    fn link(self, user: u64, next: u64) -> Option<HeaderValue> {
        let limit = self.limit;
        let link =
            format!("</v1/users/{user}/read-states?limit={limit}&after={next}>; rel=\"next\"");
        HeaderValue::try_from(link).ok()
    }
}

impl Copied {
    /// The page; `next`: the channel after which the next one begins.
    async fn answer(
        self,
        app: &App,
        user: u64,
        version: u64,
        next: Option<u64>,
        form: Form,
    ) -> Answer {
        let Self { states, permit } = self;
        let bytes = form.representation.page(user, version, &states, next);
        drop(states);
        let Some(permit) = permit else {
            return Ok(form.short(bytes));
        };
        let plain = Counted::new(bytes, permit);
        let coding = form.coding_of(plain.bytes.len());
        let made = match coding {
            Coding::Identity => plain,
            Coding::Zstd => app.packer.pack(plain).await?,
        };
        Ok(form.shared(Bytes::from_owner(made), coding))
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
