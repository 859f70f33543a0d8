//! Flags of `readstates bench`, and the help that explains them.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use crate::{keys::Distribution, operation::Mix};

/// What load: the same for every service that is measured.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// Operations per second, sent at times fixed before the run; latency counts from those times, so that
    /// a service that stalls cannot hide it. Start at half of what --saturate reaches.
    #[arg(
        long,
        default_value = "1000",
        value_name = "OPS",
        conflicts_with = "saturate"
    )]
    pub rate: f64,

    /// Instead of a rate: every connection sends its next request when it has an answer. Tells the
    /// capacity; its latencies are not what users see.
    #[arg(long)]
    pub saturate: bool,

    /// Connections, over all --url and threads.
    #[arg(long, short, default_value_t = 50, value_name = "N")]
    pub connections: usize,

    /// Threads of the generator; it says when one is not enough.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub threads: usize,

    /// How long to measure.
    #[arg(
        long,
        short,
        default_value = "10s",
        value_parser = humantime::parse_duration
    )]
    pub duration: Duration,

    /// How long to send before measuring.
    #[arg(long, default_value = "2s", value_parser = humantime::parse_duration)]
    pub warmup: Duration,

    /// A request without an answer after this long has failed, and its connection is closed.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,

    /// Users that operations are for.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub users: u64,

    /// Channels of each user.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub channels: u64,

    /// Which users: `uniform`, `zipf`, or `zipf:EXPONENT`.
    #[arg(long, default_value = "uniform", value_name = "DISTRIBUTION")]
    pub keys: Distribution,

    /// What is sent, by weight: `ack` acknowledges a message, `mention` counts one, `read` gets all states of a
    /// user as a client does that connects.
    #[arg(long, default_value = "ack=1", value_name = "KIND=N,...")]
    pub mix: Mix,

    /// First acknowledge once in every channel of every user, as fast as it goes.
    #[arg(long)]
    pub fill: bool,

    /// Another seed, other users. Which of them an operation is for is drawn anew in every run.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,

    /// Once a second, also read what these processes of this machine take: processor time and memory.
    #[arg(long, value_delimiter = ',', value_name = "PID,...")]
    pub process: Vec<u32>,

    /// What to print: `text` for people, `json` with everything, `csv` with a line per second.
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub output: Output,

    /// Also draw the p99.9 of every second into this file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// What a report is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// Everything.
    Json,
    /// A line per second.
    Csv,
}

/// Flags of `readstates bench`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct BenchArgs {
    /// Members, or a Service in front of them: http://HOST[:PORT]. Names are looked up once; connections
    /// are spread over all addresses.
    #[arg(
        long,
        env = "READSTATES_URL",
        default_value = "http://127.0.0.1:7400",
        value_delimiter = ',',
        value_name = "URL,..."
    )]
    pub url: Vec<String>,

    /// What load.
    #[command(flatten)]
    pub load: LoadArgs,

    /// Put this many operations into each request (POST /v1/batch) instead of one.
    #[arg(
        long,
        num_args = 0..=1,
        default_missing_value = "64",
        value_name = "N"
    )]
    pub batch: Option<usize>,

    /// Check that nothing is lost or doubled: acknowledgements and mentions of channels of its own, sent again
    /// until they are answered, and read at the end. A mention adds 4^k, so that the sum says which one was
    /// lost or counted twice. Exits with status 1 when one was.
    #[arg(long, conflicts_with_all = ["mix", "fill", "channels", "keys"])]
    pub check: bool,

    /// Ask these URLs for /metrics once a second, and tell what changed in the seconds that were slow. Members
    /// answer for them on the port of --watch-listen, http://HOST:7404.
    #[arg(long, value_delimiter = ',', value_name = "URL,...")]
    pub metrics: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  A thousand acknowledgements per second for ten seconds, to a member on this machine:
    readstates bench
  What it can take: 50 connections, each waiting for its answer:
    readstates bench --saturate
  Its tail at half of that, for ten minutes, with what the member did meanwhile:
    readstates bench --rate 30000 --duration 10m --metrics http://127.0.0.1:7404 --plot tail.svg
  Mostly acknowledgements, in batches of 64:
    readstates bench --batch 64 --mix ack=9,mention=1 --rate 200000
  Clients that connect and get their 20 states, of ten million:
    readstates bench --fill --users 500000 --mix read=1 --rate 5000
  A Service in a cluster, while its pods come and go, with proof at the end:
    kubectl port-forward service/chat 7400 &
    readstates bench --check --rate 500 --duration 5m

Latency is per request, from the time it was due to its last byte; a batch is one request. A request that is
refused is counted by its status and not timed. One without an answer is timed until it is given up.";
