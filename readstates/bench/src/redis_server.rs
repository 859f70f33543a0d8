//! A Redis server that is started for a run, and ended after it.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Where Debian has it.
pub const SERVER: &str = "/usr/bin/redis-server";
/// Longest that a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server on free ports of the loopback interface, without persistence unless asked for; it ends with this value.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    address: SocketAddr,
    encrypted: Option<SocketAddr>,
}

/// A file to which every change is appended.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// Where it is.
    pub folder: &'a Path,
    /// When it is synced: `always` or `everysec`.
    pub sync: &'a str,
}

/// How a server runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings<'a> {
    /// On these processors, as Redis writes them: 2-3. Absent: all.
    pub processors: Option<&'a str>,
    /// Speaks TLS besides, with the `ca.crt`, `tls.crt` and `tls.key` of this folder.
    pub tls: Option<&'a Path>,
    /// Appends every change to a file.
    pub append: Option<Append<'a>>,
    /// Follows the server at this address.
    pub replica_of: Option<SocketAddr>,
}

impl RedisServer {
    /// Starts one, and waits until it answers.
    ///
    /// # Errors
    /// When the program is not there, ends, or does not answer in time.
    #[expect(
        clippy::disallowed_methods,
        reason = "the peer is started by its absolute path; while it starts there is nothing to wait for but time"
    )]
    pub fn start(program: &Path, settings: Settings<'_>) -> io::Result<Self> {
        let Settings {
            processors,
            tls,
            append,
            replica_of,
        } = settings;
        // Free a moment ago; if another process takes it meanwhile, the server ends, which is reported.
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let address = free()?;
        let encrypted = tls.map(|_| free()).transpose()?;
        let port = address.port().to_string();
        let network = ["--bind", "127.0.0.1", "--port", &port, "--save", ""];
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
            .args(network)
            .args(appended)
            .args(replica_of.map_or_else(Vec::new, replica_settings))
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

    /// Waits until another server has all that this one has.
    ///
    /// # Errors
    /// When there is none in time.
    #[expect(
        clippy::disallowed_methods,
        reason = "a replica says nothing when it has come so far"
    )]
    pub fn is_followed(&self) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let mut stream = TcpStream::connect(self.address)?;
            stream.write_all(b"WAIT 1 1000\r\n")?;
            let mut answer = [0; 4];
            stream.read_exact(&mut answer)?;
            if &answer == b":1\r\n" {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(100));
        }
        let address = self.address;
        Err(io::Error::other(format!(
            "no replica has followed redis-server at {address}"
        )))
    }

    /// Where it speaks in the clear.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it speaks TLS, if it does.
    #[must_use]
    pub fn encrypted(&self) -> Option<SocketAddr> {
        self.encrypted
    }

    /// Of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
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

/// What makes a server follow another.
fn replica_settings(of: SocketAddr) -> Vec<String> {
    let (host, port) = (of.ip().to_string(), of.port().to_string());
    vec!["--replicaof".to_owned(), host, port]
}

/// What makes a server append changes to a file; it is never rewritten during a run.
fn append_settings(Append { folder, sync }: Append<'_>) -> Vec<String> {
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

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
