//! The read states of users who have many, page by page.

use std::collections::{BTreeMap, HashSet};

use readstates_api::{Id, ReadStates, Version};

use crate::{Client, Error};

impl Client {
    /// The read states of a user after a channel, by channel: `limit` at most, and no more than 1000. The next page is
    /// after [`ReadStates::next`], which the last one does not have.
    ///
    /// Each page is of the user's version at that time. What changed between the first page and the last is what
    /// [`Client::read_states_since`] the first one's version tells.
    ///
    /// # Errors
    /// When the service does not give them in time.
    pub async fn read_states_page(
        &self,
        user: Id,
        limit: u16,
        after: Option<Id>,
    ) -> Result<ReadStates, Error> {
        let after = after.map_or_else(String::new, |after| format!("&after={after}"));
        let path = format!("/v1/users/{user}/read-states?limit={limit}{after}");
        self.states(user, "read a page of the states of a user", path)
            .await
    }

    /// All read states of a user, asked for in pages of `limit`, so that no answer is large; as they were at the
    /// version that is returned with them.
    ///
    /// The deadline of a call holds for each page.
    ///
    /// # Errors
    /// When the service does not give them in time.
    pub async fn read_states_by_pages(&self, user: Id, limit: u16) -> Result<ReadStates, Error> {
        let first = self.read_states_page(user, limit, None).await?;
        let since = first.version;
        let (mut last, mut next) = (since, first.next);
        let mut states: BTreeMap<Id, _> = by_channel(first);
        while let Some(after) = next {
            let page = self.read_states_page(user, limit, Some(after)).await?;
            (last, next) = (page.version, page.next);
            states.extend(by_channel(page));
        }
        if last != since {
            last = self.catch_up(user, since, &mut states).await?;
        }
        Ok(ReadStates {
            user_id: user,
            version: last,
            partial: false,
            read_states: states.into_values().collect(),
            deleted: None,
            next: None,
        })
    }

    /// Brings states that were read from `since` on up to date; returns the version that they are at then.
    async fn catch_up(
        &self,
        user: Id,
        since: Version,
        states: &mut States,
    ) -> Result<Version, Error> {
        let changes = self.read_states_since(user, since).await?;
        let version = changes.version;
        if changes.partial {
            let deleted: HashSet<Id> = changes.deleted.iter().flatten().copied().collect();
            states.retain(|channel, _| !deleted.contains(channel));
        } else {
            states.clear();
        }
        states.extend(by_channel(changes));
        Ok(version)
    }
}

type States = BTreeMap<Id, readstates_api::ReadState>;

fn by_channel(answer: ReadStates) -> States {
    let states = answer.read_states.into_iter();
    states.map(|state| (state.channel_id, state)).collect()
}
