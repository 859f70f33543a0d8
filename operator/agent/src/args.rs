//! The command line of the agent.

use std::{net::SocketAddr, path::PathBuf};

use clap::{
    Args, Subcommand,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use readstates_operator_api::Engine;
use strum::VariantArray as _;

use crate::engine::Profile;

/// What an agent does at the begin, in the life and at the end of a database pod.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Check the disk, wait for the order to start if one is needed, and exit.
    Prepare(PrepareArgs),
    /// Serve the operator and the probes of the database until told to stop.
    Serve(ServeArgs),
    /// Have the engine write what is in memory, before it is stopped.
    Drain(DrainArgs),
}

/// What both lives need to know.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Database engine.
    #[arg(long, value_parser = engines())]
    pub engine: Engine,

    /// Data folder of the engine.
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

    /// Folder with the certificate that this agent presents (`tls.crt`, `tls.key`) and the authorities that it trusts
    /// (`ca.crt`). Reloaded without a restart.
    #[arg(long, value_name = "DIR")]
    pub identity: PathBuf,

    /// Address that serves the operator.
    #[arg(long, value_name = "ADDR", default_value = "[::]:7402")]
    pub listen: SocketAddr,
}

/// Flags of `operator agent prepare`.
#[derive(Clone, Debug, Args)]
pub struct PrepareArgs {
    /// What both lives need to know.
    #[command(flatten)]
    pub common: Common,

    /// Folder shared with the later containers, for this program and the start file.
    #[arg(long, value_name = "DIR")]
    pub shared: PathBuf,

    /// Name that resolves to the addresses of all nodes.
    #[arg(long, value_name = "HOST")]
    pub peers: String,

    /// File with the identity of this pod's node, once the operator has it on record.
    #[arg(long, value_name = "FILE")]
    pub node: PathBuf,

    /// The data is on a super-disk: reject any other disk.
    #[arg(long)]
    pub super_disk: bool,

    /// Folder with the certificate (`tls.crt`) and the key (`tls.key`) that Cassandra presents to CQL clients.
    #[arg(long, value_name = "DIR", requires = "keystore")]
    pub certificates: Option<PathBuf>,

    /// File from which Cassandra reads both; written by this command.
    #[arg(long, value_name = "FILE", requires = "certificates")]
    pub keystore: Option<PathBuf>,
}

/// Flags of `operator agent drain`.
#[derive(Clone, Debug, Args)]
pub struct DrainArgs {
    /// Database engine.
    #[arg(long, value_parser = engines())]
    pub engine: Engine,

    /// Path of Cassandra's nodetool.
    #[arg(long, value_name = "PROGRAM", default_value = "nodetool")]
    pub nodetool: PathBuf,

    /// Address of the engine's admin port: JMX, or the REST API.
    #[arg(long, value_name = "ADDR")]
    pub admin: SocketAddr,

    /// Seconds that it lasts at least, in which clients learn that the node goes.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub linger_seconds: u64,
}

/// Flags of `operator agent serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// What both lives need to know.
    #[command(flatten)]
    pub common: Common,

    /// Address that serves the kubelet's probes, over plain HTTP.
    #[arg(long, value_name = "ADDR", default_value = "[::]:7405")]
    pub watch_listen: SocketAddr,

    /// Path of Cassandra's nodetool.
    #[arg(long, value_name = "PROGRAM", default_value = "nodetool")]
    pub nodetool: PathBuf,

    /// Address of the engine's admin port: JMX, or the REST API.
    #[arg(long, value_name = "ADDR")]
    pub admin: SocketAddr,

    /// CQL port of the engine.
    #[arg(long, value_name = "PORT", default_value_t = 9042)]
    pub cql_port: u16,
}

/// Engines, by the names in their profiles.
fn engines() -> impl TypedValueParser<Value = Engine> {
    let values = Engine::VARIANTS.iter().map(|engine| {
        let profile = Profile::of(*engine);
        PossibleValue::new(profile.name).help(profile.title)
    });
    PossibleValuesParser::new(values).try_map(|name| {
        let mut engines = Engine::VARIANTS.iter().copied();
        engines
            .find(|engine| Profile::of(*engine).name == name)
            .ok_or("is no engine")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(subcommand)]
        command: AgentCommand,
    }

    #[test]
    fn an_engine_is_named_as_its_profile_says_and_no_other_name_is_taken() {
        let parse = |name| {
            let line = [
                "agent",
                "drain",
                "--engine",
                name,
                "--admin",
                "127.0.0.1:7199",
            ];
            let line = Line::try_parse_from(line).ok()?;
            match line.command {
                AgentCommand::Drain(DrainArgs { engine, .. }) => Some(engine),
                AgentCommand::Prepare(_) | AgentCommand::Serve(_) => None,
            }
        };
        for engine in Engine::VARIANTS {
            assert_eq!(parse(Profile::of(*engine).name), Some(*engine));
        }
        assert_eq!(parse("Cassandra"), None);
        assert_eq!(parse("postgres"), None);
    }
}
