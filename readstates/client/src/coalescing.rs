//! Single operations of many tasks that become frames by themselves.
//!
//! ```text
//! ack, mention, read_state ──▶ queue of the owner ──▶ frame, at most two under way ──▶ rows ──▶ each its answer
//!                                      ▲                      │
//!                                      └── a frame returns ───┘ the next leaves with what has come meanwhile
//! ```
//! There is no timer: while an owner has little to do an operation leaves at once and alone, and the more come, the
//! more share a request. What a frame leaves open is tried again beside the queues, so that one slow user holds up
//! no other.

mod alone;
mod frame;
mod sender;
mod waiting;

use std::sync::Arc;

use readstates_api::{
    AckAnswer, Id, ReadState,
    batch::{Record, RecordOperation, v2::Entry},
};
use tokio::{runtime::Handle, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use self::waiting::{Done, Inner, ended};
use crate::{
    client::Client,
    error::{Cause, Error, Outcome},
};

/// Single operations of many tasks, which share requests: one frame for each owner, at most two of them under way.
///
/// Cheap to clone; clones share the queues. For services whose tasks each acknowledge, mention or read one channel: it
/// saves most of what a request costs on both sides, and adds no latency where there is little to do.
///
/// - Operations of one user are applied one after the other, in the order in which the calls were first polled.
/// - At most 65,536 operations wait for one owner; more are refused at once ([`Cause::Busy`]).
/// - A call whose future is dropped is taken back if it has not been sent; if it has, its outcome is unknown. Others
///   are not affected.
/// - What is sent again, and what is known after an error, is as with the methods of [`Client`]. So is how long a
///   call may take ([`Client::within`] before [`Client::coalescing`]).
/// - Members of a release that does not know these frames are sent single requests.
///
/// Acknowledgements with flags or the day of a visit are made with [`Client::ack`].
///
/// # Example
/// ```no_run
/// # use readstates_client::{Client, Config};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let states = Client::start(Config::new(["http://chat:7400"])?)?.coalescing();
/// let (user, channel) = ("4001".parse()?, "81384788765712384".parse()?);
/// let message = "1175928847299117063".parse()?;
/// // In each of thousands of tasks:
/// let acked = states.ack(user, channel, message).await?;
/// println!("{} mentions left", acked.read_state.mention_count);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Coalescing {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<Inner>,
    /// Routes what waits by each new ring; ends with the last clone.
    _router: AbortOnDropHandle<()>,
}

impl Client {
    /// A handle whose single operations share requests.
    ///
    /// Call it within a tokio runtime, which sends the requests from then on: also of calls that are made from
    /// another one.
    #[must_use]
    pub fn coalescing(&self) -> Coalescing {
        let runtime = Handle::current();
        let inner = Arc::new(Inner::new(self.clone(), runtime));
        // From here on no ring is missed: before it, nothing waits.
        let rings = self.caller().routes.changes();
        let router = tokio::spawn(sender::route_again(Arc::clone(&inner), rings));
        Coalescing {
            shared: Arc::new(Shared {
                inner,
                _router: AbortOnDropHandle::new(router),
            }),
        }
    }
}

impl Coalescing {
    /// The user has read a channel up to a message.
    ///
    /// # Errors
    /// When it is refused, or not answered in time; the error knows whether it may have been applied.
    pub async fn ack(&self, user: Id, channel: Id, message: Id) -> Result<AckAnswer, Error> {
        self.change(RecordOperation::Ack, user, channel, message)
            .await
    }

    /// The user puts the position on a message, in either direction, with this mention count from now on.
    ///
    /// It is not sent again when its outcome is unknown: see [`Client::ack_if`].
    ///
    /// # Errors
    /// As [`Coalescing::ack`].
    pub async fn ack_manual(
        &self,
        user: Id,
        channel: Id,
        message: Id,
        mention_count: u32,
    ) -> Result<AckAnswer, Error> {
        let operation = RecordOperation::Manual { mention_count };
        self.change(operation, user, channel, message).await
    }

    /// A message mentions one user; `count` is what it adds, 1 when absent. Returns whether it was counted: `false`
    /// may be because an earlier attempt of this very call was, and its answer lost.
    ///
    /// # Errors
    /// As [`Coalescing::ack`].
    pub async fn mention(
        &self,
        user: Id,
        channel: Id,
        message: Id,
        count: Option<u32>,
    ) -> Result<bool, Error> {
        let count = count.unwrap_or(1);
        let record = Record {
            operation: RecordOperation::Mention { count },
            user,
            channel,
            message,
        };
        let done = self.shared.inner.done(Entry::Change(record)).await?;
        Ok(done.applied)
    }

    /// The read state of a user for one channel, if there is one.
    ///
    /// # Errors
    /// When the service does not answer in time, or the caller may not read.
    pub async fn read_state(&self, user: Id, channel: Id) -> Result<Option<ReadState>, Error> {
        let done = self
            .shared
            .inner
            .done(Entry::Read { user, channel })
            .await?;
        Ok(done.state)
    }

    async fn change(
        &self,
        operation: RecordOperation,
        user: Id,
        channel: Id,
        message: Id,
    ) -> Result<AckAnswer, Error> {
        let began = Instant::now();
        let entry = Entry::Change(Record {
            operation,
            user,
            channel,
            message,
        });
        let Done {
            applied,
            version,
            state,
        } = self.shared.inner.done(entry).await?;
        // The rows of an acknowledgement that was done all have a state: those that have none are refused before.
        let read_state = state.ok_or_else(|| {
            let strange = Cause::Strange {
                asked: "the service".into(),
                status: 200,
            };
            ended(&entry, began, Outcome::Unknown, strange)
        })?;
        Ok(AckAnswer {
            applied,
            version,
            read_state,
        })
    }
}
