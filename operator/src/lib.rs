//! The Kubernetes operator of Readstates.
