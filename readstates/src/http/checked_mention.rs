//! A mention as it is asked for, once it is in range.

use readstates_api::{Id, MAX_MENTIONED_USERS, MentionsRequest, Problem, ProblemType};

use super::problem::Refusal;
use crate::block::Operation as Change;

/// A mention that is in range, without its users.
pub(super) struct Mention {
    pub(super) channel: Id,
    pub(super) message: Id,
    pub(super) count: u32,
}

impl Mention {
    /// What is done for each of them.
    pub(super) fn operation(&self) -> Change {
        Change::Mention {
            channel: self.channel.get(),
            message: self.message.get(),
            count: self.count,
        }
    }
}

/// The mention, and its users, sorted and each there once.
pub(super) fn checked(request: MentionsRequest) -> Result<(Mention, Vec<Id>), Refusal> {
    let MentionsRequest {
        channel_id,
        message_id,
        mut user_ids,
        count,
    } = request;
    let most = MAX_MENTIONED_USERS;
    if user_ids.is_empty() {
        let detail = format!("user_ids is empty; give 1 to {most} users");
        return Err(Problem::new(ProblemType::BadValue, detail)
            .at("/user_ids")
            .into());
    }
    if user_ids.len() > most {
        let detail = format!(
            "{} users; send at most {most} in one request",
            user_ids.len()
        );
        return Err(Problem::new(ProblemType::TooManyItems, detail)
            .at("/user_ids")
            .into());
    }
    let count = count.unwrap_or(1);
    if count == 0 {
        let detail = "count is 0; give at least 1";
        return Err(Problem::new(ProblemType::BadValue, detail)
            .at("/count")
            .into());
    }
    user_ids.sort_unstable();
    user_ids.dedup();
    let mention = Mention {
        channel: channel_id,
        message: message_id,
        count,
    };
    Ok((mention, user_ids))
}
