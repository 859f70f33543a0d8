//! Wire types of the read-states service: what its HTTP bodies look like.
//!
//! Comes in and goes out: JSON, the frames of [`batch`] and [`rows`]. Ids and versions are decimal strings in
//! the JSON the service sends; ids may be strings or integers in what it accepts, and are never 0.
//! Members that a request body does not have are refused. Never here: IO, HTTP, or what an operation
//! does.
#![deny(missing_docs)]

pub mod admin;
pub mod batch;
pub mod headers;
mod id;
mod mentions;
mod pin;
mod problem;
mod read_state;
mod ring;
pub mod rows;
mod whole;

pub use id::{Id, IdError, Version};
pub use mentions::{FailedUser, MAX_MENTIONED_USERS, MentionsAnswer, MentionsRequest};
pub use problem::{Problem, ProblemType};
pub use read_state::{
    AckAnswer, AckBulkAnswer, AckBulkItem, AckBulkRequest, AckBulkResult, AckRequest, DeleteAnswer,
    MAX_BULK_ITEMS, MAX_PAGE, PinsAckRequest, ReadState, ReadStates, Summary, UserDeleted,
};
pub use ring::{RingDocument, RingMember};
