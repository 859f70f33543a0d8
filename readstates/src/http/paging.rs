//! Pages of the read states of users who have many.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use readstates_api::Id;

use super::{
    App,
    asked::{Asked, FEW_STATES},
    body::{self, KnownTags},
    packing::Counted,
    reply::{self, Answer},
    representation::{Coding, Form, Representation},
    selection::Page,
};
use crate::{
    block::{BlockRef, State},
    limit::{Limit, Permit},
};

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
