//! Limits of a member: what it takes on at once, and how long it waits for slow clients.

use std::time::Duration;

use clap::Args;

/// Limits of a member. Requests over a limit are refused at once, with 503 and `Retry-After`; nothing is queued.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Maximum number of open client connections. Beyond it, the connection that has been idle longest is closed; if
    /// none is idle, the new one is answered with 503.
    #[arg(long, env = "READSTATES_MAX_CONNECTIONS", value_name = "N",
          default_value_t = Self::DEFAULT.max_connections, value_parser = at_least_one)]
    pub max_connections: usize,

    /// Maximum number of open connections from one source: one IPv4 address, or one IPv6 /64 network. Beyond it, the
    /// same applies among the connections of that source. Default: half of --max-connections, so that clients behind
    /// one proxy or NAT leave the other half to others.
    #[arg(long, env = "READSTATES_MAX_CONNECTIONS_PER_SOURCE", value_name = "N",
          value_parser = at_least_one)]
    pub max_connections_per_source: Option<usize>,

    /// Maximum number of reads handled at once. Reads of cached users take microseconds; others wait for the database.
    #[arg(long, env = "READSTATES_MAX_READS", value_name = "N",
          default_value_t = Self::DEFAULT.max_reads, value_parser = at_least_one)]
    pub max_reads: usize,

    /// Maximum number of acknowledgements and deletions of single users handled at once.
    #[arg(long, env = "READSTATES_MAX_CHANGES", value_name = "N",
          default_value_t = Self::DEFAULT.max_changes, value_parser = at_least_one)]
    pub max_changes: usize,

    /// Maximum number of batches handled at once, each of up to 65,536 records.
    #[arg(long, env = "READSTATES_MAX_BATCHES", value_name = "N",
          default_value_t = Self::DEFAULT.max_batches, value_parser = at_least_one)]
    pub max_batches: usize,

    /// Maximum number of mentions handled at once, each of up to 100,000 users.
    #[arg(long, env = "READSTATES_MAX_MENTIONS", value_name = "N",
          default_value_t = Self::DEFAULT.max_mentions, value_parser = at_least_one)]
    pub max_mentions: usize,

    /// Maximum number of requests in flight to one other member, and from one other member, so that a slow or
    /// overloaded member does not affect the users of others.
    #[arg(long, env = "READSTATES_MAX_PER_MEMBER", value_name = "N",
          default_value_t = Self::DEFAULT.max_per_member, value_parser = at_least_one)]
    pub max_per_member: usize,

    /// Maximum number of clients waiting for the next ring (GET /v1/ring?after=N).
    #[arg(long, env = "READSTATES_MAX_RING_WAITERS", value_name = "N",
          default_value_t = Self::DEFAULT.max_ring_waiters, value_parser = at_least_one)]
    pub max_ring_waiters: usize,

    /// Maximum number of bytes buffered for request bodies, as far as they have arrived, and for answers, in total.
    /// Bodies and answers of at most 16 KiB do not count, nor do messages between members.
    #[arg(long, env = "READSTATES_MAX_BUFFERED_BYTES", value_name = "BYTES",
          default_value_t = Self::DEFAULT.max_buffered_bytes, value_parser = at_least_one)]
    pub max_buffered_bytes: usize,

    /// Maximum size of a request body. A larger one gets 413.
    #[arg(long, env = "READSTATES_MAX_BODY_BYTES", value_name = "BYTES",
          default_value_t = Self::DEFAULT.max_body_bytes, value_parser = at_least_one)]
    pub max_body_bytes: usize,

    /// Maximum size of request line and headers together. Larger ones get 431, as do more than 100 headers.
    #[arg(long, env = "READSTATES_MAX_HEADER_BYTES", value_name = "BYTES",
          default_value_t = Self::DEFAULT.max_header_bytes, value_parser = at_least_one)]
    pub max_header_bytes: usize,

    /// Time after which a connection without a request is closed.
    #[arg(long, env = "READSTATES_IDLE_TIMEOUT", value_name = "DURATION",
          default_value = "75s", value_parser = humantime::parse_duration)]
    pub idle_timeout: Duration,

    /// Time limit for a client to send request line and headers, from their first byte. After that, the connection is
    /// closed.
    #[arg(long, env = "READSTATES_HEADER_TIMEOUT", value_name = "DURATION",
          default_value = "10s", value_parser = humantime::parse_duration)]
    pub header_timeout: Duration,

    /// Time limit for a client to send a body. After that, it gets 400, and the connection is closed.
    #[arg(long, env = "READSTATES_BODY_TIMEOUT", value_name = "DURATION",
          default_value = "30s", value_parser = humantime::parse_duration)]
    pub body_timeout: Duration,

    /// Time limit for a client to read an answer, from the moment when no more of it fits into the connection. After
    /// that, the connection is closed.
    #[arg(long, env = "READSTATES_ANSWER_TIMEOUT", value_name = "DURATION",
          default_value = "30s", value_parser = humantime::parse_duration)]
    pub answer_timeout: Duration,
}

impl Limits {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        max_connections: 16_384,
        max_connections_per_source: None,
        max_reads: 4096,
        max_changes: 4096,
        max_batches: 256,
        max_mentions: 64,
        max_per_member: 512,
        max_ring_waiters: 1024,
        max_buffered_bytes: 256 << 20,
        max_body_bytes: 4 << 20,
        max_header_bytes: 16 << 10,
        idle_timeout: Duration::from_secs(75),
        header_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(30),
        answer_timeout: Duration::from_secs(30),
    };

    /// Connections from one source open at once.
    #[must_use]
    pub fn per_source(&self) -> usize {
        let half = self.max_connections.div_ceil(2);
        self.max_connections_per_source.unwrap_or(half)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 lets nothing in; give at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("{text:?} is no number; give at least 1")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        limits: Limits,
    }

    #[test]
    fn no_flags_mean_the_documented_limits() {
        assert_eq!(Only::parse_from(["x"]).limits, Limits::DEFAULT);
    }

    #[test]
    fn a_limit_that_lets_nobody_in_is_refused_by_name() {
        for (flag, value, part) in [
            ("--max-connections", "0", "at least 1"),
            ("--max-batches", "many", "no number"),
            ("--header-timeout", "soon", "--header-timeout"),
        ] {
            let refusal = Only::try_parse_from(["x", flag, value]).unwrap_err();
            let refusal = refusal.to_string();
            assert!(
                refusal.contains(flag) && refusal.contains(part),
                "{refusal}"
            );
        }
    }
}
