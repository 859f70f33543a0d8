//! A request about one user, as the handlers of reads and of changes have it.

use readstates_api::{Id, Problem, ProblemType};

use super::{body, head::Head, json, problem::Refusal, target::Target};
use crate::block::Precondition;

/// An answer of so many states is small ([`body::SMALL_BYTES`]) and written while the block is shown. Of
/// what is larger, readers share a snapshot, and it is written after: while a block is shown, others
/// who hash near it wait for a lock.
pub(super) const FEW_STATES: usize = 64;
const _: () = assert!(json::most_bytes(FEW_STATES) <= body::SMALL_BYTES);

/// A request about a user of this member.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) target: Target,
    pub(super) head: &'a Head,
    pub(super) body: &'a [u8],
    /// What a change asks of the user before it.
    pub(super) precondition: Option<Precondition>,
}

impl Asked<'_> {
    pub(super) fn channel(&self) -> Result<Id, Refusal> {
        self.target.channel.ok_or_else(|| {
            let detail = format!("{} names no channel", self.head.uri.path());
            Problem::new(ProblemType::NoRoute, detail).into()
        })
    }

    pub(super) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Refusal> {
        body::json(&self.head.headers, self.body)
    }
}

pub(super) fn no_read_state(user: Id, channel: u64) -> Refusal {
    let detail = format!("user {user} has no read state for channel {channel}");
    Problem::new(ProblemType::NoReadState, detail).into()
}
