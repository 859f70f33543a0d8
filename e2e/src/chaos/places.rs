//! What the cache answers about a user, and what the database has: both are compared with what clients were told.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use readstates_api::{Id, ReadStates};
use readstates_client::Client;
use readstates_ledger::{Answer, Audit, Found, Told};

use crate::{cassandra::Cassandra, http::ReadState};

/// Compares the books with what the service answers.
pub(crate) async fn in_cache(told: &Told, client: &Client) -> Result<Audit> {
    let found = async |user| {
        let states = read(user, client).await?;
        anyhow::Ok(states.read_states.iter().map(Found::from).collect())
    };
    told.audit(found).await
}

/// Compares them with what the database has.
pub(crate) async fn in_database(told: &Told, cassandra: &Cassandra) -> Result<Audit> {
    let found = async |user| {
        let row = cassandra.row(user).await?;
        let states = row.map_or_else(|| Ok(Vec::new()), |row| row.read_states())?;
        states.iter().map(found).collect()
    };
    told.audit(found).await
}

/// What the service answers to a read of a user.
pub(super) async fn cached_answer(user: u64, client: &Client) -> Result<Answer> {
    Ok(Answer::from(&read(user, client).await?))
}

/// What the database has of a user, in the same form.
pub(super) async fn stored_answer(user: u64, cassandra: &Cassandra) -> Result<Answer> {
    let Some(row) = cassandra.row(user).await? else {
        let (states, version) = (BTreeMap::new(), 0);
        return Ok(Answer::States { states, version });
    };
    let states = row.read_states()?;
    let states = states.iter().map(|state| {
        let Found {
            channel,
            last_message,
            mention_count: _,
        } = found(state)?;
        anyhow::Ok((channel, last_message))
    });
    Ok(Answer::States {
        states: states.collect::<Result<_>>()?,
        version: row.version()?,
    })
}

async fn read(user: u64, client: &Client) -> Result<ReadStates> {
    let id = Id::new(user).context("a user without an id")?;
    Ok(client.read_states(id).await?)
}

fn found(state: &ReadState) -> Result<Found> {
    let last_message = state.last_message_id.as_deref().unwrap_or("0");
    Ok(Found {
        channel: state.channel_id.parse()?,
        last_message: last_message.parse()?,
        mention_count: state.mention_count,
    })
}
