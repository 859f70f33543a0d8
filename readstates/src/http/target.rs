//! What a request about one user names.

use readstates_api::Id;

use super::{body, head::Head, problem::Refusal, route::Resource, selection::Selection};
use crate::operation::Operation;

/// What a request about one user names, understood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) user: Id,
    /// Where the operation has one.
    pub(super) channel: Option<Id>,
    /// Which of all read states.
    pub(super) selection: Selection,
}

impl Target {
    pub(super) fn of(
        operation: Operation,
        resource: Resource<'_>,
        head: &Head,
    ) -> Result<Self, Refusal> {
        let (user, channel) = resource.ids();
        let user = body::id("the user", user.unwrap_or_default())?;
        let channel = channel.map(|channel| body::id("the channel", channel));
        let selection = match operation {
            Operation::List => Selection::of(head.uri.query())?,
            _ => Selection::All,
        };
        Ok(Self {
            user,
            channel: channel.transpose()?,
            selection,
        })
    }

    /// How another member is asked for the same.
    pub(super) fn path_and_query(&self, operation: Operation) -> String {
        let path = operation.path(self.user, self.channel);
        format!("{path}{}", self.selection)
    }
}
