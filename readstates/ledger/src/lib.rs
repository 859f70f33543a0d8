//! A load on a read-states service that can tell what was lost and what was done twice.
//!
//! It writes down what it sent and what it was told, and at the end compares that with what is there. The
//! amounts of the mentions are powers of four: the count of a channel, written to the base of four, has a digit
//! for each mention, which says how often it was counted. The books know nothing of time, networks or members.
//!
//! ```text
//!          workers (one task each, one operation at a time)
//! clients ──▶ mention, acknowledge, batch, send again, read ──▶ Book ──▶ audit(what is found) ──▶ Finding…
//! smart, stale, dumb      │                                                     ▲
//!                         └─▶ Tallies: latency by phase, errors by kind      cache, database
//! ```
//!
//! Every worker has users of its own, and all of them share one hot user, in channels of their own.
//!
//! [`History`] is the other way to look: everything that is asked of some users by several clients at once, and whether
//! there is an order of it.

mod book;
mod excuse;
mod historian;
mod history;
mod load;
mod orders;
mod tally;
mod verdict;
mod worker;

pub use book::{AMOUNTS, Audit, Book, Call, Finding, Found, Status, What};
pub use excuse::Excuse;
pub use historian::{Asked, Historians};
pub use history::{Action, Answer, Event, History, Order};
pub use load::{Load, Plan, Told};
pub use orders::Orders;
pub use tally::{Operation, Phase, Tallies};
pub use verdict::{Verdict, Word};
pub use worker::Kind;
