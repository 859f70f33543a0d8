//! Changes at one version of a user: applied at most once, however often they are sent.
//!
//! A call that is refused with [`ProblemType::VersionMoved`](readstates_api::ProblemType::VersionMoved) did nothing when
//! its outcome is [`Outcome::NothingDone`](crate::Outcome::NothingDone). When that is unknown, an answer of it was lost,
//! and the version may have moved on by this very call: what has changed since
//! ([`Client::read_states_since`] with the same version) tells.

use http::Method;
use readstates_api::{
    AckAnswer, AckRequest, DeleteAnswer, Id, MentionsAnswer, MentionsRequest, Version,
};

use crate::{Client, Error, exchange::Request};

/// How far the deletion of a user has come. It is gone for readers in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// Whether the database has the deletion. If not, a crash of the owner can bring the user back: delete again until
    /// this is `true`.
    pub written: bool,
    /// The user's version, where the service says it.
    pub version: Option<Version>,
}

pub(crate) fn ack_request(user: Id, channel: Id, ack: &AckRequest) -> Request {
    let path = format!("/v1/users/{user}/read-states/{channel}/ack");
    Request::json("acknowledge a message", Method::POST, path, ack)
}

pub(crate) fn delete_request(user: Id, channel: Id) -> Request {
    let path = format!("/v1/users/{user}/read-states/{channel}");
    Request::plain("delete a read state", Method::DELETE, path)
}

pub(crate) fn erase_request(user: Id) -> Request {
    let path = format!("/v1/users/{user}");
    Request::plain("delete a user", Method::DELETE, path)
}

impl Client {
    /// As [`Client::ack`], at this version of the user alone.
    ///
    /// # Errors
    /// Also when the user is at another version: see [`Error::version`].
    pub async fn ack_if(
        &self,
        user: Id,
        channel: Id,
        ack: &AckRequest,
        version: Version,
    ) -> Result<AckAnswer, Error> {
        let request = ack_request(user, channel, ack).only_at(version);
        self.parse(user, &request).await
    }

    /// As [`Client::delete_read_state`], at this version of the user alone.
    ///
    /// # Errors
    /// As [`Client::ack_if`].
    pub async fn delete_read_state_if(
        &self,
        user: Id,
        channel: Id,
        version: Version,
    ) -> Result<DeleteAnswer, Error> {
        let request = delete_request(user, channel).only_at(version);
        self.parse(user, &request).await
    }

    /// As [`Client::delete_user`], at this version of the user alone.
    ///
    /// # Errors
    /// As [`Client::ack_if`].
    pub async fn delete_user_if(&self, user: Id, version: Version) -> Result<Deletion, Error> {
        self.erase(user, &erase_request(user).only_at(version))
            .await
    }

    /// A message mentions one user at this version of the user alone; `count` is what it adds, 1 when absent. Returns
    /// whether it was counted.
    ///
    /// # Errors
    /// As [`Client::ack_if`].
    pub async fn mention_if(
        &self,
        user: Id,
        channel: Id,
        message: Id,
        count: Option<u32>,
        version: Version,
    ) -> Result<bool, Error> {
        let body = MentionsRequest {
            channel_id: channel,
            message_id: message,
            user_ids: vec![user],
            count,
        };
        let path = "/v1/mentions".to_owned();
        let request = Request::json("mention a user", Method::POST, path, &body).only_at(version);
        let answer: MentionsAnswer = self.parse(user, &request).await?;
        Ok(answer.applied > 0)
    }
}
