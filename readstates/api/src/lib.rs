//! Wire types of the read-states service.
