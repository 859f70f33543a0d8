//! The service, as the mirror asks it.

use std::{collections::BTreeSet, time::Duration};

use readstates_api::{Id, ReadStates};
use readstates_client::{Client, Error, Routing};

use super::operation::Operation;
use crate::{
    config::{ServiceArgs, ServiceError},
    ration::Ration,
    store::chain,
};

/// How long a caller waits for an answer of the service before it gets the old system's.
const SERVED: Duration = Duration::from_secs(1);

/// Clients of the service: for writes and comparisons, which are tried for longer, and for what callers wait for.
#[derive(Debug)]
pub(super) struct Ours {
    behind: Client,
    served: Client,
    log: Ration,
}

impl Ours {
    pub(super) fn new(service: ServiceArgs, deadline: Duration) -> Result<Self, ServiceError> {
        // Through the given URLs alone: single members need not be reachable.
        let config = service.client()?.routing(Routing::Seeds);
        let patient = config.clone().deadline(deadline).attempt_timeout(deadline);
        let served = SERVED.min(deadline);
        let quick = config.deadline(served).attempt_timeout(served);
        Ok(Self {
            behind: Client::start(patient)?,
            served: Client::start(quick)?,
            log: Ration::default(),
        })
    }

    /// Sends a write, and again while that makes sense; returns the users for whom it may be missing.
    pub(super) async fn write(&self, operation: &Operation) -> Vec<Id> {
        let (done, users) = match operation {
            Operation::Ack { user, channel, ack } => {
                let done = self.behind.ack(*user, *channel, ack).await;
                (done.map(|_| ()), vec![*user])
            }
            Operation::Delete {
                user,
                channel: Some(channel),
            } => {
                let done = self.behind.delete_read_state(*user, *channel).await;
                (done.map(|_| ()), vec![*user])
            }
            Operation::Delete {
                user,
                channel: None,
            } => {
                let done = self.behind.delete_user(*user).await;
                (done.map(|_| ()), vec![*user])
            }
            Operation::Mention(mention) => {
                let failed = self.behind.mention(mention).await.failed;
                if let Some(first) = failed.first() {
                    self.log("a mention", &format!("{:?}", first.outcome));
                }
                let users: BTreeSet<Id> = failed.iter().map(|failed| failed.user_id).collect();
                return users.into_iter().collect();
            }
        };
        match done {
            Ok(()) => Vec::new(),
            Err(error) => {
                self.log("a write", &chain(&error));
                users
            }
        }
    }

    /// What a user has, for a caller who waits.
    pub(super) async fn serve(&self, user: Id) -> Result<ReadStates, Error> {
        let states = self.served.read_states(user).await;
        states.inspect_err(|error| self.log("a read", &chain(error)))
    }

    /// What a user has, for a comparison.
    pub(super) async fn states(&self, user: Id) -> Result<ReadStates, Error> {
        self.behind.read_states(user).await
    }

    fn log(&self, what: &str, error: &str) {
        if let Some(left_out) = self.log.take(std::time::Instant::now()) {
            tracing::warn!(left_out, "the service did not take {what}: {error}");
        }
    }
}
