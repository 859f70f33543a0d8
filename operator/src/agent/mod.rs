//! The agent in each database pod. It alone reaches the engine's admin port, which listens on loopback. It runs twice:
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

mod disk;
mod keystore;
mod layout;
mod metrics;
mod mutual;
mod order;
mod prepare;
mod serve;
mod sockets;
mod start;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

pub use self::{prepare::prepare, serve::serve};

/// The two lives of an agent.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Look at the disk, wait for the order to start where one is needed, and end.
    Prepare(PrepareArgs),
    /// Answer for the database until told to stop.
    Serve(ServeArgs),
}

/// An engine, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Apache Cassandra.
    Cassandra,
    /// `ScyllaDB`.
    Scylla,
}

/// What both lives need to know.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The engine.
    #[arg(long, value_enum)]
    pub engine: EngineName,

    /// Where the engine keeps its data.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// Name of this pod.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: String,

    /// UID of this pod.
    #[arg(long, env = "POD_UID", value_name = "UID")]
    pub pod_uid: String,

    /// Address of this pod.
    #[arg(long, env = "POD_IP", value_name = "IP")]
    pub address: std::net::IpAddr,

    /// Folder with the certificate that this agent shows (`tls.crt`, `tls.key`) and the authorities that it trusts
    /// (`ca.crt`). Read again without a restart.
    #[arg(long, value_name = "DIR")]
    pub identity: PathBuf,

    /// Where the operator asks.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7402")]
    pub listen: SocketAddr,
}

/// How `operator agent prepare` works.
#[derive(Clone, Debug, Args)]
pub struct PrepareArgs {
    /// What both lives need to know.
    #[command(flatten)]
    pub common: Common,

    /// Folder shared with the containers that come next: the program itself and the start file.
    #[arg(long, value_name = "DIR")]
    pub shared: PathBuf,

    /// Name that resolves to the addresses of all nodes.
    #[arg(long, value_name = "HOST")]
    pub peers: String,

    /// File with the identity of the node that this pod is, once the operator has it on record.
    #[arg(long, value_name = "FILE")]
    pub node: PathBuf,

    /// The data is on a super-disk: whatever else is there is not this node's disk.
    #[arg(long)]
    pub super_disk: bool,

    /// Folder with the certificate (`tls.crt`) and the key (`tls.key`) that Cassandra shows to who speaks CQL.
    #[arg(long, value_name = "DIR", requires = "keystore")]
    pub certificates: Option<PathBuf>,

    /// The one file from which Cassandra reads both: written anew.
    #[arg(long, value_name = "FILE", requires = "certificates")]
    pub keystore: Option<PathBuf>,
}

/// How `operator agent serve` works.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// What both lives need to know.
    #[command(flatten)]
    pub common: Common,

    /// Where the kubelet asks, in plain HTTP.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:7405")]
    pub watch_listen: SocketAddr,

    /// Cassandra's own tool.
    #[arg(long, value_name = "PROGRAM", default_value = "nodetool")]
    pub nodetool: PathBuf,

    /// Where the engine's admin port listens: JMX, or the REST API.
    #[arg(long, value_name = "ADDR")]
    pub admin: SocketAddr,

    /// Where the engine speaks CQL.
    #[arg(long, value_name = "PORT", default_value_t = 9042)]
    pub cql_port: u16,
}
