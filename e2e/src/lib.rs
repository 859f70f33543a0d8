//! End-to-end tests of Readstates on a real cluster: the verbs they are written in.
//!
//! A test makes a [`World`] from the environment and works as a user would: `helm` installs, `kubectl`
//! applies and scales, HTTP goes through the Service, rows are read from the database behind it.
//!
//! ```text
//! World ─┬─ kubectl(…), helm(…)          programs: the one place that starts programs
//!        ├─ namespace("chat") ── Place
//!        └─ cluster(&place, "chat") ── Cluster ─┬─ service()   ── Http   the Service, by any pod
//!                                               ├─ autoscaled(…) ─ Autoscaling its gauges, for autoscalers
//!                                               ├─ member(i)   ── Http   one cache pod
//!                                               ├─ pod_port(pod, n) ─ PodPort one port of one pod, with or without a certificate
//!                                               ├─ caller(pod, …) ─ Caller of an API that speaks TLS
//!                                               ├─ ways()      ── Ways   clients that know the ring
//!                                               └─ cassandra() ── the rows
//! Chaos: a load whose books can tell what was lost, while all of that changes
//! Moving: the same while a table moves from one cluster into another
//! ```
//!
//! Each test is a process of its own and makes sure of what it needs, so that any of them can be run
//! alone and again. Users are new in every test; clusters and namespaces are shared and kept.

mod authority;
mod autoscaling;
mod caller;
mod cassandra;
mod chaos;
mod cluster;
mod disk_node;
mod environment;
mod forward;
mod http;
mod moving;
mod nodes;
mod objects;
mod pod_port;
mod programs;
mod specs;
mod told;
mod updates;
mod users;
mod victims;
mod wait;
mod ways;
mod world;

pub use authority::{Authority, Issued};
pub use autoscaling::Autoscaling;
pub use caller::Caller;
pub use cassandra::{Cassandra, Row};
pub use chaos::{Chaos, Settings as ChaosSettings, Step, plan};
pub use cluster::Cluster;
pub use disk_node::{DiskNode, LOCAL_DISKS};
pub use environment::Environment;
pub use http::{Answer, Http, ReadState};
pub use moving::Moving;
pub use objects::{Child, is_ready};
pub use pod_port::{PodPort, Proof, Reached};
pub use programs::Ran;
pub use specs::{TOKEN, cassandra_spec, embedded_spec};
pub use told::Told;
pub use users::{CHANNEL, MESSAGE, Users};
pub use wait::{Look, until, watched};
pub use ways::Ways;
pub use world::{Place, World};
