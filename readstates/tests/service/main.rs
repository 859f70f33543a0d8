//! The service from outside: a file for each subject. One program, so that what they share is compiled once; each test
//! runs in a process of its own under `cargo nextest`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]
#![allow(
    unreachable_pub,
    reason = "what the files share is written as that of a library"
)]

mod access;
mod adaptive_flushing;
mod api_tls;
mod attacker;
mod audit;
mod authority;
mod backup;
mod batch;
mod batch_v2;
mod common;
mod conditional;
mod deletion;
mod durability;
mod earlier;
mod external;
mod full_disk;
mod herd;
mod http_api;
mod http_refusals;
mod ill_parts;
mod import;
mod ipv6;
mod killed_members;
mod linearizable;
mod lines;
mod loads;
mod members;
mod metrics;
mod migrate;
mod migrate_live;
mod mirror;
mod observing;
mod ownership;
mod ownership_in_paused_time;
mod pages;
mod process;
mod program;
mod representations;
mod ring_stores;
mod roles;
mod serving;
mod singles;
mod slow_clients;
mod stops;
mod store_conformance;
mod sweep;
mod tools;
mod transfer;
mod write_behind;
