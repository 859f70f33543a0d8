//! Operations whose owner does not take them in a frame: single requests, which every release knows.

use std::sync::Arc;

use futures::{StreamExt, stream::FuturesUnordered};
use readstates_api::{
    AckAnswer, AckRequest,
    batch::{Record, RecordOperation, v2::Entry},
};

use super::{
    frame::operation_of,
    sender,
    waiting::{Done, Inner, Waiting},
};
use crate::{client::Client, error::Error, many, mentions::Mention};

/// Sends each as a request of its own, side by side: at most those of a frame, and no more than the client has turns.
pub(super) async fn send(inner: Arc<Inner>, waiting: Vec<Waiting>) {
    let client = &inner.client;
    let requests = waiting.into_iter().map(|waiting| async move {
        let result = request(client, &waiting.entry).await;
        (waiting, result)
    });
    let mut requests: FuturesUnordered<_> = requests.collect();
    while let Some((waiting, result)) = requests.next().await {
        let result = result.map_err(|error| operation_of(&waiting.entry, error.outcome, &error));
        sender::end(&inner, [(waiting, result)]);
    }
}

async fn request(client: &Client, entry: &Entry) -> Result<Done, Error> {
    match *entry {
        Entry::Read { user, channel } => {
            let state = client.read_state(user, channel).await?;
            Ok(Done {
                applied: false,
                version: Default::default(),
                state,
            })
        }
        Entry::Change(record) => match record.operation {
            RecordOperation::Ack => ack(client, &record, None).await,
            RecordOperation::Manual { mention_count } => {
                ack(client, &record, Some(mention_count)).await
            }
            RecordOperation::Mention { count } => mention(client, &record, count).await,
        },
    }
}

async fn ack(client: &Client, record: &Record, manual: Option<u32>) -> Result<Done, Error> {
    let request = AckRequest {
        message_id: record.message,
        manual: manual.is_some(),
        mention_count: manual,
        flags: None,
        last_viewed: None,
    };
    let answer = client.ack(record.user, record.channel, &request).await?;
    let AckAnswer {
        applied,
        version,
        read_state,
    } = answer;
    Ok(Done {
        applied,
        version,
        state: Some(read_state),
    })
}

async fn mention(client: &Client, record: &Record, count: u32) -> Result<Done, Error> {
    let mut work = Mention::new(record.channel, record.message, Some(count));
    let user = std::iter::once(record.user);
    many::all(client.caller(), &mut work, user, client.deadline()).await;
    match work.given_up {
        Some(error) => Err(error),
        None => Ok(Done {
            applied: work.done.applied > 0,
            version: Default::default(),
            state: None,
        }),
    }
}
