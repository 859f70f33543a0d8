//! The planner on worlds: every row of the decision table as a golden folder, and what holds for all of them.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test whose world cannot be made has failed; its disks are small"
)]

mod bytes;
mod goldens;
mod lost_header;
mod node;
mod properties;
mod situations;
mod two_legs;
mod world;
