//! A Redis server under the load that `readstates bench` makes: the same loop, the same users, the same meaning
//! of the operations in a Lua script. The server is started for the run, on a free port of the loopback
//! interface, without persistence unless that is asked for, and ended afterwards. Or what states take in its memory.

mod memory;

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use memory::Layout;
use readstates_bench::{
    Route,
    args::LoadArgs,
    config::Load,
    drive::{self, Service, drive, print},
    resp::{Fill, Resp},
    secure::Trust,
};

/// Longest that a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// Users that are filled at once on a connection.
const FILL_DEPTH: usize = 16;
/// Where Debian has it.
const SERVER: &str = "/usr/bin/redis-server";

/// Load on a Redis server with an equivalent Lua script.
#[derive(Debug, Parser)]
struct Flags {
    /// What load.
    #[command(flatten)]
    load: LoadArgs,

    /// Number of pipelined commands per connection.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pipeline: usize,

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
    let server = Server::start(
        &flags.server,
        flags.server_processors.as_deref(),
        flags.tls.as_deref(),
        flags
            .append_to
            .as_deref()
            .map(|folder| (folder, &*flags.append_sync)),
    )?;
    if let Some(layout) = flags.weigh {
        let weight = memory::weigh(layout, flags.states, server.child.id(), server.address)?;
        println!("{}", serde_json::to_string(&[weight])?);
        return Ok(());
    }
    let load = Load::from_args(&flags.load)?;
    if load.fill {
        let route = Route {
            address: server.address,
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
    let args = LoadArgs {
        process: vec![server.child.id()],
        ..flags.load.clone()
    };
    let tls = flags.tls.as_ref().map(|folder| {
        let trust = Trust::of_file(&folder.join("ca.crt"))?;
        trust.with("127.0.0.1")
    });
    let service = Service {
        urls: match flags.tls {
            Some(_) => "redis-server, EVALSHA over TLS".to_owned(),
            None => "redis-server, EVALSHA".to_owned(),
        },
        routes: vec![Route {
            address: server.encrypted.unwrap_or(server.address),
            protocol: Arc::new(Resp::load(server.address)?),
            tls: tls.transpose()?,
        }],
        depth: flags.pipeline.max(1),
        per_request: 1,
    };
    let report = drive(&load, &args, &service)?;
    print(&report, &args)?;
    Ok(())
}

/// A server that ends with this value.
struct Server {
    child: Child,
    address: SocketAddr,
    /// Where it speaks TLS, if it does.
    encrypted: Option<SocketAddr>,
}

impl Server {
    #[expect(
        clippy::disallowed_methods,
        reason = "the peer is started by its absolute path; while it starts there is nothing to wait for but time"
    )]
    fn start(
        program: &PathBuf,
        processors: Option<&str>,
        tls: Option<&Path>,
        append: Option<(&Path, &str)>,
    ) -> io::Result<Self> {
        // Free a moment ago; if another process takes it meanwhile, the server ends, which is reported.
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let address = free()?;
        let encrypted = tls.map(|_| free()).transpose()?;
        let port = address.port().to_string();
        let settings = ["--bind", "127.0.0.1", "--port", &port, "--save", ""];
        let appended = match append {
            None => vec!["--appendonly".to_owned(), "no".to_owned()],
            Some(append) => append_settings(append),
        };
        let started = |error: io::Error| {
            let program = program.display();
            io::Error::other(format!(
                "failed to start {program} ({error}); apt-get install redis-server"
            ))
        };
        let child = Command::new(program)
            .args(settings)
            .args(appended)
            .args(tls.zip(encrypted).map_or_else(Vec::new, tls_settings))
            .args(
                processors
                    .map(|list| ["--server_cpulist", list])
                    .into_iter()
                    .flatten(),
            )
            .env_clear()
            .stdout(Stdio::null())
            .spawn()
            .map_err(started)?;
        let mut server = Self {
            child,
            address,
            encrypted,
        };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!(
                    "redis-server ended with {status}"
                )));
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::other(format!(
                    "redis-server does not answer at {address}"
                )));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

/// What makes a server speak TLS at an address, too.
fn tls_settings((folder, address): (&Path, SocketAddr)) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let settings = [
        ("--tls-port", address.port().to_string()),
        ("--tls-cert-file", file("tls.crt")),
        ("--tls-key-file", file("tls.key")),
        ("--tls-ca-cert-file", file("ca.crt")),
        ("--tls-auth-clients", "no".to_owned()),
    ];
    let pair = |(name, value): (&str, String)| [name.to_owned(), value];
    settings.into_iter().flat_map(pair).collect()
}

/// What makes a server append changes to a file; it is never rewritten during a run.
fn append_settings((folder, sync): (&Path, &str)) -> Vec<String> {
    let folder = folder.display().to_string();
    let settings = [
        ("--appendonly", "yes"),
        ("--appendfsync", sync),
        ("--auto-aof-rewrite-percentage", "0"),
        ("--dir", &folder),
    ];
    let pair = |(name, value): (&str, &str)| [name.to_owned(), value.to_owned()];
    settings.into_iter().flat_map(pair).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
