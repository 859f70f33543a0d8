//! Flags of `readstates-bench`, and the help that explains them.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "help texts: what stands in brackets may be left out"
)]

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use crate::{keys::Distribution, operation::Mix};

/// Load flags, the same for every measured service.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// Operations per second, sent at times fixed before the run. Latency counts from those times, so that a stalled
    /// service cannot hide it. Start with half of what --saturate reaches.
    #[arg(
        long,
        default_value = "1000",
        value_name = "OPS",
        conflicts_with = "saturate"
    )]
    pub rate: f64,

    /// Instead of a rate, every connection sends its next request when it has an answer. This measures the capacity;
    /// the latencies are not what users see.
    #[arg(long)]
    pub saturate: bool,

    /// Number of connections, over all --url and threads.
    #[arg(long, short, default_value_t = 50, value_name = "N")]
    pub connections: usize,

    /// Threads of the generator; it warns if they are not enough.
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

    /// Time after which a request without an answer counts as failed and its connection is closed.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,

    /// Number of users that operations are for.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub users: u64,

    /// Number of channels per user.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub channels: u64,

    /// Distribution of users: `uniform`, `zipf`, or `zipf:EXPONENT`.
    #[arg(long, default_value = "uniform", value_name = "DISTRIBUTION")]
    pub keys: Distribution,

    /// Operations by weight: `ack` acknowledges a message, `mention` counts one, `read` gets all states of a user, like
    /// a client that connects.
    #[arg(long, default_value = "ack=1", value_name = "KIND=N,...")]
    pub mix: Mix,

    /// First acknowledge once in every channel of every user, as fast as possible.
    #[arg(long)]
    pub fill: bool,

    /// Seed of the user ids; another seed gives other users. The user of each operation is drawn again in every run.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,

    /// Once a second, also read the processor time and memory of these processes on this machine.
    #[arg(long, value_delimiter = ',', value_name = "PID,...")]
    pub process: Vec<u32>,

    /// Output format: `text` for people, `json` with everything, `csv` with a line per second.
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub output: Output,

    /// Also plot the p99.9 of every second to this file, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// Everything.
    Json,
    /// A line per second.
    Csv,
}

/// Flags of `readstates-bench`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct BenchArgs {
    /// Members, or a Service in front of them: http://HOST[:PORT] or https://HOST[:PORT]. Names are looked up once; connections
    /// are spread over all addresses.
    #[arg(
        long,
        env = "READSTATES_URL",
        default_value = "http://127.0.0.1:7400",
        value_delimiter = ',',
        value_name = "URL,..."
    )]
    pub url: Vec<String>,

    /// File with the token to send, if the service has callers. `readstates token` creates one.
    #[arg(long, env = "READSTATES_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// File with the CAs (PEM) to trust for members, with --url https://HOST[:PORT].
    #[arg(long, env = "READSTATES_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

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

    /// Get states in binary instead of JSON.
    #[arg(long)]
    pub rows: bool,

    /// Every user connects once: read all states of each, as fast as they are answered on all connections, and again what
    /// was refused, until every user has an answer.
    #[arg(long, conflicts_with_all = ["mix", "rate", "duration", "warmup", "batch", "check"])]
    pub connect: bool,

    /// Check that nothing is lost or counted twice: send acknowledgements and mentions to channels used only by this
    /// run, repeat them until they are answered, and read them at the end. A mention adds 4^k, so that the sum shows
    /// which one was lost or counted twice. Exits with status 1 if any was.
    #[arg(long, conflicts_with_all = ["mix", "fill", "channels", "keys"])]
    pub check: bool,

    /// Read /metrics from these URLs once a second, and report what changed in slow seconds. Members serve it on the
    /// port of --watch-listen, http://HOST:7404.
    #[arg(long, value_delimiter = ',', value_name = "URL,...")]
    pub metrics: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  A thousand acknowledgements per second for ten seconds, to a member on this machine:
    readstates-bench
  Its capacity: 50 connections, each waiting for its answer:
    readstates-bench --saturate
  Its tail latency at half of that, for ten minutes, with the member's metrics:
    readstates-bench --rate 30000 --duration 10m --metrics http://127.0.0.1:7404 --plot tail.svg
  A service with callers, over TLS:
    readstates-bench --url https://chat:7400 --token-file token --ca-file ca.crt
  Mostly acknowledgements, in batches of 64:
    readstates-bench --batch 64 --mix ack=9,mention=1 --rate 200000
  Clients that connect and get their 20 states, of ten million:
    readstates-bench --fill --users 500000 --mix read=1 --rate 5000
  All 500,000 of them at once, over a thousand connections:
    readstates-bench --fill --users 500000 --connect --connections 1000
  A Service in a cluster, while its pods come and go, with proof at the end:
    kubectl port-forward service/chat 7400 &
    readstates-bench --check --rate 500 --duration 5m

Latency is per request, from the time it was due to its last byte; a batch is one request. A refused
request is counted by its status and not timed. A request without an answer is timed until its timeout.";
