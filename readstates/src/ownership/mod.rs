//! Which slots this member owns, and how they come and go.
//!
//! [`store`] is where all members keep the ring and see each other.

pub mod store;
