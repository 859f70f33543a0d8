//! The operator against a real API server, without nodes: what the CRDs refuse and default, what is
//! written and put back, and in which order members change. What kubelets and controllers would do
//! is done by a fake of theirs, a step at a time, so each state in between can be looked at.
//!
//! `READSTATES_TEST_APISERVER` is the kubeconfig of an API server that nothing else uses:
//! `hack/apiserver run cargo test -p readstates-operator --test apiserver`. Without it every test says
//! that it was skipped.

#![allow(clippy::unwrap_used, reason = "a step that fails is a failed test")]

mod access;
mod adopt;
mod agents;
mod backups;
mod callers;
mod capacity;
mod certificates;
mod chat;
mod consent;
mod copies;
mod credentials;
mod crowd;
mod database;
mod database_killed;
mod deletion;
mod evictions;
mod fake;
mod faults;
mod faulty;
mod fleet;
mod foreign_kinds;
mod gate;
mod haste;
mod identity;
mod internode_tls;
mod invariants;
mod jobs;
mod killed;
mod kubelets;
mod leading;
mod migrations;
mod mutual;
mod overlays;
mod ownership;
mod patience;
mod platform;
mod pod_monitors;
mod policy;
mod process;
mod reconciling;
mod refusals;
mod releases;
mod repairs;
mod restart;
mod restore;
mod ring;
mod rollouts;
mod scale;
mod sidecars;
mod snapshot;
mod stopped;
mod super_disks;
mod trouble;
mod volume_snapshots;
mod volumes;
mod volumes_of;
mod world;
