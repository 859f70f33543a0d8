//! Flags that parsed, made into a load that makes sense.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use readstates_api::batch::MAX_RECORDS;

use crate::{
    args::{BenchArgs, LoadArgs},
    keys::Keys,
    operation::Mix,
    schedule::Pace,
    secure::{SecureError, Tls, Token, Trust},
};

/// Each is a file descriptor, here and at the service.
const MOST_CONNECTIONS: usize = 10_000;
const MOST_THREADS: usize = 256;
/// A day of one-second windows is kept without trouble.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// 2015-01-01, where snowflakes begin, in Unix milliseconds.
const SNOWFLAKE_EPOCH: u64 = 1_420_070_400_000;

/// Why flags make no sense.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value is wrong, or does not go with another.
    #[error("{flag}: {problem}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// What is wrong, and what to give instead.
        problem: String,
    },
    /// There is no token, or no TLS.
    #[error("{flag}")]
    Secure {
        /// The flag.
        flag: &'static str,
        /// Why not.
        source: SecureError,
    },
    /// A host has no address.
    #[error("--url: failed to look up {host}")]
    Lookup {
        /// The host.
        host: String,
        /// The cause.
        source: io::Error,
    },
}

fn wrong<T>(flag: &'static str, problem: impl Into<String>) -> Result<T, ConfigError> {
    let problem = problem.into();
    Err(ConfigError::Value { flag, problem })
}

/// What load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Requests by time, in operations per second.
    pub pace: Pace,
    /// Connections, at least one per thread.
    pub connections: usize,
    /// Threads, at least one.
    pub threads: usize,
    /// How long to measure.
    pub duration: Duration,
    /// How long to send before.
    pub warmup: Duration,
    /// How long a request may take.
    pub timeout: Duration,
    /// The users.
    pub keys: Keys,
    /// What is sent.
    pub mix: Mix,
    /// Whether every channel is written first.
    pub fill: bool,
    /// The seed.
    pub seed: u64,
    /// Milliseconds from 2015 to the start: message ids of later runs are larger.
    pub now: u64,
}

impl Load {
    /// Checks what flags alone cannot say.
    ///
    /// # Errors
    /// When a value is out of range; the text names the flag.
    pub fn from_args(args: &LoadArgs) -> Result<Self, ConfigError> {
        let at_least_one = [
            ("--connections", args.connections as u64),
            ("--threads", args.threads as u64),
            ("--users", args.users),
            ("--channels", args.channels),
        ];
        for (flag, value) in at_least_one {
            if value == 0 {
                return wrong(flag, "give at least 1");
            }
        }
        if args.connections > MOST_CONNECTIONS {
            return wrong("--connections", format!("give at most {MOST_CONNECTIONS}"));
        }
        if args.threads > MOST_THREADS || args.threads > args.connections {
            let problem = format!(
                "each thread has connections of its own; give at most {}",
                args.connections.min(MOST_THREADS)
            );
            return wrong("--threads", problem);
        }
        if args.users >= 1 << 40 || args.channels >= 1 << 20 {
            return wrong("--users", "give fewer than 2^40 users and 2^20 channels");
        }
        for (flag, value) in [("--duration", args.duration), ("--timeout", args.timeout)] {
            if value.is_zero() || value > LONGEST {
                return wrong(flag, "give more than 0, and at most a day");
            }
        }
        if args.warmup > LONGEST {
            return wrong("--warmup", "give at most a day");
        }
        let pace = match args.saturate {
            true => Pace::Saturate,
            false if args.rate >= 0.01 && args.rate <= 1e9 => Pace::Rate(args.rate),
            false => return wrong("--rate", "give 0.01 to 1000000000 operations per second"),
        };
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix = unix.unwrap_or(Duration::ZERO).as_millis() as u64;
        Ok(Self {
            pace,
            connections: args.connections,
            threads: args.threads,
            duration: args.duration,
            warmup: args.warmup,
            timeout: args.timeout,
            keys: Keys::new(args.users, args.channels, args.keys, args.seed),
            mix: args.mix,
            fill: args.fill,
            seed: args.seed,
            // A clock before 2015 is not set; ids from 1 then.
            now: unix.saturating_sub(SNOWFLAKE_EPOCH).max(1),
        })
    }
}

/// What the service asks of its callers.
#[derive(Debug, Clone, Default)]
pub struct Callers {
    /// The token that is sent.
    pub token: Option<Token>,
    /// Whom to believe over TLS.
    pub trust: Option<Trust>,
}

impl Callers {
    fn from_args(args: &BenchArgs) -> Result<Self, ConfigError> {
        let of = |flag| move |source| ConfigError::Secure { flag, source };
        let token = args.token_file.as_deref().map(Token::of_file);
        let trust = args.ca_file.as_deref().map(Trust::of_file);
        Ok(Self {
            token: token.transpose().map_err(of("--token-file"))?,
            trust: trust.transpose().map_err(of("--ca-file"))?,
        })
    }
}

/// Where requests go.
#[derive(Debug, Clone)]
pub struct Target {
    /// The `host` header.
    pub host: String,
    /// All addresses of the host.
    pub addresses: Vec<SocketAddr>,
    /// TLS with it; `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// Who is said to call.
    pub token: Option<Token>,
}

impl Target {
    /// Looks a URL's host up.
    ///
    /// # Errors
    /// When it is no URL of a member, or the host has no address.
    pub fn resolve(flag: &'static str, url: &str, callers: &Callers) -> Result<Self, ConfigError> {
        let (host, encrypted) = match url.strip_prefix("https://") {
            Some(host) => (host, true),
            None => (url.strip_prefix("http://").unwrap_or_default(), false),
        };
        let host = host.strip_suffix('/').unwrap_or(host);
        if host.is_empty() || host.contains(['/', '?', '#', '@']) {
            let problem = format!("{url:?} is not http://HOST[:PORT] or https://HOST[:PORT]");
            return wrong(flag, problem);
        }
        let tls = match (encrypted, &callers.trust) {
            (false, _) => None,
            (true, Some(trust)) => {
                let name = match host.strip_prefix('[') {
                    Some(address) => address.split_once(']').map_or(address, |(name, _)| name),
                    None => host.split_once(':').map_or(host, |(name, _)| name),
                };
                let tls = trust.with(name);
                Some(tls.map_err(|source| ConfigError::Secure { flag, source }))
            }
            (true, None) => {
                let problem =
                    "https:// wants to know whom to believe; give the CA of its certificate";
                return wrong("--ca-file", problem);
            }
        };
        let port_is_named = host.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        let with_port = match port_is_named {
            true => host.to_owned(),
            false if encrypted => format!("{host}:443"),
            false => format!("{host}:80"),
        };
        let lookup = |source| ConfigError::Lookup {
            host: host.to_owned(),
            source,
        };
        let mut addresses: Vec<_> = with_port.to_socket_addrs().map_err(lookup)?.collect();
        addresses.sort_unstable();
        addresses.dedup();
        // `localhost` is two addresses, and a member listens on one of them.
        let reachable = |address: &SocketAddr| {
            std::net::TcpStream::connect_timeout(address, Duration::from_secs(2)).is_ok()
        };
        if addresses.len() > 1 && addresses.iter().any(reachable) {
            addresses.retain(reachable);
        }
        Ok(Self {
            host: host.to_owned(),
            addresses,
            tls: tls.transpose()?,
            token: callers.token.clone(),
        })
    }
}

/// What `readstates-bench` is to do.
#[derive(Debug, Clone)]
pub struct Bench {
    /// What load.
    pub load: Load,
    /// Where to.
    pub targets: Vec<Target>,
    /// Operations per request; `None`: one, without a frame.
    pub batch: Option<usize>,
    /// Whether states are read in binary.
    pub rows: bool,
    /// Whether every user connects once, in place of a load.
    pub connect: bool,
    /// Whether everything is checked at the end.
    pub check: bool,
    /// Where to ask for /metrics.
    pub metrics: Vec<Target>,
}

impl Bench {
    /// Checks the flags and looks up the hosts.
    ///
    /// # Errors
    /// When a value is out of range or values contradict each other; the text names the flag.
    pub fn from_args(args: &BenchArgs) -> Result<Self, ConfigError> {
        let load = Load::from_args(&args.load)?;
        let callers = Callers::from_args(args)?;
        if let Some(batch) = args.batch {
            if !(1..=MAX_RECORDS).contains(&batch) {
                let problem = format!("give 1 to {} operations", MAX_RECORDS);
                return wrong("--batch", problem);
            }
            if load.mix.reads() && !args.check {
                return wrong("--batch", "a batch has no reads; leave read out of --mix");
            }
        }
        Ok(Self {
            load,
            targets: args
                .url
                .iter()
                .map(|url| Target::resolve("--url", url, &callers))
                .collect::<Result<_, _>>()?,
            batch: args.batch,
            rows: args.rows,
            connect: args.connect,
            check: args.check,
            metrics: args
                .metrics
                .iter()
                .map(|url| Target::resolve("--metrics", url, &Callers::default()))
                .collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn bench(flags: &[&str]) -> Result<Bench, String> {
        let words = ["bench"].iter().chain(flags);
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        Bench::from_args(&cli.bench).map_err(|error| error.to_string())
    }

    #[test]
    fn no_flags_mean_a_thousand_acknowledgements_per_second_to_this_machine() {
        let bench = bench(&[]).unwrap();
        assert_eq!(bench.load.pace, Pace::Rate(1000.0));
        assert_eq!(bench.targets[0].addresses[0].to_string(), "127.0.0.1:7400");
        assert_eq!((bench.batch, bench.check), (None, false));
    }

    #[test]
    fn batches_have_64_operations_unless_told_otherwise() {
        assert_eq!(bench(&["--batch"]).unwrap().batch, Some(64));
        assert_eq!(bench(&["--batch", "7"]).unwrap().batch, Some(7));
    }

    #[test]
    fn a_wrong_value_is_refused_with_the_flag_and_the_next_step() {
        for (flags, parts) in [
            (&["--rate", "0"][..], &["--rate", "0.01 to"][..]),
            (&["--rate", "nan"], &["--rate"]),
            (&["--rate", "5", "--saturate"], &["--rate", "--saturate"]),
            (&["--connections", "0"], &["--connections", "at least 1"]),
            (&["--threads", "51"], &["--threads", "at most 50"]),
            (&["--duration", "0s"], &["--duration", "more than 0"]),
            (&["--batch", "65537"], &["--batch", "65536"]),
            (
                &["--batch", "--mix", "ack=1,read=1"],
                &["--batch", "no reads"],
            ),
            (&["--mix", "acks=1"], &["--mix", "ack, mention, read"]),
            (&["--keys", "normal"], &["--keys", "uniform, zipf"]),
            (&["--check", "--mix", "ack=1"], &["--check", "--mix"]),
            (&["--url", "https://a"], &["--ca-file", "whom to believe"]),
            (&["--url", "ftp://a"], &["--url", "https://HOST[:PORT]"]),
            (&["--token-file", "/no/such"], &["--token-file"]),
            (&["--ca-file", "/dev/null"], &["--ca-file"]),
            (&["--url", "http://a/v1"], &["--url", "http://HOST[:PORT]"]),
            (
                &["--url", "http://no-such-host.invalid"],
                &["--url", "no-such-host"],
            ),
        ] {
            let refusal = bench(flags).unwrap_err();
            for part in parts {
                assert!(refusal.contains(part), "{flags:?}: {refusal}");
            }
        }
    }
}
