//! The operations of the service, one method each.

use std::{sync::Arc, time::Duration};

use http::{Method, StatusCode, header};
use readstates_api::{
    AckAnswer, AckBulkAnswer, AckBulkRequest, AckRequest, DeleteAnswer, Id, MentionsRequest,
    PinsAckRequest, ProblemType, ReadState, ReadStates, Summary, Version,
    batch::{Record, RecordOutcome, v3::Import},
    rows,
};
use serde::de::DeserializeOwned;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    batch::Batch,
    call::{Caller, Progress},
    conditional::{Deletion, ack_request, delete_request, erase_request},
    config::{Config, ConfigError, Routing},
    error::{Cause, Error, Outcome},
    exchange::{self, Answer, Exchanges, Request},
    follow,
    import::Imported,
    many,
    mentions::{Mention, Mentioned},
    retry::Budget,
    ring::Ring,
    routes::Routes,
};

/// A client of a read-states service.
///
/// Cheap to clone; clones share connections, ring and budgets. Needs a tokio runtime. The task that follows the
/// ring ends with the last clone.
///
/// Dropping the future of a call ends the waiting, not the request: its outcome is unknown then.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
    within: Duration,
}

#[derive(Debug)]
struct Shared {
    caller: Caller,
    /// Follows the ring; ends with the client.
    _follower: Option<AbortOnDropHandle<()>>,
}

impl Client {
    /// Starts a client. It asks for the ring at once and works before it has it, through the seeds.
    ///
    /// Call it within a tokio runtime.
    ///
    /// # Errors
    /// When a fixed ring makes no sense, or there is no HTTP client.
    pub fn start(config: Config) -> Result<Self, ConfigError> {
        let exchanges = Arc::new(Exchanges::new(&config)?);
        let routes = Arc::new(Routes::new(&config));
        let follower = match &config.routing {
            Routing::Owners => {
                let following = follow::follow(Arc::clone(&exchanges), Arc::clone(&routes));
                Some(AbortOnDropHandle::new(tokio::spawn(following)))
            }
            Routing::Seeds => None,
            Routing::Fixed(document) => {
                routes.adopt(Ring::try_from(document.as_ref().clone())?, true);
                None
            }
        };
        let within = config.deadline;
        let budget = Budget::new(config.retry_reserve, config.retries_per_call);
        let caller = Caller {
            config,
            exchanges,
            routes,
            budget,
        };
        let shared = Shared {
            caller,
            _follower: follower,
        };
        Ok(Self {
            shared: Arc::new(shared),
            within,
        })
    }

    /// The same client, whose calls may take this long.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            within: deadline,
        }
    }

    /// The newest ring the client has; `None` before the first, and always when it asks the seeds.
    #[must_use]
    pub fn ring(&self) -> Option<Ring> {
        self.caller().routes.table().map(|table| table.ring.clone())
    }

    /// Waits for a ring with a number greater than `after`; with 0, for any.
    ///
    /// Never ends for a client that does not follow the ring.
    pub async fn ring_after(&self, after: u64) -> Ring {
        let mut changes = self.caller().routes.changes();
        let newer = changes.wait_for(|table| {
            let ring = table.as_ref().map(|table| &table.ring);
            ring.is_some_and(|ring| ring.number() > after)
        });
        match newer.await.map(|table| table.clone()) {
            Ok(Some(table)) => table.ring.clone(),
            // The sender lives as long as this client.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// All read states of a user. A user never seen has none, and version 0.
    ///
    /// # Errors
    /// When the service does not give them in time.
    pub async fn read_states(&self, user: Id) -> Result<ReadStates, Error> {
        let path = format!("/v1/users/{user}/read-states");
        self.states(user, "read the states of a user", path).await
    }

    /// The read states of a user that changed after a version, and the channels that were deleted; all of
    /// them (`partial: false`) when the service does not remember that far back.
    ///
    /// # Errors
    /// When the service does not give them in time.
    pub async fn read_states_since(&self, user: Id, since: Version) -> Result<ReadStates, Error> {
        let path = format!("/v1/users/{user}/read-states?since={since}");
        self.states(user, "read the changes of a user", path).await
    }

    /// All read states of a user, unless the user's version is still this one (`None`).
    ///
    /// # Errors
    /// When the service does not give them in time.
    pub async fn read_states_unless(
        &self,
        user: Id,
        known: Version,
    ) -> Result<Option<ReadStates>, Error> {
        let path = format!("/v1/users/{user}/read-states");
        let request = Request {
            known: Some(known),
            ..Request::states("read the states of a user", path)
        };
        let (answer, progress) = self.call(user, &request).await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        states(&answer, &progress).map(Some)
    }

    /// The read state of a user for one channel, if there is one.
    ///
    /// # Errors
    /// When the service does not answer in time.
    pub async fn read_state(&self, user: Id, channel: Id) -> Result<Option<ReadState>, Error> {
        let path = format!("/v1/users/{user}/read-states/{channel}");
        match self.read(user, "read a state", path).await {
            Ok(state) => Ok(Some(state)),
            Err(error) if error.problem() == Some(ProblemType::NoReadState) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The totals of a user, for a badge.
    ///
    /// # Errors
    /// When the service does not answer in time.
    pub async fn summary(&self, user: Id) -> Result<Summary, Error> {
        let path = format!("/v1/users/{user}/summary");
        self.read(user, "read the summary of a user", path).await
    }

    /// The user has read a channel up to a message, or puts the position there by hand.
    ///
    /// `applied` may be `false` because an earlier attempt of this very call was applied and its answer lost. A manual
    /// one is not sent again when its outcome is unknown: see [`Client::ack_if`].
    ///
    /// # Errors
    /// When it is refused, or not answered in time; the error knows whether it may have been applied.
    pub async fn ack(&self, user: Id, channel: Id, ack: &AckRequest) -> Result<AckAnswer, Error> {
        let request = ack_request(user, channel, ack);
        let request = if ack.manual { request.once() } else { request };
        self.parse(user, &request).await
    }

    /// The user has seen the pins of a channel.
    ///
    /// # Errors
    /// As [`Client::ack`].
    pub async fn ack_pins(
        &self,
        user: Id,
        channel: Id,
        pins: &PinsAckRequest,
    ) -> Result<AckAnswer, Error> {
        let path = format!("/v1/users/{user}/read-states/{channel}/pins/ack");
        self.post(user, "acknowledge pins", path, pins).await
    }

    /// The user has read several channels; in order, at most 1000.
    ///
    /// # Errors
    /// As [`Client::ack`].
    pub async fn ack_bulk(&self, user: Id, bulk: &AckBulkRequest) -> Result<AckBulkAnswer, Error> {
        let path = format!("/v1/users/{user}/read-states/ack-bulk");
        self.post(user, "acknowledge channels", path, bulk).await
    }

    /// Deletes the read state of a channel.
    ///
    /// It is not sent again when its outcome is unknown: see [`Client::delete_read_state_if`].
    ///
    /// # Errors
    /// As [`Client::ack`].
    pub async fn delete_read_state(&self, user: Id, channel: Id) -> Result<DeleteAnswer, Error> {
        self.parse(user, &delete_request(user, channel).once())
            .await
    }

    /// Deletes everything of a user, from cache and database.
    ///
    /// It is not sent again when its outcome is unknown: see [`Client::delete_user_if`].
    ///
    /// # Errors
    /// As [`Client::ack`].
    pub async fn delete_user(&self, user: Id) -> Result<Deletion, Error> {
        self.erase(user, &erase_request(user).once()).await
    }

    /// A message mentions users: one request for each owner, side by side. Any number of users; one that is
    /// listed twice is mentioned once.
    ///
    /// A user whose read state of the channel is deleted meanwhile may be mentioned twice: see [`Client::mention_if`].
    ///
    /// What cannot be done in time is in the result, user by user: some users may fail and the others not.
    pub async fn mention(&self, mention: &MentionsRequest) -> Mentioned {
        let mut users = mention.user_ids.clone();
        users.sort_unstable();
        users.dedup();
        let mut work = Mention::new(mention.channel_id, mention.message_id, mention.count);
        many::all(self.caller(), &mut work, users.into_iter(), self.within).await;
        work.done
    }

    /// Many operations of many users: one request for each owner (more for more than 65,536 records), side
    /// by side. Records of one user are applied in their order, except those that are sent again. Manual ones are not
    /// sent again when their outcome is unknown.
    ///
    /// Returns the outcome of each record, in order: `NotTaken` and `Unknown` remain where time or budget ran out.
    pub async fn batch(&self, records: &[Record]) -> Vec<RecordOutcome> {
        let mut work = Batch {
            outcomes: vec![RecordOutcome::NotTaken; records.len()],
        };
        let items = records.iter().copied().enumerate();
        many::all(self.caller(), &mut work, items, self.within).await;
        work.outcomes
    }

    /// Read states of another system, of many users: one request for each owner (more for more than 65,536 records),
    /// side by side. Sets what is absent and moves nothing back, so all of it may be sent again.
    ///
    /// The caller needs the verbs `write` and `import`.
    pub async fn import(&self, records: &[Import]) -> Imported {
        let mut work = Imported::nothing_of(records.len());
        let items = records.iter().copied().enumerate();
        many::all(self.caller(), &mut work, items, self.within).await;
        work
    }

    pub(crate) async fn erase(&self, user: Id, request: &Request) -> Result<Deletion, Error> {
        let (answer, _) = self.call(user, request).await?;
        Ok(Deletion {
            written: answer.status != StatusCode::ACCEPTED,
            version: exchange::version(&answer.headers),
        })
    }

    /// How long a call may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.within
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.shared.caller
    }

    pub(crate) async fn call(
        &self,
        user: Id,
        request: &Request,
    ) -> Result<(Answer, Progress), Error> {
        self.caller().call(user, request, self.within).await
    }

    pub(crate) async fn parse<T: DeserializeOwned>(
        &self,
        user: Id,
        request: &Request,
    ) -> Result<T, Error> {
        let (answer, progress) = self.call(user, request).await?;
        parsed(&answer, &progress)
    }

    /// Read states, in binary where the member can.
    pub(crate) async fn states(
        &self,
        user: Id,
        operation: &'static str,
        path: String,
    ) -> Result<ReadStates, Error> {
        let request = Request::states(operation, path);
        let (answer, progress) = self.call(user, &request).await?;
        states(&answer, &progress)
    }

    async fn read<T: DeserializeOwned>(
        &self,
        user: Id,
        operation: &'static str,
        path: String,
    ) -> Result<T, Error> {
        let request = Request::plain(operation, Method::GET, path);
        self.parse(user, &request).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        user: Id,
        operation: &'static str,
        path: String,
        body: &impl serde::Serialize,
    ) -> Result<T, Error> {
        let request = Request::json(operation, Method::POST, path, body);
        self.parse(user, &request).await
    }
}

/// The body of a 200. A malformed one leaves the outcome open.
fn parsed<T: DeserializeOwned>(answer: &Answer, progress: &Progress) -> Result<T, Error> {
    serde_json::from_slice(&answer.body).map_err(|_| strange(answer, progress))
}

/// As the member has written them.
fn states(answer: &Answer, progress: &Progress) -> Result<ReadStates, Error> {
    let media_type = answer.headers.get(header::CONTENT_TYPE);
    if media_type.is_some_and(|media_type| media_type == rows::MEDIA_TYPE) {
        return rows::parse(&answer.body).map_err(|_| strange(answer, progress));
    }
    parsed(answer, progress)
}

fn strange(answer: &Answer, progress: &Progress) -> Error {
    let mut progress = progress.clone();
    progress.outcome = Outcome::Unknown;
    progress.error(Cause::Strange {
        asked: "the service".into(),
        status: answer.status.as_u16(),
    })
}
