//! Single operations that share requests, against members of the tests' making and against real ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the service's own tests use all of it"
)]
#[path = "../../../tests/service/common/mod.rs"]
mod common;
#[path = "../fake/mod.rs"]
mod fake;
mod faults;
mod frames;
mod members;
mod rows;

use readstates_api::Id;

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}
