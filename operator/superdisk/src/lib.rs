//! The privileged disk agent of Readstates.
