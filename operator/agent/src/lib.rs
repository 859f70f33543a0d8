//! The agent in each database pod. It alone reaches the engine's admin port, which listens on loopback. It runs twice, and
//! once more in the database's container when that is about to be stopped (`drain`):
//! ```text
//! prepare (init container)               serve (sidecar)
//!   what is on the disk?                   how is the node? (GET /v1/node, /v1/facts)
//!   its own data ──▶ start                 probes           (GET /livez, /readyz)
//!   anything else ──▶ wait for the order   leave            (POST /v1/decommission)
//! ```
//! Only the operator of this cluster is answered, by mutual TLS. Probes and metrics have a port of their own, in the
//! clear; it changes nothing.
//!
//! A node that finds its own data starts by itself, so that a database comes back without an operator: its own data is
//! that of the node named in a file that the operator has written and that is there without it. Any other disk may be
//! new, a lost one or another node's: only the operator, which has a record of every node, can tell, and its order
//! names the pod by UID.
//!
//! What differs between database engines is in [`engine`], a module each, for the agent and for the operator. [`wire`] is what
//! the two tell each other.

mod args;
mod disk;
mod drain;
pub mod engine;
mod keystore;
mod layout;
pub mod listen;
mod metrics;
mod mutual;
mod order;
mod prepare;
mod serve;
mod sockets;
mod start;
pub mod wire;
pub mod words;

pub use self::args::AgentCommand;

/// Does what a command says.
///
/// # Errors
/// When it cannot be done.
pub async fn carry_out(command: AgentCommand) -> anyhow::Result<()> {
    match command {
        AgentCommand::Prepare(args) => prepare::prepare(args).await,
        AgentCommand::Serve(args) => serve::serve(args).await,
        AgentCommand::Drain(args) => drain::drain(args).await,
    }
}
