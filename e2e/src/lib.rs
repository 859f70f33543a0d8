//! End-to-end tests of Readstates on a real cluster.
