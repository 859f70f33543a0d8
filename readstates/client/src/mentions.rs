//! A message that mentions many users.

use http::Method;
use readstates_api::{Id, MAX_MENTIONED_USERS, MentionsAnswer, MentionsRequest, ProblemType};

use crate::{
    error::{Error, Outcome},
    exchange::Request,
    many::Work,
};

/// The outcome of a mention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mentioned {
    /// Users whose count grew.
    pub applied: u64,
    /// Users who had read the message already, or for whom it was counted before. After a lost answer these
    /// may be users for whom this very call counted it.
    pub ignored: u64,
    /// Users to send again later.
    pub failed: Vec<NotMentioned>,
}

/// A user for whom a mention was not counted in time, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotMentioned {
    /// The user.
    pub user_id: Id,
    /// What is known about it.
    pub outcome: Outcome,
    /// What the service said last; `None` when it did not answer.
    pub problem: Option<ProblemType>,
}

/// A mention and its books.
pub(crate) struct Mention {
    pub(crate) channel_id: Id,
    pub(crate) message_id: Id,
    pub(crate) count: Option<u32>,
    pub(crate) done: Mentioned,
    /// Why the first user was given up, if one was.
    pub(crate) given_up: Option<Error>,
}

impl Mention {
    pub(crate) fn new(channel_id: Id, message_id: Id, count: Option<u32>) -> Self {
        Self {
            channel_id,
            message_id,
            count,
            done: Mentioned::default(),
            given_up: None,
        }
    }
}

impl Work for Mention {
    type Item = Id;
    const OPERATION: &'static str = "mention users";
    const MOST: usize = MAX_MENTIONED_USERS;

    fn user(item: &Id) -> Id {
        *item
    }

    fn repeats(_: &Id) -> bool {
        true
    }

    fn request(&self, items: &[Id]) -> Request {
        let body = MentionsRequest {
            channel_id: self.channel_id,
            message_id: self.message_id,
            user_ids: items.to_vec(),
            count: self.count,
        };
        Request::json(Self::OPERATION, Method::POST, "/v1/mentions".into(), &body)
    }

    fn read(&mut self, items: &[Id], answer: &[u8]) -> Option<Vec<(usize, ProblemType)>> {
        let MentionsAnswer {
            applied,
            ignored,
            failed,
        } = serde_json::from_slice(answer).ok()?;
        self.done.applied += u64::from(applied);
        self.done.ignored += u64::from(ignored);
        // The users of a call are sorted, and so are those of its parts.
        let open = failed.iter().filter_map(|failed| {
            let index = items.binary_search(&failed.user_id).ok()?;
            Some((index, failed.problem))
        });
        let mut open: Vec<_> = open.collect();
        open.sort_unstable_by_key(|&(index, _)| index);
        Some(open)
    }

    fn give_up(&mut self, user_id: Id, outcome: Outcome, why: &Error) {
        self.done.failed.push(NotMentioned {
            user_id,
            outcome,
            problem: why.problem(),
        });
        self.given_up.get_or_insert_with(|| Error {
            outcome,
            ..why.clone()
        });
    }
}
