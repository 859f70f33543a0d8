//! The read-states service.
