//! Load generator and reports for a read-states service: `readstates-bench`, and the basis of the benchmarks in
//! this crate's `benches` folder.
//!
//! ```text
//! schedule ─ due ─▶ worker ─▶ connection ─ protocol (http, frame, resp) ─▶ the service
//!   keys, mix, check ─▶ source ─┘  └─ answers ─▶ windows ─▶ run ─▶ report (text, json, csv), plot
//! ```
//!
//! The times at which requests are due are fixed before the run, and latency counts from them. Linux only: the
//! workers sleep in `epoll`, to the nanosecond (`epoll_pwait2`, Linux 5.11).

pub mod answer;
pub mod args;
mod bench;
pub mod check;
pub mod config;
mod connection;
pub mod distance;
pub mod drive;
mod error;
pub mod figures;
pub mod flat;
mod frame;
mod get;
mod http;
pub mod keys;
pub mod machine;
pub mod metrics;
pub mod moves;
pub mod operation;
pub mod paper;
pub mod plot;
pub mod population;
pub mod process;
pub mod protocol;
pub mod redis_server;
pub mod report;
pub mod resp;
mod run;
pub mod schedule;
pub mod secure;
mod settle;
pub mod source;
pub mod steal;
pub mod storm;
pub mod summary;
pub mod weight;
pub mod windows;
mod worker;

pub use args::BenchArgs;
pub use bench::{main, measure};
pub use connection::Route;
pub use error::BenchError;
pub use settle::SettleError;
