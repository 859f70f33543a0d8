//! The read-states service: what every user has read of every channel.
//!
//! ```text
//! http ─▶ owner? ─▶ engine ─▶ cache ──▶ flush ─▶ store
//!           │                   ▲
//!           └▶ its owner        └────── load ◀── store
//! ```
//!
//! The core is pure: [`block`] says what operations mean, [`codec`] how a block is packed, [`cache`]
//! what is kept, evicted and written when. Around it: [`load`] and [`flush`] talk to the [`store`],
//! [`http`] to clients and, forwarding, to the other members; [`ownership`] says whose users are whose, and
//! moves them; [`journal`] has on the disk what is not in the store yet; [`server`] starts and stops it all.

pub mod access;
mod background;
pub mod backup;
pub mod backup_names;
pub mod block;
pub mod cache;
pub mod certificates;
pub mod clock;
pub mod codec;
pub mod commands;
pub mod config;
pub mod engine;
pub mod export;
pub mod flush;
pub mod health;
pub mod http;
pub mod import;
pub mod journal;
pub mod limit;
pub mod limits;
pub mod load;
pub mod members_tls;
pub mod metrics;
pub mod migrate;
pub mod mirror;
pub mod mixed;
pub mod offline;
mod operation;
pub mod ownership;
pub mod random;
mod ration;
pub mod rebalance;
pub mod refused;
mod replication;
pub mod rows;
pub mod schema;
pub mod server;
pub mod signals;
pub mod store;
pub mod trace;
pub mod user;
mod workers;
