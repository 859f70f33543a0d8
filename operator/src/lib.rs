//! The Kubernetes operator of Readstates.
//!
//! One reconcile of one `ReadStateCluster` is a pipeline, and each verb of it a module:
//! ```text
//! observe ──▶ validate ──▶ plan ──▶ objects ──▶ apply ──▶ status
//!  reads       parses       decides   makes       writes    tells
//! ```
//! `world` has what `observe` returns, `spec` what `validate` returns, and `templates` makes what pods are made from, by
//! which both `plan` and `objects` go. Only `observe`, `apply` and `status` talk to the world. Nothing is remembered between
//! two runs: every decision rests on what was just observed.
//!
//! The crate `readstates_agent` has what differs between database engines, and what the operator and the agents in database
//! pods tell each other.

pub mod admin;
pub mod agents;
pub mod answers;
pub mod apply;
pub mod backoff;
pub mod backups;
pub mod cert_manager;
mod certificates;
pub mod cli;
pub mod commands;
pub mod connections;
pub mod context;
pub mod error;
#[cfg(test)]
mod fake_api;
#[cfg(test)]
mod fixtures;
pub mod gauges;
pub mod known;
pub mod lease;
pub mod migrations;
pub mod names;
pub mod namespaced;
pub mod objects;
pub mod observe;
pub mod plan;
pub mod pod_monitor;
pub mod reconcile;
pub mod remembered;
pub mod requests;
mod resize;
pub mod reviews;
pub mod rollouts;
pub mod run;
pub mod server;
pub mod spec;
pub mod status;
pub mod stop;
pub mod super_disk;
pub mod telemetry;
pub mod templates;
mod told;
pub mod validate;
pub mod volume_snapshot;
mod watched;
mod words;
pub mod world;
