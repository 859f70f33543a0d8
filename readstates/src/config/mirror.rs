//! Flags of `readstates mirror`.

use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use clap::Args;

use super::ServiceArgs;

/// Flags of `readstates mirror`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct MirrorArgs {
    /// Address that serves the callers of the old system. Port 0 chooses a free port, which is logged.
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,

    /// The old system, which every request goes to: http://HOST[:PORT] or https://HOST[:PORT].
    #[arg(long, value_name = "URL")]
    pub old: String,

    /// File with the CAs (PEM) to trust for the old system, with --old https://HOST[:PORT]. Absent: those of the system.
    #[arg(long, value_name = "FILE")]
    pub old_ca_file: Option<PathBuf>,

    /// File that says which requests of the old system are which operations (YAML, see below).
    #[arg(long, value_name = "FILE")]
    pub routes: PathBuf,

    /// The service. Its caller needs the verbs read and write, and delete if a route deletes.
    #[command(flatten)]
    pub service: ServiceArgs,

    /// Share of the users who are served from the service: 0 to 100, with up to three decimals. A larger share has the
    /// users of a smaller one.
    #[arg(long, default_value = "0", value_name = "PERCENT")]
    pub serve: Percent,

    /// Write what differs to this file: a JSON object for each channel, with ids and counts. It grows to 256 MiB.
    #[arg(long, value_name = "FILE")]
    pub differences: Option<PathBuf>,

    /// Address that serves /metrics and /livez.
    #[arg(long, value_name = "ADDR")]
    pub watch: Option<SocketAddr>,

    /// Maximum number of writes that wait for the service, each counted by its users. Further ones reach the old system
    /// only, and are counted.
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=10_000_000), value_name = "N")]
    pub queue: u32,

    /// How long a write or a comparison tries the service.
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration, value_name = "DURATION")]
    pub deadline: Duration,

    /// How long to wait before both systems are asked anew about what differs.
    #[arg(long, default_value = "2s", value_parser = humantime::parse_duration, value_name = "DURATION")]
    pub pause: Duration,

    /// How long a stop may take: requests under way end, the old system answers writes, and what waits is sent to the
    /// service.
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration, value_name = "DURATION")]
    pub drain_timeout: Duration,
}

/// A part of a whole, to the thousandth of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(u32);

impl Percent {
    /// The whole, in thousandths of a percent.
    pub(crate) const ALL: u32 = 100_000;

    pub(crate) fn thousandths(self) -> u32 {
        self.0
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a percentage from 0 to 100 with at most three decimals");
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 3 || whole.len() > 3 {
            return Err(wrong());
        }
        let number = |part: &str| part.parse::<u32>().map_err(|_| wrong());
        let share = number(whole)? * 1000 + number(&format!("{decimals:0<3}"))?;
        if share > Self::ALL {
            return Err(wrong());
        }
        Ok(Self(share))
    }
}

const EXAMPLES: &str = "\
Every request goes to the old system, and its answer to the caller. Writes that it has done are then sent to the service;
answers to reads are compared with what the service has. With --serve, users of the share of whom a comparison has shown
no difference are answered from the service; the old system still has every write, so --serve 0 goes back at any time.

Example of a routes file:
  shape:
    whole: {read_states: '{states}'}
    each: {id: '{channel}', last_message_id: '{message}', mention_count: '{mentions}'}
  routes:
    - {request: 'GET /users/{user}/read-states', does: read}
    - request: POST /channels/{channel}/messages/{message}/ack
      does: ack
      user: header X-User-Id

Examples:
  Compare, and serve nobody:
    readstates mirror --listen 0.0.0.0:8080 --old http://reads:8080 --routes routes.yaml \\
         --url http://chat:7400 --differences differences.ndjson --watch 127.0.0.1:8081
  Serve one user in a hundred from the service:
    readstates mirror --listen 0.0.0.0:8080 --old http://reads:8080 --routes routes.yaml \\
         --url http://chat:7400 --serve 1

Exit status: 0 stopped, and the service has every write that waited; 1 failed; 2 wrong usage; 3 the routes file is
refused; 4 stopped with writes that the service does not have, or that the old system had not answered.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_up_to_three_decimals() {
        let percent = |text: &str| text.parse::<Percent>();
        assert_eq!(percent("0.001"), Ok(Percent(1)));
        assert_eq!(percent("2.5"), Ok(Percent(2_500)));
        assert_eq!(percent("100"), Ok(Percent(100_000)));
        for text in [
            "", "-1", "100.001", "101", "1.", ".5", "1.0001", "1e1", "5%",
        ] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
