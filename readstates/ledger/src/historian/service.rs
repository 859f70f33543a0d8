//! What historians ask: the service by its client, or what a test puts in its place.

use std::future::Future;

use readstates_api::{AckRequest, Id, ReadStates};
use readstates_client::{Client, Error, Outcome};

use crate::history::{Action, Answer};

/// What can be asked about users.
pub(super) trait Service: Clone + Send + Sync + 'static {
    /// The answer to one request, which is sent once; `None` when it was refused and nothing was done.
    fn answer(&self, user: u64, action: Action) -> impl Future<Output = Option<Answer>> + Send;
}

impl Service for Client {
    async fn answer(&self, user: u64, action: Action) -> Option<Answer> {
        match ask(self, id(user), action).await {
            Ok(answer) => Some(answer),
            Err(error) => match error.outcome() {
                Outcome::NothingDone => None,
                Outcome::Unknown => Some(Answer::Unknown),
            },
        }
    }
}

impl From<&ReadStates> for Answer {
    fn from(read: &ReadStates) -> Self {
        let states = read.read_states.iter().map(|state| {
            let last = state.last_message_id.map_or(0, Id::get);
            (state.channel_id.get(), last)
        });
        Self::States {
            states: states.collect(),
            version: read.version.0,
        }
    }
}

async fn ask(client: &Client, user: Id, action: Action) -> Result<Answer, Error> {
    let ack = |message, manual| AckRequest {
        message_id: id(message),
        manual,
        mention_count: manual.then_some(0),
        flags: None,
        last_viewed: None,
    };
    Ok(match action {
        Action::Ack { channel, message } | Action::Manual { channel, message } => {
            let manual = matches!(action, Action::Manual { .. });
            let done = client.ack(user, id(channel), &ack(message, manual)).await?;
            Answer::Changed {
                applied: done.applied,
                version: done.version.0,
            }
        }
        Action::Delete { channel } => {
            let done = client.delete_read_state(user, id(channel)).await?;
            Answer::Changed {
                applied: done.applied,
                version: done.version.0,
            }
        }
        Action::Erase => {
            client.delete_user(user).await?;
            Answer::Done
        }
        Action::Read => Answer::from(&client.read_states(user).await?),
    })
}

/// Ids of a history are never 0.
fn id(number: u64) -> Id {
    Id::new(number).unwrap_or_else(|| unreachable!("an id of a history is 0"))
}
