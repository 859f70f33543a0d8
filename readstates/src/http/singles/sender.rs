//! Senders: tasks that take frames from the queue of an owner until it is empty.
//!
//! No task waits for them: one ends when its queue is empty, and what it has sent by the last deadline in its frame. A
//! call that is dropped meanwhile changes nothing for them.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode, header};
use readstates_api::headers;
use readstates_ring::Slot;
use tokio::time::Instant;

use super::{
    Came, MEDIA_TYPE, Singles, To, Waiting,
    frame::{self, Answered},
};
use crate::{
    http::{passed, reply::Body, route::SINGLES},
    ownership::Ownership,
    store::chain,
};

/// Starts a sender for an owner.
pub(super) fn start(singles: Arc<Singles>, ownership: Arc<Ownership>, to: To) {
    // Ends by itself.
    drop(tokio::spawn(send(singles, ownership, to)));
}

async fn send(singles: Arc<Singles>, ownership: Arc<Ownership>, to: To) {
    loop {
        // Tasks that were about to run when this one was started have added theirs by now.
        let taken = singles.queues().take(&to);
        if taken.is_empty() {
            return;
        }
        let mut frame = Frame::new(&singles, &ownership, &to, taken);
        if let Some(response) = frame.first_answers().await {
            drop(tokio::spawn(frame.other_answers(response)));
        }
    }
}

/// Requests that are sent together, until each is answered.
struct Frame {
    singles: Arc<Singles>,
    ownership: Arc<Ownership>,
    to: To,
    /// Users and their requests, by their places; taken when they are answered.
    waiting: Vec<Option<(u64, Waiting)>>,
    /// What has come of the answers and is not yet one.
    stream: BytesMut,
    /// Whether the owner may have got it.
    sent: bool,
}

impl Frame {
    fn new(
        singles: &Arc<Singles>,
        ownership: &Arc<Ownership>,
        to: &To,
        taken: Vec<(u64, Waiting)>,
    ) -> Self {
        // What has waited while its user moved looks for the new owner.
        let is_there = |(user, waiting): &(u64, Waiting)| {
            waiting.to == *to && owner(ownership, *user).as_ref() == Some(to)
        };
        let (there, moved): (Vec<_>, Vec<_>) = taken.into_iter().partition(is_there);
        let frame = Self {
            singles: Arc::clone(singles),
            ownership: Arc::clone(ownership),
            to: to.clone(),
            waiting: there.into_iter().map(Some).collect(),
            stream: BytesMut::new(),
            sent: false,
        };
        frame.end(moved.into_iter().map(|moved| (moved, Came::OwnerMoved)));
        frame
    }

    /// Sends it; returns the response if there are answers that take longer.
    async fn first_answers(&mut self) -> Option<reqwest::Response> {
        let mut response = self.post().await?;
        // The owner says a length when all are made.
        if response.content_length().is_none() {
            return Some(response);
        }
        while self.read(&mut response).await {}
        None
    }

    /// The answers that take longer.
    async fn other_answers(mut self, mut response: reqwest::Response) {
        while self.read(&mut response).await {}
    }

    /// The response, if it has answers.
    async fn post(&mut self) -> Option<reqwest::Response> {
        if !self.to.0.may_take_frames() {
            self.end_all(|| Came::Alone);
            return None;
        }
        let now = Instant::now();
        let left = |waiting: &Waiting| waiting.deadline.saturating_duration_since(now);
        let requests: Vec<_> = self.waiting.iter().flatten().collect();
        let (_, first) = requests.first()?;
        let longest = requests.iter().map(|(_, waiting)| left(waiting)).max()?;
        let requests = requests.iter();
        let body = frame::encode(requests.map(|(_, waiting)| (left(waiting), &waiting.encoded)));
        let request = self
            .singles
            .client
            .post(format!("{}{SINGLES}", first.at))
            .header(headers::FORWARDED, self.singles.me.clone())
            .header(header::CONTENT_TYPE, MEDIA_TYPE)
            .timeout(longest)
            .body(body);
        self.singles.metrics.forward_frames.increment(1);
        self.sent = true;
        match request.send().await {
            Ok(response) if response.status() == StatusCode::OK => Some(response),
            Ok(response) => {
                self.refused(response).await;
                None
            }
            Err(error) => {
                self.sent = !error.is_connect();
                self.silent(&error);
                None
            }
        }
    }

    /// The owner has refused all of it, and did nothing unless it says so.
    async fn refused(&mut self, response: reqwest::Response) {
        let status = response.status();
        // One of the release before has nothing at this path; a later one may know other frames.
        let unknown = [StatusCode::NOT_FOUND, StatusCode::UNSUPPORTED_MEDIA_TYPE];
        if unknown.contains(&status) {
            self.to.0.takes_no_frames();
        }
        if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            self.end_all(|| Came::Alone);
            return;
        }
        let (kept, ring) = passed::kept(response.headers());
        match response.bytes().await {
            Ok(body) => self.end_all(|| Came::Answer(copy(status, &kept, &body), ring)),
            Err(error) => self.silent(&error),
        }
    }

    /// Whether more is to come.
    async fn read(&mut self, response: &mut reqwest::Response) -> bool {
        match response.chunk().await {
            Ok(Some(chunk)) => self.take(&chunk),
            Ok(None) => false,
            Err(error) => {
                self.silent(&error);
                false
            }
        }
    }

    /// Gives away the answers in what has come; whether it makes sense.
    fn take(&mut self, chunk: &Bytes) -> bool {
        self.stream.extend_from_slice(chunk);
        let mut came = Vec::new();
        let sound = loop {
            match frame::take_answer(&mut self.stream) {
                Ok(None) => break true,
                Ok(Some(answered)) => came.extend(self.answered(answered)),
                Err(error) => {
                    let owner = &self.to.0.name;
                    tracing::warn!(owner, "the answers to a frame cannot be read: {error}");
                    break false;
                }
            }
        };
        self.end(came);
        sound
    }

    fn answered(&mut self, answered: Answered) -> Option<((u64, Waiting), Came)> {
        let Answered {
            place,
            response,
            ring,
        } = answered;
        let waiting = self.waiting.get_mut(place)?.take()?;
        Some((waiting, Came::Answer(response, ring)))
    }

    fn silent(&self, error: &reqwest::Error) {
        let owner = &self.to.0.name;
        tracing::debug!(owner, "no answer to a frame: {}", chain(error));
    }

    fn end_all(&mut self, came: impl Fn() -> Came) {
        let waiting = self.waiting.iter_mut().filter_map(Option::take);
        let ended: Vec<_> = waiting.map(|waiting| (waiting, came())).collect();
        self.end(ended);
    }

    /// Answers requests that have ended, and lets those behind them go.
    fn end(&self, ended: impl IntoIterator<Item = ((u64, Waiting), Came)>) {
        let ended: Vec<_> = ended.into_iter().collect();
        if ended.is_empty() {
            return;
        }
        let users = ended.iter().map(|((user, _), _)| *user);
        let mut start = Vec::new();
        // Before the answers: a task that goes on with the same user at once finds it free. Who has no other owner now
        // finds out when it is taken.
        let owner = |user| owner(&self.ownership, user).unwrap_or_else(|| self.to.clone());
        self.singles.queues().land(users, owner, &mut start);
        for ((_, waiting), came) in ended {
            let Waiting { answer, permit, .. } = waiting;
            // Before the answer: a task that goes on at once finds room.
            drop(permit);
            // The call may have been dropped.
            let _ = answer.send(came);
        }
        for to in start {
            self::start(Arc::clone(&self.singles), Arc::clone(&self.ownership), to);
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let sent = self.sent;
        self.end_all(|| Came::Silence { sent });
    }
}

/// The other member that owns a user.
fn owner(ownership: &Ownership, user: u64) -> Option<To> {
    let routes = ownership.routes();
    let owner = ownership.other(&routes, Slot::of_user(user))?;
    Some(To(Arc::clone(&routes.peers()[owner])))
}

fn copy(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Response<Body> {
    let mut response = Response::new(Body::whole(body.clone()));
    *response.status_mut() = status;
    *response.headers_mut() = headers.clone();
    response
}
