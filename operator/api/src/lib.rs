//! The custom resources of Readstates.
