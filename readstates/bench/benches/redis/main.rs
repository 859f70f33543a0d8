//! A Redis server under the load that `readstates-bench` makes: the same loop, the same users, the same meaning
//! of the operations in a Lua script. The server is started for the run, on a free port of the loopback
//! interface, without persistence unless that is asked for, and ended afterwards. Or what states take in its memory.

mod memory;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Parser;
use memory::Layout;
use readstates_bench::{
    Route,
    args::LoadArgs,
    config::Load,
    distance,
    drive::{self, Service, drive, print},
    redis_server::{Append, RedisServer, SERVER, Settings},
    resp::{Fill, Resp},
    secure::Trust,
};

/// Any free port of this machine.
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Users that are filled at once on a connection.
const FILL_DEPTH: usize = 16;

/// Load on a Redis server with an equivalent Lua script.
#[derive(Debug, Parser)]
struct Flags {
    /// What load.
    #[command(flatten)]
    load: LoadArgs,

    /// Number of pipelined commands per connection.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pipeline: usize,

    /// Number of changes in a request: commands that are sent, and answered, together.
    #[arg(long, default_value_t = 1, value_name = "N")]
    batch: usize,

    /// Number of states for the memory measurement.
    #[arg(long, default_value_t = 20_000_000, requires = "weigh")]
    states: u64,

    /// Instead of load: store states in this layout, and print the memory per state as JSON.
    #[arg(long, value_name = "LAYOUT")]
    weigh: Option<Layout>,

    /// Path of the server program.
    #[arg(long, default_value = SERVER, value_name = "FILE")]
    server: PathBuf,

    /// Append every change to a file in this folder, and sync it as --append-sync says.
    #[arg(long, value_name = "DIR", conflicts_with = "weigh")]
    append_to: Option<PathBuf>,

    /// When the file is synced: `always`, before a change is answered; `everysec`, once a second.
    #[arg(long, default_value = "always", requires = "append_to", value_name = "WHEN", value_parser = ["always", "everysec"])]
    append_sync: String,

    /// Have a second server follow, and answer a change when that one has it, too (WAIT 1).
    #[arg(long, conflicts_with_all = ["weigh", "tls"])]
    replica: bool,

    /// So far is the replica away, there and back.
    #[arg(long, requires = "replica", value_name = "DURATION", value_parser = humantime::parse_duration)]
    replica_round_trip: Option<Duration>,

    /// Processors that the server may use, as Redis writes them: 2-3. Absent: all
    #[arg(long, value_name = "LIST")]
    server_processors: Option<String>,

    /// Over TLS, with the ca.crt, tls.crt and tls.key of this folder; tls.crt is for 127.0.0.1.
    #[arg(long, value_name = "DIR", conflicts_with = "weigh")]
    tls: Option<PathBuf>,

    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redis: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), Box<dyn std::error::Error>> {
    let append = flags.append_to.as_deref().map(|folder| Append {
        folder,
        sync: &flags.append_sync,
    });
    let processors = flags.server_processors.as_deref();
    let settings = Settings {
        processors,
        tls: flags.tls.as_deref(),
        append,
        replica_of: None,
    };
    let server = RedisServer::start(&flags.server, settings)?;
    let follows = || -> io::Result<RedisServer> {
        let of = match flags.replica_round_trip {
            None => server.address(),
            Some(round_trip) => distance::relay(LOOPBACK, server.address(), round_trip)?,
        };
        let settings = Settings {
            processors,
            replica_of: Some(of),
            ..Settings::default()
        };
        let replica = RedisServer::start(&flags.server, settings)?;
        server.is_followed().map(|()| replica)
    };
    let replica = flags.replica.then(follows).transpose()?;
    if let Some(layout) = flags.weigh {
        let weight = memory::weigh(layout, flags.states, server.id(), server.address())?;
        println!("{}", serde_json::to_string(&[weight])?);
        return Ok(());
    }
    let load = Load::from_args(&flags.load)?;
    if load.fill {
        let route = Route {
            address: server.address(),
            protocol: Arc::new(Fill),
            tls: None,
        };
        drive::fill(
            &load,
            vec![route],
            load.keys.channels() as usize,
            FILL_DEPTH,
        )?;
    }
    let servers = [Some(&server), replica.as_ref()];
    let args = LoadArgs {
        process: servers.into_iter().flatten().map(RedisServer::id).collect(),
        ..flags.load.clone()
    };
    let tls = flags.tls.as_ref().map(|folder| {
        let trust = Trust::of_file(&folder.join("ca.crt"))?;
        trust.with("127.0.0.1")
    });
    let service = Service {
        urls: match (&flags.tls, flags.replica) {
            (Some(_), _) => "redis-server, EVALSHA over TLS".to_owned(),
            (None, true) => "redis-server and a replica, EVALSHA and WAIT 1".to_owned(),
            (None, false) => "redis-server, EVALSHA".to_owned(),
        },
        routes: vec![Route {
            address: server.encrypted().unwrap_or(server.address()),
            protocol: Arc::new(Resp::load(server.address())?.with_replica(flags.replica)),
            tls: tls.transpose()?,
        }],
        depth: flags.pipeline.max(1),
        per_request: flags.batch.max(1),
    };
    let report = drive(&load, &args, &service)?;
    print(&report, &args)?;
    Ok(())
}
